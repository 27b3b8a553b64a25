"""One batch consume queue: units of several messages each, back to back; a file's name says bytes, not offsets.

A unit holds where its message unit lies, when it was stored, the offset of its first message and how many there are: one for an
ordinary message, more for an inner batch.  Since offsets do not give the place of a unit, each file's first offset is kept in
memory, and within a file the unit is found by halving.  (Java: BatchConsumeQueue)
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from rmq_store.disk.disk import write_all
from rmq_store.disk.segments import Segments, note_dirty
from rmq_store.layouts import BATCH_UNIT
from rmq_store.queues.consume_queue import ConsumeQueue, Entering
from rmq_store.queues.key_heads import KeyHeads
from rmq_store.results import Boundary

UNIT_BYTES: Final = BATCH_UNIT.size
NOT_COMPACTED: Final = -1
RESERVED: Final = 0


class Unit(NamedTuple):
    """One unit, in the order of its layout."""

    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base_offset: int
    message_count: int
    compacted_offset: int
    reserved: int

    @property
    def end_offset(self) -> int:
        """The next unit's first."""
        return self.base_offset + self.message_count

    @property
    def is_valid(self) -> bool:
        return self.physical_offset >= 0 and self.size > 0 and self.base_offset >= 0 and self.message_count > 0


class BatchConsumeQueue(ConsumeQueue):
    """Offsets count messages, places count units from the first there ever was."""

    __slots__ = ("bases", "end_place")

    is_plain = False
    is_batch = True
    unit_bytes = UNIT_BYTES
    unit_fields = len(Unit._fields)

    def __init__(self, topic: str, queue_id: int, segments: Segments, hash_heads: KeyHeads) -> None:
        super().__init__(topic, queue_id, segments, hash_heads)
        self.end_place = 0
        """where the next unit goes"""
        self.bases: dict[int, int] = {}
        """start of a file: offset of its first message"""

    def pend(self, staged: Entering) -> None:
        """Take a unit for the running dispatch."""
        self.pending += Unit(
            staged.physical_offset,
            staged.size,
            staged.tags_code,
            staged.store_timestamp,
            staged.queue_offset,
            staged.count,
            NOT_COMPACTED,
            RESERVED,
        )

    def write_pending(self, dirty_files: dict[str, int]) -> None:
        segments = self.segments
        pending = self.pending
        while pending:
            position = self.end_place * UNIT_BYTES
            within = position % segments.file_bytes
            start = position - within
            room = (segments.file_bytes - within) // UNIT_BYTES * self.unit_fields
            fields = pending[:room]
            units = [Unit(*fields[at : at + self.unit_fields]) for at in range(0, len(fields), self.unit_fields)]
            if not segments.starts or segments.starts[-1] < start:
                if not segments.starts:
                    self.min_offset = units[0].base_offset
                segments.create(start)
            if not within:
                self.bases[start] = units[0].base_offset
            path = segments.path(start)
            note_dirty(dirty_files, path, within, within + len(units) * UNIT_BYTES, segments.file_bytes)
            write_all(segments.files.get(path), within, b"".join([BATCH_UNIT.pack(*unit) for unit in units]))
            last = units[-1]
            self.end_place += len(units)
            self.max_offset = last.end_offset
            self.end_physical = last.physical_offset + last.size
            del pending[:room]

    # --- finding

    def place_of(self, offset: int) -> int:
        """Place of the unit that holds this visible offset. Raises Cold."""
        starts = self.segments.starts
        at = bisect_right(starts, offset, key=self.bases.__getitem__) - 1
        if at < 0:
            raise IndexError(f"{self.segments.directory} begins behind {offset}")
        low = starts[at] // UNIT_BYTES
        high = min(low + self.segments.file_bytes // UNIT_BYTES, self.end_place)
        while high - low > 1:
            middle = (low + high) // 2
            if self.unit_in(middle).base_offset <= offset:
                low = middle
            else:
                high = middle
        return low

    def unit_in(self, place: int) -> Unit:
        """The unit in one place. Raises Cold."""
        return Unit(*BATCH_UNIT.unpack(self.read_places(place, 1)))

    def units_from(self, offset: int, count: int) -> list[Unit]:
        """Units from the one with this offset on, `count` or as many as its file has. Raises Cold."""
        place = self.place_of(offset)
        data = self.read_places(place, min(count, self.end_place - place))
        return [Unit(*fields) for fields in BATCH_UNIT.iter_unpack(data)]

    def read_places(self, place: int, count: int) -> bytes:
        """Raw units, `count` or as many as the file holds. Raises Cold."""
        position = place * UNIT_BYTES
        within = position % self.segments.file_bytes
        return self.read_bytes(position - within, within, min(count * UNIT_BYTES, self.segments.file_bytes - within))

    def unit(self, offset: int) -> tuple[int, int, int]:
        unit = self.unit_in(self.place_of(offset))
        return unit.physical_offset, unit.size, unit.tags_code

    def first_offset(self) -> int:
        return self.bases[self.segments.starts[0]] if self.segments.starts else 0

    def offset_behind_file(self, start: int) -> int:
        return self.bases.get(start + self.segments.file_bytes, self.max_offset)

    def remove_files(self) -> None:
        super().remove_files()
        self.bases.clear()
        self.end_place = 0

    # --- by time

    def offset_by_time(self, timestamp: int, boundary: Boundary) -> int:
        """The first message stored then or later (UPPER: the last one stored then, if any was); the newest unit's first when
        all are older (Java: getOffsetInQueueByTime, which answers with first offsets of units). Raises Cold."""
        low, high = self.place_of(self.min_offset), self.end_place
        end = high
        while low < high:
            middle = (low + high) // 2
            at = self.unit_in(middle).store_timestamp
            if at < timestamp or (boundary is Boundary.UPPER and at == timestamp):
                low = middle + 1
            else:
                high = middle
        if boundary is Boundary.UPPER and low > self.place_of(self.min_offset):
            before = self.unit_in(low - 1)
            if before.store_timestamp == timestamp:
                return before.base_offset
        return self.unit_in(min(low, end - 1)).base_offset
