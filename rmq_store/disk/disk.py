"""The disk as the store sees it: positions, lengths, syncs, names; nothing buffered, nothing mapped for writing.

`Disk` and `File` are the whole contract between the store and the operating system, so that a simulated disk can stand in
for it and lose what was not synced.  `RealDisk` is the thin shell over `os`: it never follows a link below the directories that
were configured, never opens anything but a regular file, and reports errors as plain `OSError`.

A `File` is closed when nobody refers to it any more (a thread may still read it while the loop has let it go); a map lives
as long as a view of it.  A mapped file is never shortened.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from rmq_store.disk import lock
from rmq_store.disk.lock import MODE, NO_FOLLOW
from rmq_store.errors import ForeignFile

Buffer: TypeAlias = bytes | bytearray | memoryview

DIRECTORY: Final = -1
"""In place of a size, where a directory is."""


class Kind(Enum):
    """What a directory entry is; links are never looked through."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "symbolic link"
    OTHER = "pipe, socket or device"


class Entry(NamedTuple):
    """One name in a directory. `size` in bytes, of files only (else 0)."""

    name: str
    kind: Kind
    size: int


class Usage(NamedTuple):
    """Space of the partition in bytes: all of it, not used, and free for this user (Java: total, free and usable space)."""

    total: int
    free: int
    usable: int

    @property
    def used_ratio(self) -> float:
        """Part in use, in whole percent rounded up (Java: UtilAll.getDiskPartitionSpaceUsedPercent)."""
        used = self.total - self.free
        whole = used + self.usable
        return -(-used * 100 // whole) / 100 if whole else 0.0


class File(Protocol):
    """One open regular file. Every method raises OSError."""

    @property
    def path(self) -> str: ...

    def write_at(self, offset: int, data: Buffer) -> int:
        """Write some of `data`, return how many bytes; fewer than asked is lawful."""
        ...

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, fewer only at the file's end. May wait for the disk."""
        ...

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        """Exactly `size` bytes, or None when some are not in memory (or beyond the end)."""
        ...

    def resident(self, offset: int, size: int) -> bool:
        """Are these bytes in memory now?"""
        ...

    def map(self) -> memoryview:
        """The whole file, read only; what is written later shows in it."""
        ...

    def length(self) -> int: ...

    def set_length(self, size: int) -> None: ...

    def data_ranges(self, start: int) -> Iterator[tuple[int, int]]:
        """Where from `start` on bytes may differ from zero, ascending, as (from, to)."""
        ...

    def sync(self) -> None:
        """Data and length are on the medium when this returns. An error is final: what is on the medium is unknown."""
        ...


class Lock(Protocol):
    """Held until released."""

    def is_held(self) -> bool:
        """Nobody else can have it, whatever became of the file. Raises OSError when that cannot be found out."""
        ...

    def release(self) -> None: ...


class Disk(Protocol):
    """Names to files. Paths are absolute. Every method raises OSError."""

    @property
    def boot_id(self) -> str:
        """Differs after every start of the machine: what was written before it may be lost. "" when that is not known."""
        ...

    def open(self, path: str) -> File:
        """An existing regular file, for reading and writing. ForeignFile when it is anything else."""
        ...

    def create(self, path: str, size: int) -> File:
        """A new file of `size` zero bytes; FileExistsError when the name is taken."""
        ...

    def entries(self, path: str) -> list[Entry]:
        """Entries sorted by name; empty when there is no such directory."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directories(self, path: str) -> list[str]:
        """Make `path` and what is missing above it; returns the directories whose entries changed."""
        ...

    def rename(self, path: str, to: str) -> None: ...

    def link(self, path: str, to: str) -> bool:
        """Give the file a second name, which is not taken. False, and nothing happens, where the disk has no such thing."""
        ...

    def unlink(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None: ...

    def usage(self, path: str) -> Usage: ...

    def modified_ms(self, path: str) -> int:
        """When the file was last written, wall ms."""
        ...

    def stamp(self, path: str) -> tuple[int, int]:
        """Bytes of a regular file, or `DIRECTORY`; and when it was changed last, ns, a directory by a name that came or went.

        ForeignFile when it is anything else.
        """
        ...

    def lock(self, path: str) -> Lock | None:
        """The lock that Java takes (byte 0, exclusive), or None when another process has it. Makes the file if absent."""
        ...


def write_all(file: File, offset: int, data: Buffer) -> None:
    """Write every byte, going on after short writes. Raises OSError; some of it may be written then."""
    done = file.write_at(offset, data)
    if done == len(data):
        return
    view = memoryview(data)
    while done < len(data):
        count = file.write_at(offset + done, view[done:])
        if count <= 0:
            raise OSError(errno.EIO, "write returned 0", file.path)
        done += count


_SCRATCH_BYTES: Final = 256 * 1024
NANOSECONDS_PER_MS: Final = 1_000_000
_RWF_NOWAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)
"""Linux. 0 elsewhere: reads then may wait."""
_NOT_SUPPORTED: Final = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}
_NO_LINKS: Final = {*_NOT_SUPPORTED, errno.EPERM, errno.EMLINK, errno.EXDEV}
_BOOT_ID_FILE: Final = "/proc/sys/kernel/random/boot_id"
"""Linux."""
_SYNC: Final = getattr(os, "fdatasync", os.fsync)


class RealFile:
    """`File` over a descriptor, which closes with the last reference."""

    __slots__ = ("_descriptor", "_nowait", "_scratch", "path")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path
        self._nowait = _RWF_NOWAIT
        self._scratch: bytearray | None = None

    def __del__(self) -> None:
        os.close(self._descriptor)

    def write_at(self, offset: int, data: Buffer) -> int:
        try:
            return os.pwrite(self._descriptor, data, offset)
        except OSError as error:
            error.filename = self.path  # so that a start that fails can name it
            raise

    def read_at(self, offset: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, offset)
        if len(data) == size or not data:
            return data
        pieces = [data]
        size -= len(data)
        while size and data:
            offset += len(data)
            data = os.pread(self._descriptor, size, offset)
            size -= len(data)
            pieces.append(data)
        return b"".join(pieces)

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        if not self._nowait:
            data = self.read_at(offset, size)
            return data if len(data) == size else None
        into = bytearray(size)
        try:
            count = os.preadv(self._descriptor, [into], offset, self._nowait)
        except BlockingIOError:
            return None
        except OSError as reason:
            if reason.errno not in _NOT_SUPPORTED:
                raise
            self._nowait = 0
            return self.read_nowait(offset, size)
        return bytes(into) if count == size else None

    def resident(self, offset: int, size: int) -> bool:
        if not self._nowait:
            return True
        if self._scratch is None:
            self._scratch = bytearray(_SCRATCH_BYTES)
        scratch = memoryview(self._scratch)
        end = offset + size
        while offset < end:
            want = min(end - offset, _SCRATCH_BYTES)
            try:
                count = os.preadv(self._descriptor, [scratch[:want]], offset, self._nowait)
            except BlockingIOError:
                return False
            except OSError as reason:
                if reason.errno not in _NOT_SUPPORTED:
                    raise
                self._nowait = 0
                return True
            if count != want:
                return False
            offset += count
        return True

    def map(self) -> memoryview:
        return memoryview(mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED))

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def set_length(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def data_ranges(self, start: int) -> Iterator[tuple[int, int]]:
        end = self.length()
        if not hasattr(os, "SEEK_DATA"):
            if start < end:
                yield start, end
            return
        while start < end:
            try:
                data = os.lseek(self._descriptor, start, os.SEEK_DATA)
            except OSError as reason:
                if reason.errno == errno.ENXIO:
                    return
                yield start, end
                return
            hole = os.lseek(self._descriptor, data, os.SEEK_HOLE)
            yield data, hole
            start = hole

    def sync(self) -> None:
        _SYNC(self._descriptor)


class RealDisk:
    """`Disk` over the operating system."""

    @property
    def boot_id(self) -> str:
        with contextlib.suppress(OSError), open(_BOOT_ID_FILE, encoding="ascii") as file:
            return file.read().strip()
        return ""

    def open(self, path: str) -> RealFile:
        try:
            descriptor = os.open(path, os.O_RDWR | NO_FOLLOW)
        except OSError as reason:
            if reason.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise ForeignFile(f"{path} is not a regular file: move it away") from reason
            raise
        file = RealFile(descriptor, path)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ForeignFile(f"{path} is not a regular file: move it away")
        return file

    def create(self, path: str, size: int) -> RealFile:
        try:
            file = RealFile(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_FOLLOW, MODE), path)
        except FileExistsError as there:
            raise lock.in_the_way(path, there) from None
        try:
            if size:
                file.set_length(size)
        except OSError:
            os.unlink(path)
            raise
        return file

    def entries(self, path: str) -> list[Entry]:
        entries = []
        try:
            scan = os.scandir(path)
        except FileNotFoundError:
            return []
        with scan:
            for entry in scan:
                if entry.is_symlink():
                    entries.append(Entry(entry.name, Kind.LINK, 0))
                elif entry.is_dir(follow_symlinks=False):
                    entries.append(Entry(entry.name, Kind.DIRECTORY, 0))
                elif entry.is_file(follow_symlinks=False):
                    entries.append(Entry(entry.name, Kind.FILE, entry.stat(follow_symlinks=False).st_size))
                else:
                    entries.append(Entry(entry.name, Kind.OTHER, 0))
        return sorted(entries)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directories(self, path: str) -> list[str]:
        if os.path.isdir(path):
            return []
        parent = os.path.dirname(path)
        changed = self.make_directories(parent)
        try:
            os.mkdir(path)
        except FileExistsError as reason:
            if not os.path.isdir(path):
                raise ForeignFile(f"{path} is not a directory: move it away") from reason
        return [*changed, parent]

    def rename(self, path: str, to: str) -> None:
        os.replace(path, to)

    def link(self, path: str, to: str) -> bool:
        try:
            os.link(path, to, follow_symlinks=False)
        except OSError as reason:
            if reason.errno in _NO_LINKS:
                return False
            raise
        return True

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def usage(self, path: str) -> Usage:
        found = os.statvfs(path)
        return Usage(found.f_blocks * found.f_frsize, found.f_bfree * found.f_frsize, found.f_bavail * found.f_frsize)

    def modified_ms(self, path: str) -> int:
        return os.stat(path, follow_symlinks=False).st_mtime_ns // NANOSECONDS_PER_MS

    def stamp(self, path: str) -> tuple[int, int]:
        found = os.stat(path, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            return found.st_size, found.st_mtime_ns
        if stat.S_ISDIR(found.st_mode):
            return DIRECTORY, found.st_mtime_ns
        raise ForeignFile(f"{path} is neither file nor directory: move it away")

    def lock(self, path: str) -> Lock | None:
        return lock.take(path)
