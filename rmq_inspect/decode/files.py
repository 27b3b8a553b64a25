"""What is in a file other than the log, as rows of named numbers: queue units, extensions, index entries, timers.

Every row has `byte`, where it begins, and the fields of its layout under their names.  Rows of zeros are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from rmq_columns.files import config
from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import QUEUE_TREES, Kind, StoreDirectory, StoreFile, list_store
from rmq_inspect.decode.index_file import ENTRY, HEADER, IndexReader
from rmq_inspect.decode.queues import FILLER_SIZE
from rmq_inspect.decode.reader import permitted
from rmq_inspect.errors import CannotLook
from rmq_inspect.times import text_of
from rmq_wire import store_names
from rmq_wire.layout import checkpoint, consume_queue, timer
from rmq_wire.layout.flat import Flat
from rmq_wire.layout.message import MAGIC_BLANK

CHECKPOINT: Final = checkpoint.FIELDS_FLAT
TIMER_CHECK: Final = timer.CHECK_FLAT
TIMER_UNIT: Final = timer.LOG_UNIT_FLAT
TIMER_SLOT: Final = timer.SLOT_FLAT
EXT_HEAD: Final = consume_queue.EXT_UNIT_HEAD_FLAT
EXT_FIRST_ADDRESS: Final = -(1 << 63)
"""`ConsumeQueueExt`: the address of the first unit."""
READ_ROWS: Final = 4096
TEXT_BYTES_MAX: Final = 4096
ROOT_SIGNS: Final = (store_names.COMMIT_LOG, *QUEUE_TREES, store_names.CHECKPOINT)

Row = dict[str, Any]


def locate(path: Path) -> tuple[StoreDirectory, list[StoreFile]]:
    """The store around this path, and its files at or beneath it.  Raises `CannotLook` when it lies in no store."""
    place = Path(os.path.abspath(path))
    if not place.exists():
        raise CannotLook(f"{path}: no such file or directory")
    for root in (place, *place.parents):
        with permitted(str(root)):  # not what is looked for in it
            is_root = root.is_dir() and any((root / sign).exists() for sign in ROOT_SIGNS)
        if is_root:
            store = list_store(root)
            under = os.path.join(place, "")
            return store, [file for file in store.files() if file.path == place or str(file.path).startswith(under)]
    raise CannotLook(f"{path}: not a RocketMQ store, nor in one; say what it is with --as TYPE")


def lone_file(path: Path, kind: Kind) -> StoreFile:
    """A file that was taken out of its store.  Its name says where it begins, if it is a number."""
    if not path.is_file():
        raise CannotLook(f"{path}: not a file")
    real = Path(os.path.realpath(path))
    start = int(real.name) if real.name.isascii() and real.name.isdigit() and len(real.name) <= 20 else 0
    return StoreFile(str(real.parent), (real.name,), str(path), kind, real.stat().st_size, start)


def rows(file: StoreFile, *, start: int = 0, slots: int | None = None) -> Iterator[Row]:
    """start: byte of the file.  Raises `CannotLook` for a kind that has no rows."""
    match file.kind:
        case Kind.CONSUME_QUEUE:
            yield from _queue(file, start)
        case Kind.BATCH_QUEUE:
            for unit in queues.batch_units([file]):
                if unit.at >= start and any(unit[2:]):
                    yield {"byte": unit.at, **dict(zip(queues.BATCH.names, unit[2:], strict=True))}
        case Kind.EXTENSION:
            yield from _extensions(file, start)
        case Kind.INDEX:
            yield from _index(file, start, slots)
        case Kind.TIMER_LOG:
            yield from _fixed(file, TIMER_UNIT, start, blank_magic_at=TIMER_UNIT.names.index("magic"))
        case Kind.TIMER_WHEEL:
            yield from _fixed(file, TIMER_SLOT, start)
        case _:
            raise CannotLook(f"{file.name}: {file.kind} has no rows")


def _queue(file: StoreFile, start: int) -> Iterator[Row]:
    for unit in queues.units([file], -(-(file.start + start) // queues.UNIT.size)):
        if unit.is_empty:
            continue
        row = {"queue_offset": unit.queue_offset, "byte": unit.at, "physical_offset": unit.physical_offset}
        yield {**row, "size": unit.size, "tags_code": unit.tags_code, "means": tags_meaning(unit)}


def tags_meaning(unit: queues.QueueUnit) -> str:
    """What the third number of a queue unit is, when it is not a hash."""
    if unit.size == FILLER_SIZE:
        return "filler"
    if not unit.is_written:
        return "not valid"
    if unit.tags_code < -(1 << 31):
        return f"extension at {unit.tags_code - EXT_FIRST_ADDRESS}"
    if unit.tags_code >= 1 << 31:
        return f"due {text_of(unit.tags_code)}"
    return "" if unit.tags_code else "no tags"


def _extensions(file: StoreFile, start: int) -> Iterator[Row]:
    with file.open() as reader:
        at, size = start, reader.size()
        while at + 2 <= size:
            head = reader.read(at, EXT_HEAD.size)
            if head[:2] == b"\xff\xff" or len(head) < EXT_HEAD.size:
                return
            fields = dict(zip(EXT_HEAD.names, EXT_HEAD.packed.unpack(head), strict=True))
            if not any(fields.values()):
                return
            if fields["size"] < EXT_HEAD.size or fields["bit_map_size"] != fields["size"] - EXT_HEAD.size:
                yield {"byte": at, **fields, "bit_map": "", "means": "not valid: its sizes do not agree"}
                return
            bit_map = reader.read(at + EXT_HEAD.size, fields["bit_map_size"])
            yield {"byte": at, "address": EXT_FIRST_ADDRESS + file.start + at, **fields, "bit_map": bit_map.hex()}
            at += fields["size"]


def _index(file: StoreFile, start: int, slots: int | None) -> Iterator[Row]:
    with IndexReader(file, slots) as reader:
        if not reader.slots:
            if reader.header.index_count <= 1:
                return
            raise CannotLook(f"{file.name}: {reader.no_slots}")
        first = max((start - reader.entry_at(0)) // ENTRY.size, 1)
        for entry in reader.entries(first):
            yield {
                "number": entry.number,
                "byte": entry.at,
                "key_hash": entry.key_hash,
                "slot": entry.key_hash % reader.slots,
                "physical_offset": entry.physical_offset,
                "seconds": entry.seconds,
                "store_time": text_of(entry.store_time(reader.header)),
                "previous": entry.previous,
            }


def index_header(file: StoreFile, slots: int | None) -> Row:
    """The header of an index file, and what follows from its size."""
    with IndexReader(file, slots) as reader:
        fields = dict(zip(HEADER.names, reader.header, strict=True))
        return {**fields, "hash_slots": reader.slots, "entries_max": reader.capacity - 1 if reader.slots else 0}


def _fixed(file: StoreFile, layout: Flat, start: int, blank_magic_at: int = -1) -> Iterator[Row]:
    with file.open() as reader:
        for begin, end in reader.data_ranges(start):
            begin -= (begin - start) % layout.size
            end = begin + -(-(end - begin) // layout.size) * layout.size
            for at, data in reader.chunks(begin, end, READ_ROWS * layout.size):
                whole = len(data) - len(data) % layout.size
                for number, fields in enumerate(layout.packed.iter_unpack(memoryview(data)[:whole])):
                    if any(fields):
                        if blank_magic_at >= 0 and fields[blank_magic_at] == MAGIC_BLANK:
                            return
                        yield {"byte": at + number * layout.size, **dict(zip(layout.names, fields, strict=True))}


# Small files


def checkpoint_of(file: StoreFile) -> Row:
    """Field -> value of a checkpoint or timer checkpoint; missing bytes are zeros, as for Java."""
    layout = TIMER_CHECK if file.kind is Kind.TIMER_CHECK else CHECKPOINT
    with file.open() as reader:
        data = reader.read(0, layout.size)
    return dict(zip(layout.names, layout.packed.unpack(data.ljust(layout.size, b"\0")), strict=True))


def text_content(file: StoreFile) -> bytes:
    """The beginning of a small file as it is."""
    with file.open() as reader:
        return reader.read(0, TEXT_BYTES_MAX)


def config_value(file: StoreFile) -> Any:
    """The value of a configuration file, in Java's dialect of JSON.  Raises `CannotLook` with the reason."""
    with file.open() as reader:
        data = config.config_bytes(reader, file.name)
    return config.config_value(data, file.name)
