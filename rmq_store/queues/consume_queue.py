"""One consume queue: 20-byte units in a row of files, unit k of the queue at byte 20 k.

Units reach the files by one `write_at` per turn and are read by position; nothing is mapped and nothing kept, so that 20,000
queues cost little memory.  `next_offset` runs ahead of `max_offset`: the first is what the next staged message gets, the second
what consumers may see.  No file is made before its first unit is at hand: Java reads a file of zeros as one message.
(Java: ConsumeQueue)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from rmq_store.disk.disk import File, write_all
from rmq_store.disk.segments import Segments, note_dirty
from rmq_store.errors import Cold, StoreError
from rmq_store.layouts import MAGIC_V1, MAGIC_V2, QUEUE_UNIT, QUEUE_UNITS, TOPIC_LENGTH_V1, TOPIC_LENGTH_V2
from rmq_store.queues.key_heads import KeyHeads
from rmq_wire.layout.consume_queue import EXT_ADDRESS_LAST
from rmq_wire.message import TOPIC_V1_BYTES_MAX

UNIT_BYTES: Final = QUEUE_UNIT.size
UNIT_FIELDS: Final = len(QUEUE_UNITS.names)
PACKED_FIELDS_MAX: Final = 64 * UNIT_FIELDS
_PACKS: Final[dict[int, Callable[..., bytes]]] = {}
"""By number of fields: what packs so many at once."""
PRE_BLANK: Final = QUEUE_UNIT.pack(0, 0x7FFFFFFF, 0)
"""What Java fills a new queue's first file with, up to the first offset it has a message for."""
NOTHING: Final = -1


class Entering(Protocol):
    """What a queue takes of a unit of the log (`rmq_store.log.commit_log.Staged`)."""

    physical_offset: int
    queue_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    count: int


class ConsumeQueue:
    """State of one (topic, queue id). Offsets count units unless a name says bytes."""

    __slots__ = (
        "end_physical",
        "forgotten",
        "hash_heads",
        "is_deleted",
        "magic",
        "max_offset",
        "min_offset",
        "next_offset",
        "pending",
        "pending_timestamp",
        "queue_id",
        "segments",
        "topic",
        "topic_field",
        "topic_field_bytes",
    )

    is_plain = True
    """its entries are written as they are gathered; other kinds take them one by one (`pend`)"""
    is_batch = False
    """its units may hold several messages each (`BatchConsumeQueue`)"""
    unit_bytes = UNIT_BYTES
    unit_fields = UNIT_FIELDS

    def __init__(self, topic: str, queue_id: int, segments: Segments, hash_heads: KeyHeads) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.segments = segments
        self.next_offset = 0
        self.max_offset = 0
        self.min_offset = 0
        self.end_physical = NOTHING
        """log position one past the last unit's message; -1 for none (Java: maxPhysicOffset)"""
        self.is_deleted = False
        """its topic was deleted: units still on their way go to no queue"""
        self.forgotten: tuple[str, ...] = ()
        """files that retention has taken out of it and not unlinked yet, oldest first"""
        self.pending: list[int] = []
        """fields of the units of the running dispatch, one unit after the other, the first of them at max_offset"""
        self.pending_timestamp = 0
        """store time of the newest of them, ms"""
        self.topic_field = topic_field(topic)
        self.magic = MAGIC_V2 if len(self.topic_field) > TOPIC_LENGTH_V1.size + TOPIC_V1_BYTES_MAX else MAGIC_V1
        self.topic_field_bytes = len(self.topic_field)
        self.hash_heads = hash_heads
        """shared by the topic's queues"""

    def pend(self, staged: Entering) -> None:
        """Take a unit for the running dispatch."""
        self.pending += (staged.physical_offset, staged.size, staged.tags_code)

    def write_pending(self, dirty_files: dict[str, int]) -> None:
        """Write the pending units where they belong and make them visible; notes the files in `dirty_files`.

        Raises OSError: the units then stay pending, as many as are not written.
        """
        segments = self.segments
        starts = segments.starts
        pending = self.pending
        while pending:
            position = self.max_offset * UNIT_BYTES
            within = position % segments.file_bytes
            start = position - within
            room = (segments.file_bytes - within) // UNIT_BYTES * UNIT_FIELDS
            fields = pending if len(pending) <= room else pending[:room]
            if not starts or starts[-1] < start:
                if not starts:
                    self.min_offset = self.max_offset
                segments.create(start)
            path = segments.path(start)
            file = segments.files.get(path)
            end = within + len(fields) // UNIT_FIELDS * UNIT_BYTES
            note_dirty(dirty_files, path, within, end, segments.file_bytes)  # first: what follows may fail half way
            if self.min_offset == self.max_offset and within and starts[0] == start:
                self._fill_up(file, within)
            write_all(file, within, pack_units(fields))
            self.max_offset += len(fields) // UNIT_FIELDS
            self.end_physical = fields[-3] + fields[-2]
            if fields is pending:
                return
            del pending[:room]

    def _fill_up(self, file: File, within: int) -> None:
        """A new queue that begins later than its first file does: blanks up to there, unless old units are there."""
        if not any(file.read_at(within - UNIT_BYTES, UNIT_BYTES)):
            write_all(file, 0, PRE_BLANK * (within // UNIT_BYTES))

    def unit(self, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of one visible unit. Raises Cold."""
        physical, size, tags_code = QUEUE_UNIT.unpack(self.read(offset, 1))
        return physical, size, tags_code

    def units(self, offset: int, count: int) -> list[tuple[int, int, int]]:
        """The same of up to `count` visible units from `offset` on, one at least; all must be visible. Raises Cold."""
        return [*QUEUE_UNIT.iter_unpack(self.read(offset, count))] if self.is_plain else [self.unit(offset)]

    def tags_of(self, tags_code: int) -> int | None:
        """The hash behind an entry's tags code; None when that is the address of an extension that is not there. Raises Cold."""
        return tags_code if tags_code > EXT_ADDRESS_LAST else None

    def read(self, offset: int, count: int) -> bytes:
        """Raw units from `offset` on, `count` or as many as the file holds; all must be visible. Raises Cold."""
        position, segments = offset * UNIT_BYTES, self.segments
        within = position % segments.file_bytes
        size = min(count * UNIT_BYTES, segments.file_bytes - within)
        file = segments.file(position - within)
        data = file.read_nowait(within, size)
        return self.read_file(file, within, size) if data is None else data

    def read_bytes(self, start: int, within: int, size: int) -> bytes:
        """Bytes of the file that starts at `start`. Raises Cold."""
        return self.read_file(self.segments.file(start), within, size)

    @staticmethod
    def read_file(file: File, within: int, size: int) -> bytes:
        """Bytes of a file that are there. Raises Cold."""
        data = file.read_nowait(within, size)
        if data is None:
            raise Cold(lambda: _load(file, within, size), f"{file.path} at {within}")
        return data

    def units_to_file_end(self, offset: int) -> int:
        """How many units the file that holds `offset` has room for from there on."""
        return (self.segments.file_bytes - offset * UNIT_BYTES % self.segments.file_bytes) // UNIT_BYTES

    def first_offset(self) -> int:
        """The first offset that has a file."""
        return self.segments.starts[0] // UNIT_BYTES if self.segments.starts else 0

    def offset_behind_file(self, start: int) -> int:
        """The first offset that is behind the file of this start."""
        return (start + self.segments.file_bytes) // UNIT_BYTES

    def remove_files(self) -> None:
        """Unlink everything, newest first, so that what is left after a crash is a valid shorter queue. Raises OSError."""
        for start in reversed(self.segments.starts.copy()):
            self.segments.remove(start)
        while self.forgotten:
            with suppress(FileNotFoundError):
                self.segments.files.disk.unlink(self.forgotten[-1])
            self.forgotten = self.forgotten[:-1]


def topic_field(topic: str) -> bytes:
    """How it stands in a unit, behind its length."""
    encoded = topic.encode()
    return (TOPIC_LENGTH_V1 if len(encoded) <= TOPIC_V1_BYTES_MAX else TOPIC_LENGTH_V2).pack(len(encoded)) + encoded


def pack_units(fields: list[int]) -> bytes:
    """Queue units from their fields, (physical offset, size, tags code) over and over."""
    pack = _PACKS.get(len(fields))
    if pack is not None:
        return pack(*fields)
    if len(fields) > PACKED_FIELDS_MAX:
        return b"".join([pack_units(fields[at : at + PACKED_FIELDS_MAX]) for at in range(0, len(fields), PACKED_FIELDS_MAX)])
    units = QUEUE_UNITS.rows(len(fields) // UNIT_FIELDS)
    _PACKS[len(fields)] = units.pack
    return units.pack(*fields)


def _load(file: File, within: int, size: int) -> None:
    if len(file.read_at(within, size)) < size:
        raise StoreError(f"{file.path} is shorter than {within + size} bytes")
