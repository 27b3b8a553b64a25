"""Walking the commit log unit by unit from the files, not from maps: for recovery, where any byte may be wrong.

The walk ends at the first thing that is not a whole unit at its own position with a right check sum, or a blank that closes its
file.  It never raises for bad bytes; it says where and why it ended.  Nearly all units are of one kind and beyond doubt: those
are taken in one loop without a call, which leaves the first that is different to the careful way.
(Java: CommitLog.checkMessageAndReturnSize)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from struct import error as PackedError
from typing import Final, NamedTuple
from zlib import crc32

from rmq_store.disk.segments import Segments
from rmq_store.layouts import BLANK, BORN_V6, FIXED, PROPERTIES_LENGTH, STORE_V6
from rmq_wire.checksum import MASK
from rmq_wire.errors import BadRecord
from rmq_wire.message import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    TOPIC_V1_BYTES_MAX,
    StoredMessage,
    has_good_crc,
    has_good_seal,
    read_size_and_magic,
    read_unit,
)

CHUNK_BYTES: Final = 4 * 1024 * 1024
CHUNK_BYTES_MIN: Final = 64 * 1024
HEAD_BYTES: Final = BLANK.size
"""length and magic, of a unit or a blank"""
SECTOR_BYTES: Final = 512
"""What a disk writes whole or not at all."""
NEVER: Final = 1 << 63
"""Later than any time, behind any position."""
UNIT_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})
_PLAIN: Final = FIXED[0].packed
_HOST_BITS: Final = BORN_V6 | STORE_V6


class Doubts(NamedTuple):
    """What must be asked of a unit beside its lengths, its place and its check sum."""

    torn_from_ms: int = NEVER
    """Units stored then or later, and what follows them, may have lost sectors in a power cut, and the last of them its end."""
    whole_before: int = 0
    """Units that begin before this position have lost nothing."""
    unfinished_from: int = NEVER
    """A unit that ends behind this position may be the last thing that a killed process wrote, and lack its end."""
    sealed: bool = False
    """Every unit must end with a check sum over all of it (Java: forceVerifyPropCRC)."""


NO_DOUBTS: Final = Doubts()


class LogWalk:
    """`end` is where the log ends as far as walked; `reason` says why; `last_unit_at` is the start of the last good unit."""

    def __init__(self, segments: Segments, start: int, stop: int | None = None, doubts: Doubts = NO_DOUBTS) -> None:
        """Walk from the unit that begins at `start`, up to `stop` if given (a unit's start)."""
        self._segments = segments
        self._doubts = doubts
        self._may_be_torn = False
        """what comes follows a unit that is as new as those that may be torn: the clock may have been set back since"""
        self._stop = stop
        self.end = start
        self.reason = ""
        self.last_unit_at = -1

    def batches(self) -> Iterator[list[StoredMessage]]:
        """Good units in order, some megabytes at a time. Raises OSError."""
        while not self.reason:
            start = self._segments.start_of(self.end)
            if start is None:
                # A missing file ends the log, too: what is behind it is no continuation. (Java goes on.)
                self.reason = f"no file holds {self.end}"
                return
            yield from self._file(start)

    def _file(self, start: int) -> Iterator[list[StoredMessage]]:
        """The units of one file from `end` on; then `end` is the next file's start, or `reason` is set."""
        file = self._segments.file(start)
        file_end = start + self._segments.file_bytes
        want = CHUNK_BYTES if self._stop is None else min(CHUNK_BYTES, max(self._stop - self.end, CHUNK_BYTES_MIN))
        while not self.reason and self.end < file_end:
            data = file.read_at(self.end - start, min(want, file_end - self.end))
            units, want = self._units(data, file_end)
            if units:
                self.last_unit_at = units[-1].physical_offset
                yield units

    def _units(self, data: bytes, file_end: int) -> tuple[list[StoredMessage], int]:
        """Whole units of one chunk, and how many bytes the next chunk should have. Moves `end`, sets `reason`."""
        base, want = self.end, CHUNK_BYTES
        more = base + len(data) < file_end
        end = len(data) if self._stop is None else min(len(data), self._stop - base)
        units, at = ([], 0) if self._doubts.sealed else _plain_units(data, base, end)
        torn_from_ms = self._doubts.torn_from_ms
        if torn_from_ms != NEVER and not self._may_be_torn:
            self._may_be_torn = any(unit.store_timestamp >= torn_from_ms for unit in units)
        while at < len(data):
            if self._stop is not None and base + at >= self._stop:
                self.reason = "asked to stop"
                break
            left = len(data) - at
            if left < HEAD_BYTES and more:
                break
            try:
                size, magic = read_size_and_magic(data, at)
                if magic == MAGIC_BLANK and size == file_end - base - at:
                    at = size + at
                    break
                if more and left < size <= file_end - base - at and magic in UNIT_MAGICS:
                    want = max(want, size)
                    break
                unit = read_unit(data, at)
            except BadRecord as reason:
                self.reason = f"position {base + at}: {reason}"
                break
            self.reason = self._wrong(unit, base + at, data, at)
            if self.reason:
                break
            units.append(unit)
            at += size
        self.end = base + at
        return units, want

    def _wrong(self, unit: StoredMessage, position: int, data: bytes, at: int) -> str:
        """Why this is not a unit of the log, "" when it is."""
        doubts = self._doubts
        if not is_at_home(unit, position):
            return f"the unit at {position} says that it belongs to {unit.physical_offset}"
        if not has_good_crc(unit):
            return f"the unit at {position} has a body without the check sum {unit.body_crc & 0xFFFFFFFF:08X}"
        if doubts.sealed and not has_good_seal(data[at : at + unit.total_size]):
            return f"the unit at {position} does not end with its check sum, which forceVerifyPropCRC asks for"
        self._may_be_torn |= unit.store_timestamp >= doubts.torn_from_ms
        may_be_torn = self._may_be_torn and position >= doubts.whole_before
        if may_be_torn and has_lost_sector(unit, at=position):
            return f"the unit at {position} has a sector of zeros in its topic or properties"
        end = position + unit.total_size
        may_lack_its_end = may_be_torn or end > doubts.unfinished_from
        if may_lack_its_end and unit.properties.endswith(b"\0") and not self._is_followed(end):
            return f"the unit at {position} is the last and ends with zeros"
        return ""

    def _is_followed(self, end: int) -> bool:
        """Whether a unit or a blank was begun behind this position."""
        start = self._segments.start_of(end)
        return start is not None and any(self._segments.file(start).read_at(end - start, HEAD_BYTES))


def _plain_units(data: bytes, base: int, stop: int) -> tuple[list[StoredMessage], int]:
    """The units of a chunk, up to the first that is not of the common kind (short topic, IPv4 hosts) or could be doubted.

    `base` is the log position of the chunk, `stop` where to stop in it. Returns the units, and where they end in the chunk.
    """
    head_of, body_offset, properties_bytes_of = _PLAIN.unpack_from, _PLAIN.size, PROPERTIES_LENGTH.unpack_from
    length_bytes, chunk_bytes, new = PROPERTIES_LENGTH.size, len(data), tuple.__new__
    units: list[StoredMessage] = []
    at = 0
    try:
        while at < stop:
            head = head_of(data, at)
            size, magic, body_crc, _, _, _, physical, sys_flag, _, _, _, _, _, _, body_bytes = head
            body_at = at + body_offset
            body_end = body_at + body_bytes
            end = at + size
            if magic != MAGIC_V1 or physical != base + at or sys_flag & _HOST_BITS:
                break
            if not body_at <= body_end < end <= chunk_bytes or (topic_bytes := data[body_end]) > TOPIC_V1_BYTES_MAX:
                break
            topic_at = body_end + 1
            topic_end = topic_at + topic_bytes
            properties_at = topic_end + length_bytes
            [properties_bytes] = properties_bytes_of(data, topic_end)
            if not properties_at <= end == properties_at + properties_bytes:
                break
            body, topic, properties = data[body_at:body_end], data[topic_at:topic_end], data[properties_at:end]
            if (body and crc32(body) & MASK != body_crc) or 0 in topic or 0 in properties:
                break
            units.append(new(StoredMessage, (*head[:-1], body, topic, properties)))
            at = end
    except (PackedError, IndexError):
        pass
    return units, at


def is_at_home(unit: StoredMessage, position: int) -> bool:
    """Units of an earlier life of the file, or of another place, are none of this log (#10666)."""
    return unit.physical_offset == position


def has_lost_sector(unit: StoredMessage, at: int) -> bool:
    """Whether topic or properties, which no check sum covers, have nothing but zeros from a sector's edge to the next (#7437).

    `at` is where the unit begins; files begin at sectors' edges.
    """
    if 0 not in unit.topic and 0 not in unit.properties:
        return False
    tail = unit.topic + bytes((1, 1)) + unit.properties  # lengths add up, so the length between them was not lost
    tail_at = at + unit.total_size - len(tail)
    edges = [0, *range(-tail_at % SECTOR_BYTES, len(tail), SECTOR_BYTES), len(tail)]
    return any(low < high and not any(tail[low:high]) for low, high in pairwise(edges))
