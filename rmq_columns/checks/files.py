"""What a check needs of a file: its place, its size, and bytes by position.

`decode.directory.StoreFile` of `rmq_inspect` is such a file, found beneath a directory without following a link; `TreeFile` is
one of any file system that `rmq_columns` reads. Both can be pickled and are opened where they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol, Self

from rmq_columns.errors import CannotLook, FileGone
from rmq_columns.files.filesystem import File
from rmq_columns.files.resolve import resolve

CHUNK_BYTES: Final = 4 << 20
"""Read at once when a whole file is walked."""


class CheckedReader(Protocol):
    """An open file: a `decode.scan.Source`, a context manager.  All raise `CannotLook` for what the disk does not give."""

    def size(self) -> int: ...

    def read(self, at: int, size: int) -> bytes: ...

    def read_into(self, at: int, buffer: memoryview) -> int: ...

    def data_ranges(self, start: int = 0) -> Iterable[tuple[int, int]]: ...

    def chunks(self, at: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class CheckedFile(Protocol):
    """A file of a store.  name: within the store, unique there.  start: its first byte's place in its log or queue."""

    @property
    def name(self) -> str: ...

    @property
    def start(self) -> int: ...

    @property
    def size(self) -> int:
        """Bytes when it was listed."""
        ...

    @property
    def end(self) -> int:
        """Place behind its last byte."""
        ...

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    def open(self) -> CheckedReader:
        """Raises `CannotLook`."""
        ...


def base_name(file: CheckedFile) -> str:
    """The last part of its name."""
    return file.name.rpartition("/")[2]


def written(files: Sequence[CheckedFile]) -> list[CheckedFile]:
    """Without the files at the end to which nothing was written yet: Java makes the next one before it is needed."""
    found = list(files)
    while len(found) > 1 and _is_unwritten(found[-1]):
        found.pop()
    return found


def _is_unwritten(file: CheckedFile) -> bool:
    """By more than its first unit: a page of zeros there, and messages behind it, is damage."""
    try:
        with file.open() as reader:
            return not any(reader.read(0, CHUNK_BYTES))
    except CannotLook:
        return False


def is_gone(file: CheckedFile) -> bool:
    """Whether it was deleted since it was listed."""
    try:
        file.open().close()
    except FileGone:
        return True
    except CannotLook:
        return False
    return False


def usual_size(files: Sequence[CheckedFile], *, default: int = 0) -> int:
    """The size that most files have; of two the one that is `default`, else the larger."""
    counts: dict[int, int] = {}
    for file in files:
        counts[file.size] = counts.get(file.size, 0) + 1
    return max(counts, key=lambda size: (counts[size], size == default, size), default=default)


@dataclass(frozen=True, slots=True)
class TreeFile:
    """A file of a tree.  uri, filesystem: by which the tree is found again, as `resolve` takes them."""

    uri: str
    path: str
    name: str
    start: int
    size: int
    topic: str = ""
    queue_id: int = -1
    filesystem: Any = field(default=None, compare=False)

    @property
    def end(self) -> int:
        return self.start + self.size

    def open(self) -> CheckedReader:
        return TreeReader(resolve(self.uri, self.filesystem)[0].open(self.path))


class TreeReader:
    """An open file of a tree.  Reads at places where no file can have bytes give none."""

    def __init__(self, file: File) -> None:
        self._file: File | None = file
        self.size, self.read_into, self.data_ranges = file.size, file.read_into, file.data_ranges
        self._read = file.read

    def read(self, at: int, size: int) -> bytes:
        return self._read(at, size) if size > 0 and 0 <= at < 1 << 63 else b""

    def chunks(self, at: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """(position, bytes) one after another until end, or until the file ends."""
        while end is None or at < end:
            data = self.read(at, chunk_bytes if end is None else min(chunk_bytes, end - at))
            if not data:
                return
            yield at, data
            at += len(data)

    def limit(self, end: int) -> None:
        """Nothing behind this byte is read ahead."""
        if (limit := getattr(self._file, "limit", None)) is not None:
            limit(end)

    def close(self) -> None:
        """More than once is allowed."""
        file, self._file = self._file, None
        if file is not None:
            file.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
