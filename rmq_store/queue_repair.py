"""What opening a store does to a single consume queue: find its end, cut it, find its first valid message.

After a clean stop a queue is units and then zeros, so its end is found by halving.  After an unclean one the last files are read
unit by unit and cut at the first that cannot be.  What is cut is also overwritten with zeros, so that it does not come back at
the next start.  (Java: ConsumeQueue.recover, truncateDirtyLogicFiles, correctMinOffset)
"""

from __future__ import annotations

from typing import Final

from rmq_store.consume_queue import NOTHING, PRE_BLANK, UNIT_BYTES, ConsumeQueue
from rmq_store.disk import File, write_all
from rmq_store.layouts import QUEUE_UNIT

SCANNED_FILES: Final = 3
"""Java looks at the last three, too."""
SCAN_UNITS: Final = 4096
ZEROS_BYTES: Final = 1 << 20
BLANK_SIZE: Final = QUEUE_UNIT.unpack(PRE_BLANK)[1]


def find_end(queue: ConsumeQueue) -> None:
    """After a clean stop: set the offsets from the files; an empty last file is removed. Raises OSError."""
    segments = queue.segments
    units_per_file = segments.file_bytes // UNIT_BYTES
    while segments.starts:
        file = segments.file(segments.starts[-1])
        low, high = 0, units_per_file
        while low < high:
            middle = (low + high) // 2
            if _is_unit(file.read_at(middle * UNIT_BYTES, UNIT_BYTES)):
                low = middle + 1
            else:
                high = middle
        if low:
            _set_end(queue, segments.starts[-1] // UNIT_BYTES + low)
            return
        segments.remove(segments.starts[-1])
    _set_end(queue, 0)


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
    end = scanned[0]
    last_physical = -1
    for start in scanned:
        count, last_physical = _count_units(segments.file(start), segments.file_bytes, last_physical)
        end = start + count * UNIT_BYTES
        if end < start + segments.file_bytes:
            break
    _set_end(queue, end // UNIT_BYTES)
    cut_to(queue, end // UNIT_BYTES)


def _is_unit(data: bytes) -> bool:
    physical, size, _ = QUEUE_UNIT.unpack(data)
    return bool(physical >= 0 and size > 0)


def _count_units(file: File, file_bytes: int, last_physical: int) -> tuple[int, int]:
    count = 0
    for at in range(0, file_bytes, SCAN_UNITS * UNIT_BYTES):
        data = file.read_at(at, min(SCAN_UNITS * UNIT_BYTES, file_bytes - at))
        for physical, size, _ in QUEUE_UNIT.iter_unpack(data):
            if size <= 0 or (physical <= last_physical and size != BLANK_SIZE):
                return count, last_physical
            if size != BLANK_SIZE:
                last_physical = physical
            count += 1
    return count, last_physical


def unit_at(queue: ConsumeQueue, offset: int) -> tuple[int, int, int]:
    """(physical offset, size, tags code); waits for the disk, so only while opening. Raises OSError."""
    position = offset * UNIT_BYTES
    within = position % queue.segments.file_bytes
    data = queue.segments.file(position - within).read_at(within, UNIT_BYTES)
    physical, size, tags_code = QUEUE_UNIT.unpack(data)
    return physical, size, tags_code


def first_at_or_after(queue: ConsumeQueue, physical_offset: int) -> int:
    """The first offset whose message begins there or later; max_offset when none does. Blanks count as before."""
    low, high = queue.first_offset() if queue.segments.starts else queue.max_offset, queue.max_offset
    while low < high:
        middle = (low + high) // 2
        physical, size, _ = unit_at(queue, middle)
        if size != BLANK_SIZE and physical >= physical_offset:
            high = middle
        else:
            low = middle + 1
    return low


def correct_min(queue: ConsumeQueue, log_min: int) -> None:
    """Set min_offset to the first message that the log still has; max_offset when it has none."""
    queue.min_offset = first_at_or_after(queue, log_min)


def cut_to(queue: ConsumeQueue, offset: int) -> None:
    """Forget the units from `offset` on, on disk too; a file that would be left without a unit is removed. Raises OSError."""
    segments = queue.segments
    position = offset * UNIT_BYTES
    for start in reversed(segments.starts.copy()):
        if start >= position:
            segments.remove(start)
    if segments.starts and position < segments.end:
        start = segments.starts[-1]
        zero_from(segments.file(start), position - start)
        if _only_blanks(queue, start, position):
            segments.remove(start)
    _set_end(queue, offset)


def _only_blanks(queue: ConsumeQueue, start: int, position: int) -> bool:
    if len(queue.segments.starts) > 1 or position - start < UNIT_BYTES:
        return position == start
    return bool(unit_at(queue, position // UNIT_BYTES - 1)[1] == BLANK_SIZE)


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


def _set_end(queue: ConsumeQueue, offset: int) -> None:
    queue.max_offset = queue.next_offset = offset
    queue.end_physical = NOTHING
    if queue.segments.starts and offset > queue.first_offset():
        physical, size, _ = unit_at(queue, offset - 1)
        if size != BLANK_SIZE:
            queue.end_physical = physical + size
