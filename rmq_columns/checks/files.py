"""What a check needs of a file: its place, its size, and bytes by position.

`decode.directory.StoreFile` of `rmq_inspect` is such a file, found beneath a directory without following a link; `TreeFile` is
one of any file system that `rmq_columns` reads. Both can be pickled and are opened where they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from rmq_columns.errors import CannotLook, FileGone
from rmq_columns.files.filesystem import CHUNK_BYTES, File
from rmq_columns.files.resolve import resolve


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

    def open(self) -> File:
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


class TreeFile(NamedTuple):
    """A file of a tree.  uri, filesystem: by which the tree is found again, as `resolve` takes them."""

    uri: str
    path: str
    name: str
    start: int
    size: int
    topic: str = ""
    queue_id: int = -1
    filesystem: Any = None

    @property
    def end(self) -> int:
        return self.start + self.size

    def open(self) -> File:
        return resolve(self.uri, self.filesystem)[0].open(self.path)
