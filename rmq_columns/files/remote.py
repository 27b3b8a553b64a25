"""File systems that are not this machine's: pyarrow's and fsspec's, each read by exact ranges, nothing cached.

A range costs a round trip, so the scan asks for whole blocks, and one that is being decoded has the next on its way
(`READ_AHEAD` of them).  Only what a split needs is asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any, Final

from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import Entry, File, OpenFile, Tree, translated, without_hadoops_scheme

READ_AHEAD: Final = 2
"""Ranges on their way beside the one that is read."""
READ_AHEAD_BYTES_MIN: Final = 64 << 10
"""Smaller reads are probes: nobody asks for what stands behind them."""


def tree_of(filesystem: Any, path: str) -> tuple[Tree, str]:
    """A file system of pyarrow or fsspec as a tree."""
    from pyarrow import fs

    if isinstance(filesystem, fs.FileSystem):
        return ArrowTree(filesystem), path.rstrip("/")
    strip = getattr(filesystem, "_strip_protocol", None)
    if strip is None or not hasattr(filesystem, "cat_file"):
        raise CannotRead(path, -1, f"{type(filesystem).__name__} is no file system of pyarrow or fsspec")
    return FsspecTree(filesystem), str(strip(path)).rstrip("/")


def from_uri(path: str) -> tuple[Tree, str]:
    """pyarrow first, fsspec (if installed) for what it does not know.  `s3a://` and `s3n://` are `s3://`."""
    import pyarrow as pa
    from pyarrow import fs

    path = without_hadoops_scheme(path)
    try:
        found, plain = fs.FileSystem.from_uri(path)
    except pa.ArrowInvalid as reason:
        try:
            url_to_fs = import_module("fsspec.core").url_to_fs
        except ImportError:
            raise CannotRead(path, -1, f"{reason}; fsspec, which knows more, is not installed") from reason
        try:
            found, plain = url_to_fs(path)
        except (ValueError, ImportError) as second:
            raise CannotRead(path, -1, str(second)) from second
        return FsspecTree(found), str(plain).rstrip("/")
    except OSError as reason:
        raise CannotRead(path, -1, str(reason)) from reason
    return ArrowTree(found), plain.rstrip("/")


class ArrowTree:
    """A `pyarrow.fs.FileSystem`."""

    is_local = False

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def entries(self, path: str) -> list[Entry] | None:
        from pyarrow import fs

        with translated(path):
            try:
                listed = self._filesystem.get_file_info(fs.FileSelector(path))
            except (FileNotFoundError, NotADirectoryError):
                return None
        kinds = (fs.FileType.Directory, fs.FileType.File)
        return sorted(Entry(one.base_name, one.type is kinds[0], one.size or 0) for one in listed if one.type in kinds)

    def file_size(self, path: str) -> int | None:
        from pyarrow import fs

        with translated(path):
            info = self._filesystem.get_file_info(path)
        return info.size if info.type is fs.FileType.File else None

    def open(self, path: str) -> File:
        with translated(path):
            held = self._filesystem.open_input_file(path)
            size = held.size()
        return RangedFile(path, size, lambda at, count: held.read_at(count, at), held.close)


class FsspecTree:
    """An `fsspec.AbstractFileSystem`."""

    is_local = False

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    def entries(self, path: str) -> list[Entry] | None:
        with translated(path):
            try:
                listed = self._filesystem.ls(path, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return None
        found = []
        for one in listed:
            name = one["name"].rstrip("/")
            if name != path.rstrip("/") and one["type"] in ("file", "directory"):
                is_directory = one["type"] == "directory"
                found.append(Entry(name.rpartition("/")[2], is_directory, 0 if is_directory else one["size"] or 0))
        return sorted(found)

    def file_size(self, path: str) -> int | None:
        with translated(path):
            try:
                info = self._filesystem.info(path)
            except FileNotFoundError:
                return None
        return info["size"] if info["type"] == "file" else None

    def open(self, path: str) -> File:
        filesystem = self._filesystem
        with translated(path):
            size = filesystem.info(path)["size"]
        return RangedFile(path, size, lambda at, count: filesystem.cat_file(path, start=at, end=at + count), lambda: None)


class RangedFile(OpenFile):
    """A file whose bytes come by a function of (position, count)."""

    def __init__(self, path: str, size: int, fetch: Callable[[int, int], bytes], close: Callable[[], Any]) -> None:
        self._path, self._size, self._fetch, self._close = path, size, fetch, close
        self._pool: ThreadPoolExecutor | None = None
        self._coming: OrderedDict[tuple[int, int], Future[bytes]] = OrderedDict()
        self._reached = -1
        self._until = size

    def close(self) -> None:
        pool, close = self._pool, self._close
        self._pool, self._close = None, lambda: None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
        with translated(self._path):
            close()

    def size(self) -> int:
        return self._size

    def read(self, at: int, size: int) -> bytes:
        size = min(size, self._size - at)
        if size <= 0 or at < 0:
            return b""
        for (begin, count), coming in self._coming.items():
            if begin <= at and at + size <= begin + count and coming.done():
                with translated(self._path, at):
                    return coming.result()[at - begin : at - begin + size]
        with translated(self._path, at):
            return bytes(self._fetch(at, size))

    def limit(self, end: int) -> None:
        """Nothing behind this byte is read ahead."""
        self._until = min(end, self._size)

    def read_into(self, at: int, buffer: memoryview) -> int:
        size = min(len(buffer), self._size - at)
        if size <= 0:
            return 0
        piece = self._ahead(at, size)
        buffer[: len(piece)] = piece
        return len(piece)

    def _ahead(self, at: int, size: int) -> bytes:
        """Bytes from here, up to so many; what a reader that goes on would ask for next is asked for meanwhile.

        The piece read last is kept: the next block begins with the unit that did not fit into it.
        """
        end = at + size
        found = b""
        for (begin, count), coming in list(self._coming.items()):
            if begin <= at < begin + count:
                with translated(self._path, begin):
                    found = coming.result()[at - begin : at - begin + size]
            elif begin + count <= at:
                del self._coming[begin, count]
            elif begin > at:
                end = min(end, begin)
        if not found:
            with translated(self._path, at):
                found = bytes(self._fetch(at, end - at))
            done: Future[bytes] = Future()
            done.set_result(found)
            self._coming[at, len(found)] = done
        goes_on = at <= self._reached <= at + size
        self._reached = max(self._reached, at + len(found)) if goes_on else at + len(found)
        if goes_on and size >= READ_AHEAD_BYTES_MIN:
            self._order(max(begin + count for begin, count in self._coming), size, at)
        return found

    def _order(self, begin: int, size: int, at: int) -> None:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(READ_AHEAD, "ranges")
        while sum(start > at for start, _ in self._coming) < READ_AHEAD and begin < self._until:
            count = min(size, self._until - begin)
            self._coming[begin, count] = self._pool.submit(self._fetch, begin, count)
            begin += count

    def data_ranges(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """Objects have no holes."""
        if start < self._size:
            yield start, self._size
