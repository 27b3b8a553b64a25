"""A file of an export while it is written: under a hidden name until it is whole, then in one step under its own.

What goes wrong before that leaves nothing: an upload that fails is never closed, which would make an object of what came so far.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pyarrow import fs

from rmq_columns.errors import StoreError
from rmq_columns.files.syncs import make_directories, sync_up

PART: Final = ".part"
"""Ends the hidden name of what is being written, which begins with a dot: no reader takes it for a file of the table."""
BUFFER_BYTES: Final = 1 << 20
KEPT_BYTES_MAX: Final = 8 << 20
"""Of a file for a remote store, in memory; more of it in a file without a name, of TMPDIR."""
UPLOAD_BYTES: Final = 8 << 20


class CannotWrite(StoreError):
    """A file or directory that cannot be made."""


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
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
        with writing(self._path):
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
        with writing(self._path):
            self._held.close()

    def where(self) -> tuple[fs.FileSystem, str]:
        """By which pyarrow finds it until it appears."""
        return self._filesystem, self._part

    def appear(self, base: str = "") -> None:
        """Under its name, in place of what was there: it was `complete`.  base: another name in the same directory."""
        self._rename(base)
        with writing(self._path):
            try:
                self._filesystem.move(self._part, self._path)
            except OSError:
                if not self._is_there():
                    raise

    def _is_there(self) -> bool:
        """It could not take its place: whether the same is there already, or has now taken it.

        HDFS renames nothing over what is there.  On no other file system is anything removed for that: the rename may have failed
        because of the store, or because somebody who is through has taken our part away.
        """
        part, there = self._filesystem.get_file_info([self._part, self._path])
        if fs.FileType.NotFound in (part.type, there.type):
            return False
        if there.size == self.size and self._crc_of(self._path) == self.crc32:
            with contextlib.suppress(OSError):
                self._filesystem.delete_file(self._part)
            return True
        if not isinstance(self._filesystem, fs.HadoopFileSystem):
            return False
        self._filesystem.delete_file(self._path)
        self._filesystem.move(self._part, self._path)
        return True

    def _crc_of(self, path: str) -> int:
        crc = 0
        with self._filesystem.open_input_stream(path) as file:
            while data := file.read(UPLOAD_BYTES):
                crc = zlib.crc32(data, crc)
        return crc

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


class LocalSink(Sink):
    def __init__(self, path: str, root: str) -> None:
        self._root = root
        with writing(path):
            directory, _, _ = path.rpartition("/")
            part = hidden_name(path)
            super().__init__(_created(directory, part), fs.LocalFileSystem(), part, path)

    def complete(self) -> None:
        with writing(self._path):
            self._held.flush()
            os.fsync(self._held.fileno())
            self._held.close()

    def appear(self, base: str = "") -> None:
        self._rename(base)
        with writing(self._path):
            os.rename(self._part, self._path)
            sync_up(os.path.dirname(self._path), self._root)


class RemoteSink(Sink):
    """Kept here until it is whole: who cancels an upload would have to close it, which makes an object of what came so far."""

    def __init__(self, filesystem: fs.FileSystem, part: str, path: str, opened: Callable[[], Any]) -> None:
        """opened: begins the upload to the hidden name."""
        super().__init__(_kept(), filesystem, part, path)
        self._opened = opened

    def complete(self) -> None:
        self._held.seek(0)
        try:
            upload(self._opened, self._path, iter(lambda: self._held.read(UPLOAD_BYTES), b""))
        except BaseException:
            self.abort()
            raise
        self._held.close()


def upload(opened: Callable[[], Any], path: str, pieces: Iterable[bytes]) -> None:
    """opened: begins it.  What goes wrong leaves no object: who closes an upload makes one of what came so far."""
    held = opened()
    try:
        with writing(path):
            for data in pieces:
                held.write(data)
            held.close()
    except BaseException:
        del held  # which ends the upload, in whatever way the store's client knows
        raise


def _kept() -> Any:
    return tempfile.SpooledTemporaryFile(KEPT_BYTES_MAX)


def hidden_name(path: str) -> str:
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
