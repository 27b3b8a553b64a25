"""Walking the commit log unit by unit from the files, not from maps: for recovery, where any byte may be wrong.

The walk ends at the first thing that is not a whole unit at its own position with a right check sum, or a blank that closes its
file.  It never raises for bad bytes; it says where and why it ended.  (Java: CommitLog.checkMessageAndReturnSize)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from rmq_store.segments import Segments
from rmq_wire.errors import BadRecord
from rmq_wire.message import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, StoredMessage, has_good_crc, read_size_and_magic, read_unit

CHUNK_BYTES: Final = 4 * 1024 * 1024
CHUNK_BYTES_MIN: Final = 64 * 1024
HEAD_BYTES: Final = 8
"""length and magic, of a unit or a blank"""
UNIT_MAGICS: Final = frozenset({MAGIC_V1, MAGIC_V2})


class LogWalk:
    """`end` is where the log ends as far as walked; `reason` says why; `last_unit_at` is the start of the last good unit."""

    def __init__(self, segments: Segments, start: int, stop: int | None = None) -> None:
        """Walk from the unit that begins at `start`, up to `stop` if given (a unit's start)."""
        self._segments = segments
        self._stop = stop
        self.end = start
        self.reason = ""
        self.last_unit_at = -1

    def batches(self) -> Iterator[list[StoredMessage]]:
        """Good units in order, some megabytes at a time. Raises OSError."""
        while not self.reason:
            start = self._segments.start_of(self.end)
            if start is None:
                starts = self._segments.starts
                following = bisect_right(starts, self.end)
                if following == len(starts):
                    self.reason = "no more files"
                    return
                # A hole between files; Java logs it and goes on.
                start = self.end = starts[following]
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
        units: list[StoredMessage] = []
        base, at, want = self.end, 0, CHUNK_BYTES
        more = base + len(data) < file_end
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
            if unit.physical_offset != base + at:
                self.reason = f"the unit at {base + at} says that it belongs to {unit.physical_offset}"
                break
            if not has_good_crc(unit):
                self.reason = f"the unit at {base + at} has a body without the check sum {unit.body_crc & 0xFFFFFFFF:08X}"
                break
            units.append(unit)
            at += size
        self.end = base + at
        return units, want
