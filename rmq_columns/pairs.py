"""Message properties of many units as Arrow: the map, and single values as columns.

Property strings are gathered back to back.  When every string is as Java writes it (name 01 value 02, nothing empty, no second
01), the separators alone say where all names and values are; anything else takes the way of `rmq_columns.texts`, which cuts as
`rmq_wire.properties.decode` does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rmq_columns.dtypes import Bytes, Ints
from rmq_columns.ragged import as_text, data_of, ragged
from rmq_columns.schema import HEADERS
from rmq_columns.texts import PAIR_END, Properties, properties_of
from rmq_columns.units import Units, slices
from rmq_wire import properties as property_text

_END: Final = PAIR_END[0]
_NAME_END: Final = 1
ASCII_END: Final = 0x80
BITS: Final = np.left_shift(np.uint64(1), np.arange(64, dtype=np.uint64))
"""One for each name, where there are not more names than bits."""
TEXTS: Final = pa.map_(pa.string(), pa.string())


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
        self._name_at, self._name_end = found.name_at, found.name_at + found.name_size
        self._value_end = found.value_at + found.value_size
        self._row = found.row
        self._up_to = np.searchsorted(self._row, np.arange(self._rows + 1)).astype(np.int32)

    def _cut_plain(self, raw: Bytes, offsets: npt.NDArray[np.int32]) -> bool:
        """Whether the strings are plain; if so, cuts them."""
        ends = np.flatnonzero(raw == _END)
        name_ends = np.flatnonzero(raw == _NAME_END)
        last = offsets[1:][offsets[1:] > offsets[:-1]]
        if len(ends) != len(name_ends) or (raw[last - 1] != _END).any():
            return False
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        if (name_ends <= starts).any() or (name_ends + 1 >= ends).any():
            return False
        self._raw, self._name_at, self._name_end, self._value_end = raw, starts, name_ends, ends
        self._up_to = np.searchsorted(ends, offsets).astype(np.int32)
        self._row = np.repeat(np.arange(self._rows), np.diff(self._up_to))
        return True

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
            return self._pieces.take(pa.array(np.arange(first, len(self._pieces), 4)))
        if first:
            return ragged(self._raw, self._name_end + 1, self._value_end - self._name_end - 1)
        return ragged(self._raw, self._name_at, self._name_end - self._name_at)

    @cached_property
    def _pieces(self) -> Any:
        """Plain strings as name, 01, value, 02, name, 01 …, all without a copy: that they ascend was seen when they were cut."""
        count = len(self._name_at)
        if not count:
            return pa.array([], pa.binary())
        offsets = np.empty(4 * count + 1, np.int32)
        offsets[0:-1:4], offsets[1::4], offsets[3::4] = self._name_at, self._name_end, self._value_end
        offsets[2::4] = self._name_end
        offsets[2::4] += 1
        offsets[-1] = self._value_end[-1] + 1
        return pa.Array.from_buffers(pa.binary(), 4 * count, [None, pa.py_buffer(offsets), pa.py_buffer(self._raw)])

    def _as_text(self, found: Any) -> Any:
        return found.view(pa.string()) if int(self._raw.max(initial=0)) < ASCII_END else as_text(found)

    @cached_property
    def _codes(self) -> tuple[npt.NDArray[np.int32], list[str]]:
        encoded = self._names.dictionary_encode()
        return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()

    def _has_doubled(self) -> bool:
        """Whether a unit has two values of one name."""
        codes, names = self._codes
        counts = np.diff(self._up_to)
        if len(names) > len(BITS):
            return len(np.unique(self._row * len(names) + codes)) < len(codes)
        kind = np.min_scalar_type((1 << len(names)) - 1)
        sums = np.zeros(len(codes) + 1, kind)
        bits = BITS[: len(names)].astype(kind)
        np.cumsum(bits[codes], dtype=kind, out=sums[1:])  # of different powers as many bits are set; one that comes twice carries
        return bool((np.bitwise_count(sums[self._up_to[1:]] - sums[self._up_to[:-1]]) != counts).any())

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
        found = self._found(name.encode())
        rows = self._row[found]
        if is_raw or "_values" not in self.__dict__:
            values = ragged(self._raw, self._name_end[found] + 1, (self._value_end - self._name_end)[found] - 1)
            values = values if is_raw else as_text(values)
            found = np.arange(len(found))
        else:
            values = self._values
        where = np.zeros(self._rows, np.int64)
        missing = np.ones(self._rows, np.bool_)
        where[rows] = found
        missing[rows] = False
        return values.take(pa.array(where, mask=missing))

    def spans(self, name: str) -> tuple[Bytes, Ints, Ints, Ints]:
        """(bytes, rows that have this name, where its value begins in those bytes, its size); of two values the last."""
        found = self._found(name.encode())
        rows = self._row[found]
        if len(rows) > 1 and (rows[1:] == rows[:-1]).any():
            last = np.append(rows[1:] != rows[:-1], True)
            found, rows = found[last], rows[last]
        starts = self._name_end[found].astype(np.int64) + 1
        return self._raw, rows.astype(np.int64), starts, self._value_end[found] - starts

    def _found(self, name: bytes) -> Ints:
        if "_codes" in self.__dict__:
            codes, names = self._codes
            text = name.decode()
            return np.flatnonzero(codes == names.index(text)) if text in names else np.empty(0, np.int64)
        found = np.flatnonzero(self._name_end - self._name_at == len(name))
        for place, byte in enumerate(name):
            found = found[self._raw[self._name_at[found] + place] == byte]
        return found
