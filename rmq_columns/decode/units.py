"""Message units of the commit log as columns.

A unit's place follows only from the sizes of those before it, so `walk` follows the chain in a tight loop that reads one number
per unit and checks nothing but that it moves on; `read` then takes all units at once: one gather of the fixed part per width of
hosts, lengths checked against each other and against the unit's end, a fault code per unit.  Equal, row by row, to
`rmq_wire.message.read_unit`, which is equal to construct.
Sources: `MessageDecoder.decode`, `CommitLog.checkMessageAndReturnSize`.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import starmap
from struct import error as PackedError
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rmq_columns.decode.dtypes import Bytes, Ints, Mask, Records, dtype_of, gather
from rmq_wire.checksum import MASK
from rmq_wire.layout.message import BORN_V6, FIXED, HEAD_FLAT, MAGIC_V1, MAGIC_V2, STORE_V6

_DTYPES: Final[dict[int, np.dtype[Any]]] = {bits: dtype_of(layout) for bits, layout in FIXED.items()}
_HOST_BITS: Final = BORN_V6 | STORE_V6
FIXED_SIZE_MIN: Final = FIXED[0].size
TAIL_LENGTHS_MIN: Final = 3
"""Bytes of the two lengths behind a body in version 1; version 2 has 4."""
UNIT_SIZE_MIN: Final = FIXED_SIZE_MIN + TAIL_LENGTHS_MIN
"""No body, no topic, no properties, both hosts IPv4."""
UNIT_BYTES_MAX: Final = 64 << 20
"""Ours: a size above it is taken for damage.  A frame ends at 16 MiB (frameMaxLength), so no client can send as much."""
_SHORT: Final = np.dtype(np.int16)
_TOTAL_SIZE: Final = HEAD_FLAT.field("total_size")


class Fault(IntEnum):
    """Why the bytes at a place are not a whole unit; the first reason found."""

    NONE = 0
    SIZE = 1
    """total size below the least, above `UNIT_BYTES_MAX`, or behind the end"""
    MAGIC = 2
    BODY = 3
    """body length negative or over the unit's end"""
    TOPIC = 4
    PROPERTIES = 5
    SUM = 6
    """the lengths do not add up to the total size"""


COLUMNS: Final = tuple(name for name in FIXED[0].names if not name.endswith("_host"))
"""The numbers of a unit: what `Units` has one column each of, under the names of the layout."""


@dataclass
class Units:
    """Many units of one buffer.  `at`, `body_at`, `topic_at`, `properties_at` are positions in it; all arrays have one length.

    Where `fault` is not 0 only `at`, `total_size` and the columns of the fixed part say anything.
    """

    at: Ints
    fixed: Records
    """fields as they are stored, in the places that they have with IPv4 hosts; an IPv6 host is not among them"""
    host_bits: npt.NDArray[np.int32]
    body_at: Ints
    topic_at: Ints
    topic_size: Ints
    properties_at: Ints
    properties_size: Ints
    fault: npt.NDArray[np.uint8]
    numbers: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """columns that were asked for"""

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column of the fixed part, native byte order."""
        if name not in self.numbers:
            self.numbers[name] = _native(self.fixed, name)
        return self.numbers[name]

    @property
    def body_size(self) -> Ints:
        return self["body_size"]

    @property
    def end(self) -> Ints:
        """One past the last byte of each."""
        return self.at + self["total_size"]

    def kinds_of_hosts(self) -> list[int]:
        """Which `host_bits` there are."""
        return [bits for bits in FIXED if (self.host_bits == bits).any()]

    def take(self, which: slice | Mask | Ints) -> Units:
        """Some of the rows."""
        return Units(
            self.at[which],
            self.fixed[which],
            self.host_bits[which],
            self.body_at[which],
            self.topic_at[which],
            self.topic_size[which],
            self.properties_at[which],
            self.properties_size[which],
            self.fault[which],
            {name: column[which] for name, column in self.numbers.items()},
        )


def walk(buffer: bytes | bytearray | memoryview, at: int, end: int, units_max: int | None = None) -> tuple[list[int], int]:
    """Follow the sizes from `at`: (where units begin, where the next would).

    Ends before `end`, or where a size is below `UNIT_SIZE_MIN`, or after `units_max`.  The last unit may reach behind `end`.
    """
    found: list[int] = []
    append, unpack = found.append, _TOTAL_SIZE.unpack_from
    if units_max is not None:
        last = min(end - _TOTAL_SIZE.size, at + units_max * UNIT_BYTES_MAX)
        while at <= last and len(found) < units_max:
            [size] = unpack(buffer, at)
            if size < UNIT_SIZE_MIN:
                break
            append(at)
            at += size
        return found, at
    view = memoryview(buffer)[: max(end, 0)]
    with contextlib.suppress(PackedError):  # the end: asking for it each time would cost a tenth
        while True:
            [size] = unpack(view, at)
            if size < UNIT_SIZE_MIN:
                break
            append(at)
            at += size
    return found, at


def read(buffer: Bytes, positions: Ints, end: int) -> Units:
    """The units that begin at these positions, none of which may reach behind `end`, with a fault code each."""
    whole = (positions >= 0) & (positions + UNIT_SIZE_MIN <= end)
    if whole.all():
        fixed = gather(buffer, positions, _DTYPES[0])
    else:
        fixed = np.zeros(len(positions), _DTYPES[0])
        fixed[whole] = gather(buffer, positions[whole], _DTYPES[0])
    bits = _native(fixed, "sys_flag") & _HOST_BITS
    fixed_size: Ints | int = FIXED_SIZE_MIN
    if bits.any():
        fixed_size = np.full(len(positions), FIXED_SIZE_MIN)
        for value, layout in FIXED.items():
            if value and len(rows := np.flatnonzero(bits == value)):
                fits = positions[rows] + layout.size <= end
                whole[rows[~fits]] = False
                rows = rows[fits]
                fixed_size[rows] = layout.size
                wide = gather(buffer, positions[rows], _DTYPES[value])
                for name in FIXED[0].names:
                    if layout.at[name] != FIXED[0].at[name] and wide.dtype[name] == fixed.dtype[name]:
                        fixed[name][rows] = wide[name]
    return _with_tails(buffer, positions, fixed, bits, fixed_size, whole, end)


def _native(fixed: Records, name: str) -> npt.NDArray[Any]:
    return fixed[name].astype(fixed.dtype[name].newbyteorder("="))


def _with_tails(
    buffer: Bytes, positions: Ints, fixed: Records, bits: npt.NDArray[np.int32], fixed_size: Ints | int, whole: Mask, end: int
) -> Units:
    """Check the lengths one after another; a row that failed keeps harmless positions inside the buffer."""
    fault = np.zeros(len(positions), np.uint8)

    def mark(bad: Mask, why: Fault) -> None:
        if bad.any():
            fault[bad & (fault == 0)] = why

    def where_sound(at: Ints) -> Ints:
        return np.where(fault == 0, at, 0) if fault.any() else at

    mark(~whole, Fault.SIZE)
    numbers = {name: _native(fixed, name) for name in ("total_size", "magic", "body_size")}
    total, magic = numbers["total_size"], numbers["magic"]
    unit_end = positions + total
    mark((total < UNIT_SIZE_MIN) | (total > UNIT_BYTES_MAX) | (unit_end > end), Fault.SIZE)
    is_v2 = magic == MAGIC_V2
    is_mixed = bool(is_v2.any())
    if is_mixed or (magic != MAGIC_V1).any():
        mark(~is_v2 & (magic != MAGIC_V1), Fault.MAGIC)
    body_at = positions + fixed_size
    body_end = body_at + numbers["body_size"]
    length_size: Ints | int = np.where(is_v2, 2, 1) if is_mixed else 1
    mark((numbers["body_size"] < 0) | (body_end + length_size + 2 > unit_end), Fault.BODY)
    length_at = where_sound(body_end)
    topic_size = _length(buffer, length_at, is_v2 if is_mixed else None, end)
    topic_at = length_at + length_size
    topic_end = topic_at + topic_size
    mark((topic_size < 0) | (topic_end + 2 > unit_end), Fault.TOPIC)
    length_at = where_sound(topic_end)
    properties_size = _length(buffer, length_at, np.True_, end)
    properties_at = length_at + 2
    properties_end = properties_at + properties_size
    mark((properties_size < 0) | (properties_end > unit_end), Fault.PROPERTIES)
    mark(properties_end != unit_end, Fault.SUM)
    return Units(positions, fixed, bits, body_at, topic_at, topic_size, properties_at, properties_size, fault, numbers)


def _length(buffer: Bytes, at: Ints, is_short: Any, end: int) -> Ints:
    """Signed lengths of two bytes, or of one where `is_short` is false or None."""
    if end < _SHORT.itemsize:
        return np.full(len(at), -1)
    at = np.minimum(at, end - _SHORT.itemsize)
    high = buffer.view(np.int8)[at].astype(np.int64)
    return high if is_short is None else np.where(is_short, high * 256 + buffer[at + 1], high)


def body_crcs(buffer: bytes | bytearray | memoryview, units: Units) -> npt.NDArray[np.int64]:
    """The CRC that each body has, Java's mask applied.  Only for units without fault."""
    found = map(zlib.crc32, slices(buffer, units.body_at, units.body_size))
    return np.fromiter(found, np.int64, len(units)) & MASK


def bad_crcs(buffer: bytes | bytearray | memoryview, units: Units) -> Mask:
    """Whose body is not the one that was stored.  An empty body is not checked, as in the reference."""
    return (body_crcs(buffer, units) != units["body_crc"]) & (units.body_size > 0)


def slices(buffer: bytes | bytearray | memoryview, starts: Ints, sizes: Ints) -> Iterable[memoryview]:
    """Views of runs of bytes.  Bounds are the caller's."""
    view = memoryview(buffer)
    return map(view.__getitem__, starmap(slice, zip(starts.tolist(), (starts + sizes).tolist(), strict=True)))


def topics(buffer: bytes | bytearray | memoryview, units: Units) -> list[bytes]:
    """The topic of each, as stored."""
    return list(map(bytes, slices(buffer, units.topic_at, units.topic_size)))
