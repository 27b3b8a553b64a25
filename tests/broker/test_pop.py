"""Pops, acknowledgements and what comes again, against a whole broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_wire.headers.pop import BatchAckMessage, PopMessageResponse
from rmq_wire.headers.topics import DeleteTopic
from tests.support.driver import Client
from tests.support.engine import Harness, failing_commits
from tests.support.pop_client import Got
from tests.support.popping import INVISIBLE_MS, ack, ack_of, batch_of, change_of, pop, popped, take
from tests.support.requests import pairs, props, send


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path).begun()


@pytest.fixture
def client(broker: Harness) -> Client:
    return broker.connect()


def fill(client: Client, count: int, topic: str = "T", queue_id: int = 0) -> None:
    for number in range(count):
        assert client.ask(send(topic, queue_id), b"m%d" % number).code == 0


def bodies(found: list[Got]) -> list[bytes]:
    return [one.body for one in found]


AGAIN_MS = INVISIBLE_MS + 6_000
"""By then what was not acknowledged has come again."""


def test_a_pop_hands_out_and_hides(broker: Harness, client: Client) -> None:
    fill(client, 3)
    answer = client.ask(pop())
    assert (answer.code, answer.remark) == (0, "FOUND")
    header = answer.header(PopMessageResponse)
    assert (header.start_offset_info, header.msg_offset_info, header.rest_num) == ("0 0 0", "0 0 0,1,2", 0)
    assert (header.pop_time, header.invisible_time) == (broker.env.wall_ms, INVISIBLE_MS)
    nothing = client.ask(pop())
    assert (nothing.code, nothing.remark) == (210, "NO_MESSAGE_IN_QUEUE")
    assert bodies(take(client, consumer_group="other")) == [b"m0", b"m1", b"m2"]


def test_two_pops_of_one_turn_share_a_queue(broker: Harness, client: Client) -> None:
    fill(client, 4)
    first, second = pop(count=2), pop(count=2)
    client.raw(client.frame(first) + client.frame(second))
    one, two = (client.answers[key] for key in sorted(client.answers))
    assert bodies(popped(one, first) + popped(two, second)) == [b"m0", b"m1", b"m2", b"m3"]
    assert broker.node.offsets.query("G", "T", 0) == 4


def test_what_is_not_acknowledged_comes_again(broker: Harness, client: Client) -> None:
    fill(client, 3)
    found = take(client)
    ack(client, found[1])
    broker.driver.advance(INVISIBLE_MS - 2_000)
    assert take(client) == []
    broker.driver.advance(8_000)
    again = take(client)
    assert bodies(again) == [b"m0", b"m2"]
    unit = again[0].unit
    assert (unit.topic, unit.reconsume_times) == (b"T", 1)
    assert props(unit)["1ST_POP_TIME"] == str(found[0].receipt.pop_time)
    assert props(unit)["ORIGIN_GROUP"] == "G"
    assert again[0].topic == "%RETRY%G_T"
    assert broker.stored("%RETRY%G_T")[0].topic == b"%RETRY%G_T"
    ack(client, *again)
    broker.driver.advance(AGAIN_MS)
    assert take(client) == []
    assert broker.node.revive.open == 0


def test_a_retry_comes_again_in_the_same_retry_topic(broker: Harness, client: Client) -> None:
    fill(client, 1)
    for times in range(3):
        [one] = take(client)
        assert one.unit.reconsume_times == times
        broker.driver.advance(AGAIN_MS)
    assert broker.node.store.queue_bounds("%RETRY%G_T", 0) == (0, 3)


def test_a_batch_is_acknowledged_in_one_record(broker: Harness, client: Client) -> None:
    fill(client, 5)
    found = take(client)
    assert client.ask(*batch_of([found[0], found[3]])).code == 0
    broker.driver.advance(AGAIN_MS)
    assert bodies(take(client)) == [b"m1", b"m2", b"m4"]
    assert broker.node.store.queue_bounds("rmq_sys_REVIVE_LOG_DefaultCluster", found[0].receipt.revive_queue)[1] == 2


def test_more_time_and_less(broker: Harness, client: Client) -> None:
    fill(client, 2)
    first, second = take(client)
    assert client.ask(change_of(first, 60_000)).code == 0
    answer = client.ask(change_of(second, 1_000, suspend=True))
    assert answer.ext_map() == {
        "popTime": str(broker.env.wall_ms),
        "invisibleTime": "1000",
        "reviveQid": str(second.receipt.revive_queue),
    }
    broker.driver.advance(8_000)
    [again] = take(client)
    assert (again.body, again.unit.reconsume_times) == (b"m1", 0)
    ack(client, again)
    broker.driver.advance(40_000)
    assert take(client) == []
    broker.driver.advance(20_000)
    [again] = take(client)
    assert (again.body, again.unit.reconsume_times) == (b"m0", 1)


@pytest.mark.parametrize("kill", [False, True])
def test_a_restart_keeps_what_somebody_has(broker: Harness, client: Client, kill: bool) -> None:
    """After a kill as far as progress was on the disk: it goes there every 5 s."""
    fill(client, 4)
    found = take(client, invisible_time=30_000)
    ack(client, found[0])
    broker.driver.advance(12_000)
    broker.restart(kill=kill)
    client = broker.connect()
    ack(client, found[1])
    assert take(client) == []
    broker.driver.advance(16_000)
    assert take(client) == []
    broker.driver.advance(8_000)
    assert bodies(take(client)) == [b"m2", b"m3"]


def test_tags_choose(broker: Harness, client: Client) -> None:
    for number in range(6):
        key = "7F000001" + f"{number:024d}"
        assert client.ask(send(properties=pairs(UNIQ_KEY=key, TAGS="ab"[number % 2])), b"m%d" % number).code == 0
    found = take(client, exp="b", exp_type="TAG")
    assert bodies(found) == [b"m1", b"m3", b"m5"]
    ack(client, found[1])
    broker.driver.advance(AGAIN_MS)
    assert bodies(take(client, exp="b", exp_type="TAG")) == [b"m1", b"m5"]
    assert bodies(take(client, consumer_group="H", exp="_", exp_type="TAG")) == []
    assert broker.node.offsets.query("H", "T", 0) == 6
    sql = take(client, consumer_group="S", exp="TAGS = 'a'", exp_type="SQL92")
    assert bodies(sql) == [b"m0", b"m2", b"m4"]


def test_all_queues(broker: Harness, client: Client) -> None:
    for queue_id in range(4):
        fill(client, 2, queue_id=queue_id)
    found = take(client, queue_id=-1)
    assert len(found) == 8
    ack(client, *found[:4])
    broker.driver.advance(AGAIN_MS)
    assert len(take(client, queue_id=-1)) == 4


# --- the buffer


@pytest.fixture
def buffering(tmp_path: Path) -> Harness:
    return Harness(tmp_path, enablePopBufferMerge=True).begun()


REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"
LONG_MS = 60_000


def records(broker: Harness) -> int:
    """Of pops, stored since the start, waiting or not."""
    return broker.node.store.queue_bounds("rmq_sys_wheel_timer", 0)[1]


def test_what_is_acknowledged_soon_is_never_stored(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 4)
    found = take(client, invisible_time=LONG_MS)
    assert len(buffering.node.pops.buffer) == 1
    assert buffering.node.offsets.query("G", "T", 0) <= 0
    ack(client, found[0])
    assert client.ask(*batch_of(found[1:])).code == 0
    assert len(buffering.node.pops.buffer) == 0
    assert records(buffering) == 0
    assert buffering.node.offsets.query("G", "T", 0) == 4
    buffering.driver.advance(2 * LONG_MS)
    assert take(buffering.connect()) == []


@pytest.mark.parametrize("batch", [False, True])
def test_what_stays_too_long_is_stored_with_its_acknowledgements(tmp_path: Path, batch: bool) -> None:
    broker = Harness(tmp_path, enablePopBufferMerge=True, enablePopBatchAck=batch).begun()
    client = broker.connect()
    fill(client, 4)
    found = take(client, invisible_time=LONG_MS)
    ack(client, *found[:2])
    broker.driver.advance(9_000)
    ack(client, found[2])  # as long as the check point is there
    broker.driver.advance(2_000)
    assert len(broker.node.pops.buffer) == 0
    assert broker.node.offsets.query("G", "T", 0) == 4
    assert records(broker) == (2 if batch else 4)
    broker.driver.advance(LONG_MS)
    assert bodies(take(client)) == [b"m3"]


def test_progress_waits_for_the_oldest_in_the_buffer(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 4)
    first, second = (take(client, count=2, invisible_time=LONG_MS) for _ in range(2))
    ack(client, *second)
    assert buffering.node.offsets.query("G", "T", 0) <= 0
    ack(client, *first)
    assert buffering.node.offsets.query("G", "T", 0) == 4


def test_a_clean_stop_stores_the_buffer(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 3)
    found = take(client, invisible_time=LONG_MS)
    ack(client, found[1])
    buffering.restart()
    client = buffering.connect()
    assert take(client) == []
    buffering.driver.advance(LONG_MS + 6_000)
    assert bodies(take(client)) == [b"m0", b"m2"]


def test_a_kill_with_a_buffer_hands_out_again(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 3)
    take(client, invisible_time=LONG_MS)
    buffering.restart(kill=True)
    assert bodies(take(buffering.connect())) == [b"m0", b"m1", b"m2"]


def test_a_short_time_is_not_for_the_buffer(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 1)
    take(client, invisible_time=4_000)
    assert len(buffering.node.pops.buffer) == 0
    assert records(buffering) == 1


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"count": 33}, 29),
        ({"invisible_time": -1}, 29),
        ({"invisible_time": 259_200_001}, 29),
        ({"queue_id": 4}, 29),
        ({"topic": "nobody"}, 17),
        ({"consumer_group": "no group"}, 26),
        ({"exp": "a = = b", "exp_type": "SQL92"}, 23),
        ({"exp": "a", "exp_type": "OTHER"}, 23),
        ({"born_time": 1}, 210),
    ],
)
def test_pops_that_are_refused(client: Client, changes: dict[str, Any], code: int) -> None:
    assert client.ask(pop(**changes)).code == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ({"revive_queue": -1}, 13),
        ({"revive_queue": 8}, 13),
        ({"revive_queue": 2**31 - 1}, 13),
        ({"broker_name": "other"}, 13),
        ({"pop_time": 4_070_908_800_000}, 13),
        ({"pop_time": -5}, 13),
        ({"invisible_time": -5}, 13),
    ],
)
def test_receipts_that_no_pop_gave(broker: Harness, client: Client, words: dict[str, Any], code: int) -> None:
    """Nothing is stored, no queue is made, and the message comes again."""
    fill(client, 1)
    [one] = take(client)
    before = broker.node.store.written_offset
    forged = one._replace(receipt=one.receipt._replace(**words))
    assert client.ask(ack_of(forged)).code == code
    assert client.ask(change_of(forged, 5_000)).code == code
    batch, body = batch_of([forged])
    assert client.ask(batch, body.replace(b'"broker-a"', b'"%b"' % forged.receipt.broker_name.encode())).code == 0
    assert broker.node.store.written_offset == before
    broker.driver.advance(AGAIN_MS)
    assert bodies(take(client)) == [b"m0"]


@pytest.mark.parametrize("text", ["", "no receipt", "1 2 3", "1 2 3 4 5 b 7 8", "x 2 3 4 0 broker-a 0 0"])
def test_what_is_no_receipt(client: Client, text: str) -> None:
    fill(client, 1)
    [one] = take(client)
    assert client.ask(ack_of(one, extra_info=text)).code == 1
    assert client.ask(change_of(one, 5_000, extra_info=text)).code == 1


@pytest.mark.parametrize(
    ("changes", "code"), [({"topic": "nobody"}, 17), ({"queue_id": 4}, 13), ({"offset": 2}, 208), ({"offset": -1}, 208)]
)
def test_ends_that_are_refused(client: Client, changes: dict[str, Any], code: int) -> None:
    fill(client, 1)
    [one] = take(client)
    assert client.ask(ack_of(one, **changes)).code == code
    assert client.ask(change_of(one, 5_000, **changes)).code == code
    assert client.ask(ack_of(one, offset=1)).code == 0  # the end of the queue is tolerated, as in the reference
    assert client.ask(change_of(one, 5_000, offset=1)).code == 208
    assert client.ask(change_of(one, -1)).code == 29
    assert client.ask(change_of(one, 259_200_001)).code == 29
    assert client.ask(BatchAckMessage()).code == 208


def test_an_end_that_is_said_twice_or_too_late(broker: Harness, client: Client) -> None:
    fill(client, 2)
    first, second = take(client)
    ack(client, first, first)
    broker.driver.advance(AGAIN_MS)
    ack(client, second)
    assert bodies(take(client)) == [b"m1"]
    assert broker.node.revive.open == 0


# --- trouble


def test_a_check_point_that_is_not_written_hands_nothing_out(broker: Harness, client: Client) -> None:
    fill(client, 2)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(broker, patch)
        assert client.ask(pop()).code == 210
    assert broker.node.offsets.query("G", "T", 0) <= 0
    assert bodies(take(client)) == [b"m0", b"m1"]


def test_copies_that_are_not_written_are_made_again(broker: Harness, client: Client) -> None:
    fill(client, 3)
    take(client)
    broker.driver.advance(INVISIBLE_MS)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(broker, patch)
        broker.driver.advance(10_000)
    broker.driver.advance(10_000)
    assert bodies(take(client)) == [b"m0", b"m1", b"m2"]
    assert broker.node.store.queue_bounds("%RETRY%G_T", 0) == (0, 3)


def test_a_topic_that_is_gone_stalls_nobody(broker: Harness, client: Client) -> None:
    broker.topic("gone")
    fill(client, 1, "gone")
    fill(client, 1)
    take(client, "gone")
    take(client)
    assert client.ask(DeleteTopic(topic="gone")).code == 0
    broker.driver.advance(AGAIN_MS)
    assert bodies(take(client)) == [b"m0"]
    assert broker.node.revive.open == 0
    assert "%RETRY%G_gone" not in broker.node.topics


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_clock_that_jumps_loses_nothing(broker: Harness, client: Client, jump_ms: int) -> None:
    """Back: what was out comes again when the clock says so; what is popped meanwhile does not wait for it."""
    fill(client, 1)
    take(client)
    broker.driver.advance(INVISIBLE_MS + 500)
    broker.env.wall_ms += jump_ms
    fill(client, 1, queue_id=1)
    take(client, queue_id=1)
    retries = broker.node.store.queue_bounds
    broker.driver.advance(AGAIN_MS)
    assert retries("%RETRY%G_T", 0)[1] >= 1
    broker.driver.advance(max(-jump_ms, 0) + AGAIN_MS)
    assert retries("%RETRY%G_T", 0)[1] == 2
