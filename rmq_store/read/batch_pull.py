"""Reading a batch queue for a consumer: whole units go out, also when only their last message was asked for.

Limits, statuses and next offsets are those of `DefaultMessageStore.getMessage`: a unit counts as many messages as it holds.
"""

from __future__ import annotations

from typing import NamedTuple

from rmq_store.log.commit_log import CommitLog
from rmq_store.log.reader import LogReader
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.read.asked import Asked, Limits
from rmq_store.results import GetStatus


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


def choose(queue: BatchConsumeQueue, log: CommitLog, reader: LogReader, limits: Limits, asked: Asked) -> Chosen:
    """Units from the one that holds the offset asked for on. Raises Cold."""
    offset, scan_units = asked.offset, limits.scan_units(asked, queue.unit_bytes)
    written, matches, evaluated_max = log.written_offset, asked.matches, asked.evaluated_max()
    status = GetStatus.NO_MATCHED_MESSAGE
    found: list[tuple[int, int]] = []
    count = size = newest = 0
    next_offset = offset
    file_bytes = log.segments.file_bytes
    for unit in queue.units_from(offset, scan_units):
        at = unit.physical_offset
        if not unit.is_valid or at + unit.size > written or at % file_bytes + unit.size > file_bytes:
            next_offset = max(next_offset + 1, unit.end_offset)
            if not found:
                status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        if found and limits.are_reached(asked, count, size, unit.message_count, unit.size, written - at):
            break
        if unit.base_offset - offset >= scan_units or (matches is not None and matches.evaluated() >= evaluated_max):
            break
        newest = at
        next_offset = unit.end_offset
        if not asked.accepts_code(unit.tags_code):
            continue
        if at < log.min_offset:
            if not found:
                status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        if matches is not None and not matches.wants(reader.slice_of(at, unit.size)):
            continue
        found.append((at, unit.size))
        count += unit.message_count
        size += unit.size
        status = GetStatus.FOUND
    return Chosen(status, next_offset, found, count, size, newest)
