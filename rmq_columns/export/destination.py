"""Where an export goes: a directory of this machine, or of any file system of pyarrow or fsspec.

A file is written under a hidden name and gets its own when it is whole, in one step that takes the place of what was there: by a
rename, in an object store by a copy that the store makes itself.  So nobody who looks in meanwhile sees half of one, what is not
wanted never had its name, and writing the same file twice, at any two moments, leaves one.
Foreign exceptions become `CannotRead` (reading) or `CannotWrite` here.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

from pyarrow import fs

from rmq_columns.errors import CannotRead, StoreError
from rmq_columns.files.filesystem import local_path
from rmq_columns.files.remote import FsspecTree, from_uri
from rmq_columns.files.syncs import make_directories, sync_up

PART: Final = ".part"
"""Ends the hidden name of what is being written, which begins with a dot: no reader takes it for a file of the table."""
BUFFER_BYTES: Final = 1 << 20
KEPT_BYTES_MAX: Final = 8 << 20
"""Of a file for a remote store, in memory; more of it in a file without a name, of TMPDIR."""
UPLOAD_BYTES: Final = 8 << 20
TRIES: Final = 5
"""Of a small file to be written, while others clear up."""
LISTED_AT_ONCE: Final = 16
"""Directories of objects that are listed together: each is a round trip."""


class CannotWrite(StoreError):
    """A file or directory that cannot be made."""


@contextlib.contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as reason:
        raise CannotWrite(path, -1, reason.strerror or str(reason)) from reason


class Sink:
    """A file that is being written; the kind of object that pyarrow writes to.  Ended by `commit`, or by `abort`."""

    def __init__(self, held: Any, filesystem: fs.FileSystem, part: str, path: str) -> None:
        """held: open for writing.  part: the hidden name."""
        self._held, self._filesystem, self._part, self._path = held, filesystem, part, path
        self.size = 0
        self.crc32 = 0
        self.closed = False
        self._is_wanted = True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if not self._is_wanted:
            return len(view)  # a writer that ends writes its footer nevertheless
        self.crc32 = zlib.crc32(view, self.crc32)
        self.size += len(view)
        with _writing(self._path):
            self._held.write(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        """Nothing: what counts is `commit`."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def complete(self) -> None:
        """It is whole; nobody sees it yet."""
        with _writing(self._path):
            self._held.close()

    def where(self) -> tuple[fs.FileSystem, str]:
        """By which pyarrow finds it until it appears."""
        return self._filesystem, self._part

    def appear(self, base: str = "") -> None:
        """Under its name, in place of what was there: it was `complete`.  base: another name in the same directory."""
        self._rename(base)
        with _writing(self._path):
            try:
                self._filesystem.move(self._part, self._path)
            except OSError:  # HDFS renames nothing over what is there
                if self._filesystem.get_file_info(self._path).type is fs.FileType.NotFound:
                    raise
                self._filesystem.delete_file(self._path)
                self._filesystem.move(self._part, self._path)

    def _rename(self, base: str) -> None:
        if base:
            self._path = f"{self._path.rpartition('/')[0]}/{base}"

    def commit(self) -> None:
        """It is whole, and has its name."""
        self.complete()
        self.appear()

    def abort(self) -> None:
        """It is not wanted, and never had its name.  What a dead process had no time to remove the next start removes."""
        self._is_wanted = False
        with contextlib.suppress(OSError):
            self._held.close()
        with contextlib.suppress(OSError):
            self._filesystem.delete_file(self._part)


class _LocalSink(Sink):
    def __init__(self, path: str, root: str) -> None:
        self._root = root
        with _writing(path):
            directory, _, _ = path.rpartition("/")
            part = _hidden(path)
            super().__init__(_created(directory, part), fs.LocalFileSystem(), part, path)

    def complete(self) -> None:
        with _writing(self._path):
            self._held.flush()
            os.fsync(self._held.fileno())
            self._held.close()

    def appear(self, base: str = "") -> None:
        self._rename(base)
        with _writing(self._path):
            os.rename(self._part, self._path)
            sync_up(os.path.dirname(self._path), self._root)


class _RemoteSink(Sink):
    """Kept here until it is whole: who cancels an upload would have to close it, which makes an object of what came so far."""

    def __init__(self, filesystem: fs.FileSystem, part: str, path: str, opened: Callable[[], Any]) -> None:
        """opened: begins the upload to the hidden name."""
        super().__init__(_kept(), filesystem, part, path)
        self._opened = opened

    def complete(self) -> None:
        held = self._opened()
        try:
            with _writing(self._path):
                self._held.seek(0)
                while data := self._held.read(UPLOAD_BYTES):
                    held.write(data)
                held.close()
        except BaseException:
            del held  # which ends the upload, in whatever way the store's client knows
            self.abort()
            raise
        self._held.close()


def _kept() -> Any:
    return tempfile.SpooledTemporaryFile(KEPT_BYTES_MAX)


def _hidden(path: str) -> str:
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{uuid.uuid4().hex[:8]}{PART}"


def _created(directory: str, path: str) -> Any:
    """Tried twice: whoever clears up may just have removed the directory, which was empty."""
    make_directories(directory)
    try:
        return open(path, "wb", buffering=BUFFER_BYTES)
    except FileNotFoundError:
        make_directories(directory)
        return open(path, "wb", buffering=BUFFER_BYTES)


class Destination(Protocol):
    """One directory.  Names in it are joined with `/`."""

    def create(self, name: str) -> Sink:
        """Raises `CannotWrite`."""
        ...

    def read(self, name: str) -> bytes | None:
        """None where there is no such file.  Raises `CannotRead`."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """The whole of a file, in place of what was there.  Raises `CannotWrite`."""
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
        return _LocalSink(self._path(name), self._root)

    def read(self, name: str) -> bytes | None:
        try:
            with open(self._path(name), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as reason:
            raise CannotRead(self._path(name), -1, reason.strerror or str(reason)) from reason

    def put(self, name: str, data: bytes) -> None:
        for tries_left in reversed(range(TRIES)):
            try:
                self._put(name, data)
                break
            except CannotWrite as reason:  # whoever clears up may just have removed what was being written
                if not tries_left or not isinstance(reason.__cause__, FileNotFoundError):
                    raise

    def _put(self, name: str, data: bytes) -> None:
        sink = self.create(name)
        sink.write(data)
        sink.commit()

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
            with _writing(self._path(name)), contextlib.suppress(FileNotFoundError):
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
        part = _hidden(path)
        return _RemoteSink(self._filesystem, part, path, lambda: self._opened(part, path))

    def _opened(self, written: str, path: str) -> Any:
        with _writing(path):
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

    def put(self, name: str, data: bytes) -> None:
        path = self._path(name)
        with self._opened(path, path) as held, _writing(path):
            held.write(data)  # so little goes out as one request when it is closed

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
            with _writing(self._path(name)), contextlib.suppress(FileNotFoundError):
                self._filesystem.delete_file(self._path(name))

    def where(self, name: str) -> tuple[fs.FileSystem, str]:
        return self._filesystem, self._path(name)
