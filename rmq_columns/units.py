"""Message units of the commit log as columns.

A unit's place follows only from the sizes of those before it, so `walk` follows the chain in a tight loop that reads one number
per unit and checks nothing but that it moves on; `read` then takes all units at once: one gather of the fixed part per width of
hosts, lengths checked against each other and against the unit's end, a fault code per unit.  Equal, row by row, to
`rmq_wire.message.read_unit`, which is equal to construct.
Sources: `MessageDecoder.decode`, `CommitLog.checkMessageAndReturnSize`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from itertools import starmap
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from rmq_columns.dtypes import Bytes, Ints, Mask, dtype_of, gather
from rmq_wire.checksum import MASK
from rmq_wire.layout.flat import flat
from rmq_wire.layout.message import BORN_V6, FIXED, HEAD, MAGIC_V1, MAGIC_V2, STORE_V6

_DTYPES: Final[dict[int, np.dtype[Any]]] = {bits: dtype_of(layout) for bits, layout in FIXED.items()}
_HOST_BITS: Final = BORN_V6 | STORE_V6
_SYS_FLAG: Final[np.dtype[Any]] = np.dtype(">i4")
_SYS_FLAG_AT: Final = FIXED[0].at["sys_flag"]
FIXED_SIZE_MIN: Final = FIXED[0].size
TAIL_LENGTHS_MIN: Final = 3
"""Bytes of the two lengths behind a body in version 1; version 2 has 4."""
UNIT_SIZE_MIN: Final = FIXED_SIZE_MIN + TAIL_LENGTHS_MIN
"""No body, no topic, no properties, both hosts IPv4."""
UNIT_BYTES_MAX: Final = 64 << 20
"""Ours: a size above it is taken for damage.  A frame ends at 16 MiB (frameMaxLength), so no client can send as much."""
_TOTAL_SIZE: Final = flat(HEAD).field("total_size")


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
    numbers: dict[str, npt.NDArray[Any]]
    host_bits: npt.NDArray[np.int32]
    body_at: Ints
    topic_at: Ints
    topic_size: Ints
    properties_at: Ints
    properties_size: Ints
    fault: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column of the fixed part, native byte order."""
        return self.numbers[name]

    @property
    def body_size(self) -> Ints:
        return self.numbers["body_size"]

    @property
    def end(self) -> Ints:
        """One past the last byte of each."""
        return self.at + self.numbers["total_size"]

    def take(self, which: slice | Mask | Ints) -> Units:
        """Some of the rows."""
        numbers = {name: column[which] for name, column in self.numbers.items()}
        return Units(
            self.at[which], numbers, self.host_bits[which], self.body_at[which], self.topic_at[which], self.topic_size[which],
            self.properties_at[which], self.properties_size[which], self.fault[which],
        )  # fmt: skip


def walk(buffer: bytes | bytearray | memoryview, at: int, end: int, units_max: int | None = None) -> tuple[list[int], int]:
    """Follow the sizes from `at`: (where units begin, where the next would).

    Ends before `end`, or where a size is below `UNIT_SIZE_MIN`, or after `units_max`.  The last unit may reach behind `end`.
    """
    found: list[int] = []
    append, unpack = found.append, _TOTAL_SIZE.unpack_from
    last = end - _TOTAL_SIZE.size
    if units_max is not None:
        last = min(last, at + units_max * UNIT_BYTES_MAX)
        while at <= last and len(found) < units_max:
            [size] = unpack(buffer, at)
            if size < UNIT_SIZE_MIN:
                break
            append(at)
            at += size
        return found, at
    while at <= last:
        [size] = unpack(buffer, at)
        if size < UNIT_SIZE_MIN:
            break
        append(at)
        at += size
    return found, at


def read(buffer: Bytes, positions: Ints, end: int) -> Units:
    """The units that begin at these positions, none of which may reach behind `end`, with a fault code each."""
    count = len(positions)
    fault = np.zeros(count, np.uint8)
    whole = (positions >= 0) & (positions + UNIT_SIZE_MIN <= end)
    bits = np.zeros(count, np.int32)
    bits[whole] = gather(buffer, positions[whole] + _SYS_FLAG_AT, _SYS_FLAG).astype(np.int32) & _HOST_BITS
    numbers: dict[str, npt.NDArray[Any]] = {}
    fixed_size = np.full(count, FIXED_SIZE_MIN, np.int64)
    for value in np.unique(bits) if count else ():
        layout = FIXED[int(value)]
        rows = whole & (bits == value) & (positions + layout.size <= end)
        whole &= rows | (bits != value)
        every = bool(rows.all())
        found = gather(buffer, positions if every else positions[rows], _DTYPES[int(value)])
        fixed_size[rows] = layout.size
        for name in COLUMNS:
            native = found[name].astype(found.dtype[name].newbyteorder("="))
            if every:
                numbers[name] = native
            else:
                numbers.setdefault(name, np.zeros(count, native.dtype))[rows] = native
    for name in COLUMNS if not numbers else ():
        kind = _DTYPES[0][name].newbyteorder("=")
        numbers[name] = np.zeros(count, kind)
    fault[~whole] = Fault.SIZE
    return _with_tails(buffer, positions, numbers, bits, fixed_size, fault, end)


def _with_tails(
    buffer: Bytes, positions: Ints, numbers: dict[str, npt.NDArray[Any]], bits: npt.NDArray[np.int32], fixed_size: Ints,
    fault: npt.NDArray[np.uint8], end: int,
) -> Units:  # fmt: skip
    """Check the lengths one after another; a row that failed keeps harmless positions inside the buffer."""

    def mark(bad: Mask, why: Fault) -> None:
        fault[bad & (fault == 0)] = why

    total = numbers["total_size"].astype(np.int64)
    unit_end = positions + total
    is_v2 = numbers["magic"] == MAGIC_V2
    mark((total < UNIT_SIZE_MIN) | (total > UNIT_BYTES_MAX) | (unit_end > end), Fault.SIZE)
    mark(~is_v2 & (numbers["magic"] != MAGIC_V1), Fault.MAGIC)
    body_at = positions + fixed_size
    body_size = numbers["body_size"].astype(np.int64)
    length_size = np.where(is_v2, 2, 1)
    mark((body_size < 0) | (body_at + body_size + length_size + 2 > unit_end), Fault.BODY)
    safe = max(end - 2, 0)
    length_at = np.where(fault == 0, body_at + body_size, 0)
    topic_size = _length(buffer, np.minimum(length_at, safe), is_v2)
    topic_at = length_at + length_size
    mark((topic_size < 0) | (topic_at + topic_size + 2 > unit_end), Fault.TOPIC)
    length_at = np.where(fault == 0, topic_at + topic_size, 0)
    properties_size = _length(buffer, np.minimum(length_at, safe), np.True_)
    properties_at = length_at + 2
    mark((properties_size < 0) | (properties_at + properties_size > unit_end), Fault.PROPERTIES)
    mark(properties_at + properties_size != unit_end, Fault.SUM)
    return Units(positions, numbers, bits, body_at, topic_at, topic_size, properties_at, properties_size, fault)


def _length(buffer: Bytes, at: Ints, is_short: Any) -> Ints:
    """Signed lengths of two bytes, or of one where `is_short` is false."""
    if len(buffer) < 2:
        return np.full(len(at), -1, np.int64)
    high, low = buffer[at].astype(np.int64), buffer[at + 1].astype(np.int64)
    high -= (high & 0x80) << 1
    return np.where(is_short, high * 256 + low, high)


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
