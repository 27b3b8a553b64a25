"""How many bytes were asked for, in how many requests: what reading a store costs where each range is a round trip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from rmq_columns.files.filesystem import CHUNK_BYTES, Entry, File, Tree
from rmq_wire.store_names import BATCH_QUEUES, COMMIT_LOG, QUEUES

AREAS: Final = (COMMIT_LOG, QUEUES, BATCH_QUEUES)
OTHER: Final = "other"


@dataclass
class Asked:
    """By directory of a store: bytes that came, requests for them, files that were opened, directories that were listed."""

    bytes: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    opened: Counter[str] = field(default_factory=Counter)
    listed: int = 0

    def came(self, area: str, count: int) -> None:
        """Of a file in it."""
        self.bytes[area] += count
        self.requests[area] += 1

    def add(self, other: Asked) -> None:
        """What somebody else has counted."""
        self.bytes.update(other.bytes)
        self.requests.update(other.requests)
        self.opened.update(other.opened)
        self.listed += other.listed


_COUNTING: Final[ContextVar[Asked | None]] = ContextVar("asked", default=None)


@contextmanager
def counting(asked: Asked) -> Iterator[Asked]:
    """What is opened within the block counts, as long as it is read."""
    before = _COUNTING.get()
    _COUNTING.set(asked)
    try:
        yield asked
    finally:  # not by a token: a generator may be closed elsewhere than it was begun
        _COUNTING.set(before)


def counted(tree: Tree) -> Tree:
    """The same, counted where somebody wants to know."""
    asked = _COUNTING.get()
    return tree if asked is None else CountedTree(tree, asked)


def area_of(path: str) -> str:
    """The directory of a store in which a file lies."""
    parts = path.split("/")
    return next((area for area in AREAS if area in parts[:-1]), OTHER)


class CountedTree:
    """A file system whose answers are counted."""

    def __init__(self, tree: Tree, asked: Asked) -> None:
        self._tree, self._asked, self.is_local = tree, asked, tree.is_local

    def entries(self, path: str) -> list[Entry] | None:
        self._asked.listed += 1
        return self._tree.entries(path)

    def file_size(self, path: str) -> int | None:
        return self._tree.file_size(path)

    def open(self, path: str) -> File:
        self._asked.opened[area_of(path)] += 1
        return CountedFile(self._tree.open(path), path, self._asked)


class CountedFile:
    """One of its files."""

    def __init__(self, file: File, path: str, asked: Asked) -> None:
        self._file, self._area, self._asked = file, area_of(path), asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def size(self) -> int:
        return self._file.size()

    def read(self, at: int, size: int) -> bytes:
        found = self._file.read(at, size)
        self._asked.came(self._area, len(found))
        return found

    def read_into(self, at: int, buffer: memoryview) -> int:
        count = self._file.read_into(at, buffer)
        self._asked.came(self._area, count)
        return count

    def data_ranges(self, start: int = 0) -> Iterable[tuple[int, int]]:
        return self._file.data_ranges(start)

    def chunks(self, at: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        for place, data in self._file.chunks(at, end, chunk_bytes):
            self._asked.came(self._area, len(data))
            yield place, data

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()
