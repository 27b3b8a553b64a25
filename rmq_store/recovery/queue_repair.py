"""What opening a store does to a single consume queue: find its end, cut it, find its first valid message.

After a clean stop a queue is units and then zeros, so its end is found by halving.  After an unclean one the last files are read
unit by unit and cut at the first that cannot be.  What is cut is also overwritten with zeros, so that it does not come back at
the next start.  A *place* counts units: in an ordinary queue it is the offset, in a batch queue it is not.
(Java: ConsumeQueue.recover, truncateDirtyLogicFiles, correctMinOffset, and the same of BatchConsumeQueue)
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from rmq_store.disk.disk import File, write_all
from rmq_store.disk.segments import Segments
from rmq_store.layouts import BATCH_UNIT, EXT_UNIT, QUEUE_UNIT
from rmq_store.queues.batch_queue import BatchConsumeQueue, Unit
from rmq_store.queues.consume_queue import NOTHING, PRE_BLANK, ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.queues.search import first_from
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_ADDRESS_LAST

SCANNED_FILES: Final = 3
"""Java looks at the last three, too."""
SCAN_UNITS: Final = 4096
PAGE_UNITS: Final = 88
"""Read at once where the end is looked for: with those of a batch queue (46 bytes) a page of 4 KiB."""
ZEROS_BYTES: Final = 1 << 20
BLANK_SIZE: Final = QUEUE_UNIT.unpack(PRE_BLANK)[1]


def find_end(queue: ConsumeQueue) -> None:
    """After a clean stop: set the offsets from the files; an empty last file is removed. Raises OSError."""
    segments = queue.segments
    unit_bytes = queue.unit_bytes
    units_per_file = segments.file_bytes // unit_bytes
    while segments.starts:
        file = segments.file(segments.starts[-1])
        count = _units_in(queue, file, units_per_file)
        if count:
            _set_end(queue, segments.starts[-1] // unit_bytes + count)
            return
        segments.remove(segments.starts[-1])
    _set_end(queue, 0)


def _units_in(queue: ConsumeQueue, file: File, places: int) -> int:
    """How many of the file's places have a unit; those without one come after them.

    Most queues of a broker with many have few messages: one read of the first page shows it, where halving takes twenty.
    """
    size = queue.unit_bytes
    page = file.read_at(0, min(PAGE_UNITS, places) * size)
    seen = len(page) // size
    if seen and not _is_unit(queue, page[(seen - 1) * size : seen * size]):
        return bisect_left(range(seen), True, key=lambda at: not _is_unit(queue, page[at * size : (at + 1) * size]))
    behind = range(seen, places)
    return seen + bisect_left(behind, True, key=lambda at: not _is_unit(queue, file.read_at(at * size, size)))


def scan_end(queue: ConsumeQueue) -> None:
    """After an unclean stop: the end is where units stop making sense. Raises OSError."""
    segments = queue.segments
    if not segments.starts:
        _set_end(queue, 0)
        return
    unbroken = next(
        (n for n, start in enumerate(segments.starts) if start != segments.starts[0] + n * segments.file_bytes),
        len(segments.starts),
    )
    scanned = segments.starts[max(unbroken - SCANNED_FILES, 0) : unbroken]
    count_units = _count_batch_units if queue.is_batch else _count_units
    end = scanned[0]
    last = (NOTHING, NOTHING)
    for start in scanned:
        count, last = count_units(segments.file(start), segments.file_bytes, last)
        end = start + count * queue.unit_bytes
        if end < start + segments.file_bytes:
            break
    _set_end(queue, end // queue.unit_bytes)
    cut_to(queue, end // queue.unit_bytes)


def _is_unit(queue: ConsumeQueue, data: bytes) -> bool:
    if queue.is_batch:
        return Unit(*BATCH_UNIT.unpack(data)).is_valid
    physical, size, _ = QUEUE_UNIT.unpack(data)
    return bool(physical >= 0 and size > 0)


def _count_units(file: File | _Bytes, file_bytes: int, last: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """How many units of a file make sense behind the last of the file before; and the last of them (position, tags code)."""
    count = 0
    last_physical, last_code = last
    unit_bytes = QUEUE_UNIT.size
    for at in range(0, file_bytes, SCAN_UNITS * unit_bytes):
        data = file.read_at(at, min(SCAN_UNITS * unit_bytes, file_bytes - at))
        for physical, size, code in QUEUE_UNIT.iter_unpack(data):
            is_bridged = physical == last_physical and not last_code
            if size <= 0 or (physical <= last_physical and size != BLANK_SIZE and not is_bridged):
                return count, (last_physical, last_code)
            if size != BLANK_SIZE:
                last_physical, last_code = physical, code
            count += 1
    return count, (last_physical, last_code)


def end_position(queue: ConsumeQueue) -> int:
    """Byte behind the last unit, counted from where the first file ever began."""
    return _end_place(queue) * queue.unit_bytes


def first_senseless(queue: ConsumeQueue, units_max: int) -> int | None:
    """Where, among so many of the newest units, one cannot be; None when all can. Raises OSError."""
    segments, unit_bytes = queue.segments, queue.unit_bytes
    end = end_position(queue)
    begin = end - units_max * unit_bytes
    count_units = _count_batch_units if queue.is_batch else _count_units
    last = (NOTHING, NOTHING)
    for start in segments.starts:
        low, high = max(begin, start), min(end, start + segments.file_bytes)
        if low < high:
            data = segments.file(start).read_at(low - start, high - low)
            count, last = count_units(_Bytes(data), len(data), last)
            if count * unit_bytes != len(data):
                return low + count * unit_bytes
    return None


class _Bytes:
    """A piece of a file, already read."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, at: int, size: int) -> bytes:
        return self._data[at : at + size]


def _count_batch_units(file: File | _Bytes, file_bytes: int, last: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    """The same for a batch queue: each unit begins where the one before ends (position, next offset)."""
    count = 0
    last_physical, next_offset = last
    unit_bytes = BATCH_UNIT.size
    for at in range(0, file_bytes, SCAN_UNITS * unit_bytes):
        data = file.read_at(at, min(SCAN_UNITS * unit_bytes, file_bytes - at))
        for fields in BATCH_UNIT.iter_unpack(data):
            unit = Unit(*fields)
            if not unit.is_valid or unit.physical_offset <= last_physical or next_offset not in (NOTHING, unit.base_offset):
                return count, (last_physical, next_offset)
            last_physical, next_offset = unit.physical_offset, unit.end_offset
            count += 1
    return count, (last_physical, next_offset)


def place_of(queue: ConsumeQueue, offset: int) -> int:
    """Where the unit with this offset lies, among all that there ever were; waits for the disk. Raises OSError."""
    if not isinstance(queue, BatchConsumeQueue):
        return offset
    low, high = _first_place(queue), queue.end_place
    while low < high:
        middle = (low + high) // 2
        unit = _batch_unit(queue, middle)
        if unit.end_offset > offset:
            high = middle
        else:
            low = middle + 1
    return low


def unit_at(queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
    """(physical offset, size, tags code); waits for the disk, so only while opening. Raises OSError."""
    return _unit_in(queue, place_of(queue, offset))


def first_of_file(queue: ConsumeQueue, start: int) -> int:
    """Physical offset in the first unit of the file that begins at this byte. Raises OSError."""
    return _unit_in(queue, start // queue.unit_bytes)[0]


def _unit_in(queue: ConsumeQueue, place: int) -> tuple[int, int, int]:
    if isinstance(queue, BatchConsumeQueue):
        return _batch_unit(queue, place)[:3]
    physical, size, tags_code = QUEUE_UNIT.unpack(_raw(queue, place))
    return physical, size, tags_code


def _batch_unit(queue: ConsumeQueue, place: int) -> Unit:
    return Unit(*BATCH_UNIT.unpack(_raw(queue, place)))


def _raw(queue: ConsumeQueue, place: int, count: int = 1) -> bytes:
    """So many units, or as many as the file of the first has."""
    position = place * queue.unit_bytes
    within = position % queue.segments.file_bytes
    size = min(count * queue.unit_bytes, queue.segments.file_bytes - within)
    return queue.segments.file(position - within).read_at(within, size)


def _first_place(queue: ConsumeQueue) -> int:
    return queue.segments.starts[0] // queue.unit_bytes if queue.segments.starts else _end_place(queue)


def _end_place(queue: ConsumeQueue) -> int:
    return queue.end_place if isinstance(queue, BatchConsumeQueue) else queue.max_offset


def first_at_or_after(queue: ConsumeQueue, physical_offset: int) -> int:
    """Place of the first unit whose message begins there or later; the end when none does. Blanks are passed over."""
    low, high = _first_place(queue), _end_place(queue)
    if not queue.is_batch:
        return first_from(low, high, physical_offset, lambda place, count: _raw(queue, place, count))
    while low < high:
        middle = (low + high) // 2
        if _unit_in(queue, middle)[0] >= physical_offset:
            high = middle
        else:
            low = middle + 1
    return low


def correct_min(queue: ConsumeQueue, log_min: int) -> None:
    """Set min_offset to the first message that the log still has; max_offset when it has none."""
    queue.min_offset = _offset_in(queue, first_at_or_after(queue, log_min))


def _offset_in(queue: ConsumeQueue, place: int) -> int:
    """Offset of the first message of the unit in a place, or of the next one to come."""
    if not isinstance(queue, BatchConsumeQueue):
        return place
    return queue.max_offset if place >= queue.end_place else _batch_unit(queue, place).base_offset


def bridge(queue: ConsumeQueue, offset: int, physical: int, size: int, dirty_files: dict[str, int]) -> None:
    """Units for offsets up to this one that no message of the log has: each leads to the next message, without tags.

    So searches by position or time go on as ever, and no reader stops: Java's, at a unit that leads nowhere, passes over what
    follows in the same log file. Who asks for all tags may get that message more than once. Raises OSError.
    """
    end_physical = queue.end_physical
    while queue.max_offset < offset:
        queue.pending = [physical, size, 0] * min(offset - queue.max_offset, SCAN_UNITS)
        ConsumeQueue.write_pending(queue, dirty_files)
        queue.pending = []
    queue.end_physical = end_physical  # the message itself is still to come


def cut_to(queue: ConsumeQueue, place: int) -> None:
    """Forget the units from this place on, on disk too; a file that would be left without a unit is removed. Raises OSError."""
    segments = queue.segments
    position = place * queue.unit_bytes
    offset = _offset_in(queue, place)
    for start in reversed(segments.starts.copy()):
        if start >= position:
            segments.remove(start)
    if segments.starts and position < segments.end:
        start = segments.starts[-1]
        zero_from(segments.file(start), position - start)
        if _only_blanks(queue, place):
            segments.remove(start)
    _set_end(queue, place, offset)


def _only_blanks(queue: ConsumeQueue, place: int) -> bool:
    """A queue's only file, which has a unit before this place: messages never come before blanks there."""
    return not queue.is_batch and len(queue.segments.starts) == 1 and _unit_in(queue, place - 1)[1] == BLANK_SIZE


def zero_from(file: File, within: int) -> int:
    """Put zeros where the file has anything else from `within` on; how many bytes were not known to be zero. Raises OSError."""
    total = 0
    for start, end in file.data_ranges(within):
        for at in range(start, end, ZEROS_BYTES):
            size = min(ZEROS_BYTES, end - at)
            data = file.read_at(at, size)
            if data.count(0) != size:
                write_all(file, at, bytes(size))
                total += size
    return total


def write_again(file: File) -> None:
    """Write what the file shows where it shows anything, so that the next sync brings all of it to the medium. Raises OSError."""
    for start, end in file.data_ranges(0):
        for at in range(start, end, ZEROS_BYTES):
            write_all(file, at, file.read_at(at, min(ZEROS_BYTES, end - at)))


def _set_end(queue: ConsumeQueue, place: int, offset: int = 0) -> None:
    """Units end before this place. `offset`: the next message's, if no unit is left to state it."""
    queue.end_physical = NOTHING
    if isinstance(queue, BatchConsumeQueue):
        _set_batch_end(queue, place, offset)
        return
    queue.max_offset = queue.next_offset = place
    if queue.segments.starts and place > queue.first_offset():
        physical, size, _ = _unit_in(queue, place - 1)
        if size != BLANK_SIZE:
            queue.end_physical = physical + size
    if isinstance(queue, ExtendedConsumeQueue):
        _set_ext_end(queue)


def _set_ext_end(queue: ExtendedConsumeQueue) -> None:
    """Extensions end behind the last that an entry leads to; what follows is cleared (Java: truncateByMaxAddress)."""
    ext = queue.ext
    end = 0
    last = _last_address(queue)
    if last is not None:
        end = last - EXT_ADDRESS_FIRST + _ext_bytes(ext, last - EXT_ADDRESS_FIRST)
    for start in reversed(ext.starts.copy()):
        if start >= end:
            ext.remove(start)
    if ext.starts and end < ext.end:
        zero_from(ext.file(ext.starts[-1]), end - ext.starts[-1])
    queue.ext_end = end


def _last_address(queue: ConsumeQueue) -> int | None:
    """The newest entry that leads to an extension does so by this; None when none does. Raises OSError."""
    unit_bytes = queue.unit_bytes
    first = queue.first_offset() * unit_bytes
    position = queue.max_offset * unit_bytes if queue.segments.starts else first
    while position > first:
        start = (position - 1) - (position - 1) % queue.segments.file_bytes
        from_ = max(start, position - SCAN_UNITS * unit_bytes)
        data = queue.segments.file(start).read_at(from_ - start, position - from_)
        for _, _, tags_code in reversed(list(QUEUE_UNIT.iter_unpack(data))):
            if tags_code <= EXT_ADDRESS_LAST:
                return int(tags_code)
        position = from_
    return None


def _ext_bytes(ext: Segments, position: int) -> int:
    """Of the extension that begins here; those of a reader of SQL filters have a bit map. The least when it is gone."""
    start = ext.start_of(position)
    data = b"" if start is None else ext.file(start).read_at(position - start, EXT_UNIT.size)
    size = EXT_UNIT.unpack(data)[0] if len(data) == EXT_UNIT.size else 0
    return max(int(size), EXT_UNIT.size)


def _set_batch_end(queue: BatchConsumeQueue, place: int, offset: int) -> None:
    starts = queue.segments.starts
    queue.end_place = place if starts else 0
    queue.bases = {start: _batch_unit(queue, start // queue.unit_bytes).base_offset for start in starts}
    if starts and place > _first_place(queue):
        last = _batch_unit(queue, place - 1)
        offset = last.end_offset
        queue.end_physical = last.physical_offset + last.size
    queue.max_offset = queue.next_offset = offset
