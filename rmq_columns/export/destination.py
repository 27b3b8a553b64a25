"""Where an export goes: a directory of this machine, or of any file system of pyarrow or fsspec.

A file is written under a hidden name and gets its own when it is whole, in one step that takes the place of what was there: by a
rename, in an object store by a copy that the store makes itself.  So nobody who looks in meanwhile sees half of one, what is not
wanted never had its name, and writing the same file twice, at any two moments, leaves one.
Foreign exceptions become `CannotRead` (reading) or `CannotWrite` here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from pyarrow import fs

from rmq_columns.errors import CannotRead
from rmq_columns.export.sinks import CannotWrite, LocalSink, RemoteSink, Sink, hidden_name, upload, writing
from rmq_columns.files.filesystem import local_path
from rmq_columns.files.remote import FsspecTree, from_uri

TRIES: Final = 5
"""Of a small file to be written, while others clear up."""
LISTED_AT_ONCE: Final = 16
"""Directories of objects that are listed together: each is a round trip."""


def nobody_asks() -> None:
    """Of a file that nobody else writes."""


class Destination(Protocol):
    """One directory.  Names in it are joined with `/`."""

    def create(self, name: str) -> Sink:
        """Raises `CannotWrite`."""
        ...

    def read(self, name: str) -> bytes | None:
        """None where there is no such file.  Raises `CannotRead`."""
        ...

    def put(self, name: str, data: bytes, check: Callable[[], object] = nobody_asks) -> None:
        """The whole of a file, in place of what was there.  check: called just before that.  Raises `CannotWrite`."""
        ...

    def walk(self, below: str = "") -> Iterator[tuple[str, int]]:
        """(name, bytes) of every file, at any depth, never more than a directory of names at once.  Raises `CannotRead`."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes; None where there is no such file.  Raises `CannotRead`."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Those that are there.  Raises `CannotWrite`."""
        ...

    def where(self, name: str) -> tuple[fs.FileSystem, str]:
        """By which pyarrow finds a file."""
        ...


def destination(uri: str) -> Destination:
    """Of a path or URI.  Raises `CannotRead` for one that nobody here understands."""
    if (own := local_path(uri)) is not None:
        return LocalDestination(os.path.abspath(own))
    tree, path = from_uri(uri)
    held = tree._filesystem  # type: ignore[attr-defined]  # both kinds of our own
    return RemoteDestination(fs.PyFileSystem(fs.FSSpecHandler(held)) if isinstance(tree, FsspecTree) else held, path)


class LocalDestination:
    """A directory of this machine."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/") or "/"

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)

    def create(self, name: str) -> Sink:
        return LocalSink(self._path(name), self._root)

    def read(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as reason:
            raise CannotRead(self._path(name), -1, reason.strerror or str(reason)) from reason

    def put(self, name: str, data: bytes, check: Callable[[], object] = nobody_asks) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                self._put(name, data, check)
                break
            except CannotWrite as reason:  # whoever clears up may just have removed what was being written
                if not tries_left or not isinstance(reason.__cause__, FileNotFoundError):
                    raise

    def _put(self, name: str, data: bytes, check: Callable[[], object]) -> None:
        sink = self.create(name)
        try:
            sink.write(data)
            sink.complete()
            check()
            sink.appear()
        except BaseException:
            sink.abort()
            raise

    def walk(self, below: str = "") -> Iterator[tuple[str, int]]:
        above = self._path(below) if below else self._root
        for directory, _, names in os.walk(above, onerror=_unlisted):
            for name in names:
                path = os.path.join(directory, name)
                try:
                    size = os.stat(path, follow_symlinks=False).st_size
                except FileNotFoundError:
                    continue
                yield os.path.relpath(path, self._root), size

    def size(self, name: str) -> int | None:
        try:
            return os.stat(self._path(name)).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self, names: Iterable[str]) -> None:
        emptied = set()
        for name in names:
            with writing(self._path(name)), contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(name))
            emptied.add(os.path.dirname(name))
        for name in sorted(emptied, key=len, reverse=True):
            with contextlib.suppress(OSError):  # something is in it still
                while name:
                    os.rmdir(self._path(name))
                    name = os.path.dirname(name)

    def where(self, name: str) -> tuple[fs.FileSystem, str]:
        return fs.LocalFileSystem(), self._path(name)


def _unlisted(reason: OSError) -> None:
    """A directory that cannot be listed is not one without files: what is in it would be made again, or called removed."""
    if not isinstance(reason, FileNotFoundError | NotADirectoryError):
        raise CannotRead(str(reason.filename), -1, reason.strerror or str(reason)) from reason


class RemoteDestination:
    """A directory of any pyarrow file system."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._filesystem, self._root = filesystem, root.rstrip("/")

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def create(self, name: str) -> Sink:
        path = self._path(name)
        part = hidden_name(path)
        return RemoteSink(self._filesystem, part, path, lambda: self._opened(part, path))

    def _opened(self, written: str, path: str) -> Any:
        with writing(path):
            if not isinstance(self._filesystem, fs.S3FileSystem):  # objects have no directories
                self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
            return self._filesystem.open_output_stream(written)

    def read(self, name: str) -> bytes | None:
        try:
            with self._filesystem.open_input_stream(self._path(name)) as file:
                data = file.read()
                return bytes(data)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as reason:
            raise CannotRead(self._path(name), -1, str(reason)) from reason

    def put(self, name: str, data: bytes, check: Callable[[], object] = nobody_asks) -> None:
        path = self._path(name)
        check()
        upload(lambda: self._opened(path, path), path, (data,))

    def walk(self, below: str = "") -> Iterator[tuple[str, int]]:
        if below:
            yield from self._files(self._infos(f"{self._root}/{below}", recursive=True))
            return
        directories = [self._root]
        with ThreadPoolExecutor(LISTED_AT_ONCE, "walk") as pool:
            while directories:
                some, directories = directories[-LISTED_AT_ONCE:], directories[:-LISTED_AT_ONCE]
                for listed in pool.map(self._listed, some):
                    directories += [one.path for one in listed if one.type is fs.FileType.Directory]
                    yield from self._files(listed)

    def _listed(self, directory: str) -> list[Any]:
        """Directories that begin with `_` have many small ones, which are listed together."""
        if directory != self._root and directory.rpartition("/")[2].startswith("_"):
            return [one for one in self._infos(directory, recursive=True) if one.type is fs.FileType.File]
        return self._infos(directory, recursive=False)

    def _infos(self, directory: str, recursive: bool) -> list[Any]:
        try:
            found = self._filesystem.get_file_info(fs.FileSelector(directory, allow_not_found=True, recursive=recursive))
        except OSError as reason:
            raise CannotRead(directory, -1, str(reason)) from reason
        return list(found)

    def _files(self, listed: Iterable[Any]) -> Iterator[tuple[str, int]]:
        start = len(self._root.lstrip("/")) + 1
        for one in listed:
            if one.type is fs.FileType.File:
                yield one.path.lstrip("/")[start:], one.size or 0

    def size(self, name: str) -> int | None:
        try:
            info = self._filesystem.get_file_info(self._path(name))
        except OSError as reason:
            raise CannotRead(self._path(name), -1, str(reason)) from reason
        return (info.size or 0) if info.type is fs.FileType.File else None

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            with writing(self._path(name)), contextlib.suppress(FileNotFoundError):
                self._filesystem.delete_file(self._path(name))

    def where(self, name: str) -> tuple[fs.FileSystem, str]:
        return self._filesystem, self._path(name)
