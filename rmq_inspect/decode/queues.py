"""Consume queues, plain and batch, as rows of units: one by its number, a range, or the first by some order.

A queue's files hold fixed units one behind the other; a file's name is the byte at which it begins.  Unit k of a plain queue is
the message with queue offset k; of a batch queue each unit covers `batch_size` offsets from `base_offset` on.
Sources: `ConsumeQueue`, `BatchConsumeQueue` of the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from rmq_columns.checks.readers import Readers
from rmq_inspect.decode.directory import StoreFile
from rmq_inspect.decode.log import Log
from rmq_wire.errors import BadRecord
from rmq_wire.layout.consume_queue import BATCH_UNIT_FLAT
from rmq_wire.layout.consume_queue import UNIT_FLAT as QUEUE_UNIT_FLAT

UNIT: Final = QUEUE_UNIT_FLAT
BATCH: Final = BATCH_UNIT_FLAT
FILLER_SIZE: Final = 0x7FFFFFFF
"""Size in the units before a queue's first message (`ConsumeQueue.fillPreBlank`)."""
READ_UNITS: Final = 4096


class QueueUnit(NamedTuple):
    """One unit of a plain queue and where it stands."""

    file: StoreFile
    at: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int

    @property
    def is_filler(self) -> bool:
        return self.size == FILLER_SIZE and self.physical_offset == 0

    @property
    def is_written(self) -> bool:
        return self.physical_offset >= 0 and self.size > 0

    @property
    def is_empty(self) -> bool:
        return not (self.physical_offset or self.size or self.tags_code)

    @property
    def raw(self) -> bytes:
        return UNIT.packed.pack(self.physical_offset, self.size, self.tags_code)


def units(files: Sequence[StoreFile], first: int = 0) -> Iterator[QueueUnit]:
    """All units from queue offset `first` on, empty ones too, to the end of the last file.  Holes are not read, and not given."""
    size = UNIT.size
    for file in files:
        if file.end <= first * size:
            continue
        with file.open() as reader:
            skip = max(first * size - file.start, 0)
            for begin, end in reader.data_ranges(skip - skip % size):
                begin -= begin % size
                begin = max(begin, skip)
                for at, data in reader.chunks(begin, -(-end // size) * size, READ_UNITS * size):
                    whole = len(data) - len(data) % size
                    for number, fields in enumerate(UNIT.packed.iter_unpack(memoryview(data)[:whole])):
                        place = at + number * size
                        yield QueueUnit(file, place, (file.start + place) // size, *fields)


def written(files: Sequence[StoreFile], first: int = 0) -> Iterator[QueueUnit]:
    """The units that point to a message: fillers and empty ones left out."""
    return (unit for unit in units(files, first) if unit.is_written and not unit.is_filler)


def file_of(files: Sequence[StoreFile], queue_offset: int) -> StoreFile | None:
    """The file that holds this unit."""
    byte = queue_offset * UNIT.size
    return next((file for file in files if file.start <= byte and byte + UNIT.size <= file.end), None)


def unit_at(files: Sequence[StoreFile], queue_offset: int, readers: Readers | None = None) -> QueueUnit | None:
    """None when no file holds it; an empty unit is given as it is.  readers: keeps the file open for who asks for many."""
    file = file_of(files, queue_offset)
    if file is None:
        return None
    at = queue_offset * UNIT.size - file.start
    if readers is not None:
        data = readers.get(file).read(at, UNIT.size)
    else:
        with file.open() as reader:
            data = reader.read(at, UNIT.size)
    return QueueUnit(file, at, queue_offset, *UNIT.packed.unpack(data)) if len(data) == UNIT.size else None


def bounds(files: Sequence[StoreFile]) -> tuple[int, int]:
    """(first, behind the last) queue offset with a unit that is written, found by halving; equal when there is none.

    Right for a queue whose units lie side by side; of a spoilt one it is some end.
    """
    if not files:
        return 0, 0
    low, high = files[0].start // UNIT.size, files[-1].end // UNIT.size
    first = low
    while low < high:
        middle = (low + high) // 2
        unit = unit_at(files, middle)
        if unit is not None and unit.is_written:
            low = middle + 1
        else:
            high = middle
    end = low
    low, high = first, end
    while low < high:  # fillers lie before the first message
        middle = (low + high) // 2
        unit = unit_at(files, middle)
        if unit is None or unit.is_filler:
            low = middle + 1
        else:
            high = middle
    return low, end


Probe = Callable[[QueueUnit, int | None], None]
"""Called with each unit that was looked at, and the store time of its message (None: it cannot be read)."""


def first_stored_at(files: Sequence[StoreFile], log: Log, time_ms: int, probe: Probe | None = None) -> int:
    """The first queue offset whose message was stored at or after this time, by halving; behind the last one when none was.

    Where the message in the middle cannot be read, one behind it says where to go; where none of those that are tried can, what
    is before them does: the answer may then be too early, and never hides a message.
    """
    low, high = bounds(files)
    while low < high:
        middle = (low + high) // 2
        for at in _ever_farther(middle, high):
            unit = unit_at(files, at)
            stored = None if unit is None else store_time(log, unit.physical_offset)
            if unit is not None and probe is not None:
                probe(unit, stored)
            if stored is not None:
                low, high = (at + 1, high) if stored < time_ms else (low, at)
                break
            if unit is not None and 0 <= unit.physical_offset < log.start:
                low = at + 1  # gone with the log's beginning
                break
        else:
            high = middle
    return low


def _ever_farther(first: int, end: int) -> Iterator[int]:
    """first, and places behind it up to the end, each twice as far away."""
    yield first
    step = 1
    while first + step < end:
        yield first + step
        step *= 2


def store_time(log: Log, physical_offset: int) -> int | None:
    """When the message there was stored, ms; None when none can be read."""
    try:
        return log.unit(physical_offset, 512).message.store_timestamp
    except BadRecord:
        return None


class BatchUnit(NamedTuple):
    """One unit of a batch queue and where it stands."""

    file: StoreFile
    at: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp: int
    base_offset: int
    batch_size: int
    compacted_offset: int
    reserved: int

    @property
    def is_written(self) -> bool:
        """Java: `BatchConsumeQueue` takes a unit for valid by this."""
        return self.physical_offset >= 0 and self.size > 0 and self.base_offset >= 0 and self.batch_size > 0


def batch_units(files: Sequence[StoreFile]) -> Iterator[BatchUnit]:
    """All units that are not holes, empty ones too."""
    for file in files:
        with file.open() as reader:
            for begin, end in reader.data_ranges():
                begin -= begin % BATCH.size
                for at, data in reader.chunks(begin, -(-end // BATCH.size) * BATCH.size, READ_UNITS * BATCH.size):
                    whole = len(data) - len(data) % BATCH.size
                    for number, fields in enumerate(BATCH.packed.iter_unpack(memoryview(data)[:whole])):
                        yield BatchUnit(file, at + number * BATCH.size, *fields)
