"""What a store does by the clock, apart from syncs: samples, checkpoint, gathered index entries, retries, the disk's limit.

Times are handed in; each kind of work has its own due time, and nothing here takes longer than a portion of it.
(Java: the scheduled tasks of DefaultMessageStore, StoreStatsService)
"""

from __future__ import annotations

from typing import Final

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.disk.disk import Lock
from rmq_store.disk_space import DiskSpace
from rmq_store.errors import Closed, ForeignFile
from rmq_store.index.index import Index
from rmq_store.log.reader import LogReader
from rmq_store.log.writability import Writability
from rmq_store.statistics import StoreStatistics

SECOND_MS: Final = 1000
DISK_CHECK_MS: Final = 10_000
"""Java: the period of isSpaceFull."""
RESIDENCY_MS: Final = 10_000
"""How long a log block that was in memory is taken to be still there."""
LOCK_LOST: Final = "the file `lock` is another one: it was removed, and another broker may be writing to this store; stop one"
WRITE_BACK_MS: Final = 5
WRITE_BACK_PAGES: Final = 64
"""Index slots go back to a full file in portions of 256 KiB."""


class ScheduledTasks:
    """`tick` when `next_due` has come."""

    def __init__(
        self,
        lock: Lock,
        space: DiskSpace,
        writability: Writability,
        checkpoint: Checkpoint,
        index: Index | None,
        reader: LogReader,
        statistics: StoreStatistics,
    ) -> None:
        self._lock = lock
        self._space = space
        self._writability = writability
        self._checkpoint = checkpoint
        self._index = index
        self._reader = reader
        self._statistics = statistics
        self._second_due_ms = 0
        self._disk_due_ms = 0
        self._residency_due_ms = 0

    def tick(self, mono_ms: int, wall_ms: int) -> None:
        """Do what is due. Raises nothing: an error of the disk refuses appends."""
        index, guarded = self._index, self._writability.guarded
        if mono_ms >= self._second_due_ms:
            self._second_due_ms = mono_ms + SECOND_MS
            self._statistics.sample(wall_ms)
            self._writability.retry(mono_ms)
            guarded(self._look_at_lock)
            guarded(self._checkpoint.write)
            if index is not None:
                guarded(index.write_gathered)
                guarded(index.write_headers)
        if index is not None and index.retiring:
            guarded(lambda: index.retire(WRITE_BACK_PAGES))
        if mono_ms >= self._residency_due_ms:
            self._residency_due_ms = mono_ms + RESIDENCY_MS
            self._reader.forget_residency()
        if mono_ms >= self._disk_due_ms:
            self._disk_due_ms = mono_ms + DISK_CHECK_MS
            self._space.look()

    def _look_at_lock(self) -> None:
        try:
            is_held = self._lock.is_held()
        except ForeignFile:  # a directory, link or pipe is as good as another's file
            is_held = False
        if not is_held:
            self._writability.refuse(Closed.FENCED, LOCK_LOST)

    def next_due(self, mono_ms: int) -> int:
        """When `tick` has something to do, mono ms."""
        due = min(self._second_due_ms, self._disk_due_ms, self._residency_due_ms)
        if self._index is not None and self._index.retiring and self._writability.why is not Closed.FENCED:
            due = min(due, mono_ms + WRITE_BACK_MS)
        return due
