"""Finding a queue's entry by the place of its message: entries are in the order of the log.

Entries that lead nowhere (Java's fillers) stand where the log has no message for an offset: before a queue's first message, and
in repaired queues also between others.  One of them says as much of its place as the next entry that leads somewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from rmq_store.layouts import QUEUE_UNIT
from rmq_store.queues.consume_queue import PRE_BLANK, UNIT_BYTES, ConsumeQueue

BLANKS_READ: Final = 4_096
Read: TypeAlias = Callable[[int, int], bytes]
"""Raw entries from an offset on, so many or as many as its file has, one at least."""


def first_kept(queue: ConsumeQueue, position: int) -> int:
    """The first visible offset whose message begins at this log position or later; the queue's maximum when there is none.

    Looks at both ends first: most queues of an old log have nothing left, or lost nothing. Raises Cold, OSError.
    """
    low, high = queue.min_offset, queue.max_offset
    if low >= high or queue.unit(high - 1)[0] < position:
        return high
    if queue.unit(low)[0] >= position:
        return low
    if not queue.is_batch:
        return first_from(low, high, position, queue.read)
    while low < high:
        middle = (low + high) // 2
        if queue.unit(middle)[0] >= position:
            high = middle
        else:
            low = middle + 1
    return low


def first_from(low: int, high: int, position: int, read: Read) -> int:
    """The first offset from `low` on, before `high`, whose message begins there or later; `high` when none does."""
    end = high
    while low < high:
        middle = (low + high) // 2
        found, physical = _next_message(middle, high, read)
        if found < high and physical < position:
            low = found + 1
        else:
            high = middle
    return _next_message(low, end, read)[0]


def _next_message(offset: int, end: int, read: Read) -> tuple[int, int]:
    """The first entry from here on that leads somewhere, and where; (end, -1) when all are fillers."""
    count = 1
    while offset < end:
        data = read(offset, min(count, end - offset))
        if not data:
            break
        if data != PRE_BLANK * (len(data) // UNIT_BYTES):
            for physical, size, tags_code in QUEUE_UNIT.iter_unpack(data):
                if QUEUE_UNIT.pack(physical, size, tags_code) != PRE_BLANK:
                    return offset, int(physical)
                offset += 1
        offset += len(data) // UNIT_BYTES
        count = BLANKS_READ
    return end, -1
