"""Files of queues, written at their places by many tasks at once: sparse, at full length from the beginning, on a shared disk.

A unit's byte follows from its place in the queue, so nobody waits for anybody, and who writes the same again changes nothing.
Each round writes below a directory of its own that the driver made: a task that does not see it is on another disk, or was given
up for dead, and writes nothing.  Queues that are to stay are moved out of there before anything is completed in them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT, Ints, dtype_of
from rmq_columns.decode.queues import FILLER_SIZE
from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import LocalTree, translated_writing
from rmq_columns.rebuild.entries import Key, Kind
from rmq_columns.rebuild.runs import Settled
from rmq_wire.layout.consume_queue import (
    EXT_ADDRESS_FIRST,
    EXT_END_BYTES,
    EXT_END_FLAT,
    EXT_UNIT_HEAD_FLAT,
    UNIT_FLAT,
)
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, QUEUES, offset_name

UNITS_PER_FILE: Final = 300_000
"""`mappedFileSizeConsumeQueue` by default; of batch queues, too."""
EXTENSION_FILE_BYTES: Final = 48 << 20
"""`mappedFileSizeConsumeQueueExt` by default."""
FIRST, SECOND, WHOLE = "first", "second", "whole"
"""Parts: what each round writes, and the queues that are to stay."""
NOT_THERE: Final = (
    "is not there: the queues must be made in a directory that the driver and all executors share; or another start took it over"
)
FILLED_AT_ONCE: Final = 1 << 16
"""Fillers or bridges written at once."""
CLEARED_AT_ONCE: Final = 1 << 16
"""Bytes."""
EXTENSION: Final = dtype_of(EXT_UNIT_HEAD_FLAT)
EXTENSION_BYTES: Final = EXTENSION.itemsize
"""Of one without a bit map."""
END_MARK: Final = EXT_END_FLAT.packed.pack(-1)
_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_MODE: Final = 0o644


@dataclass(frozen=True)
class Target:
    """Where queues of one store are made, and by which round.

    root: where they stand in the end.  work: a directory of this start and this store alone, which has a directory for each part.
    """

    root: str
    work: str
    file_bytes: int = UNITS_PER_FILE * QUEUE_UNIT.itemsize
    batch_file_bytes: int = UNITS_PER_FILE * BATCH_UNIT.itemsize
    extension_file_bytes: int = EXTENSION_FILE_BYTES
    part: str = FIRST

    def of(self, part: str) -> Target:
        """The same for another part."""
        return replace(self, part=part)

    def unit_bytes(self, kind: Kind) -> int:
        return BATCH_UNIT.itemsize if kind is Kind.BATCH else QUEUE_UNIT.itemsize

    def file_size(self, kind: Kind) -> int:
        return self.batch_file_bytes if kind is Kind.BATCH else self.file_bytes

    @property
    def above(self) -> str:
        """Of all directories of queues; made by the driver, never by a task."""
        return os.path.join(self.work, self.part)

    def directory(self, key: Key, tree: str = "") -> str:
        """Of one queue, while it is being made.  tree: by default that of its units."""
        return os.path.join(self.above, tree or tree_of(key), key.topic, str(key.queue_id))

    def check(self) -> None:
        """Raises `CannotRead` where the driver's directory is not to be seen."""
        if not os.path.isdir(self.above):
            raise CannotRead(self.above, -1, NOT_THERE)

    def write(self, key: Key, place: int, data: bytes | memoryview) -> None:
        """Write units from this place of the queue on.  Raises `CannotRead` when they cannot be written."""
        at = place * self.unit_bytes(key.kind)
        self._write_row(self.directory(key), at, memoryview(data).cast("B"), self.file_size(key.kind))

    def write_extensions(self, key: Key, number: int, data: bytes | memoryview) -> None:
        """Extensions of equal size from this number on; each file ends with a mark where the next would leave no room for it."""
        size = self.extension_file_bytes
        view, a_file, directory = memoryview(data).cast("B"), extensions_in(size), self.directory(key, EXTENSIONS)
        while view:
            file, within = divmod(number, a_file)
            now = min(len(view) // EXTENSION_BYTES, a_file - within)
            piece = bytes(view[: now * EXTENSION_BYTES])
            if within + now == a_file and len(view) > len(piece):
                piece += END_MARK
            if not within and file:
                self._write_row(directory, (file - 1) * size + a_file * EXTENSION_BYTES, memoryview(END_MARK), size)
            self._write_row(directory, file * size + within * EXTENSION_BYTES, memoryview(piece), size)
            view, number = view[now * EXTENSION_BYTES :], number + now

    def _write_row(self, directory: str, at: int, view: memoryview, size: int) -> None:
        """Bytes of a row of files of one size."""
        while view:
            start = at - at % size
            now = min(len(view), start + size - at)
            path = os.path.join(directory, offset_name(start))
            with translated_writing(path):
                self._write(path, at - start, view[:now], size)
            view, at = view[now:], at + now

    def _write(self, path: str, at: int, data: memoryview, size: int) -> None:
        try:
            handle = os.open(path, _FLAGS, _MODE)
        except FileNotFoundError:
            self._make_directory(os.path.dirname(path))
            handle = os.open(path, _FLAGS, _MODE)
        try:
            if os.fstat(handle).st_size != size:
                os.ftruncate(handle, size)
            while data:
                done = os.pwrite(handle, data, at)
                data, at = data[done:], at + done
        finally:
            os.close(handle)

    def _make_directory(self, directory: str) -> None:
        """Never the one above all: where the driver's is gone, nothing must come back."""
        if directory == self.above:
            raise CannotRead(self.above, -1, NOT_THERE)
        try:
            os.mkdir(directory)
        except FileExistsError:
            pass
        except FileNotFoundError:
            self._make_directory(os.path.dirname(directory))
            with suppress(FileExistsError):
                os.mkdir(directory)


def tree_of(key: Key) -> str:
    """In which its units are."""
    return BATCH_QUEUES if key.kind is Kind.BATCH else QUEUES


def extensions_in(file_bytes: int) -> int:
    """How many extensions without bit map a file holds."""
    return (file_bytes - EXT_END_BYTES) // EXTENSION_BYTES


def extension_addresses(numbers: Ints, file_bytes: int) -> Ints:
    """What the units of a queue have in the place of their tags codes, by the numbers of their extensions."""
    files, within = np.divmod(numbers, extensions_in(file_bytes))
    addresses: Ints = files * file_bytes + within * EXTENSION_BYTES + EXT_ADDRESS_FIRST
    return addresses


def complete(target: Target, key: Key, queue: Settled) -> None:
    """Move a queue to those that stay; write there what no message wrote: fillers up to the first offset of its file, and the
    bridges over offsets that are lost.

    Raises `CannotRead` when a file is missing that a task said it wrote.
    """
    found, stays = target.of(FIRST if queue.as_said else SECOND), target.of(WHOLE)
    for tree in (tree_of(key), *((EXTENSIONS,) if key.kind is Kind.EXTENDED else ())):
        source, directory = found.directory(key, tree), stays.directory(key, tree)
        with translated_writing(source):
            os.makedirs(os.path.dirname(directory), exist_ok=True)
            os.rename(source, directory)
    _tidy(stays, key, queue)
    if key.kind is not Kind.BATCH:
        units = target.file_bytes // QUEUE_UNIT.itemsize
        first = queue.start - queue.start % units
        _repeat(stays, key, first, queue.start - first, unit(0, FILLER_SIZE))
    for bridge in queue.bridges:
        _repeat(stays, key, bridge.place, bridge.units, unit(bridge.physical, bridge.size))


def _tidy(target: Target, key: Key, queue: Settled) -> None:
    """All files are there; and nothing stands behind the queue's end: of a log that grew, a task that was given up for dead may
    have seen more than the one that took its place.
    """
    size, one, directory = target.file_size(key.kind), target.unit_bytes(key.kind), target.directory(key)
    wanted = set()
    for begin, end in ((piece.place * one, (piece.place + piece.units) * one) for piece in queue.pieces):
        wanted |= {offset_name(start) for start in range(begin - begin % size, end, size)}
    with translated_writing(directory), os.scandir(directory) as listed:
        there = {entry.name: entry.stat(follow_symlinks=False).st_size for entry in listed}
        for name in sorted(wanted):
            if there.get(name) != size:
                said = f"{there[name]} bytes instead of {size}" if name in there else "not there"
                raise CannotRead(os.path.join(directory, name), -1, f"{said}, although a task wrote it")
        for name in there.keys() - wanted:
            os.unlink(os.path.join(directory, name))
    end = queue.end_place * one
    if (last := offset_name(end - end % size)) in wanted:
        _clear(os.path.join(directory, last), end % size)


def _clear(path: str, start: int) -> None:
    """Zeros from this byte on.  Units stand in a row: behind a block without any there is none, though some file systems (NFS)
    call it data to the end.
    """
    with LocalTree().open(path) as file:
        for begin, end in file.data_ranges(start):
            for at in range(begin, end, CLEARED_AT_ONCE):
                count = min(CLEARED_AT_ONCE, end - at)
                if not any(file.read(at, count)):
                    break
                with translated_writing(path), open(path, "r+b") as to_write:
                    to_write.seek(at)
                    to_write.write(bytes(count))


def unit(physical: int, size: int, code: int = 0) -> bytes:
    """One queue unit."""
    return UNIT_FLAT.packed.pack(physical, size, code)


def _repeat(target: Target, key: Key, place: int, count: int, one: bytes) -> None:
    while count > 0:
        now = min(count, FILLED_AT_ONCE)
        target.write(key, place, one * now)
        place, count = place + now, count - now
