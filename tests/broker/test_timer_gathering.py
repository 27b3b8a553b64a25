"""Records of pops enter the timer's wheel together; everything else at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker_impl.timer_gathering import GATHER_MAX, GATHER_MS
from rmq_store.timer.machine import Timer
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.popping import ack, ack_of, batch_of, change_of, pop, take
from tests.support.requests import pairs, send


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    harness = Harness(tmp_path).begun()
    client = harness.connect()
    for number in range(2 * GATHER_MAX):
        client.ask(send(queue_id=0), b"m%d" % number)
    harness.driver.advance(GATHER_MS)
    return harness


def behind(broker: Harness) -> tuple[int, int]:
    """What did not enter the wheel, and what is in it, when nothing is left to do at once."""
    broker.driver.run()
    return coming(broker), timer_of(broker).waiting


def coming(broker: Harness) -> int:
    """In the timer's topic, or on the way there."""
    return timer_of(broker).behind + broker.node.store.undispatched


def timer_of(broker: Harness) -> Timer:
    timer = broker.node.timer
    assert timer is not None
    return timer


def test_records_wait_a_little_for_others(broker: Harness) -> None:
    client = broker.connect()
    first = take(client, count=1)
    assert behind(broker) == (0, 1), "the timer had nothing to do"
    ack(client, *first)
    take(client, count=1)
    assert behind(broker) == (2, 1)
    broker.driver.advance(GATHER_MS)
    assert behind(broker) == (0, 3)


def test_many_do_not_wait(broker: Harness) -> None:
    client = broker.connect()
    for number in range(GATHER_MAX + 1):
        assert behind(broker)[0] == max(number - 1, 0)
        take(client, count=1)
    assert behind(broker)[0] == 0


def test_other_messages_do_not_wait(broker: Harness) -> None:
    client = broker.connect()
    take(client, count=1)
    assert behind(broker) == (0, 1)
    take(client, count=1)
    assert behind(broker) == (1, 1)
    assert client.ask(send(properties=pairs(UNIQ_KEY="K" * 32, TAGS="mine", TIMER_DELAY_SEC="60")), b"later").code == 0
    assert behind(broker) == (0, 3)


def test_a_restart_finds_those_that_waited(broker: Harness) -> None:
    client = broker.connect()
    take(client, count=1)
    broker.driver.run()
    several = take(client, count=1, invisible_time=2_000)
    ack(client, *several)
    assert behind(broker) == (2, 1)
    broker.restart(kill=True)
    assert behind(broker) == (0, 3)
    broker.driver.advance(8_000)
    assert not broker.stored("%RETRY%G_T")


def test_those_whose_slot_ends_meanwhile_go_through_it(broker: Harness) -> None:
    """A clock is set: acknowledgements that waited come out of the wheel behind their check points, as if they had been in it."""
    client = broker.connect()
    several = [take(client, count=1, invisible_time=3_000)[0] for _ in range(5)]
    broker.driver.advance(GATHER_MS)
    assert behind(broker) == (0, 5)
    ack(client, *several)
    assert coming(broker)
    broker.env.wall_ms += 60_000
    broker.driver.advance(10_000)
    revive = [unit for queue_id in range(8) for unit in broker.stored("rmq_sys_REVIVE_LOG_DefaultCluster", queue_id)]
    assert len(revive) == 2 * len(several)
    assert not broker.stored("%RETRY%G_T")


@pytest.mark.parametrize("days", [20, 30, 400])
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("precision_ms", [1_000, 10_000])
def test_those_whose_slot_ended_long_ago_go_through_it(tmp_path: Path, days: int, kill: bool, precision_ms: int) -> None:
    """A clock is set by more milliseconds than an int has, or the broker stood still for so long.

    With slots of ten seconds the wheel has room for ten times as many days: what is so late enters it.
    """
    broker = Harness(tmp_path, timerPrecisionMs=precision_ms).begun()
    client = broker.connect()
    for number in range(5):
        assert client.ask(send(queue_id=0), b"m%d" % number).code == 0
    several = [take(client, count=1, invisible_time=3_000)[0] for _ in range(5)]
    broker.driver.advance(GATHER_MS)
    ack(client, *several)
    assert coming(broker)
    if kill:
        broker.env.wall_ms += days * 86_400_000
        broker.restart(kill=True)
    else:
        broker.env.wall_ms += days * 86_400_000
    broker.driver.advance(10 * precision_ms)
    assert coming(broker) == 0
    revive = [unit for queue_id in range(8) for unit in broker.stored("rmq_sys_REVIVE_LOG_DefaultCluster", queue_id)]
    assert len(revive) == 2 * len(several)
    assert not broker.stored("%RETRY%G_T")


def popped_for_a_while(root: Path) -> Harness:
    """Pops, acknowledgements and messages of others, while a clock goes on."""
    broker = Harness(root).begun()
    client = broker.connect()
    for number in range(2 * GATHER_MAX):
        client.ask(send(queue_id=0), b"m%d" % number)
    for number in range(GATHER_MAX):
        several = take(client, count=2, invisible_time=1_000 * (1 + number % 5))
        if number % 3:
            ack(client, several[0])  # none, one at once, or the other one later
            broker.driver.advance(GATHER_MS)
            ack(client, *several[1 : number % 3])
        if number % 7 == 0:
            client.ask(send(properties=pairs(UNIQ_KEY=f"{number:032}", TIMER_DELAY_SEC=str(1 + number % 3))), b"later")
        broker.driver.advance(number % 4 * 40)
    return broker


def test_what_is_known_of_records_is_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units of the timer's log are the same byte for byte, whether records are read or not."""
    reads: list[int] = []
    real = Timer._enqueue_one

    def read_one(self: Timer, *given: Any) -> None:
        reads.append(1)
        real(self, *given)

    monkeypatch.setattr(Timer, "_enqueue_one", read_one)
    found, read = [], []
    for name in ("told", "read"):
        with monkeypatch.context() as patch:
            if name == "read":
                patch.setattr(Timer, "tell", lambda self, told: None)
            broker = popped_for_a_while(tmp_path / name)
            timer = timer_of(broker)
            assert not timer._told
            found.append([unit for _, unit in timer.log.scan(0)])
            read.append(len(reads))
            found.append([broker.stored("rmq_sys_REVIVE_LOG_DefaultCluster", queue_id) for queue_id in range(8)])
            reads.clear()
    assert found[:2] == found[2:]
    others = len(range(0, GATHER_MAX, 7))
    assert (read[0], read[1]) == (others, len(found[0]))
    assert len(found[0]) > GATHER_MAX


REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


def revived(broker: Harness) -> int:
    """Records that came out of the wheel."""
    return sum(len(broker.stored(REVIVE, queue_id)) for queue_id in range(8))


def first_goes(broker: Harness) -> Client:
    """A pop of the first message goes to the timer at once, for that had nothing to do; what comes a millisecond later waits."""
    client = broker.connect()
    take(client, count=1)
    assert behind(broker) == (0, 1)
    broker.driver.advance(1)
    return client


@pytest.mark.parametrize("several", ["one by one", "together"])
def test_a_pop_that_is_acknowledged_at_once_is_over(broker: Harness, several: str) -> None:
    """Its records are stored, and the timer passes them over: nothing is left to do about it."""
    client = first_goes(broker)
    found = take(client, count=3)
    if several == "together":
        assert client.ask(*batch_of(found)).code == 0
    else:
        ack(client, *found)
    records = 2 if several == "together" else 1 + len(found)
    assert behind(broker) == (records, 1)
    broker.driver.advance(GATHER_MS)
    assert behind(broker) == (0, 1)
    assert not timer_of(broker)._told
    broker.driver.advance(30_000)
    assert revived(broker) == 1, "the check point of the other one"
    assert [one.body for one in broker.stored("%RETRY%G_T")] == [b"m0"]
    assert broker.node.revive.open == 0


def test_what_nobody_acknowledges_of_a_pop_comes_again(broker: Harness) -> None:
    client = broker.connect()
    take(client, queue_id=1)
    found = take(client, count=3)
    ack(client, found[0], found[2])
    broker.driver.advance(30_000)
    assert revived(broker) == 3
    assert [one.body for one in broker.stored("%RETRY%G_T")] == [b"m1"]


@pytest.mark.parametrize("queues", [1, 8])
@pytest.mark.parametrize("has_gone", [False, True])
def test_two_pops_of_one_name(queues: int, has_gone: bool, tmp_path: Path) -> None:
    """Progress was set back in the millisecond of a pop.  In one revive queue an acknowledgement ends the message in both.

    `has_gone`: the first check point is in the wheel when the second one is put.
    """
    broker = Harness(tmp_path, reviveQueueNum=queues).begun()
    client = broker.connect()
    for number in range(2):
        client.ask(send(queue_id=0), b"m%d" % number)
    broker.driver.advance(GATHER_MS)
    first_goes(broker)
    once = take(client, count=1)
    if has_gone:
        client.ask(send("T", 1), b"other")
    broker.node.offsets.commit("G", "T", 0, once[0].receipt.start_offset)
    again = take(client, count=1)
    assert once[0].receipt._replace(revive_queue=0) == again[0].receipt._replace(revive_queue=0)
    ack(client, *once)
    broker.driver.advance(30_000)
    assert revived(broker) == (4 if queues == 1 or has_gone else 2)
    assert [one.body for one in broker.stored("%RETRY%G_T")] == ([b"m0"] if queues == 1 else [b"m0", b"m1"])


def test_what_is_over_stays_so_when_the_step_fails(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer's log takes nothing at first: of a check point that is passed over the acknowledgement is, too."""
    client = first_goes(broker)
    ack(client, *take(client, count=1))
    take(client, count=1)
    real = Timer._write
    failed: list[int] = []

    def write(self: Timer, *given: Any) -> None:
        if not failed:
            failed.append(1)
            raise OSError("planted")
        real(self, *given)

    monkeypatch.setattr(Timer, "_write", write)
    broker.driver.advance(30_000)
    assert failed
    assert revived(broker) == 2
    assert [one.body for one in broker.stored("%RETRY%G_T")] == [b"m0", b"m2"]


def test_a_kill_leaves_the_long_way_to_what_is_over(broker: Harness) -> None:
    """Nobody remembers then that the check point has its acknowledgement: they meet in the revive topic."""
    client = first_goes(broker)
    ack(client, *take(client, count=1))
    assert coming(broker)
    broker.restart(kill=True)
    broker.driver.advance(30_000)
    assert revived(broker) == 3
    assert [one.body for one in broker.stored("%RETRY%G_T")] == [b"m0"]


def test_what_was_told_of_records_that_are_undone_counts_not(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check point is staged, and the request fails; then a message of another kind lies in its place."""
    client = first_goes(broker)

    def fails(*_: Any) -> None:
        raise ValueError("planted")

    with monkeypatch.context() as patch:
        patch.setattr("broker_impl.capabilities.pop.Pop._found", fails)
        assert client.ask(pop(count=1)).code == 1
    engine = broker.node.engine
    assert (engine.unhurried.count, engine.unhurried.told) == (0, [])
    take(client, count=1)
    assert len(engine.unhurried.told) == 1


def test_progress_is_saved_while_others_pop(tmp_path: Path) -> None:
    """The log's newest bytes are never on the disk then: after a kill only what came lately comes again."""
    broker = Harness(tmp_path).begun()
    client = broker.connect()
    for _ in range(300):
        client.ask(send(), b"other")
    for number in range(10):
        client.ask(send(queue_id=1, properties=pairs(UNIQ_KEY=f"{number:032}", TIMER_DELAY_SEC="1")), b"%d" % number)
        for _ in range(25):
            (popped,) = take(client, count=1)
            broker.driver.advance(20)
            ack(client, popped)
            broker.driver.advance(20)
    delivered = [one.body for one in broker.stored("T", 1)]
    assert delivered[:8] == [b"%d" % number for number in range(8)]
    broker.restart(kill=True)
    broker.driver.advance(10_000)
    again = [one.body for one in broker.stored("T", 1)][len(delivered) :]
    assert {*delivered, *again} == {b"%d" % number for number in range(10)}
    assert not {*again} & {b"%d" % number for number in range(6)}


def test_of_two_of_one_name_the_second_is_due(broker: Harness) -> None:
    """Two changes of time in one turn by one receipt, the second to what is due at once; one acknowledgement ends both."""
    client = first_goes(broker)
    broker.driver.advance(2 * GATHER_MS)
    for number in range(3):
        client.ask(send(queue_id=0), b"more%d" % number)
    several = take(client, count=3)
    one = several[1]
    ack(client, several[0], several[2])
    broker.driver.advance(150)
    receipt = one.receipt._replace(start_offset=one.offset, pop_time=broker.env.wall_ms, invisible_time=2_000)
    asked = [change_of(one, 2_000), change_of(one, 900), ack_of(one._replace(receipt=receipt))]
    client.raw(b"".join(map(client.frame, asked)))
    assert [answer.code for answer in client.answers.values()] == [0, 0, 0]
    client.answers.clear()
    broker.driver.advance(20_000)
    assert [unit.body for unit in broker.stored("%RETRY%G_T")] == [b"m0"]
