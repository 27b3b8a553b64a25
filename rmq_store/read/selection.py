"""What a filter selects of units that lie in the log one behind the other, until a pull has enough of them.

Java: the loop of `DefaultMessageStore.getMessage`, whose limits are asked before each unit is looked at: those behind a full pull
are never seen by the filter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from rmq_store.disk.disk import Buffer
from rmq_store.layouts import QUEUE_UNITS
from rmq_store.log.reader import LogReader
from rmq_store.queues.consume_queue import UNIT_BYTES
from rmq_store.read.asked import NumbersMet, UnitFilter
from rmq_wire.errors import BadRecord
from rmq_wire.property_values import WANTED

SPARE_UNITS: Final = 8
"""More than it takes: two reads cost more than one that is too long."""
_PLACE: Final = QUEUE_UNITS.rows(1, "physical_offset", "size").unpack_from
_SIZE_AT: Final = QUEUE_UNITS.at["size"]


class Selection:
    """What one pull has.  `found`: (position, size).  `size`: of all of them.  `is_full`: there is no room for one more.

    `remembers`: what is met in units behind a full pull is of use to the next one.
    """

    def __init__(
        self, reader: LogReader, file_bytes: int, matches: UnitFilter, bytes_max: int, count_max: int, *, remembers: bool
    ) -> None:
        self.found: list[tuple[int, int]] = []
        self.size = 0
        self.is_full = False
        self.met: list[NumbersMet] = []
        """What was met in all units that were looked at since it was empty; empty as well where that cannot be told."""
        self._met_units = 0
        self._looked = 0
        self._recalled = False
        self._reader = reader
        self._file_bytes = file_bytes
        self._matches = matches
        self._remembers = remembers
        self._bytes_max = bytes_max
        self._count_max = max(count_max, 1)

    def add(self, positions: Sequence[int], sizes: Sequence[int], biggest: int) -> int | None:
        """Look at these units, ascending, of which none is larger than `biggest`; the next are those behind them.

        Returns how many were passed: all, unless it is full now.  None: one does not lie in one file.  Raises Cold,
        FileNotFoundError.
        """
        reader, count, begin = self._reader, len(positions), 0
        while begin < count and not self.is_full:
            at = positions[begin]
            base = at - at % self._file_bytes
            log = reader.map_of(base)
            file_end = base + min(self._file_bytes, len(log))
            end = count if positions[-1] < file_end else bisect_left(positions, file_end, begin)
            if begin == end or (positions[end - 1] + biggest > file_end and _end_of(positions, sizes, begin, end) > file_end):
                return None
            end = reader.sure_units(positions, sizes, begin, end)
            begin = self._look(log, base, positions, sizes, begin, end, biggest)
        self._looked += begin
        return begin

    def recall(self, data: bytes, said: bytes, floor: int, written: int) -> int | None:
        """Take what is wanted of the units in `data`, of which is known what the filter says.

        Returns how many were passed: all, unless it is full now.  None, and nothing is taken, when that takes a closer look: the
        first unit lies before `floor`, they are not in order, or might be too many bytes.
        """
        count = len(said)
        last = _PLACE(data)[0]
        if last < floor:
            return None
        last -= 1
        found: list[tuple[int, int]] = []
        room, at, size = self._count_max - len(self.found), -1, 0
        while room:
            at = said.find(WANTED, at + 1)
            if at < 0:
                break
            position, unit_bytes = _PLACE(data, at * UNIT_BYTES)
            if position <= last:
                return None
            last = position
            size += unit_bytes
            found.append((position, unit_bytes))
            room -= 1
        passed = count if room else at + 1
        if found and last + found[-1][1] > written:
            return None
        if self.size + size + _larger_than_all(data[: passed * UNIT_BYTES]) > self._bytes_max:
            return None
        self.found += found
        self.size += size
        self.is_full = not room
        self._recalled = self._recalled or bool(found)
        self._looked += passed
        return passed

    def units_to_go(self, units: int) -> int:
        """How many units it takes to fill it, when those that come are like those that were looked at; `units` at most."""
        count = len(self.found)
        return min(units, self._looked * (self._count_max - count) // count + SPARE_UNITS) if count else units

    def chunks(self) -> list[Buffer] | None:
        """Views of what it has; None when that is not in one file, or not known to be in memory."""
        found = self.found
        if not found:
            return []
        first, (last, last_bytes) = found[0][0], found[-1]
        base = first - first % self._file_bytes
        end = last + last_bytes
        if end > base + self._file_bytes or (self._recalled and not self._reader.is_hot(first, end)):
            return None
        log = self._reader.map_of(base)
        if end - first == self.size and all(at + size == following for (at, size), (following, _) in pairwise(found)):
            return [log[first - base : end - base]]
        if not base:
            return [log[at : at + size] for at, size in found]
        return [log[at - base : at - base + size] for at, size in found]

    def _look(
        self, log: memoryview, base: int, positions: Sequence[int], sizes: Sequence[int], begin: int, end: int, biggest: int
    ) -> int:
        """Returns the first unit that was not passed.  Where what is met is remembered, those behind it were looked at, too."""
        found, count_max, bytes_max = self.found, self._count_max, self._bytes_max
        while True:
            count, stop, most = len(found), end, count_max
            if self.size + (count_max - count) * biggest > bytes_max:  # they might be too many bytes: one by one
                most = count + 1
                if found:
                    stop = next((at for at in range(begin, end) if self.size + sizes[at] > bytes_max), end)
            units = positions[begin:stop], sizes[begin:stop]
            met = self._ahead(log, base, *units) if self._remembers and most == count_max else None
            if met is None:
                met = self._matches.add_wanted(log, base, *units, found, most)
            del found[most:]
            self.size += sum([size for _, size in found[count:]])
            passed = stop if len(found) < most else bisect_right(positions, found[-1][0])
            self._note(met, passed - begin)
            begin = passed
            self.is_full = len(found) >= count_max or begin == stop < end
            if self.is_full or begin == end:
                return begin

    def _ahead(self, log: memoryview, base: int, positions: Sequence[int], sizes: Sequence[int]) -> Sequence[NumbersMet] | None:
        """Look at all of these units, also when it is full before.  None, and nothing is taken, when one cannot be read."""
        count = len(self.found)
        try:
            return self._matches.add_wanted(log, base, positions, sizes, self.found, count + len(sizes) + 1)
        except BadRecord:
            del self.found[count:]
            return None

    def take_met(self) -> tuple[int, list[NumbersMet]]:
        """(number of units passed, what was met in them and in those looked at ahead); the next units are another run."""
        taken = self._met_units, self.met
        self._met_units, self.met = 0, []
        return taken

    def _note(self, met: Sequence[NumbersMet], units: int) -> None:
        """What was met in so many units more."""
        if not self._met_units:
            self.met = [*met]
        elif self.met:
            more = dict(met)
            self.met = [(values, numbers + more[values]) for values, numbers in self.met if values in more]
        self._met_units += units


def _larger_than_all(data: bytes) -> int:
    """A size that is larger than that of each of these queue units, by 64 KiB or less."""
    count = len(data) // UNIT_BYTES
    highest, high = data[_SIZE_AT::UNIT_BYTES], data[_SIZE_AT + 1 :: UNIT_BYTES]
    if highest == high == bytes(count):
        return 1 << 16
    return (max(highest) << 24) + (max(high) + 1 << 16)


def _end_of(positions: Sequence[int], sizes: Sequence[int], begin: int, end: int) -> int:
    """The farthest end of these units."""
    return max(positions[at] + sizes[at] for at in range(begin, end))
