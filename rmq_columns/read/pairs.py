"""Message properties of many units as Arrow: the map, and single values as columns.

Property strings are gathered back to back.  When every string is as Java writes it (name 01 value 02, nothing empty, no second
01), the separators alone say where all names and values are; anything else takes the way of `decode.texts`, which cuts as
`rmq_wire.properties.decode` does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.decode.dtypes import Bytes, Ints
from rmq_columns.decode.implied import Values
from rmq_columns.decode.ragged import as_text, data_of, picked, ragged
from rmq_columns.decode.texts import PAIR_END, Properties, properties_of
from rmq_columns.decode.units import Units, slices
from rmq_columns.read.schema import HEADERS
from rmq_wire import properties as property_text

_END: Final = PAIR_END[0]
_NAME_END: Final = 1
_TWO_MARKS: Final = np.dtype("<u2")
_NAME_THEN_PAIR: Final = _NAME_END | _END << 8
ASCII_END: Final = 0x80
BITS: Final = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
"""One for each name, where there are not more names than bits."""
TEXTS: Final = pa.map_(pa.string(), pa.string())
Places = npt.NDArray[Any]
"""Signed integers of 32 or of 64 bits."""


@dataclass(frozen=True)
class Shapes:
    """Which names units have, and in which order; of many units there are few.  of_unit: number of its shape; up_to: where the
    names of each shape begin in codes; codes: into names."""

    of_unit: Ints
    up_to: Ints
    codes: npt.NDArray[np.int32]
    names: list[str]

    def row(self) -> Ints:
        """The shape of each code."""
        return np.repeat(np.arange(len(self.up_to) - 1), np.diff(self.up_to))

    def places(self, name: str) -> Ints:
        """For each unit, the how manieth of its pairs has this name (the last one, if two have); -1 where none has."""
        place = np.full(len(self.up_to) - 1, -1)
        if name in self.names:
            found = np.flatnonzero(self.codes == self.names.index(name))
            rows = self.row()[found]
            place[rows] = found - self.up_to[rows]
        return place[self.of_unit]


def _numbered(data: Any, cuts: npt.NDArray[np.int32]) -> tuple[Ints, int]:
    """(for each run of bytes between two cuts a number, how many numbers): the same where the bytes are the same."""
    runs = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(np.ascontiguousarray(cuts)), data])
    encoded = runs.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


class Pairs:
    """All pairs of all units.  row: ascending; `*_at` are positions in raw."""

    def __init__(self, buffer: Bytes, units: Units) -> None:
        self._buffer, self._units = buffer, units
        self._rows = len(units)
        raw, offsets = data_of(ragged(buffer, units.properties_at, units.properties_size))
        self._is_plain = self._cut_plain(raw, offsets)
        if not self._is_plain:
            found = properties_of(list(slices(buffer.data, units.properties_at, units.properties_size)), units.properties_size)
            self._take(found)

    def _take(self, found: Properties) -> None:
        self._raw: Bytes = np.frombuffer(found.data, np.uint8)
        self._name_at: Places = found.name_at
        self._name_end: Places = found.name_at + found.name_size
        self._value_end: Places = found.value_at + found.value_size
        self._up_to = np.searchsorted(found.row, np.arange(self._rows + 1)).astype(np.int32)

    def _cut_plain(self, raw: Bytes, offsets: npt.NDArray[np.int32]) -> bool:
        """Whether the strings are plain; if so, cuts them."""
        places = np.flatnonzero(raw <= _END)
        if len(places) % 2 or (raw[places].view(_TWO_MARKS) != _NAME_THEN_PAIR).any():
            return False
        marks = places.astype(np.int32)
        if len(marks) and (marks[0] == 0 or (marks[1:] - marks[:-1]).min() < 2):
            return False
        cuts = np.empty(2 * len(marks) + 1, np.int32)
        cuts[0], cuts[1::2], cuts[2::2] = 0, marks, marks + 1
        is_end = np.zeros(len(raw) + 1, np.bool_)
        is_end[offsets[1:]] = True
        ends = np.flatnonzero(is_end[cuts[4::4]])
        has_pairs = offsets[1:] > offsets[:-1]
        if len(ends) != np.count_nonzero(has_pairs):
            return False  # a string that does not end where a pair ends
        self._raw, self._cuts = raw, cuts
        self._name_at, self._name_end, self._value_end = cuts[:-1:4], cuts[1::4], cuts[3::4]
        pairs = np.zeros(len(offsets), np.int32)
        pairs[1:][has_pairs] = np.diff(ends, prepend=-1)
        self._up_to = np.cumsum(pairs, dtype=np.int32)
        return True

    @cached_property
    def _row(self) -> Ints:
        """Of each pair."""
        return np.repeat(np.arange(self._rows), np.diff(self._up_to))

    @cached_property
    def _names(self) -> Any:
        return self._as_text(self._every(0))

    @cached_property
    def _values(self) -> Any:
        return self._as_text(self._raw_values)

    @cached_property
    def _raw_values(self) -> Any:
        return self._every(2)

    def _every(self, first: int) -> Any:
        """Names (0) or values (2), as they are stored."""
        if self._is_plain:
            return picked(self._pieces, np.arange(first, len(self._pieces), 4))
        if first:
            return ragged(self._raw, self._name_end + 1, self._value_end - self._name_end - 1)
        return ragged(self._raw, self._name_at, self._name_end - self._name_at)

    @cached_property
    def _pieces(self) -> Any:
        """Plain strings as name, 01, value, 02, name, 01 …, all without a copy: that they ascend was seen when they were cut."""
        buffers = [None, pa.py_buffer(self._cuts), pa.py_buffer(self._raw)]
        return pa.Array.from_buffers(pa.binary(), len(self._cuts) - 1, buffers)

    def _as_text(self, found: Any) -> Any:
        return found.view(pa.string()) if int(self._raw.max(initial=0)) < ASCII_END else as_text(found)

    @cached_property
    def _shapes(self) -> Shapes:
        of_unit, first = self._alike()
        sizes = np.diff(self._up_to)[first]
        up_to = np.concatenate(([0], np.cumsum(sizes)))
        pairs = np.arange(up_to[-1]) + np.repeat(self._up_to[first] - up_to[:-1], sizes)
        encoded = self._names.take(pa.array(pairs)).dictionary_encode()
        return Shapes(of_unit, up_to, encoded.indices.to_numpy(), encoded.dictionary.to_pylist())

    def _alike(self) -> tuple[Ints, Ints]:
        """(a number for each unit, the first unit of each number): those with one number have the same names in the same order.

        All names of a unit stand together in Arrow's buffers, and so do their sizes: each is a text to be kept from others.
        """
        every = np.arange(self._rows)
        if not len(self._names):
            return np.zeros(self._rows, np.int64), every[:1]
        ends = np.frombuffer(self._names.buffers()[1], np.int32, len(self._names) + 1)
        sizes = np.diff(ends)
        if int(sizes.max(initial=0)) > np.iinfo(np.uint8).max:
            return every, every
        names, count = _numbered(self._names.buffers()[2], ends[self._up_to])
        cuts, _ = _numbered(pa.py_buffer(sizes.astype(np.uint8)), self._up_to)
        first = np.empty(count, np.int64)
        first[names[::-1]] = every[::-1]
        if (cuts[first][names] != cuts).any():
            return every, every  # AB, C and A, BC
        return names, first

    def _has_doubled(self) -> bool:
        """Whether a unit has two values of one name."""
        shapes = self._shapes
        counts, row = np.diff(shapes.up_to), shapes.row()
        codes, names = shapes.codes, shapes.names
        if len(names) > len(BITS):
            return len(np.unique(row * len(names) + codes)) < len(codes)
        sums = np.zeros(len(codes) + 1, np.uint64)
        np.cumsum(BITS[codes], out=sums[1:])  # of different powers as many bits are set; one that comes twice carries
        return bool((np.bitwise_count(sums[shapes.up_to[1:]] - sums[shapes.up_to[:-1]]) != counts).any())

    def map(self) -> Any:
        """map<string, string> in the order of first appearance; the last of two values of a name wins."""
        if self._has_doubled():
            return self._map_slowly()
        return pa.MapArray.from_arrays(pa.array(self._up_to), self._names, self._values)

    def _map_slowly(self) -> Any:
        cut = slices(self._buffer.data, self._units.properties_at, self._units.properties_size)
        pairs = [list(property_text.decode(bytes(text).decode("utf-8", "replace")).items()) for text in cut]
        return pa.array(pairs, TEXTS)

    def headers(self) -> Any:
        """As `map`, values as the bytes that are stored: list<struct<key: string, value: binary>>."""
        if self._has_doubled():
            return self._headers_slowly()
        pairs = pa.StructArray.from_arrays([self._names, self._raw_values], fields=list(HEADERS.value_type))
        return pa.ListArray.from_arrays(pa.array(self._up_to), pairs, type=HEADERS)

    def _headers_slowly(self) -> Any:
        cut = slices(self._buffer.data, self._units.properties_at, self._units.properties_size)
        found = []
        for text in cut:
            pairs = property_text.decode(bytes(text).decode("latin-1")).items()  # one character for each byte
            kept = {name.encode("latin-1").decode("utf-8", "replace"): value.encode("latin-1") for name, value in pairs}
            found.append([{"key": name, "value": value} for name, value in kept.items()])
        return pa.array(found, HEADERS)

    def value(self, name: str, is_raw: bool = False) -> Any:
        """The values of one name as a column, text or the bytes that are stored; null where a unit has none."""
        if not is_raw and "_values" in self.__dict__:
            place = self._shapes.places(name)
            return self._values.take(pa.array(self._up_to[:-1] + place, mask=place < 0 if (place < 0).any() else None))
        found = self._found(name.encode())
        rows = self._row[found]
        values = ragged(self._raw, self._name_end[found] + 1, (self._value_end - self._name_end)[found] - 1)
        where = np.zeros(self._rows, np.int64)
        missing = np.ones(self._rows, np.bool_)
        where[rows] = np.arange(len(found))
        missing[rows] = False
        return (values if is_raw else as_text(values)).take(pa.array(where, mask=missing))

    def values_of(self, name: str) -> Values:
        """The values of one name, of the units that have it; of two values the last."""
        found = self._found(name.encode())
        rows = self._row[found]
        if len(rows) > 1 and (rows[1:] == rows[:-1]).any():
            last = np.append(rows[1:] != rows[:-1], True)
            found, rows = found[last], rows[last]
        starts = self._name_end[found].astype(np.int64) + 1
        return Values(self._raw, rows.astype(np.int64), starts, self._value_end[found] - starts)

    def _found(self, name: bytes) -> Ints:
        found = np.flatnonzero(self._name_end - self._name_at == len(name))
        for place, byte in enumerate(name):
            found = found[self._raw[self._name_at[found] + place] == byte]
        return found
