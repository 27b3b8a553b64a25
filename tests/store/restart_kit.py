"""A store of several files of each kind, to be opened again."""

from __future__ import annotations

from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import Rig, draft, small

FILE = small().mapped_file_size_commit_log


def filled(count: int = 300, **changes: object) -> tuple[MemoryDisk, Rig]:
    """Three log files, four queues, a handful of index files."""
    disk = MemoryDisk()
    rig = Rig(disk, small(**changes))
    for number in range(count):
        rig.put(draft(number, queue_id=number % 4, body_bytes=40 + number % 90))
        rig.wall_ms += 7
    return disk, rig


def reopened(rig: Rig, disk: MemoryDisk) -> Rig:
    """Another process, on what is left of its disk."""
    return Rig(disk, rig.settings, rig.wall_ms)
