"""Where the bytes are: directories and files of this machine, of any pyarrow file system, of any fsspec one.

All three are a `Tree`: list a directory, open a file, read it by ranges.  Local files are read with `preadv` into the caller's
buffer (faster than a map, and never a SIGBUS when somebody shortens the file); links beneath a directory are not followed.
Foreign exceptions become `CannotRead` here and nowhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self
from urllib.parse import unquote

from rmq_columns.errors import DENIED, CannotRead, FileGone, NotPermitted, StoreError

FILE_URI: Final = "file:/"
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
"""As Hadoop's users write it -> as everybody else does."""
_THIS_MACHINE: Final = ("", "localhost")
READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Not blocking: a pipe in the place of a file must not hold us up."""
SCHEME: Final = "://"
CHUNK_BYTES: Final = 4 << 20
"""Read at once when a whole file is walked: one message unit of the default maximum, and a fraction of any cache."""
PLACE_MAX: Final = (1 << 63) - 1


class Entry(NamedTuple):
    """One name in a directory.  size: bytes, 0 of a directory."""

    name: str
    is_directory: bool
    size: int


class File(Protocol):
    """Bytes by position; a context manager.  A `rmq_columns.decode.scan.Source`.  All raise `CannotLook`."""

    def size(self) -> int: ...

    def read(self, at: int, size: int) -> bytes:
        """Up to so many bytes; none at places where no file can have any."""
        ...

    def read_into(self, at: int, buffer: memoryview) -> int: ...

    def data_ranges(self, start: int = 0) -> Iterable[tuple[int, int]]: ...

    def chunks(self, at: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Tree(Protocol):
    """A file system.  Paths are joined with `/`."""

    is_local: bool

    def entries(self, path: str) -> list[Entry] | None:
        """Sorted by name; None where there is no such directory.  Raises `CannotRead`."""
        ...

    def file_size(self, path: str) -> int | None:
        """None where there is no such file."""
        ...

    def open(self, path: str) -> File:
        """Raises `FileGone`, `CannotRead`."""
        ...


def local_path(path: str) -> str | None:
    """The path on this machine that a path or a `file:` URI means; None for a URI of another file system.

    Raises `CannotRead` for a `file:` URI that names another machine.
    """
    if path.startswith(FILE_URI):
        rest = unquote(path.removeprefix("file:"))
        if rest.startswith("//"):
            host, slash, below = rest[2:].partition("/")
            if host not in _THIS_MACHINE:
                raise CannotRead(path, -1, f"a file of another machine, {host}; a local path is written file:///{host}/{below}")
            rest = slash + below
        return rest or "/"
    return None if SCHEME in path else path


def absolute(path: str) -> str:
    """A path on this machine from its root on, by whatever words it was named; another URI as it is.  Raises `CannotRead`."""
    own = local_path(path)
    return path if own is None else os.path.abspath(own)


def lies_in(path: str, directory: str) -> bool:
    """Whether it is this directory or beneath it, links followed.  Raises `CannotRead`."""
    own, above = local_path(path), local_path(directory)
    if own is None or above is None:
        return own is None and above is None and _as_text(path).startswith(_as_text(directory))
    there = os.path.realpath(above)
    return os.path.commonpath([there, os.path.realpath(own)]) == there


def without_hadoops_scheme(uri: str) -> str:
    """Hadoop writes s3a where others write s3."""
    scheme, mark, rest = uri.partition(SCHEME)
    return f"{_SCHEMES[scheme.lower()]}{mark}{rest}" if scheme.lower() in _SCHEMES else uri


def _as_text(uri: str) -> str:
    """Equal for equal places."""
    scheme, _, rest = without_hadoops_scheme(uri).partition(SCHEME)
    return f"{scheme.lower()}{SCHEME}{'/'.join(filter(None, rest.split('/')))}/"


@contextmanager
def translated(path: str, at: int = -1) -> Iterator[None]:
    """OSError as our errors."""
    try:
        yield
    except OSError as reason:
        raise error_of(path, at, reason) from reason


def error_of(path: str, at: int, reason: OSError) -> StoreError:
    """`FileGone`, `NotPermitted`, `CannotRead`."""
    if isinstance(reason, FileNotFoundError):
        return FileGone(path, at, "no such file")
    if isinstance(reason, PermissionError):
        return NotPermitted(path, at, DENIED)
    return CannotRead(path, at, why(reason))


def why(reason: Exception) -> str:
    """What hinders, in a few words."""
    if isinstance(reason, OSError) and reason.errno == errno.ELOOP:
        return "a link; links are not followed"
    return (reason.strerror if isinstance(reason, OSError) else None) or str(reason)


@contextmanager
def translated_writing(path: str) -> Iterator[None]:
    """The same where something is made: what may not be written is `CannotRead`, like whatever else hinders."""
    try:
        with translated(path):
            yield
    except NotPermitted as reason:
        raise CannotRead(path, -1, DENIED) from reason


LeftOut = Callable[[str, str], None]
"""Takes path and reason of what is not listed."""


def ignore(_path: str, _why: str) -> None:
    """The `LeftOut` of who does not ask."""


def listed(path: str, left_out: LeftOut = ignore, descriptor: int | None = None) -> list[Entry]:
    """Files and directories of a directory of this machine, by name.  Links, pipes, sockets and devices are left out.

    descriptor: of the directory, if it is open; path is then only what errors call it.  What vanishes meanwhile is not there.
    Raises OSError for the directory, `StoreError` for what lies in it.
    """
    found: list[Entry] = []
    odd: list[tuple[str, str]] = []
    with os.scandir(path if descriptor is None else descriptor) as there:
        for one in there:
            try:
                if one.is_dir(follow_symlinks=False):  # known without another look at it
                    found.append(Entry(one.name, True, 0))
                    continue
                status = one.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as reason:
                raise error_of(os.path.join(path, one.name), -1, reason) from reason
            if stat.S_ISREG(status.st_mode):
                found.append(Entry(one.name, False, status.st_size))
            else:
                link = stat.S_ISLNK(status.st_mode)
                odd.append((one.name, "a link; links are not followed" if link else "a pipe, socket or device; not opened"))
    for name, why in sorted(odd):
        left_out(name, why)
    found.sort()
    return found


class LocalTree:
    """This machine's files."""

    is_local = True

    def entries(self, path: str) -> list[Entry] | None:
        try:
            return listed(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as reason:
            raise error_of(path, -1, reason) from reason

    def file_size(self, path: str) -> int | None:
        with translated(path):
            try:
                status = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def open(self, path: str) -> File:
        with translated(path):
            descriptor = os.open(path, READ_FLAGS)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise CannotRead(path, -1, "not a regular file")
        return LocalFile(descriptor, path)


class OpenFile(ABC):
    """What all open files have in common."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """More than once is allowed."""

    @abstractmethod
    def read(self, at: int, size: int) -> bytes: ...

    def chunks(self, at: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """(position, bytes) one after another until end, or until the file ends."""
        while end is None or at < end:
            data = self.read(at, chunk_bytes if end is None else min(chunk_bytes, end - at))
            if not data:
                return
            yield at, data
            at += len(data)


class LocalFile(OpenFile):
    """An open file of this machine.  Nothing is mapped: a map would be SIGBUS when somebody shortens the file."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor, self._path = descriptor, path

    def close(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def size(self) -> int:
        """Bytes now."""
        return os.fstat(self._descriptor).st_size

    def read(self, at: int, size: int) -> bytes:
        if size <= 0 or not 0 <= at <= PLACE_MAX:
            return b""
        try:
            return os.pread(self._descriptor, size, at)
        except OSError as reason:
            raise self.cannot_read(at, reason) from reason

    def read_into(self, at: int, buffer: memoryview) -> int:
        try:
            return os.preadv(self._descriptor, [buffer], at)
        except OSError as reason:
            raise self.cannot_read(at, reason) from reason

    def cannot_read(self, at: int, reason: OSError) -> Exception:
        """What is raised when the disk does not give the bytes at a place."""
        return error_of(self._path, at, reason)

    def data_ranges(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """(begin, end) of the parts that are not holes: holes read as zeros, and a preallocated file is nearly all hole."""
        end = self.size()
        while start < end:
            try:
                data = os.lseek(self._descriptor, start, os.SEEK_DATA)
                hole = os.lseek(self._descriptor, data, os.SEEK_HOLE)
            except (OSError, AttributeError) as reason:
                if not isinstance(reason, OSError) or reason.errno != errno.ENXIO:  # nobody knows: all of it may be data
                    yield start, end
                return
            yield data, min(hole, end)
            start = hole


def joined(*parts: str) -> str:
    """One path of several parts."""
    first, *rest = parts
    return "/".join((first.rstrip("/") if first != "/" else "", *rest)) if rest else first


def path_of(*parts: str) -> str:
    """A path beneath some directory; one that ends with an empty part names a directory."""
    return "/".join(parts)
