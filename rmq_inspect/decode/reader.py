"""Read-only access to one regular file by position, reached without following a link.

Nothing is mapped: a map would be SIGBUS when somebody shortens the file.  Whatever hinders a look is one line (`CannotLook`).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from rmq_columns.errors import DENIED, FileGone, NotPermitted
from rmq_inspect.errors import CannotLook

CHUNK_BYTES: Final = 4 << 20
"""Read at once when a whole file is walked: one message unit of the default maximum, and a fraction of any cache."""
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
"""Not blocking: a pipe in the place of a file must not hold us up."""


class Reader:
    """Read-only access by position; a context manager.  Reads behind the end come back shorter, never with an error."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self.name = name

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """More than once is allowed."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def size(self) -> int:
        """Bytes now."""
        return os.fstat(self._descriptor).st_size

    def modified_ms(self) -> int:
        """Wall time of the last write that the file system noticed."""
        return os.fstat(self._descriptor).st_mtime_ns // 1_000_000

    def read(self, at: int, size: int) -> bytes:
        """Up to size bytes from this byte of the file.  Callers bound the size.  Raises `CannotLook` for an I/O error."""
        if size <= 0 or at < 0:
            return b""
        try:
            data = os.pread(self._descriptor, size, at)
        except (OSError, OverflowError) as reason:
            raise CannotLook(f"{self.name}: cannot be read at {at}: {why(reason)}") from reason
        return data

    def read_into(self, at: int, buffer: memoryview) -> int:
        """As `read`, into a buffer of the caller's; how many bytes it was."""
        try:
            return os.preadv(self._descriptor, [buffer], at)
        except (OSError, OverflowError) as reason:
            raise CannotLook(f"{self.name}: cannot be read at {at}: {why(reason)}") from reason

    def chunks(self, at: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, bytes]]:
        """(position, bytes) one after another until end, or until the file ends."""
        while end is None or at < end:
            data = self.read(at, chunk_bytes if end is None else min(chunk_bytes, end - at))
            if not data:
                return
            yield at, data
            at += len(data)

    def data_ranges(self, start: int = 0) -> Iterator[tuple[int, int]]:
        """(begin, end) of the parts that are not holes: holes read as zeros, and a preallocated file is nearly all hole."""
        end = self.size()
        while start < end:
            try:
                data = os.lseek(self._descriptor, start, os.SEEK_DATA)
                hole = os.lseek(self._descriptor, data, os.SEEK_HOLE)
            except OSError as reason:
                if reason.errno != errno.ENXIO:  # a file system that does not say
                    yield start, end
                return
            except AttributeError:  # an operating system that does not
                yield start, end
                return
            yield data, min(hole, end)
            start = hole


def open_directory(base: str, parts: tuple[str, ...]) -> int:
    """A descriptor of base/parts…; only base itself may be a link.  Raises OSError, `NotPermitted`."""
    with permitted(base):
        descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        try:
            with permitted(base, *parts[:number]):
                below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


@contextmanager
def permitted(base: str, *parts: str) -> Iterator[None]:
    """What may not be looked at is `NotPermitted`, wherever it is met: to leave it out would say that it is empty."""
    try:
        yield
    except PermissionError as reason:
        raise NotPermitted(os.path.join(base, *parts), -1, DENIED) from reason


def open_beneath(base: str, parts: tuple[str, ...]) -> int:
    name = os.path.join(base, *parts)
    try:
        directory = open_directory(base, parts[:-1])
        try:
            with permitted(name):
                descriptor = os.open(parts[-1], _FLAGS, dir_fd=directory)
        finally:
            os.close(directory)
    except FileNotFoundError as reason:
        raise FileGone(name, -1, why(reason)) from reason
    except (OSError, ValueError) as reason:
        raise CannotLook(f"{name}: {why(reason)}") from reason
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CannotLook(f"{name}: not a regular file")
    return descriptor


def open_file(path: str | os.PathLike[str]) -> Reader:
    """Any single file that the user named; it may be a link, but must lead to a regular file.  Raises `CannotLook`."""
    real = os.path.realpath(path)
    return Reader(open_beneath(os.path.dirname(real), (os.path.basename(real),)), os.fspath(path))


def why(reason: Exception) -> str:
    if isinstance(reason, OSError) and reason.errno == errno.ELOOP:
        return "a link; links are not followed"
    return (reason.strerror if isinstance(reason, OSError) else None) or str(reason)
