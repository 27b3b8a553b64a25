"""Single queues made by hand, for tests of what an opening does to them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.layouts import BATCH_UNIT, QUEUE_UNIT
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import NOTHING, PRE_BLANK, ConsumeQueue
from rmq_store.queues.key_heads import KeyHeads
from rmq_store.recovery import queue_repair
from tests.support.memory_disk import MemoryDisk

PAGE = queue_repair.PAGE_UNITS
SIZE = 90
"""Bytes of a message; the first begins at 0, each next one a hundred further on."""
CODE = 77
FILLER = PRE_BLANK


def physical(number: int) -> int:
    return number * 100


def unit(number: int, code: int = CODE) -> bytes:
    return QUEUE_UNIT.pack(physical(number), SIZE, code)


def batch(number: int, count: int = 3) -> bytes:
    """Holds as many offsets as all before it."""
    return BATCH_UNIT.pack(physical(number), SIZE, CODE, 0, number * 3, count, -1, 0)


UNIT = {ConsumeQueue: unit, BatchConsumeQueue: batch}
KINDS = pytest.mark.parametrize("kind", [ConsumeQueue, BatchConsumeQueue], ids=["plain", "batch"])


def segments_of(disk: MemoryDisk, directory: str, file_bytes: int, data: bytes, first: int = 0) -> Segments:
    """Files with these bytes and zeros behind them, from the file number `first` on."""
    segments = Segments(OpenFiles(disk, 8), directory, file_bytes, {})
    for at in range(0, len(data), file_bytes):
        segments.create(first * file_bytes + at).write_at(0, data[at : at + file_bytes])
    return segments


def queue_of(
    units: Sequence[bytes],
    per_file: int,
    *,
    first: int = 0,
    kind: type[ConsumeQueue] = ConsumeQueue,
    disk: MemoryDisk | None = None,
) -> ConsumeQueue:
    """Its files as they lie there; nobody has looked at them yet."""
    segments = segments_of(disk or MemoryDisk(), "/q", per_file * kind.unit_bytes, b"".join(units), first)
    queue = kind("T", 0, segments, KeyHeads("T"))
    queue.max_offset = queue.next_offset = queue.end_physical = 4711
    return queue


def found(queue: ConsumeQueue) -> tuple[int, int]:
    """Units, counted from the first there ever was, and where the last one's message ends."""
    assert queue.next_offset == queue.max_offset
    if isinstance(queue, BatchConsumeQueue):
        assert queue.max_offset == queue.end_place * 3
        return queue.end_place, queue.end_physical
    return queue.max_offset, queue.end_physical


def ending(count: int) -> tuple[int, int]:
    """What is found of so many units."""
    return count, physical(count - 1) + SIZE if count else NOTHING


def bytes_of(queue: ConsumeQueue) -> bytes:
    segments = queue.segments
    return b"".join(segments.file(start).read_at(0, segments.file_bytes) for start in segments.starts)
