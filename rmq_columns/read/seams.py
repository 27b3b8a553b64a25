"""Where a log file may be cut: places at which a unit begins, found without walking the file.

A queue unit names such a place and a body cannot forge one; without queues the first magic word behind a nominal boundary
counts whose unit names its own place and has sound lengths, and so do the units that follow it.  Neither is proof (a body may
hold whole units), so whoever reads a split checks that it ends exactly where the next one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rmq_columns.decode.dtypes import QUEUE_UNIT, records
from rmq_columns.decode.scan import FIXED_SIZE_MAX, Seeker
from rmq_columns.files.filesystem import File, Tree
from rmq_columns.read.stores import Queue
from rmq_wire.layout.message import BORN_V6, FIXED, HEAD_FLAT, MAGIC_V1, MAGIC_V2, STORE_V6

_HEAD: Final = HEAD_FLAT
_MAGIC: Final = _HEAD.field("magic")
_SYS_FLAG: Final = _HEAD.field("sys_flag")

CHAINED_UNITS: Final = 3
"""Units behind a candidate that must be sound, too, where there are so many."""
PROBE_BYTES: Final = 256 << 10
"""Read at once in search of a magic word; 200 messages of 1 KiB."""
SEARCH_BYTES_MAX: Final = 16 << 20
"""A cut is given up when no unit begins so near: some messages are large, and the end of the newest file is all zeros."""


def boundaries(start: int, end: int, split_bytes: int) -> list[int]:
    """Nominal places of cuts between two bytes: parts of equal size, none above split_bytes."""
    parts = -(-(end - start) // split_bytes)
    return [start + (end - start) * part // parts for part in range(1, parts)] if parts > 1 else []


def first_unit(file: File, first_offset: int, at: int, end: int) -> int | None:
    """The first byte from `at` on, below `end`, where a unit seems to begin; None if there is none nearby.

    first_offset: physical offset that the units themselves give to the file's first byte.
    """
    seeker = Seeker(file, first_offset, file.size(), PROBE_BYTES)
    for found in seeker.places(at, min(end, at + SEARCH_BYTES_MAX)):
        place = found
        for _ in range(CHAINED_UNITS):
            following = seeker.next_place(place)
            if following < 0:
                break
            if seeker.is_end(following):
                return found
            place = following
        else:
            return found
    return None


class QueuePlaces:
    """Physical offsets of one queue's units, which ascend; read one by one."""

    def __init__(self, tree: Tree, queue: Queue) -> None:
        self._tree, self._files = tree, queue.files

    def first_behind(self, physical_offset: int) -> int | None:
        """The smallest one that is not below this."""
        for file in self._files:
            count = file.size // QUEUE_UNIT.itemsize
            with self._tree.open(file.path) as opened:
                low = count_below(opened, count, physical_offset)
                if low < count and (held := offset_in(opened, low)) >= physical_offset:
                    return held
        return None

    def last_until(self, physical_offset: int) -> int | None:
        """The largest one that is not above this."""
        found = None
        for file in self._files:
            count = file.size // QUEUE_UNIT.itemsize
            with self._tree.open(file.path) as opened:
                below = count_below(opened, count, physical_offset + 1)
                found = offset_in(opened, below - 1) if below else found
            if below < count:
                break
        return found


def count_below(file: File, count: int, physical_offset: int) -> int:
    """Units of a queue's file, of `count`, whose offset is below this; those never written are none."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if 0 <= offset_in(file, middle) < physical_offset:
            low = middle + 1
        else:
            high = middle
    return low


def offset_in(file: File, number: int) -> int:
    """The offset in one queue unit; -1 in one that was never written."""
    raw = file.read(number * QUEUE_UNIT.itemsize, QUEUE_UNIT.itemsize)
    if len(raw) < QUEUE_UNIT.itemsize:
        return -1
    [unit] = records(raw, QUEUE_UNIT)
    return int(unit["physical_offset"]) if unit["size"] > 0 else -1


def largest(queues: Sequence[Queue]) -> Queue | None:
    """The queue with the most units: its places lie closest together."""
    plain = [queue for queue in queues if not queue.is_batch and queue.files]
    return max(plain, key=lambda queue: sum(file.size for file in queue.files), default=None)


def displacement(file: File, first_offset: int) -> int:
    """By how much the file's own units say that it is elsewhere than its name says; 0 in a sound store."""
    return Seeker(file, first_offset, file.size(), PROBE_BYTES).displacement(0)


def unit_says(file: File, first_offset: int, at: int) -> bool:
    """Whether a whole unit begins here that names this place as its own."""
    return unit_end(file, first_offset, at) > 0


def unit_end(file: File, first_offset: int, at: int) -> int:
    """Byte behind the whole unit that begins here and names this place as its own; -1 when there is none."""
    return Seeker(file, first_offset, file.size(), PROBE_BYTES).next_place(at)


def stands_at(file: File, at: int, *, queue_id: int, queue_offset: int, size: int, physical_offset: int) -> bool:
    """Whether the unit at this byte says all of this of itself."""
    head = file.read(at, _HEAD.size)
    if len(head) < _HEAD.size:
        return False
    fields = dict(zip(_HEAD.names, _HEAD.packed.unpack(head), strict=True))
    said = (fields["queue_id"], fields["queue_offset"], fields["total_size"], fields["physical_offset"])
    return fields["magic"] in (MAGIC_V1, MAGIC_V2) and said == (queue_id, queue_offset, size, physical_offset)


def first_time(file: File, at: int = 0) -> int | None:
    """ms, of the unit at the file's beginning or at this byte of it; None when there is none."""
    head = file.read(at, FIXED_SIZE_MAX)
    if len(head) < _HEAD.size:
        return None
    magic, flags = _MAGIC.unpack_from(head, _HEAD.at["magic"])[0], _SYS_FLAG.unpack_from(head, _HEAD.at["sys_flag"])[0]
    fixed = FIXED[flags & (BORN_V6 | STORE_V6)]
    if magic not in (MAGIC_V1, MAGIC_V2) or len(head) < fixed.size:
        return None
    return int(fixed.field("store_timestamp").unpack_from(head, fixed.at["store_timestamp"])[0])
