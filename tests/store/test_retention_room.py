"""Retention when room is short: by which levels and partitions, beside thousands of queues; and what memory topics take."""

from __future__ import annotations

import pytest

from rmq_store.disk.disk import Usage
from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.disk_space import DiskSpace, RetentionRules
from rmq_store.errors import Closed
from rmq_store.log.writability import Writability
from rmq_store.queues import key_heads
from rmq_store.queues.key_heads import CACHED_HEADS_MAX, KeyHeads, SharedHeads
from rmq_store.retention import HOUR_MS
from tests.store.retention_kit import FILE_BYTES, ROOM, disk_of, filled, removes_in, step, until
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, open_store, small

# --- room


def test_the_log_goes_on_while_thousands_of_queues_follow() -> None:
    """Java has a thread for each; here the log comes between two queues when its time has come."""
    rig = Rig(
        settings=small(mapped_file_size_commit_log=1 << 17, mapped_file_size_consume_queue=2 * 20, message_index_enable=False)
    )
    rig.store.retain_by(RetentionRules(delete_when=frozenset(), disk_space_warning_level_ratio=None))
    for number in range(12):
        rig.put(*[draft(number, queue_id=queue_id, body_bytes=500) for queue_id in range(250)])
    rig.sync_queues()
    disk_of(rig).space = Usage(1000, 100, 100)
    gone_ms = []
    for number in range(1, 13):
        removal = until(rig, removes_in("/commitlog/"))
        gone_ms.append(rig.mono_ms - 60_000)
        removal.run()
        rig.store.retention.end(removal, None, rig.mono_ms)
        if number == 10:
            rig.store.retain_by(
                RetentionRules(delete_when=frozenset(), disk_space_warning_level_ratio=None, delete_file_batch_max=1)
            )
    assert gone_ms == pytest.approx([*range(0, 1000, 100), 10_000, 20_000], abs=200), "while a queue goes every 100 ms"
    disk_of(rig).space = ROOM
    rig.retain(60_000)
    assert rig.store.retention.followed == rig.store.min_offset, "and the queues come to an end"
    for queue_id, (low, high) in rig.store.topics()["TopicA"].items():
        assert low == high or rig.store.queue_unit("TopicA", queue_id, low)[0] >= rig.store.min_offset


def test_a_look_ends_when_the_queues_are_where_the_log_is() -> None:
    """Though the log went on while they followed."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=2 * 20, message_index_enable=False))
    rig.store.retain_by(
        RetentionRules(disk_space_warning_level_ratio=None, delete_file_batch_max=1, clean_resource_interval=1000)
    )
    for number in range(9):
        rig.put(*[draft(number, queue_id=queue_id, body_bytes=500) for queue_id in range(50)])
    rig.sync_queues()
    disk_of(rig).space = Usage(1000, 100, 100)
    retention = rig.store.retention
    for _ in range(4):
        removal = until(rig, removes_in("/commitlog/"))
        removal.run()
        retention.end(removal, None, rig.mono_ms)
    disk_of(rig).space = ROOM
    while retention._steps is not None:
        step(rig)
    for queue_id, (low, high) in rig.store.topics()["TopicA"].items():
        assert low == high or rig.store.queue_unit("TopicA", queue_id, low)[0] >= rig.store.min_offset


@pytest.mark.parametrize(
    ("level", "used", "goes"), [(60, 70, True), (60, 60, False), (10, 36, True), (10, 35, False), (None, 84, False)]
)
def test_over_the_warning_level_the_oldest_go_whatever_their_age(level: int | None, used: int, goes: bool) -> None:
    """Java: isSpaceToDelete, over either level; the warning one is 35 percent at least. Else nothing would ever make room."""
    disk = MemoryDisk()
    disk.space = Usage(100, 80, 80)
    rig = filled(rules=RetentionRules(delete_when=frozenset(), disk_space_warning_level_ratio=level), disk=disk)
    disk.space = Usage(100, 100 - used, 100 - used)
    rig.retain(HOUR_MS)
    assert (rig.store.min_offset > 0) is goes
    assert (rig.store.refusal is Closed.DISK_OVER_LIMIT) is goes
    rig.store.retain_by(
        RetentionRules(delete_when=frozenset(), disk_space_warning_level_ratio=level, clean_file_forcibly_enable=False)
    )
    assert not rig.store._space.deletes_any


class QueuesApart(MemoryDisk):
    """consumequeue is the mount point of a partition that is nearly full."""

    def usage(self, path: str) -> Usage:
        super().usage(path)
        if not self.is_directory(path):
            raise FileNotFoundError(path)
        return Usage(100, 2, 2) if path.startswith(f"{ROOT}/consumequeue") else Usage(100, 60, 60)


def test_the_queues_partition_is_looked_at_where_they_lie() -> None:
    """Java: getDiskPartitionSpaceUsedPercent(getStorePathConsumeQueue(root)); before there are any, the root's."""
    disk = QueuesApart()
    disk.make_directories(f"{ROOT}/commitlog")
    space = DiskSpace(disk, small(), Segments(OpenFiles(disk, 1), f"{ROOT}/commitlog", FILE_BYTES, {}), Writability(lambda: None))
    space.look()
    assert (space.queue_ratio, space.runtime_info()["consumeQueueDiskRatio"]) == (0.4, "0.4")
    disk.make_directories(f"{ROOT}/consumequeue")
    space.look()
    assert (space.queue_ratio, space.runtime_info()["consumeQueueDiskRatio"]) == (0.98, "0.98")
    rig = filled(disk=QueuesApart(), rules=RetentionRules(delete_when=frozenset(), disk_space_warning_level_ratio=None))
    rig.retain(HOUR_MS)
    assert rig.store.runtime_info(START_MS)["consumeQueueDiskRatio"] == "0.98"
    assert rig.store.min_offset == 4 * FILE_BYTES


# --- memory


def test_topics_remember_so_many_heads_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are random ids, in thousands of topics."""
    shared = SharedHeads(10)
    first, second, third = (KeyHeads(topic, shared) for topic in ("A", "B", "C"))
    expected = {head: KeyHeads("A")[head] for head in "abcd"}
    assert {head: first[head] for head in "abcd"} == expected
    for number in range(6):
        second[str(number)]
    assert (len(first), len(second), shared.count) == (4, 6, 10)
    third["x"]
    assert (len(first), len(second), len(third), shared.count) == (0, 6, 1, 7), "who began first"
    assert first["a"] == expected["a"]
    for number in range(100):
        third[str(number)]
        assert shared.count == len(first) + len(second) + len(third) <= 10
    monkeypatch.setattr(key_heads, "CACHED_HEADS_MAX", 3)
    for number in range(100):
        first[str(number)]
        assert len(first) <= 3
        assert shared.count == len(first) + len(second) + len(third) <= 10


def test_a_store_s_topics_share() -> None:
    store = open_store(small(), disk=MemoryDisk())
    heads = [store._queues.get(f"T{number}", 0).hash_heads for number in range(70)]
    for one in heads:
        for number in range(CACHED_HEADS_MAX):
            one[f"{number:x}"]
    assert sum(map(len, heads)) == key_heads.CACHED_HEADS_OF_ALL_MAX


def test_topics_that_are_opened_later_share_as_well() -> None:
    rig = Rig()
    rig.put(draft(1, "Later"), draft(2, "Newest"))
    rig.reopen()
    assert "Later" in rig.store._queues.unopened
    heads = rig.store._queues.of_topic("Later")[0].hash_heads
    heads["x"]
    assert rig.store._queues._shared_heads.count == 1
