"""Reading a batch queue for a consumer: whole units go out, also when only their last message was asked for.

Limits, statuses and next offsets are those of `DefaultMessageStore.getMessage`: a unit counts as many messages as it holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmq_store.log.commit_log import CommitLog
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.results import GetStatus


class Limits(NamedTuple):
    """What one pull may take."""

    messages_max: int
    bytes_max: int
    memory: tuple[int, int]
    """(bytes, messages) of what is in memory"""
    disk: tuple[int, int]
    memory_bytes: int
    """how far behind the log's end that reaches"""
    scan_units: int

    def is_reached(self, count: int, size: int, unit_count: int, unit_bytes: int, behind: int) -> bool:
        """Whether one more unit is too much (Java: isTheBatchFull); the first always fits."""
        if size >= self.bytes_max or count + unit_count > self.messages_max or size + unit_bytes > self.bytes_max:
            return True
        bytes_max, count_max = self.memory if behind <= self.memory_bytes else self.disk
        return size + unit_bytes > bytes_max or count > count_max - 1


class Chosen(NamedTuple):
    """Which message units a pull gets."""

    status: GetStatus
    next_offset: int
    units: list[tuple[int, int]]
    """(position, size)"""
    message_count: int
    """messages in them"""
    size: int
    newest: int
    """position of the last unit looked at"""


def choose(
    queue: BatchConsumeQueue,
    log: CommitLog,
    offset: int,
    limits: Limits,
    accepts: Callable[[int], bool],
    matches: Callable[[int, int], bool],
) -> Chosen:
    """Units from the one that holds `offset` on. `accepts` sees a tags code, `matches` position and size. Raises Cold."""
    written = log.written_offset
    status = GetStatus.NO_MATCHED_MESSAGE
    found: list[tuple[int, int]] = []
    count = size = newest = 0
    next_offset = offset
    file_bytes = log.segments.file_bytes
    for unit in queue.units_from(offset, limits.scan_units):
        at = unit.physical_offset
        if not unit.is_valid or at + unit.size > written or at % file_bytes + unit.size > file_bytes:
            next_offset = max(next_offset + 1, unit.end_offset)
            if not found:
                status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        if found and limits.is_reached(count, size, unit.message_count, unit.size, written - at):
            break
        if unit.base_offset - offset >= limits.scan_units:
            break
        newest = at
        next_offset = unit.end_offset
        if not accepts(unit.tags_code):
            continue
        if at < log.min_offset:
            if not found:
                status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        if not matches(at, unit.size):
            continue
        found.append((at, unit.size))
        count += unit.message_count
        size += unit.size
        status = GetStatus.FOUND
    return Chosen(status, next_offset, found, count, size, newest)
