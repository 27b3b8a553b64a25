"""What entered the wheel, in the order in which it did: units of 52 bytes in files of one size.

Units of one slot are chained backwards.  The log is only appended to; a file's rest that is too short for a unit and a blank gets
a blank.  What is read is not trusted: a unit is whole and points back, or there is none.  (Java: `TimerLog`)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rmq_store.disk.disk import Disk, File, write_all
from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.errors import Cold
from rmq_store.layouts import TIMER_BLANK, TIMER_BLANK_MAGIC, TIMER_UNIT
from rmq_wire.implied.timers import MAGIC_MAX, PLAIN

UNIT_BYTES: Final = TIMER_UNIT.size
FILES_OPEN: Final = 8
BLOCK_UNITS: Final = 78
"""Units that one read brings: a page."""
BLOCK_BYTES: Final = BLOCK_UNITS * UNIT_BYTES
SCAN_UNITS: Final = 16_384
"""The same, where the log is read from one end to the other."""
NO_UNIT: Final = -1
_as_tuple: Final = tuple.__new__
"""`Unit._make` without its frame."""


class Unit(NamedTuple):
    """One unit, field by field as it is laid out."""

    size: int
    previous: int
    magic: int
    write_ms: int
    delay_ms: int
    physical_offset: int
    message_size: int
    topic_hash: int
    reserved: int

    @property
    def slot_ms(self) -> int:
        """The time of its slot."""
        return self.write_ms + self.delay_ms


class TimerLog:
    """The log of one store.  `end`: where the next unit goes, or a blank before it."""

    def __init__(self, disk: Disk, root: str, file_bytes: int) -> None:
        self.segments = Segments(OpenFiles(disk, FILES_OPEN), f"{root}/timerlog", file_bytes, {})
        self.file_bytes = file_bytes
        self.end = 0
        self._block = b""
        self._block_at = 0

    def load(self) -> None:
        """Read the directory; `end` is still to be found.  Raises ForeignFile, OSError."""
        for path in self.segments.load(clean=False):
            self.segments.files.disk.unlink(path)

    @property
    def begin(self) -> int:
        """Position of the first byte."""
        return self.segments.starts[0] if self.segments.starts else 0

    @property
    def last_unit_at(self) -> int:
        """Where the last unit of a full file begins in it (`getOffsetForLastUnit`)."""
        return (self.file_bytes - TIMER_BLANK.size) // UNIT_BYTES * UNIT_BYTES - UNIT_BYTES

    # --- appending

    def place(self) -> int:
        """Where the next unit will be, behind a blank if the file is full."""
        rest = self.file_bytes - self.end % self.file_bytes
        return self.end if rest >= UNIT_BYTES + TIMER_BLANK.size else self.end + rest

    def append(self, at: int, units: bytes) -> None:
        """Write units that begin at `at`, as `place` said, and end in the same file.  Raises OSError; it may be tried again."""
        if at != self.end:
            rest = at - self.end
            write_all(self._file_for(self.end), self.end % self.file_bytes, TIMER_BLANK.pack(rest, 0, TIMER_BLANK_MAGIC))
            self.end = at
        write_all(self._file_for(at), at % self.file_bytes, units)
        self.end = at + len(units)

    def _file_for(self, at: int) -> File:
        start = at - at % self.file_bytes
        if self.segments.starts and start <= self.segments.starts[-1]:
            return self.segments.file(start)
        return self.segments.create(start)

    # --- reading

    def unit(self, at: int) -> Unit | None:
        """The unit that begins here, None when there is none.  Raises Cold, OSError."""
        within = at - self._block_at
        if not 0 <= within <= len(self._block) - UNIT_BYTES:
            if not self._read_block(at):
                return None
            within = at - self._block_at
        unit = _as_tuple(Unit, TIMER_UNIT.unpack_from(self._block, within))
        return unit if is_unit(unit, at) else None

    def _read_block(self, at: int) -> bool:
        """Bring this unit, with those before it, for a chain goes backwards; with those behind it where the last one was before
        it: what a chain has is taken out forwards.
        """
        start = self.segments.start_of(at) if self.begin <= at <= self.end - UNIT_BYTES else None
        if start is None or at + UNIT_BYTES > start + self.file_bytes:
            return False
        if self._block_at <= at < self._block_at + 2 * BLOCK_BYTES:
            low, high = at, min(at + BLOCK_BYTES, start + self.file_bytes, self.end)
        else:
            low, high = max(at + UNIT_BYTES - BLOCK_BYTES, start), at + UNIT_BYTES
        size = high - low
        file = self.segments.file(start)
        found = file.read_nowait(low - start, size)
        if found is None:
            raise Cold(lambda: file.read_at(low - start, size), f"{file.path} at {low - start}")
        self._block, self._block_at = found, low
        return True

    def scan(self, at: int, end: int | None = None) -> Iterator[tuple[int, Unit]]:
        """Whole units from here on with their positions, until one is not whole; up to `end` such are passed over.

        Waits for the disk.  Raises OSError.
        """
        while (start := self.segments.start_of(at)) is not None:
            file = self.segments.file(start)
            last = start + self.last_unit_at + UNIT_BYTES
            while at < last:
                data = file.read_at(at - start, min(SCAN_UNITS * UNIT_BYTES, last - at))
                for fields in TIMER_UNIT.iter_unpack(data[: len(data) - len(data) % UNIT_BYTES]):
                    unit = Unit._make(fields)
                    if at >= end if end is not None else not is_unit(unit, at):
                        return
                    if end is None or is_unit(unit, at):
                        yield at, unit
                    at += UNIT_BYTES
                if len(data) < UNIT_BYTES:
                    return
            at = start + self.file_bytes

    def unit_before(self, end: int) -> int:
        """Where the unit begins that ends here, or before the blank that does; -1 when there is none."""
        within = end % self.file_bytes
        if not within and end > self.begin:
            within = self.last_unit_at + UNIT_BYTES
            end = end - self.file_bytes + within
        at = end - UNIT_BYTES
        return at if within and at >= self.begin else NO_UNIT

    # --- cutting

    def cut(self, end: int) -> None:
        """Everything from here on is gone, also for a reader of the next start.  Raises OSError."""
        self.end = end
        self._block = b""
        for start in self.segments.starts.copy():
            if start >= end:
                self.segments.remove(start)
            elif start + self.file_bytes > end:
                file = self.segments.file(start)
                for low, high in list(file.data_ranges(end - start)):
                    _write_zeros(file, max(low, end - start), high)
                file.sync()

    def delete_before(self, min_offset: int) -> int:
        """Remove the first files of whose last units the commit log has no message any more.  How many.  Raises Cold, OSError."""
        count = 0
        while len(self.segments.starts) > 1:
            unit = self.unit(self.segments.starts[0] + self.last_unit_at)
            if unit is None or unit.physical_offset >= min_offset:
                break
            self.segments.remove(self.segments.starts[0])
            count += 1
        return count


def is_unit(unit: Unit, at: int) -> bool:
    """Whole, and of a chain that goes backwards (`isMagicOK`)."""
    size, previous, magic, *_ = unit
    return size == UNIT_BYTES and PLAIN <= magic <= MAGIC_MAX and NO_UNIT <= previous < at


def _write_zeros(file: File, low: int, high: int) -> None:
    piece = bytes(min(high - low, 1 << 20))
    while low < high:
        size = min(len(piece), high - low)
        write_all(file, low, piece[:size])
        low += size
