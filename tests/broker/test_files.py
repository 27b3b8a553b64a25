"""Old files go while clients send and pull: what each of them is answered, and what an administrator may ask for."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rmq_store.disk.disk import Usage
from rmq_store.retention import HOUR_MS
from rmq_wire import fastjson
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Request
from rmq_wire.headers.configuration import UpdateBrokerConfig
from rmq_wire.headers.files import CleanExpiredConsumeQueue, DeleteExpiredCommitLog
from rmq_wire.headers.positions import GetMinOffset
from rmq_wire.headers.runtime import GetBrokerRuntimeInfo
from rmq_wire.headers.topics import CleanUnusedTopic, DeleteTopic
from tests.broker.siege import siege
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.lines import lines_of
from tests.support.requests import SUBSCRIPTION, SUSPEND, WALL_MS, pull, send
from tests.support.troubled_disk import TroubledDisk

LOG_BYTES = 32_768
RESERVED_HOURS = 2
TURNS_OF_A_WRITE = 100
"""More than the slices of a small table."""
YEARS_BACK_MS = 20 * 365 * 24 * HOUR_MS


class DatedDisk(TroubledDisk):
    """Every file was written when the test began; how full the partition is, the test says."""

    used_percent = 50

    def modified_ms(self, path: str) -> int:
        return WALL_MS

    def usage(self, path: str) -> Usage:
        return Usage(100, 100 - self.used_percent, 100 - self.used_percent)


def fill(client: Client, files: int = 3, topic: str = "T") -> int:
    """Messages over so many files; how many."""
    count = files * LOG_BYTES // 3000
    for _ in range(count):
        assert client.ask(send(topic), b"." * 2900).code == 0
    return count


def least(client: Client, topic: str = "T") -> int:
    return int(client.ask(GetMinOffset(topic=topic, queue_id=0)).ext_map()["offset"])


SETTINGS = {"mappedFileSizeCommitLog": LOG_BYTES, "fileReservedTime": RESERVED_HOURS, "deleteWhen": ";".join(map(str, range(24)))}


def test_old_files_go_and_consumers_hear_of_it(tmp_path: Path) -> None:
    """An offset that is gone is answered with 21 and the one to go on with; a pull at the end stays held all the time."""
    with siege(tmp_path, disk=DatedDisk(), **SETTINGS) as broker:
        broker.topic("T")
        client, holder = broker.connect(), broker.connect()
        count = fill(client)
        held = holder.send(pull("T", offset=count, flags=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=300_000))
        assert least(client) == 0
        broker.env.wall_ms += RESERVED_HOURS * HOUR_MS
        broker.driver.advance(60_000)
        broker.driver.advance(20_000)
        low = least(client)
        assert 0 < low < count
        gone = client.ask(pull("T", offset=0))
        assert gone.code == ResponseCode.PULL_OFFSET_MOVED
        assert gone.ext_map()["nextBeginOffset"] == str(low)
        assert gone.ext_map()["minOffset"] == str(low)
        assert client.ask(pull("T", offset=low)).code == 0
        assert held not in holder.answers
        assert client.ask(send("T"), b"new").code == 0
        assert holder.answers.pop(held).code == 0
        assert broker.lines.about("old files removed", f"{0:020d}")
        table = fastjson.loads(bytes(client.ask(GetBrokerRuntimeInfo()).body))["table"]
        assert int(table["commitLogMinOffset"]) == broker.node.store.min_offset > 0
        assert table["commitLogDiskRatio"] == table["consumeQueueDiskRatio"] == "0.5"
        assert int(table["earliestMessageTimeStamp"]) >= WALL_MS
        broker._witnessed.clear()
        broker.restart()


def test_a_held_pull_whose_file_goes(tmp_path: Path) -> None:
    """Filtered pulls wait within the queue: what they waited behind is removed, and they go on when something comes."""
    with siege(tmp_path, disk=DatedDisk(), **SETTINGS) as broker:
        broker.topic("T")
        client, holder = broker.connect(), broker.connect()
        count = fill(client)
        held = holder.send(pull("T", offset=count, flags=SUBSCRIPTION | SUSPEND, subscription="wanted"))
        broker.env.wall_ms += RESERVED_HOURS * HOUR_MS
        broker.node.store.retention.delete_now()
        broker.driver.advance(12_000)
        if held in holder.answers:
            assert holder.answers.pop(held).code == ResponseCode.PULL_NOT_FOUND
        broker._witnessed.clear()


def test_the_oldest_go_and_then_sends_are_refused(tmp_path: Path) -> None:
    """001-76, 001-77: over 85 percent whatever the age; over 90 sends get 14 with Java's text until there is room."""
    disk = DatedDisk()
    settings = {**SETTINGS, "deleteWhen": "", "fileReservedTime": 1000, "diskSpaceWarningLevelRatio": 90}
    with siege(tmp_path, disk=disk, **settings) as broker:
        broker.topic("T")
        client = broker.connect()
        count = fill(client)
        broker.driver.advance(60_000)
        assert least(client) == 0
        disk.used_percent = 91
        broker.driver.advance(20_000)
        refused = client.ask(send("T"), b"no")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert refused.remark == (
            "service not available now. It may be caused by one of the following reasons: the broker's disk is full "
            "[CL:  0.91 CQ:  0.91 INDEX:  0.91], messages are put to the slave, message store has been shut down, etc."
        )
        low = least(client)
        assert 0 < low < count
        assert client.ask(pull("T", offset=low)).code == 0, "reads go on"
        disk.used_percent = 90
        broker.driver.advance(10_000)
        assert client.ask(send("T"), b"yes").code == 0
        broker._witnessed.clear()


def test_rules_change_while_the_broker_runs(tmp_path: Path) -> None:
    with siege(tmp_path, disk=DatedDisk(), **{**SETTINGS, "fileReservedTime": 100}) as broker:
        broker.topic("T")
        client = broker.connect()
        fill(client)
        broker.env.wall_ms += 3 * HOUR_MS
        broker.driver.advance(90_000)
        assert least(client) == 0
        assert client.ask(UpdateBrokerConfig(), b"fileReservedTime=2\n").code == 0
        broker.driver.advance(20_000)
        assert least(client) > 0
        broker._witnessed.clear()


def test_an_administrator_asks_for_it(tmp_path: Path) -> None:
    """001-78: 329 at any hour; 306 queues without a message left; 316 topics that are not configured any more."""
    settings = {**SETTINGS, "deleteWhen": ""}
    with siege(tmp_path, disk=DatedDisk(), **settings) as broker:
        for name in ("T", "Gone", "Old"):
            broker.topic(name)
        client = broker.connect()
        for name in ("Gone", "Old"):
            assert client.ask(send(name), b"x").code == 0
        fill(client)
        assert client.ask(send("Gone"), b"y").code == 0
        assert client.ask(send("T"), b"the newest").code == 0
        broker.env.wall_ms += RESERVED_HOURS * HOUR_MS
        broker.driver.advance(90_000)
        assert least(client) == 0
        assert client.ask(DeleteExpiredCommitLog()).code == 0
        broker.driver.advance(20_000)
        assert least(client) > 0
        assert client.ask(CleanExpiredConsumeQueue()).code == 0
        assert not (broker.root / "consumequeue" / "Old").exists()
        assert (broker.root / "consumequeue" / "Gone").exists()
        broker.node.topics.delete("Gone")
        assert client.ask(CleanUnusedTopic()).code == 0
        assert not (broker.root / "consumequeue" / "Gone").exists()
        assert set(broker.node.store.topics()) == {"T"}, "the witness's only message was in the first file, too"
        broker._witnessed.clear()


def test_a_file_that_cannot_be_removed_is_said_aloud(tmp_path: Path) -> None:
    disk = DatedDisk()
    with siege(tmp_path, disk=disk, **SETTINGS) as broker:
        broker.topic("T")
        client = broker.connect()
        fill(client)
        disk.trouble = lambda operation, path, _: OSError(errno.EACCES, "not yours", path) if operation == "unlink" else None
        broker.env.wall_ms += RESERVED_HOURS * HOUR_MS
        broker.driver.advance(80_000)
        assert broker.lines.about("cannot be removed", "not yours")
        assert client.ask(send("T"), b"all the same").code == 0
        disk.trouble = None
        broker.driver.advance(150_000)
        assert not (broker.root / "commitlog" / f"{0:020d}").exists()
        broker._witnessed.clear()


@pytest.mark.parametrize("unknown", [True, False])
def test_nothing_to_clean(tmp_path: Path, unknown: bool) -> None:
    harness = Harness(tmp_path)
    client = harness.connect()
    if unknown:
        harness.topic("T")
        assert client.ask(send("T"), b"x").code == 0
    for request in (CleanExpiredConsumeQueue(), CleanUnusedTopic(), DeleteExpiredCommitLog()):
        answer = client.ask(request)
        assert (answer.code, answer.remark, answer.body) == (0, None, b"")
    assert [len(bounds) for bounds in harness.node.store.topics().values()] == ([1] if unknown else [])


@pytest.mark.parametrize("request_", [CleanExpiredConsumeQueue(), CleanUnusedTopic()])
def test_many_topics_are_cleaned_in_slices(tmp_path: Path, request_: Request) -> None:
    """50,000 topics were looked at in one piece of 0.1 s and more; those to be removed went in another."""

    def worst(topics: int) -> int:
        harness = Harness(tmp_path / str(topics))
        queues = harness.node.store._queues
        for number in range(topics):
            queue = queues.get(f"T{number}", 0)
            queue.end_physical = 0 if number % 2 else 1 << 40
        harness.node.store._log.segments.starts[:] = [1 << 30]
        client = harness.connect()
        frame, arrived, lines = client.frame(request_), True, [0]
        while arrived or not client.answers:
            lines.append(lines_of(lambda sent=arrived: harness.driver.turn(*[(client, frame)] * sent)))
            arrived = False
        left = set(queues.topics())
        assert left == (set() if isinstance(request_, CleanUnusedTopic) else {f"T{number}" for number in range(0, topics, 2)})
        return max(lines)

    assert worst(1_000) < 1.3 * worst(150)


def test_a_topic_of_many_queues_is_deleted_in_slices(tmp_path: Path) -> None:
    """One queue a slice; nobody sees any of it from the first on; a topic that comes back meanwhile begins at 0."""
    harness = Harness(tmp_path)
    harness.topic("Big", queues=60)
    client, other, gone = harness.connect(), harness.connect(), harness.connect()
    for queue_id in range(60):
        assert client.ask(send("Big", queue_id=queue_id), b"old").code == 0
    asked = client.frame(DeleteTopic(topic="Big"))
    harness.driver.turn((client, asked))
    for _ in range(TURNS_OF_A_WRITE):
        if not harness.node.store.topics():
            break
        harness.driver.turn()
    assert not client.answers
    directory = harness.root / "consumequeue" / "Big"
    left = len(list(directory.iterdir()))
    assert 40 < left <= 60
    assert harness.node.store.topics() == {}
    harness.node.topics.put(TopicConfig(topic_name="Big", read_queue_nums=60, write_queue_nums=60))
    harness.driver.turn((other, other.frame(send("Big", queue_id=7), b"new")))
    harness.driver.run()
    assert [answer.code for answer in client.answers.values()] == [0]
    [sent] = other.answers.values()
    assert (sent.code, sent.remark, sent.ext_map().get("queueOffset")) == (0, None, "0")
    assert [path.name for path in directory.iterdir()] == ["7"]
    harness.driver.turn((gone, gone.frame(DeleteTopic(topic="Big"))))
    gone.close()
    harness.driver.run()
    assert not directory.exists(), "also when the asker has gone"
