"""POP when clocks are set, disks are full, brokers stop and are killed: what random days have found, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_impl.timer_gathering import GATHER_MS
from rmq_store.flush import LOG_TICKETS_MAX
from rmq_wire import fastjson
from rmq_wire.bodies.offsets import ConsumerOffsetTable
from rmq_wire.headers.groups import DeleteSubscriptionGroup
from rmq_wire.headers.offsets import ResetOffset
from rmq_wire.headers.topics import DeleteTopic
from rmq_wire.implied.pop import REVIVE_GROUP
from rmq_wire.names import REVIVE_LOG_PREFIX
from tests.support.driver import Client
from tests.support.engine import Harness, failing_commits
from tests.support.popping import ack, ack_of, batch_of, change_of, take
from tests.support.requests import pairs, send

HOUR_MS = 3_600_000
LONG_MS = 60_000
SAVED_MS = 12_000
"""By then progress is on the disk."""


@pytest.fixture
def broker(tmp_path: Path) -> Harness:
    return Harness(tmp_path, reviveQueueNum=1).begun()


@pytest.fixture
def buffering(tmp_path: Path) -> Harness:
    return Harness(tmp_path, reviveQueueNum=1, enablePopBufferMerge=True).begun()


def fill(client: Client, count: int, topic: str = "T", queue_id: int = 0) -> None:
    for number in range(count):
        assert client.ask(send(topic, queue_id), b"m%d" % number).code == 0


def retries(broker: Harness) -> list[bytes]:
    return [bytes(one.body) for one in broker.stored("%RETRY%G_T")]


# --- the buffer


def test_who_gets_another_time_leaves_the_check_point_in_the_buffer(buffering: Harness) -> None:
    """Not a record before it in the log, where nobody finds what it belongs to when a clock is set meanwhile."""
    client = buffering.connect()
    fill(client, 2)
    first, _ = take(client, invisible_time=LONG_MS)
    assert client.ask(change_of(first, 5_000)).code == 0
    buffering.env.wall_ms += HOUR_MS
    buffering.driver.advance(LONG_MS)
    assert sorted(retries(buffering)) == [b"m0", b"m1"]


def test_all_that_have_another_time_end_their_check_point(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 1)
    [one] = take(client, invisible_time=LONG_MS)
    assert client.ask(change_of(one, 5_000)).code == 0
    assert len(buffering.node.pops.buffer) == 0
    assert buffering.node.offsets.query("G", "T", 0) == 1
    buffering.driver.advance(2 * LONG_MS)
    assert retries(buffering) == [b"m0"]


def test_another_time_that_is_not_written_ends_nothing(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 1)
    [one] = take(client, invisible_time=LONG_MS)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(buffering, patch)
        assert client.ask(change_of(one, 5_000)).code != 0
    assert len(buffering.node.pops.buffer) == 1
    assert buffering.node.offsets.query("G", "T", 0) <= 0
    buffering.driver.advance(2 * LONG_MS)
    assert retries(buffering) == [b"m0"]


def test_an_acknowledgement_while_the_check_point_cannot_be_stored(buffering: Harness) -> None:
    client = buffering.connect()
    fill(client, 2)
    one, _ = take(client, invisible_time=LONG_MS)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(buffering, patch)
        buffering.driver.advance(30_000)
        ack(client, one)
        buffering.driver.advance(LONG_MS)
    buffering.driver.advance(LONG_MS)
    assert retries(buffering) == [b"m1"]


def test_a_check_point_that_could_not_be_stored_and_then_was_acknowledged(buffering: Harness) -> None:
    """Progress does not wait for a part of the log that was undone."""
    client = buffering.connect()
    fill(client, 1)
    [one] = take(client, invisible_time=LONG_MS)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(buffering, patch)
        buffering.driver.advance(30_000)
        ack(client, one)
    buffering.restart()
    assert buffering.node.offsets.query("G", "T", 0) == 1


def test_a_group_that_its_members_make_again_gets_nothing_twice(buffering: Harness) -> None:
    """It was deleted, its progress was not: the check points in memory are stored in their time, with what is acknowledged."""
    client = buffering.connect()
    fill(client, 10)
    take(client, count=1, invisible_time=LONG_MS)
    ack(client, *take(client, count=9, invisible_time=LONG_MS))
    assert client.ask(DeleteSubscriptionGroup(group_name="G", clean_offset=False)).code == 0
    assert take(client) == []
    buffering.driver.advance(2 * LONG_MS)
    assert retries(buffering) == [b"m0"]
    assert buffering.node.offsets.query("G", "T", 0) == 10


# --- progress


@pytest.mark.parametrize("kill", [False, True])
def test_a_reset_outlives_the_broker(buffering: Harness, kill: bool) -> None:
    """What is in flight when it comes does not move progress beyond it, and the answer leaves when the file has it."""
    client = buffering.connect()
    fill(client, 3)
    take(client, count=2, invisible_time=LONG_MS)
    buffering.driver.advance(SAVED_MS)
    take(client, invisible_time=LONG_MS)
    reset = ResetOffset(group="G", topic="T", timestamp=-1, is_force=True, queue_id=0, offset=1)
    assert client.ask(reset).code == 0
    buffering.restart(kill=kill)
    assert [one.body for one in take(buffering.connect())] == [b"m1", b"m2"]


def test_a_topic_that_comes_again_has_no_old_progress(buffering: Harness) -> None:
    """Also when the broker is killed before it writes its progress as usual."""
    client = buffering.connect()
    fill(client, 2)
    ack(client, *take(client, invisible_time=LONG_MS))
    buffering.driver.advance(SAVED_MS)
    assert client.ask(DeleteTopic(topic="T")).code == 0
    buffering.topic("T")
    fill(client, 2)
    buffering.restart(kill=True)
    assert [one.body for one in take(buffering.connect())] == [b"m0", b"m1"]


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("group", ["G", "%LMQ%G"])
def test_the_file_waits_for_the_check_point_to_be_on_the_disk(tmp_path: Path, buffer: bool, group: str) -> None:
    """Of what is written and not flushed a power cut may leave nothing.  Light groups have a file of their own."""
    never = {"flushIntervalCommitLog": HOUR_MS, "flushCommitLogThoroughInterval": HOUR_MS}
    broker = Harness(tmp_path, enablePopBufferMerge=buffer, enableLmq=group != "G", **never)
    client = broker.begun().connect()
    fill(client, 3)
    broker.node._sync_log()
    take(client, consumer_group=group, invisible_time=LONG_MS)

    def saved() -> int:
        broker.driver.advance(2 * SAVED_MS)
        if group == "G":
            document = fastjson.loads((tmp_path / "config" / "consumerOffset.json").read_bytes())
            return ConsumerOffsetTable.from_plain(document).offset_table["T@G"][0]
        document = fastjson.loads((tmp_path / "config" / "lmqConsumerOffset.json").read_bytes())
        found: int = document["lmqOffsetTable"][f"T@{group}"]
        return found

    assert saved() == 0
    assert broker.node.offsets.query(group, "T", 0) == 3
    broker.node._sync_log()
    assert saved() == 3
    take(client, consumer_group=group, invisible_time=LONG_MS)
    fill(client, 2)
    take(client, consumer_group=group, invisible_time=LONG_MS)
    assert saved() == 3
    reset = ResetOffset(group=group, topic="T", timestamp=-1, is_force=True, queue_id=0, offset=1)
    assert client.ask(reset).code == 0
    assert saved() == 1, "what an operator says rests on nothing"


def test_progress_of_the_revive_topic_waits_for_what_was_read_to_be_on_the_disk(tmp_path: Path) -> None:
    """Also where nothing was copied: after a power cut others have the places of the records that it took with it."""
    never = {"flushIntervalCommitLog": HOUR_MS, "flushCommitLogThoroughInterval": HOUR_MS}
    broker = Harness(tmp_path, reviveQueueNum=1, **never)
    client = broker.begun().connect()
    fill(client, 1)
    ack(client, *take(client, invisible_time=1_000))
    broker.driver.advance(60_000)
    topic = f"{REVIVE_LOG_PREFIX}DefaultCluster"
    last = broker.node.store.queue_bounds(topic, 0)[1] - 1
    assert last == 1, "a check point and its acknowledgement"
    assert broker.node.offsets.query(REVIVE_GROUP, topic, 0) == -1
    broker.node._sync_log()
    broker.driver.advance(SAVED_MS)
    assert broker.node.offsets.query(REVIVE_GROUP, topic, 0) == last


# --- coming again


def test_what_is_stored_late_says_nothing_about_what_the_timer_has(broker: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """An acknowledgement in time is on its way when a clock is set; one that is due already gets into the queue before it."""
    monkeypatch.setattr("broker_impl.state.revive_queue.EARLY_MAX", 1)
    client = broker.connect()
    fill(client, 80)
    several = [take(client, count=1, invisible_time=5_000)[0] for _ in range(40)]
    others = take(client, invisible_time=LONG_MS)
    broker.driver.advance(GATHER_MS)  # so that their check points are in the wheel
    ack(client, *several)
    fill(client, 1)  # with it the acknowledgements get into the timer's queue
    broker.env.wall_ms += HOUR_MS
    ack(client, *others)
    broker.driver.advance(LONG_MS)
    assert not set(retries(broker)) & {one.body for one in several}


def test_a_stop_brings_nothing_twice_that_came_out_of_turn(broker: Harness) -> None:
    """A clock was set back: a check point waits for it, and one behind it is done with."""
    client = broker.connect()
    fill(client, 2)
    take(client, count=1, invisible_time=LONG_MS)
    broker.driver.advance(LONG_MS - 500)
    broker.env.wall_ms -= HOUR_MS
    take(client, invisible_time=5_000)
    broker.driver.advance(20_000)
    assert retries(broker) == [b"m1"]
    broker.restart()
    broker.driver.advance(LONG_MS)
    assert retries(broker) == [b"m1"]
    broker.env.wall_ms += HOUR_MS
    broker.driver.advance(LONG_MS)
    assert retries(broker) == [b"m1", b"m0"]


def test_receipts_of_more_revive_queues_than_there_are_now(tmp_path: Path) -> None:
    """`reviveQueueNum` was lowered: what the other queues have comes again all the same, unless it is acknowledged."""
    broker = Harness(tmp_path, reviveQueueNum=8).begun()
    client = broker.connect()
    fill(client, 8)
    found = sorted((take(client, count=1, invisible_time=20_000)[0] for _ in range(8)), key=lambda one: one.receipt.revive_queue)
    broker.settings["reviveQueueNum"] = 2
    broker.restart()
    client = broker.connect()
    ack(client, *found[:5])
    assert client.ask(*batch_of([found[5]])).code == 0
    assert client.ask(change_of(found[6], 1_000)).code == 0
    beyond = found[7]._replace(receipt=found[7].receipt._replace(revive_queue=8))
    assert client.ask(ack_of(beyond)).code == 13
    broker.driver.advance(LONG_MS)
    assert retries(broker) == [found[6].body, found[7].body]


# --- how many are out


def test_what_could_not_be_handed_out_is_not_in_flight(tmp_path: Path) -> None:
    broker = Harness(tmp_path, enablePopMessageThreshold=True, popInflightMessageThreshold=10).begun()
    client = broker.connect()
    fill(client, 16)
    with pytest.MonkeyPatch.context() as patch:
        failing_commits(broker, patch)
        for _ in range(4):
            assert take(client, count=8) == []
    assert [len(take(client, count=8)) for _ in range(3)] == [8, 8, 0]


# --- more check points than are read ahead


@pytest.mark.parametrize("acked", ["all", "every other one"])
def test_of_more_than_are_read_ahead_the_acknowledgements_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acked: str
) -> None:
    """They lie behind check points that are not read yet."""
    monkeypatch.setattr("broker_impl.state.revive_queue.OPEN_MAX", 10)
    broker = Harness(tmp_path, reviveQueueNum=1).begun()
    client = broker.connect()
    fill(client, 100)
    for number in range(100):
        found = take(client, count=1)
        if acked == "all" or number % 2 == 0:
            ack(client, *found)
        broker.driver.advance(10)
    broker.driver.advance(LONG_MS)
    expected = [] if acked == "all" else [b"m%d" % number for number in range(1, 100, 2)]
    assert sorted(retries(broker)) == sorted(expected)
    broker.restart()
    broker.driver.advance(LONG_MS)
    assert sorted(retries(broker)) == sorted(expected)


@pytest.mark.parametrize("order", [False, True])
def test_what_light_groups_and_queues_pop_comes_again(tmp_path: Path, order: bool) -> None:
    """They need no entry in any table."""
    broker = Harness(tmp_path, enableLmq=True, enableMultiDispatch=True, reviveQueueNum=1).begun()
    client = broker.connect()
    sent = send("T", 0, pairs(UNIQ_KEY="K", INNER_MULTI_DISPATCH="%LMQ%Q"))
    assert client.ask(sent, b"light").code == 0
    assert len(take(client, "T", consumer_group="%LMQ%G", invisible_time=5_000, order=order)) == 1
    assert len(take(client, "%LMQ%Q", invisible_time=5_000, order=order)) == 1
    assert take(client, "T", consumer_group="%LMQ%G", order=order) == []
    broker.restart()
    broker.driver.advance(LONG_MS)
    client = broker.connect()
    if order:
        assert [one.body for one in take(client, "T", consumer_group="%LMQ%G", order=True)] == [b"light"]
        assert [one.body for one in take(client, "%LMQ%Q", order=True)] == [b"light"]
        return
    assert [bytes(one.body) for one in broker.stored("%RETRY%%LMQ%G_T")] == [b"light"]
    assert [bytes(one.body) for one in broker.stored("%RETRY%G_%LMQ%Q")] == [b"light"]


# --- more time; what is of nobody


def test_more_time_outlives_a_kill(broker: Harness) -> None:
    """The new time is written when the old one ends, and before the answer."""
    client = broker.connect()
    fill(client, 1)
    [one] = take(client, invisible_time=LONG_MS)
    assert client.ask(change_of(one, 5_000)).code == 0
    broker.restart(kill=True)
    broker.driver.advance(LONG_MS)
    assert retries(broker) == [b"m0"]


@pytest.mark.parametrize("gone", ["group", "topic"])
def test_what_is_of_nobody_holds_nobody_up(broker: Harness, gone: str) -> None:
    """Check points of a group, or of a topic, that was deleted with messages in flight."""
    broker.topic("U")
    client = broker.connect()
    fill(client, 1)
    fill(client, 1, topic="U")
    take(client, "U", consumer_group="other", invisible_time=5_000)
    take(client, invisible_time=6_000)
    if gone == "group":
        assert client.ask(DeleteSubscriptionGroup(group_name="other")).code == 0
    else:
        assert client.ask(DeleteTopic(topic="U")).code == 0
    broker.driver.advance(LONG_MS)
    assert retries(broker) == [b"m0"]
    assert broker.node.revive.open == 0


def test_a_clean_stop_repeats_nothing_whatever_the_disk_was_to_sync_next(tmp_path: Path) -> None:
    """Under SYNC_FLUSH it is the turn of queues now and then; the file has what rests on the log all the same."""
    broker = Harness(tmp_path, enablePopBufferMerge=True, flushDiskType="SYNC_FLUSH").begun()
    client = broker.connect()
    fill(client, 2 * LOG_TICKETS_MAX)
    assert len(take(client, invisible_time=HOUR_MS)) == 2 * LOG_TICKETS_MAX
    broker.env.advance(60_000)  # queues are due, and the log had its turns
    broker.restart()
    assert take(broker.connect()) == []
