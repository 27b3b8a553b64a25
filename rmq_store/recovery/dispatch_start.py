"""Where opening a store begins to dispatch the log again, from what queues and checkpoint say.

Every position is checked against the log before it is believed: the checkpoint may be older than the files, or newer when a disk
lost what Java had not synced.  (Java: ConsumeQueueStore.isMappedFileMatchedRecover, CommitLog.recoverAbnormally)
"""

from __future__ import annotations

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.log import skim as log_skim
from rmq_store.log.commit_log import CommitLog
from rmq_store.queues.consume_queue import NOTHING
from rmq_store.queues.queues import Queues
from rmq_store.recovery import queue_repair
from rmq_wire.errors import BadRecord
from rmq_wire.message import StoredMessage, has_good_crc, read_size_and_magic, read_unit

UNIT_READ_BYTES = 4096
"""What is read to look at one unit; more only when it is longer."""


class DispatchStart:
    """Everything here may wait for the disk and raises OSError."""

    def __init__(self, log: CommitLog, queues: Queues, checkpoint: Checkpoint) -> None:
        self._log = log
        self._queues = queues
        self._checkpoint = checkpoint

    def after_clean_stop(self, *, are_queues_as_left: bool) -> int | None:
        """After a clean stop: the end of the newest dispatched message, or None when log and queues disagree.

        `are_queues_as_left`: none can be missing but those of deleted topics.
        """
        newest = self._queues.newest()
        covered = self._covered()
        # The newest messages may be those of a deleted topic, which must not come back.
        covered_end = 0 if covered is None else covered.physical_offset + covered.total_size
        end = NOTHING if newest is None else newest.end_physical
        if newest is None or end < self._log.min_offset:
            return max(self._log.min_offset, covered_end) if are_queues_as_left else self._log.min_offset
        physical, size, _ = queue_repair.unit_at(newest, newest.max_offset - 1)
        unit = self.unit_at(physical)
        if unit is None or unit.total_size != size:
            return None
        return max(end, covered_end)

    def _covered(self) -> StoredMessage | None:
        """The message that the checkpoint says was dispatched, with all before it, if it is there."""
        covered = self._checkpoint.logics_physical_offset
        unit = self.unit_at(covered) if covered > 0 else None
        return unit if unit is not None and unit.store_timestamp == self._checkpoint.logics_message_timestamp else None

    def unit_at(self, at: int) -> StoredMessage | None:
        """The good unit that begins here, or None."""
        segments = self._log.segments
        start = segments.start_of(at)
        if start is None:
            return None
        file = segments.file(start)
        data = file.read_at(at - start, UNIT_READ_BYTES)
        try:
            size, _ = read_size_and_magic(data, 0)
            if len(data) < size <= segments.file_bytes:
                data = file.read_at(at - start, size)
            unit = read_unit(data)
        except BadRecord:
            return None
        return unit if unit.physical_offset == at and has_good_crc(unit) else None

    def after_unclean_stop(self) -> int:
        """The message that the checkpoint names, if the queues have all before it; else the start of a file."""
        if all(queue.max_offset == 0 for queue in self._queues):
            return self._log.min_offset
        covered = self._covered()
        if covered is not None and self._has_all_before(covered.physical_offset):
            return covered.physical_offset
        return self._start_file()

    def _has_all_before(self, position: int) -> bool:
        """Whether the queues end, below this unit's position, where the units before it in its file say."""
        start = self._log.segments.start_of(position)
        lasts = None if start is None else log_skim.last_of_queues(self._log.segments, start, position)
        if lasts is None:
            return False
        for (topic, queue_id), physical in lasts.items():
            queues = self._queues.by_topic.get(topic.decode("utf-8", "replace"))
            if queues is None:
                continue  # deleted
            queue = queues.get(queue_id)
            if queue is None or not queue.segments.starts:
                return False
            behind = queue_repair.first_at_or_after(queue, position)
            try:
                if not behind or queue_repair.unit_at(queue, behind - 1)[0] != physical:
                    return False
            except FileNotFoundError:
                return False
        return True

    def _start_file(self) -> int:
        """Start of the newest file whose first unit the checkpoint covers, else of the first file."""
        covered = self._checkpoint.logics_physical_offset
        covered_ms = self._checkpoint.logics_message_timestamp
        for start in reversed(self._log.segments.starts):
            unit = self.unit_at(start)
            if unit is None or not unit.store_timestamp:
                continue
            if (start <= covered) if covered else (unit.store_timestamp <= covered_ms):
                return start
        return self._log.min_offset
