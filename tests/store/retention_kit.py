"""A store with several log files of messages, some of them old, for the tests of retention."""

from __future__ import annotations

from collections.abc import Callable

from rmq_store.disk.disk import Usage
from rmq_store.disk_space import RetentionRules
from rmq_store.retention import HOUR_MS, Chore, Removal
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import Rig, draft, small

FILE_BYTES = small().mapped_file_size_commit_log
DAY_MS = 24 * HOUR_MS
AT_ALL_HOURS = RetentionRules(delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
ROOM = Usage(1000, 500, 500)


def filled(files: int = 4, rules: RetentionRules = AT_ALL_HOURS, disk: MemoryDisk | None = None, **settings: object) -> Rig:
    """So many full log files and the beginning of one more, all dispatched and flushed; topic Old in the first file only."""
    rig = Rig(disk or MemoryDisk(), small(**settings))
    rig.store.retain_by(rules)
    number = 0
    rig.put(draft(100_000, "Old"))
    while rig.store.written_offset < files * FILE_BYTES:
        rig.put(*[draft(number + n, body_bytes=700) for n in range(10)])
        number += 10
    rig.sync_queues()
    return rig


def log_files(rig: Rig) -> list[int]:
    return [int(name.rpartition("/")[2]) for name in contents(rig) if "/commitlog/" in name]


def contents(rig: Rig) -> dict[str, bytes]:
    assert isinstance(rig.disk, MemoryDisk)
    return rig.disk.contents()


def queue_files(rig: Rig, topic: str = "TopicA") -> list[int]:
    return [int(name.rpartition("/")[2]) for name in contents(rig) if f"/consumequeue/{topic}/0/" in name]


def step(rig: Rig) -> object:
    """The next thing that retention wants, when it is due; what was run in a thread, if anything."""
    rig.wait(max(rig.store.retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
    chore = rig.store.retention.begin(rig.mono_ms, rig.wall_ms)
    if chore is not None:
        chore.run()
        rig.store.retention.end(chore, None, rig.mono_ms)
    return chore


def disk_of(rig: Rig) -> MemoryDisk:
    assert isinstance(rig.disk, MemoryDisk)
    return rig.disk


def until(rig: Rig, wanted: Callable[[Chore], bool]) -> Chore:
    """Retention goes on up to this thing to do, which is out then."""
    retention = rig.store.retention
    for _ in range(1000):
        rig.wait(max(retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
        chore = retention.begin(rig.mono_ms, rig.wall_ms)
        if chore is not None:
            if wanted(chore):
                return chore
            chore.run()
            retention.end(chore, None, rig.mono_ms)
    raise AssertionError("it never came")


def removes_in(part: str) -> Callable[[Chore], bool]:
    return lambda chore: isinstance(chore, Removal) and part in chore.paths[0]
