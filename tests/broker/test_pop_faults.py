"""Pops when something fails: cold bytes, topics and groups that go, stores that refuse, records that no pop wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.intake import Message
from rmq_store.errors import Cold
from rmq_wire.bodies.pop import BatchAckMessageRequestBody, PopCheckPoint, bits_text
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.pop import BatchAckMessage, PopMessageResponse
from rmq_wire.headers.topics import DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness, failing_commits
from tests.support.lines import lines_of
from tests.support.pop_client import Got, bodies
from tests.support.popping import INVISIBLE_MS, ack, ack_of, batch_of, change_of, pop, popped, take
from tests.support.requests import send

AGAIN_MS = INVISIBLE_MS + 6_000
"""By then what was not acknowledged has come again."""
LONG_MS = 60_000
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


@pytest.fixture
def client(broker: Harness) -> Client:
    return broker.connect()


def fill(client: Client, count: int, topic: str = "T", queue_id: int = 0) -> None:
    for number in range(count):
        assert client.ask(send(topic, queue_id), b"q%dm%d" % (queue_id, number)).code == 0


# --- bytes that are not in memory


class ColdQueues:
    """Reads of these queues find nothing in memory, the first time each."""

    def __init__(self, broker: Harness, patch: pytest.MonkeyPatch, *queues: int) -> None:
        self.left = set(queues)
        self.broker = broker
        self._real = broker.node.store.read_queue
        patch.setattr(broker.node.store, "read_queue", self._read)

    def _read(self, topic: str, queue_id: int, *more: Any) -> Any:
        if queue_id in self.left:
            raise Cold(lambda: self.left.discard(queue_id), ("queue", queue_id))
        return self._real(topic, queue_id, *more)


def test_a_pop_that_has_something_leaves_what_is_cold_for_the_next(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue_id in range(4):
        fill(client, 2, queue_id=queue_id)
    broker.env.rng.seed(0)
    cold = ColdQueues(broker, monkeypatch, 2)
    asked = pop(queue_id=-1)
    broker.env.rng.randrange = lambda _: 0  # type: ignore[method-assign, misc, assignment]
    broker.driver.held = True
    answer = client.ask(asked)
    assert bodies(popped(answer, asked)) == sorted(b"q%dm%d" % (queue_id, at) for queue_id in (0, 1, 3) for at in (0, 1))
    assert answer.header(PopMessageResponse).rest_num == 2
    assert not broker.node.pops.lines.locked
    broker.driver.held = False
    broker.driver.run()
    assert not cold.left
    assert bodies(take(client, queue_id=-1)) == [b"q2m0", b"q2m1"]


def test_a_full_pop_is_answered_whatever_is_cold_in_the_other_queues(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a new group begins there is not known yet."""
    for queue_id in range(4):
        fill(client, 2, queue_id=queue_id)
    broker.env.rng.randrange = lambda _: 0  # type: ignore[method-assign, misc, assignment]
    store = broker.node.store
    real, cold = store.queue_unit, {1, 2}

    def queue_unit(topic: str, queue_id: int, offset: int) -> Any:
        if queue_id in cold:
            raise Cold(lambda: cold.discard(queue_id), ("queue", queue_id))
        return real(topic, queue_id, offset)

    monkeypatch.setattr(store, "queue_unit", queue_unit)
    broker.driver.held = True
    asked = pop(queue_id=-1, count=1, init_mode=1)
    opaque = client.send(asked)
    assert opaque in client.answers, "what it has is handed out at once"
    answer = client.answers[opaque]
    assert bodies(popped(answer, asked)) == [b"q3m0"]
    assert answer.header(PopMessageResponse).rest_num == 1 + 3 * 2
    assert not broker.node.pops.lines.locked
    broker.driver.held = False
    broker.driver.run()
    assert not cold
    assert len(take(client, queue_id=-1, init_mode=1)) == 7


def test_a_pop_that_has_nothing_waits_for_what_is_cold(broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(client, 2)
    ColdQueues(broker, monkeypatch, 0)
    broker.driver.held = True
    asked = pop()
    first = client.send(asked)
    assert first not in client.answers
    other = client.ask(asked)  # the queue is read by somebody: no second reads it
    assert (other.code, other.header(PopMessageResponse).rest_num) == (210, 2)
    broker.driver.held = False
    broker.driver.run()
    assert bodies(popped(client.answers[first], asked)) == [b"q0m0", b"q0m1"]
    assert take(client) == []
    assert not broker.node.pops.lines.locked


def test_a_queue_that_another_pop_has_is_left_out_and_counted(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """004-10: by the group that has it; another one has a lock of its own, and reads beside it."""
    for queue_id in range(3):
        fill(client, 2, queue_id=queue_id)
    ack(client, *take(client, count=1))
    ColdQueues(broker, monkeypatch, 0)
    broker.driver.held = True
    first, asked, others = pop(), pop(queue_id=-1), pop(consumer_group="other")
    opaque, other = client.send(first), client.send(others)
    answer = client.ask(asked)
    assert bodies(popped(answer, asked)) == [b"q1m0", b"q1m1", b"q2m0", b"q2m1"]
    assert answer.header(PopMessageResponse).rest_num == 1, "the end of the queue minus the group's offset"
    assert not {opaque, other} & client.answers.keys()
    broker.driver.held = False
    broker.driver.run()
    assert bodies(popped(client.answers[opaque], first)) == [b"q0m1"]
    assert bodies(popped(client.answers[other], others)) == [b"q0m0", b"q0m1"]


def test_who_leaves_while_his_pop_reads_locks_nobody_out(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, 1)
    ColdQueues(broker, monkeypatch, 0)
    broker.driver.held = True
    gone = broker.connect()
    gone.send(pop())
    gone.close()
    broker.driver.held = False
    broker.driver.run()
    assert bodies(take(client)) == [b"q0m0"]


def test_what_cannot_be_read_is_an_error_and_locks_nobody_out(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client, 1)
    cold = ColdQueues(broker, monkeypatch, 0)
    broker.driver.held = True
    opaque = client.send(pop())
    broker.driver.end_job(OSError("a bad disk"))
    broker.driver.run()
    assert client.answers[opaque].code == 1
    cold.left.clear()
    broker.driver.held = False
    assert bodies(take(client)) == [b"q0m0"]


@pytest.mark.parametrize("is_cold", [False, True])
def test_a_pop_that_fails_on_its_way_blocks_no_queue(
    broker: Harness, client: Client, monkeypatch: pytest.MonkeyPatch, is_cold: bool
) -> None:
    """What it had taken is handed out: again at once where its check point was not stored, else when its time is over."""
    for queue_id in range(4):
        fill(client, 2, queue_id=queue_id)
    real, first = broker.node.store.read_queue, [True]

    def read(topic: str, queue_id: int, *more: Any) -> Any:
        if is_cold and first:
            first.clear()
            raise Cold(lambda: None, ("queue", queue_id))
        if queue_id == 3:
            raise ValueError("broken")
        return real(topic, queue_id, *more)

    broker.env.rng.randrange = lambda _: 0  # type: ignore[method-assign, misc, assignment]
    with monkeypatch.context() as patch:
        patch.setattr(broker.node.store, "read_queue", read)
        assert client.ask(pop(queue_id=-1)).code == 1
    assert len(broker.node.pops.lines) == 0
    broker.driver.advance(AGAIN_MS if is_cold else 0)
    assert len(take(client, queue_id=-1)) == 8


# --- topics and groups that go


def test_a_pop_that_waits_for_a_topic_that_is_made_anew(broker: Harness, client: Client) -> None:
    asked = pop(queue_id=-1, poll_time=5_000, born_time=broker.env.wall_ms)
    opaque = client.send(asked)
    assert client.ask(DeleteTopic(topic="T")).code == 0
    broker.driver.held = True
    broker.topic("T")
    broker.driver.advance(6_000)
    assert opaque not in client.answers
    broker.driver.held = False
    broker.driver.run()
    assert client.answers[opaque].code == 210


def test_a_group_that_is_deleted_leaves_nothing_in_memory(tmp_path: Path) -> None:
    broker = Harness(tmp_path, enablePopBufferMerge=True).begun()
    client = broker.connect()
    fill(client, 3)
    take(client, count=2, invisible_time=LONG_MS)
    take(client, count=2, invisible_time=LONG_MS, consumer_group="other")
    pops = broker.node.pops
    assert (len(pops.buffer), len(pops.lines)) == (2, 2)
    assert client.ask(DeleteSubscriptionGroup(group_name="G", clean_offset=True)).code == 0
    assert (len(pops.buffer), len(pops.lines)) == (1, 1)
    assert len(take(client, invisible_time=LONG_MS)) == 3  # made anew, and from the first on
    assert client.ask(DeleteTopic(topic="T")).code == 0
    assert (len(pops.buffer), len(pops.lines)) == (0, 0)


# --- stores that refuse


def test_a_stop_that_cannot_store_the_buffer_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Harness(tmp_path, enablePopBufferMerge=True).begun()
    client = broker.connect()
    fill(client, 3)
    ack(client, take(client, invisible_time=LONG_MS)[0])
    failing_commits(broker, monkeypatch)
    assert not broker.node.close()
    broker.open()
    assert bodies(take(broker.connect())) == [b"q0m0", b"q0m1", b"q0m2"]


def test_a_thousand_that_leave_the_buffer_at_once_are_stored_at_once(tmp_path: Path) -> None:
    """320 a second were: of more, some had not been stored when their messages were to come again."""
    broker = Harness(tmp_path, enablePopBufferMerge=True).begun()
    client = broker.connect()
    fill(client, 1_000)
    for _ in range(1_000):
        take(client, count=1, invisible_time=LONG_MS)
    assert len(broker.node.pops.buffer) == 1_000
    broker.driver.advance(10_500)
    assert len(broker.node.pops.buffer) == 0
    assert broker.node.offsets.query("G", "T", 0) == 1_000


# --- 5,000 polls


def test_5000_polls_at_once_are_short_pieces(broker: Harness) -> None:
    """They enter, are woken by one message, and end, each in many turns: none with more than 200 of them."""
    clients = [broker.connect() for _ in range(50)]
    asked = pop(queue_id=-1, poll_time=15_000, born_time=broker.env.wall_ms)
    asks = [pop(queue_id=-1, consumer_group=f"G{at}", poll_time=15_000, born_time=asked.born_time) for at in range(50)]
    for client, poll in zip(clients, asks, strict=True):
        client.raw(b"".join(client.frame(poll) for _ in range(100)))
    assert not any(client.answers for client in clients)
    longest = 0

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def piece(*arrived: Any) -> Any:
            nonlocal longest
            found: list[Any] = []
            longest = max(longest, lines_of(lambda: found.append(work(*arrived))))
            return found[0]

        return piece

    engine: Any = broker.node.engine
    engine.turn, engine.settle = counted(engine.turn), counted(engine.settle)
    assert broker.connect().ask(send(), b"x").code == 0
    assert sum(len(client.answers) for client in clients) == 50
    broker.driver.advance(9_000)
    assert sum(len(client.answers) for client in clients) == 50
    broker.driver.advance(6_000)
    assert sum(len(client.answers) for client in clients) == 5_000
    assert longest < 200 * 600, longest


# --- how many are out


def test_a_queue_of_which_too_many_are_out_rests(tmp_path: Path) -> None:
    broker = Harness(tmp_path, enablePopMessageThreshold=True, popInflightMessageThreshold=3).begun()
    client = broker.connect()
    fill(client, 8)
    found = take(client, count=2) + take(client, count=2)
    assert len(found) == 4
    answer = client.ask(pop(count=2))
    assert (answer.code, answer.header(PopMessageResponse).rest_num) == (210, 4)
    assert len(take(client, consumer_group="other")) == 8
    ack(client, found[0])
    assert len(take(client, count=2)) == 2
    broker.driver.advance(AGAIN_MS)
    assert len(take(client)) == 2 + 5


# --- priorities


def test_priorities_are_popped_from_the_highest_queue_down(broker: Harness, client: Client) -> None:
    broker.topic("P", attributes={"+message.type": "PRIORITY"})
    for queue_id in range(4):
        fill(client, 1, "P", queue_id)
    for queue_id in (3, 2, 1, 0):
        assert [one.body for one in take(client, "P", -1, 1)] == [b"q%dm0" % queue_id]


def test_retries_of_priorities_come_when_there_is_room(tmp_path: Path) -> None:
    broker = Harness(tmp_path, popFromRetryProbabilityForPriority=0).begun()
    client = broker.connect()
    broker.topic("P", attributes={"+message.type": "PRIORITY"})
    fill(client, 1, "P", 3)
    take(client, "P", -1)
    broker.driver.advance(AGAIN_MS)
    fill(client, 1, "P", 0)
    found = take(client, "P", -1, 2)
    assert [(one.body, one.topic) for one in found] == [(b"q0m0", "P"), (b"q3m0", "%RETRY%G_P")]


# --- retry topics of the second version


def test_retries_go_into_topics_of_the_second_version_and_the_first_is_drained(tmp_path: Path) -> None:
    broker = Harness(tmp_path).begun()
    client = broker.connect()
    fill(client, 2)
    take(client)
    broker.driver.advance(AGAIN_MS)
    assert broker.node.store.queue_bounds("%RETRY%G_T", 0) == (0, 2)
    broker.settings["enableRetryTopicV2"] = "true"
    broker.restart()
    client = broker.connect()
    fill(client, 1, queue_id=1)
    take(client, queue_id=1)
    broker.driver.advance(AGAIN_MS)
    assert broker.node.store.queue_bounds("%RETRY%G+T", 0) == (0, 1)
    found: list[Got] = []
    for _ in range(40):
        found += take(client, queue_id=-1)
    assert sorted((one.topic, one.body) for one in found) == [
        ("%RETRY%G+T", b"q1m0"),
        ("%RETRY%G_T", b"q0m0"),
        ("%RETRY%G_T", b"q0m1"),
    ]
    ack(client, found[0])
    assert all(one.unit.topic == b"T" for one in found)
    broker.driver.advance(AGAIN_MS)
    assert broker.node.store.queue_bounds("%RETRY%G+T", 0)[1] + broker.node.store.queue_bounds("%RETRY%G_T", 0)[1] == 3 + 2


# --- records that nobody's pop wrote


FORGED = {
    "more than a pop can have": PopCheckPoint(0, 1, 1, -1, 2**62, 0, "T", "G", 0, None, "broker-a"),
    "more than it names": PopCheckPoint(0, 1, 1, 0, 3, 0, "T", "G", 0, [0], "broker-a"),
    "less than nothing": PopCheckPoint(0, 1, 1, 0, -5, 0, "T", "G", 0, [0], "broker-a"),
    "no queue": PopCheckPoint(0, 1, 1, 0, 1, -7, "T", "G", 0, [0], "broker-a"),
    "no offset": PopCheckPoint(-9, 1, 1, 0, 1, 0, "T", "G", 0, [0], "broker-a"),
    "no names": PopCheckPoint(0, 1, 1, 0, 1, 0, None, None, 0, [0], "broker-a"),
    "a strange topic": PopCheckPoint(0, 1, 1, 0, 1, 0, "../../T", "G", 0, [0], "broker-a"),
    "a strange group": PopCheckPoint(0, 1, 1, 0, 1, 0, "T", "../../G", 0, [0], "broker-a"),
}


def put_record(broker: Harness, queue_id: int, tag: str, body: bytes) -> None:
    intake, wall_ms = broker.node.pops.intake, broker.env.wall_ms
    values = {"TAGS": tag, "TIMER_DELIVER_MS": str(wall_ms - 1)}
    host = intake.store_host
    message = Message(
        REVIVE, queue_id, body, values, flag=0, sys_flag=0, born_timestamp=wall_ms, born_host=host, reconsume_times=0
    )
    intake.stage(message, wall_ms)
    broker.node.store.commit()
    broker.driver.run()


@pytest.mark.parametrize("what", FORGED)
def test_a_record_that_no_pop_wrote_holds_nobody_up(broker: Harness, client: Client, what: str) -> None:
    forged = FORGED[what]
    assert client.ask(send(REVIVE, 3), forged.encode()).code == 16, "no client writes there"
    for queue_id in range(8):
        put_record(broker, queue_id, "ck", forged.encode())
        put_record(broker, queue_id, "ck", b"{" * 65_536)
        put_record(broker, queue_id, "bAck", b'{"t":"T","c":"G","aol":[1,2' + b",3" * 65_536 + b"]}")
    for queue_id in range(4):
        fill(client, 8, queue_id=queue_id)
    for _ in range(8):
        take(client, count=1)
    broker.driver.advance(AGAIN_MS)
    found = take(client)
    assert bodies([one for one in found if one.topic != "T"]) == [b"q0m%d" % at for at in range(8)]
    assert broker.node.revive.open == 0


# --- acknowledgements of many


def test_an_ordered_acknowledgement_that_is_illegal_does_not_stop_the_others(broker: Harness, client: Client) -> None:
    for queue_id in (0, 1):
        fill(client, 3, queue_id=queue_id)
    found = [take(client, queue_id=queue_id, count=2, order=True) for queue_id in (0, 1)]
    said = [BatchAckMessageRequestBody.read(batch_of(several)[1]).acks or [] for several in found]
    said[0][0].bits = bits_text((0, 2, 1))
    answer = client.ask(BatchAckMessage(), BatchAckMessageRequestBody(broker_name="broker-a", acks=[*said[0], *said[1]]).encode())
    assert answer.code == 13
    assert answer.remark is not None
    assert answer.remark.startswith("offset is illegal, key:T@G@0, old:")
    assert [broker.node.offsets.query("G", "T", queue_id) for queue_id in (0, 1)] == [2, 2]


def test_acknowledgements_of_thousands_come_in_slices(broker: Harness, client: Client) -> None:
    """A body of 64 KiB holds 24 bit sets of 16,384 bits: one after the other, and what was not handed out is passed over."""
    fill(client, 40)
    found = take(client)
    one = BatchAckMessageRequestBody.read(batch_of(found)[1]).acks
    assert one is not None
    one[0].bits = bits_text(range(16_384))
    body = BatchAckMessageRequestBody(broker_name="broker-a", acks=one * 20).encode()
    before = broker.node.store.written_offset
    assert client.ask(BatchAckMessage(), body).code == 0
    assert broker.node.store.written_offset == before
    one[0].bits = bits_text(range(32))
    unknown = BatchAckMessageRequestBody(broker_name="broker-a", acks=[*one, *one]).encode().replace(b'"T"', b'"U"')
    assert client.ask(BatchAckMessage(), unknown).code == 0
    assert broker.node.store.written_offset == before


LAST_LONG = 2**63 - 1


@pytest.mark.parametrize(
    "words",
    [
        {"start_offset": -1},
        {"start_offset": LAST_LONG},
        {"start_offset": -LAST_LONG},
        {"pop_time": 0},
        {"invisible_time": 0},
        {"queue_id": -1},
        {"queue_id": 2**31 - 1},
        {"queue_offset": LAST_LONG},
        {"flag": "2"},
    ],
)
def test_a_receipt_that_lies_ends_no_message_of_another_pop(broker: Harness, client: Client, words: dict[str, Any]) -> None:
    """It may be taken, as in 5.5.0: it ends the message that it names, or none, and stops nothing."""
    fill(client, 2)
    first, second = take(client)
    lie = first._replace(receipt=first.receipt._replace(**words))
    asked = ack_of(lie, offset=0, queue_id=0)
    client.ask(asked)
    [said] = BatchAckMessageRequestBody.read(batch_of([first])[1]).acks or []
    for name, value in words.items():
        if name not in ("flag", "queue_offset"):
            setattr(said, name, value)
    client.ask(BatchAckMessage(), BatchAckMessageRequestBody(broker_name="broker-a", acks=[said]).encode())
    broker.driver.advance(AGAIN_MS)
    again = take(client)
    assert second.body in bodies(again)
    ack(client, *again)
    fill(client, 1)
    assert len(take(client)) == 1
    broker.driver.advance(AGAIN_MS)
    assert len(take(client)) == 1
    assert broker.node.revive.open == 0


# --- what is counted


def test_acknowledgements_and_check_points_are_counted(broker: Harness, client: Client) -> None:
    fill(client, 5)
    found = take(client)
    stats = broker.node.pops.stats

    def count(name: str, key: str = "T@G") -> tuple[int, int]:
        item = stats.item(name, key)
        return (0, 0) if item is None else (item.value, item.times)

    assert (count("GROUP_CK_NUMS"), count("GROUP_ACK_NUMS")) == ((1, 1), (0, 0))
    ack(client, found[0])
    assert client.ask(*batch_of(found[1:3])).code == 0
    assert client.ask(change_of(found[3], 5_000)).code == 0
    ack(client, found[4], group="nobody")
    assert (count("GROUP_CK_NUMS"), count("GROUP_ACK_NUMS")) == ((2, 2), (4, 3))
    assert count("GROUP_ACK_NUMS", "T@nobody") == (0, 0)
    cluster = "DefaultCluster"
    assert (count("BROKER_CK_NUMS", cluster)[0], count("BROKER_ACK_NUMS", cluster)[0]) == (2, 4)
