"""A commit log file from one end to the other, in blocks of bounded size: batches of whole units, and what lies between them.

The file is anything that reads bytes at a position (a local file, an object in a store).  Blocks go into one buffer that is used
again and again, which is faster than a map and never a SIGBUS.  Where the chain breaks, the scan looks for the next place that
says of itself what only a unit can: a magic word, and behind it the very position where it stands; the bytes before it are a
`Gap`.  Time is linear in the file's size whatever is in it: candidates are found for a whole block at once, one that fails costs
a few small reads, and after `GAPS_MAX` gaps the scan gives the file up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

import numpy as np

from rmq_columns.decode.dtypes import Bytes, Ints, dtype_of, gather
from rmq_columns.decode.units import UNIT_BYTES_MAX, UNIT_SIZE_MIN, Fault, Units, read, walk
from rmq_wire.layout.flat import Packed
from rmq_wire.layout.message import BLANK_FLAT, BORN_V6, FIXED, HEAD_FLAT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_V6
from rmq_wire.message import PROPERTIES_LENGTH, TOPIC_LENGTHS

BLOCK_BYTES: Final = 8 << 20
"""Best of the sizes measured; a larger unit makes the buffer grow to it."""
GAPS_MAX: Final = 10_000
"""Of one file.  With more of them nobody wants to read on."""
CAREFUL_UNITS: Final = 16
"""After a gap so many units are taken at first, then twice as many each time: where damage is dense, little is done in vain."""
FIXED_SIZE_MAX: Final = max(layout.size for layout in FIXED.values())
_HEAD: Final = HEAD_FLAT
_HOST_BITS: Final = BORN_V6 | STORE_V6
_BLANK: Final = BLANK_FLAT.packed
_SIZE_BYTES: Final = _HEAD.field("total_size").size
_MAGIC_AT: Final = _HEAD.at["magic"]
_OWN_OFFSET_AT: Final = _HEAD.at["physical_offset"]
_LONG: Final = dtype_of(HEAD_FLAT)["physical_offset"]
_INT: Final = dtype_of(HEAD_FLAT)["total_size"]
_FIRST_MAGIC_BYTE: Final = MAGIC_V1 >> 24 & 0xFF
_FIRST_BLANK_BYTE: Final = MAGIC_BLANK >> 24 & 0xFF


class Source(Protocol):
    """Bytes by position.  `rmq_inspect.decode.directory.Reader` is one."""

    def size(self) -> int: ...

    def read(self, at: int, size: int) -> bytes: ...

    def read_into(self, at: int, buffer: memoryview) -> int: ...

    def data_ranges(self, start: int = 0) -> Iterable[tuple[int, int]]:
        """(begin, end) of the parts that are not holes."""
        ...


class Batch(NamedTuple):
    """Whole units, one after another, without structural fault.  `buffer` is overwritten when the next item is asked for."""

    buffer: Bytes
    base: int
    """byte of the file at which the buffer begins"""
    units: Units
    displaced_by: int
    """own offset of the file's first units minus where they are; 0 in a file with its right name"""


class Gap(NamedTuple):
    """Bytes of the file that no unit holds, with sound units or the file's end behind them."""

    start: int
    end: int
    fault: Fault
    """why the unit that should begin at `start` is none"""
    is_zero: bool
    """whether all of it is zeros"""


class Ending(StrEnum):
    """How a file ends."""

    BLANK = "blank"
    """a blank record that reaches to the end: the file is full"""
    ZEROS = "zeros"
    """nothing was written behind the last unit: the file is the last one"""
    FULL = "full"
    """the last unit ends where the file ends"""
    TORN = "torn"
    """bytes that are no unit, and none behind them"""
    BLANK_SIZE = "blank size"
    """a blank record that does not reach to the end"""
    OVER = "over"
    """the last unit reaches over `stop`, or a blank stands before it: no unit begins there"""
    HOPELESS = "hopeless"
    """more gaps than `GAPS_MAX`: not looked at any further"""


class End(NamedTuple):
    """The last item of a scan.  at: one past the last unit.  fault: why no unit begins there, when torn."""

    at: int
    how: Ending
    fault: Fault
    displaced_by: int


def scan(
    source: Source,
    first_offset: int,
    *,
    start: int = 0,
    end: int | None = None,
    stop: int | None = None,
    block_bytes: int = BLOCK_BYTES,
    displaced_by: int | None = None,
) -> Iterator[Batch | Gap | End]:
    """The units of one file from byte `start` up to `end` (its size).  first_offset: physical offset of the file's first byte.

    stop: only units that begin below it, for whoever reads the rest elsewhere; `Ending.OVER` unless one would begin just there.
    displaced_by: when it is known already (see `Batch`).  Raises whatever the source raises.
    """
    return _Scan(source, first_offset, source.size() if end is None else end, block_bytes, stop).run(start, displaced_by)


class Seeker:
    """Looks for units at any place of a file, by what they say of themselves, without following the chain to them."""

    def __init__(self, source: Source, first_offset: int, size: int, block_bytes: int) -> None:
        """first_offset: what a unit at the file's first byte would say of its place."""
        self._source, self.size, self._own = source, size, first_offset
        self._scan = _Scan(source, first_offset, size, block_bytes)

    def displacement(self, at: int) -> int:
        """How far the first two units from here say that they are from where they are; 0 unless both agree."""
        return self._scan._displacement(at)

    def next_place(self, at: int) -> int:
        """Behind the whole unit that begins here and says so; -1 when there is none."""
        head = self._source.read(at, _HEAD.size)
        if len(head) < _HEAD.size or self._scan.probe(at) is not Fault.NONE:
            return -1
        fields = dict(zip(_HEAD.names, _HEAD.packed.unpack(head), strict=True))
        return at + fields["total_size"] if fields["physical_offset"] == at + self._own else -1

    def is_end(self, at: int) -> bool:
        """Whether the file ends here: with a blank, with zeros, or because it is no longer."""
        head = self._source.read(at, _BLANK.size)
        return len(head) < _BLANK.size or not any(head) or self._scan.is_blank(at)

    def places(self, at: int, end: int) -> Iterator[int]:
        """Where units seem to begin, from here on and below end; ends early where a whole block is zeros."""
        yield from self._scan.units_between(at, min(end, self.size))


class _Scan:
    def __init__(self, source: Source, first_offset: int, size: int, block_bytes: int, stop: int | None = None) -> None:
        self._source = source
        self._stop = size if stop is None or stop > size else stop
        self._first_offset = first_offset
        self._size = size
        self._block_bytes = max(block_bytes, 4 * FIXED_SIZE_MAX)  # what a resync steps back must not be all of a block
        self._grow(self._block_bytes)
        self._base = 0
        self._filled = 0
        self._candidates: Ints | None = None
        self._gaps = 0
        self._own = first_offset

    def _grow(self, size: int) -> None:
        self._raw = bytearray(size)
        self._view = memoryview(self._raw)
        self._bytes: Bytes = np.frombuffer(self._raw, np.uint8)

    def _fill(self, at: int, wanted: int = 0) -> None:
        """Read a block that begins here, `wanted` bytes at least.  Ends early where the file does."""
        if wanted > len(self._raw):
            self._grow(wanted)
        self._base, self._filled, self._candidates = at, 0, None
        block = min(self._block_bytes, max(self._stop + FIXED_SIZE_MAX - at, 0))  # what follows is another's
        want = min(max(block, wanted), self._size - at)
        while self._filled < want:
            got = self._source.read_into(at + self._filled, self._view[self._filled : want])
            if got <= 0:
                self._size = at + self._filled
                self._stop = min(self._stop, self._size)
                return
            self._filled += got

    def run(self, at: int, known: int | None) -> Iterator[Batch | Gap | End]:
        displaced_by = self._displacement(at) if known is None else known
        self._own = self._first_offset + displaced_by
        few: int | None = None
        while True:
            if at >= self._stop < self._size:
                yield End(at, Ending.FULL if at == self._stop else Ending.OVER, Fault.NONE, displaced_by)
                return
            if not self._base <= at < self._base + self._filled:
                self._fill(at)
            limit = min(self._filled, self._stop - self._base + _SIZE_BYTES - 1)
            positions, stop = walk(self._view, at - self._base, limit, few)
            is_cut = bool(positions) and stop > self._filled
            if is_cut:
                stop = positions.pop()
            units = read(self._bytes, np.array(positions, np.int64), self._filled)
            good = int(np.argmax(units.fault != 0)) if units.fault.any() else len(units)
            if good:
                yield Batch(self._bytes, self._base, units.take(slice(0, good)), displaced_by)
            if good < len(units):
                at = self._base + positions[good]
            else:
                at = self._base + stop
                few = None if few is None or few >= self._block_bytes // UNIT_SIZE_MIN else few * 2
                if good and self._base + self._filled < self._size and stop <= self._filled:
                    if is_cut:
                        self._fill(at)
                    continue
            outcome = self._look(at)
            if outcome is Fault.NONE:
                continue
            if isinstance(outcome, Ending):
                yield End(at, Ending.OVER if self._stop < self._size else outcome, Fault.NONE, displaced_by)
                return
            gap, has_more = self._resync(at, outcome)
            if not has_more and self._stop < self._size:
                yield gap
                yield End(gap.end, Ending.FULL, Fault.NONE, displaced_by)
                return
            if not has_more:
                yield End(at, Ending.ZEROS if gap.is_zero else Ending.TORN, outcome, displaced_by)
                return
            yield gap
            self._gaps += 1
            if self._gaps >= GAPS_MAX:
                yield End(gap.end, Ending.HOPELESS, outcome, displaced_by)
                return
            at, few = gap.end, CAREFUL_UNITS

    def _displacement(self, at: int) -> int:
        """How far the first two units say that they are from where they are; 0 unless both agree."""
        found = []
        for _ in range(2):
            head = self._source.read(at, _HEAD.size)
            if len(head) < _HEAD.size:
                return 0
            fields = dict(zip(_HEAD.names, _HEAD.packed.unpack(head), strict=True))
            if fields["magic"] not in (MAGIC_V1, MAGIC_V2) or not UNIT_SIZE_MIN <= fields["total_size"] <= UNIT_BYTES_MAX:
                return 0
            found.append(fields["physical_offset"] - self._first_offset - at)
            at += fields["total_size"]
        return found[0] if found[0] == found[1] else 0

    def _look(self, at: int) -> Fault | Ending:
        """What begins here, where the chain could not be followed in the block: NONE when the block was merely too short."""
        if at >= self._size:
            return Ending.FULL
        head = self._source.read(at, _BLANK.size)
        if len(head) < _BLANK.size:
            return Fault.SIZE if any(head) else Ending.FULL
        size, magic = _BLANK.unpack(head)
        if magic == MAGIC_BLANK:
            return Ending.BLANK if at + size == self._size else Ending.BLANK_SIZE
        fault = self.probe(at)
        if fault is Fault.NONE:
            self._fill(at, size)
        return fault

    def probe(self, at: int) -> Fault:
        """Whether a whole unit begins here, its lengths read one by one: never more than a few hundred bytes are read."""
        head = self._source.read(at, FIXED_SIZE_MAX)
        if len(head) < UNIT_SIZE_MIN:
            return Fault.SIZE
        size, magic, *_, sys_flag, _ = _HEAD.packed.unpack_from(head)
        fixed = FIXED[sys_flag & _HOST_BITS]
        if not UNIT_SIZE_MIN <= size <= UNIT_BYTES_MAX or at + size > self._size or len(head) < fixed.size:
            return Fault.SIZE
        if magic not in (MAGIC_V1, MAGIC_V2):
            return Fault.MAGIC
        body_at, body_size = fixed.size, fixed.packed.unpack_from(head)[-1]
        rest = size - body_at - body_size
        if body_size < 0 or rest < 3:
            return Fault.BODY
        topic = self._length(TOPIC_LENGTHS[magic], at + body_at + body_size)
        rest -= TOPIC_LENGTHS[magic].size + topic
        if topic < 0 or rest < PROPERTIES_LENGTH.size:
            return Fault.TOPIC
        properties = self._length(PROPERTIES_LENGTH, at + size - rest)
        rest -= PROPERTIES_LENGTH.size
        if not 0 <= properties <= rest:
            return Fault.PROPERTIES
        return Fault.NONE if properties == rest else Fault.SUM

    def _length(self, packed: Packed, at: int) -> int:
        """Before a variable field; -1 where the file has become too short for it."""
        raw = self._source.read(at, packed.size)
        return int(packed.unpack(raw)[0]) if len(raw) == packed.size else -1

    # --- behind a broken place

    def _resync(self, at: int, fault: Fault) -> tuple[Gap, bool]:
        """The gap from here to the next unit or blank, and whether there is one; without one it reaches to the file's end."""
        zeros = True
        begin = at
        for data, hole in self._source.data_ranges(at):
            place = max(data, at)
            while place < min(hole, self._stop):
                if not self._base <= place < self._base + self._filled - FIXED_SIZE_MAX:
                    self._fill(place)
                if self._filled <= 0:
                    break
                for found in self._found_behind(place if place > begin else begin + 1, self._stop):
                    if self.probe(found) is Fault.NONE or self.is_blank(found):
                        zeros = zeros and self._is_zero(begin, found)
                        return Gap(begin, found, fault, zeros), True
                zeros = zeros and self._is_zero(max(place, begin), min(self._base + self._filled, self._stop))
                reached = self._base + self._filled
                place = reached if reached >= self._size else max(reached - FIXED_SIZE_MAX, place + 1)
        return Gap(begin, self._stop, fault, zeros), False

    def units_between(self, at: int, end: int) -> Iterator[int]:
        """For `Seeker.places`."""
        place = at
        while place < end:
            self._fill(place)
            if not self._bytes[: self._filled].any():
                return
            for found in self._found_behind(place, end):
                if self.probe(found) is Fault.NONE:
                    yield found
            reached = self._base + self._filled
            place = reached if reached >= self._size else max(reached - FIXED_SIZE_MAX, place + 1)

    def _is_zero(self, begin: int, end: int) -> bool:
        """Of the part that is in the block."""
        low = max(begin - self._base, 0)
        return not self._bytes[low : max(min(end - self._base, self._filled), low)].any()

    def _found_behind(self, at: int, end: int) -> Iterator[int]:
        """Places of this block, from here on and below end, that look like the beginning of a unit."""
        if self._candidates is None:
            self._candidates = self._find_candidates()
        first, last = np.searchsorted(self._candidates, (at, end)).tolist()
        return iter(self._candidates[first:last].tolist())

    def _find_candidates(self) -> Ints:
        """Units that say where they are, and blanks that reach exactly to the file's end."""
        block = self._bytes[: self._filled]
        limit = max(self._filled - _BLANK.size + 1, 0)
        units = np.flatnonzero(block[_MAGIC_AT : _MAGIC_AT + limit] == _FIRST_MAGIC_BYTE)
        units = units[units + UNIT_SIZE_MIN <= self._filled]
        magic = gather(block, units + _MAGIC_AT, _INT)
        units = units[(magic == MAGIC_V1) | (magic == MAGIC_V2)]
        own = gather(block, units + _OWN_OFFSET_AT, _LONG).astype(np.int64)
        units = units[own == units + self._base + self._own]
        size = gather(block, units, _INT).astype(np.int64)
        units = units[(size >= UNIT_SIZE_MIN) & (units + self._base + size <= self._size)]
        at = np.flatnonzero(block[_MAGIC_AT : _MAGIC_AT + limit] == _FIRST_BLANK_BYTE)
        at = at[gather(block, at + _MAGIC_AT, _INT) == MAGIC_BLANK]
        blanks = at[gather(block, at, _INT).astype(np.int64) + at + self._base == self._size]
        return np.sort(np.concatenate((units, blanks))) + self._base

    def is_blank(self, at: int) -> bool:
        head = self._source.read(at, _BLANK.size)
        return len(head) == _BLANK.size and _BLANK.unpack(head) == (self._size - at, MAGIC_BLANK)
