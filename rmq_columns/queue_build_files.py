"""Files of queues, written at their places by many tasks at once: sparse, at full length from the beginning, on a shared disk.

A unit's byte follows from its place in the queue, so nobody waits for anybody, and who writes the same again changes nothing.
Everything is made below `unfinished` and gets its names when all of it is there: a tree that bears them is complete, and a task
that was given up for dead and goes on writes to nothing that counts.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from rmq_columns.dtypes import BATCH_UNIT, QUEUE_UNIT, Ints, dtype_of
from rmq_columns.errors import CannotRead
from rmq_columns.filesystem import SCHEME, translated
from rmq_columns.queue_build import Key, Kind
from rmq_columns.queue_build_runs import Settled
from rmq_columns.queues import FILLER_SIZE
from rmq_columns.stores import BATCH_QUEUES, EXTENSIONS, OFFSET_DIGITS, QUEUES
from rmq_wire.layout.consume_queue import EXT_ADDRESS_FIRST, EXT_END, EXT_END_BYTES, EXT_UNIT_HEAD
from rmq_wire.layout.flat import flat

UNITS_PER_FILE: Final = 300_000
"""`mappedFileSizeConsumeQueue` by default; of batch queues, too."""
EXTENSION_FILE_BYTES: Final = 48 << 20
"""`mappedFileSizeConsumeQueueExt` by default."""
TREES: Final = (QUEUES, BATCH_QUEUES, EXTENSIONS)
UNFINISHED: Final = "unfinished"
MARK: Final = "rebuilt-queues.json"
"""Lies in a directory that this made: only such a one is emptied and made again."""
FILLED_AT_ONCE: Final = 1 << 16
"""Fillers or bridges written at once."""
EXTENSION: Final = dtype_of(flat(EXT_UNIT_HEAD))
EXTENSION_BYTES: Final = EXTENSION.itemsize
"""Of one without a bit map."""
END_MARK: Final = flat(EXT_END).packed.pack(-1)
_MODE: Final = 0o644


@dataclass(frozen=True)
class Target:
    """Where queues of one store are made.  root: of the trees `consumequeue` and `batchconsumequeue`."""

    root: str
    file_bytes: int = UNITS_PER_FILE * QUEUE_UNIT.itemsize
    batch_file_bytes: int = UNITS_PER_FILE * BATCH_UNIT.itemsize
    extension_file_bytes: int = EXTENSION_FILE_BYTES

    def unit_bytes(self, kind: Kind) -> int:
        return BATCH_UNIT.itemsize if kind is Kind.BATCH else QUEUE_UNIT.itemsize

    def file_size(self, kind: Kind) -> int:
        return self.batch_file_bytes if kind is Kind.BATCH else self.file_bytes

    def directory(self, key: Key, tree: str = "") -> str:
        """Of one queue, while it is being made.  tree: by default that of its units."""
        tree = tree or (BATCH_QUEUES if key.kind is Kind.BATCH else QUEUES)
        return os.path.join(self.root, UNFINISHED, tree, key.topic, str(key.queue_id))

    def write(self, key: Key, place: int, data: bytes | memoryview) -> None:
        """Write units from this place of the queue on.  Raises `CannotRead` when they cannot be written."""
        at = place * self.unit_bytes(key.kind)
        _write_row(self.directory(key), at, memoryview(data).cast("B"), self.file_size(key.kind))

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
                _write_row(
                    self.directory(key, EXTENSIONS), (file - 1) * size + a_file * EXTENSION_BYTES, memoryview(END_MARK), size
                )
            _write_row(directory, file * size + within * EXTENSION_BYTES, memoryview(piece), size)
            view, number = view[now * EXTENSION_BYTES :], number + now


def extensions_in(file_bytes: int) -> int:
    """How many extensions without bit map a file holds."""
    return (file_bytes - EXT_END_BYTES) // EXTENSION_BYTES


def extension_addresses(numbers: Ints, file_bytes: int) -> Ints:
    """What the units of a queue have in the place of their tags codes, by the numbers of their extensions."""
    files, within = np.divmod(numbers, extensions_in(file_bytes))
    addresses: Ints = files * file_bytes + within * EXTENSION_BYTES + EXT_ADDRESS_FIRST
    return addresses


def _write_row(directory: str, at: int, view: memoryview, size: int) -> None:
    """Bytes of a row of files of one size."""
    while view:
        start = at - at % size
        now = min(len(view), start + size - at)
        path = os.path.join(directory, f"{start:0{OFFSET_DIGITS}d}")
        with translated(path):
            _write(path, at - start, view[:now], size)
        view, at = view[now:], at + now


def _write(path: str, at: int, data: memoryview, size: int) -> None:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, _MODE)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle = os.open(path, flags, _MODE)
    try:
        if os.fstat(handle).st_size != size:
            os.ftruncate(handle, size)
        while data:
            done = os.pwrite(handle, data, at)
            data, at = data[done:], at + done
    finally:
        os.close(handle)


def complete(target: Target, key: Key, queue: Settled) -> None:
    """Write what no message wrote: fillers up to the first offset of its file, and the bridges over offsets that are lost."""
    if key.kind is not Kind.BATCH:
        units = target.file_bytes // QUEUE_UNIT.itemsize
        first = queue.start - queue.start % units
        _repeat(target, key, first, queue.start - first, unit(0, FILLER_SIZE))
    for bridge in queue.bridges:
        _repeat(target, key, bridge.place, bridge.units, unit(bridge.physical, bridge.size))


def unit(physical: int, size: int, code: int = 0) -> bytes:
    """One queue unit."""
    return physical.to_bytes(8, "big", signed=True) + size.to_bytes(4, "big", signed=True) + code.to_bytes(8, "big", signed=True)


def _repeat(target: Target, key: Key, place: int, count: int, one: bytes) -> None:
    while count > 0:
        now = min(count, FILLED_AT_ONCE)
        target.write(key, place, one * now)
        place, count = place + now, count - now


def begin(to: str, around: Iterable[str]) -> None:
    """Make the directory ready: a new one, an empty one, or one that an earlier run made.  around: roots of the stores read.

    Raises `CannotRead` for any other, for a URI, and for one that lies in a store.
    """
    if SCHEME in to and not to.startswith("file://"):
        raise CannotRead(
            to, -1,
            "not a directory: units are written at their places in files, which an object store cannot; name a disk that all"
            " executors share, and copy the finished tree",
        )  # fmt: skip
    here = os.path.realpath(to)
    for root in around:
        if SCHEME not in root and (there := os.path.realpath(root)) and os.path.commonpath([here, there]) in (here, there):
            raise CannotRead(to, -1, f"must lie beside the store {root}, not within it or around it: a store is never written to")
    with translated(to):
        if os.path.isdir(to) and os.listdir(to) and not os.path.isfile(os.path.join(to, MARK)):
            raise CannotRead(to, -1, "is not empty, and nothing that an earlier run made")
        os.makedirs(to, exist_ok=True)
        for name in os.listdir(to):
            path = os.path.join(to, name)
            if name != MARK:
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
        mark(to, {"complete": False})


def mark(to: str, told: dict[str, Any]) -> None:
    """Say how far it is."""
    path = os.path.join(to, MARK)
    with translated(path), open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(told, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def remove(target: Target, key: Key) -> None:
    """A queue that is made again."""
    for tree in ("", EXTENSIONS):
        shutil.rmtree(target.directory(key, tree), ignore_errors=True)


def finish(target: Target) -> None:
    """Give the trees their names."""
    unfinished = os.path.join(target.root, UNFINISHED)
    with translated(target.root):
        os.makedirs(unfinished, exist_ok=True)
        for tree in TREES:
            if os.path.isdir(os.path.join(unfinished, tree)):
                os.rename(os.path.join(unfinished, tree), os.path.join(target.root, tree))
        shutil.rmtree(unfinished)
        _sync(target.root)


def _sync(directory: str) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
