"""A disk that fails when a test says so, round any other disk; what is not asked to fail goes on to that one.

Syncs are left out (a test is no power cut), unless `syncs` is set: the directories of a thousand small brokers are made in a
quarter of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rmq_store.disk.disk import Buffer, Disk, Entry, File, Lock, RealDisk, Usage

Trouble = Callable[[str, str, int], OSError | int | None]
"""(operation, path, bytes) -> an error to raise, how many bytes to write instead of all, or None for no trouble.

Operations: open, create, write, read, length, sync, sync_directory, make_directories, rename, link, unlink."""


class TroubledFile:
    """A `File`."""

    def __init__(self, disk: TroubledDisk, inner: File) -> None:
        self._disk = disk
        self._inner = inner

    @property
    def path(self) -> str:
        return self._inner.path

    def write_at(self, offset: int, data: Buffer) -> int:
        most = self._disk.ask("write", self.path, len(data))
        return self._inner.write_at(offset, data if most is None else memoryview(data)[:most])

    def read_at(self, offset: int, size: int) -> bytes:
        self._disk.ask("read", self.path, size)
        return self._inner.read_at(offset, size)

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        return self._inner.read_nowait(offset, size)

    def resident(self, offset: int, size: int) -> bool:
        return self._inner.resident(offset, size)

    def map(self) -> memoryview:
        return self._inner.map()

    def length(self) -> int:
        return self._inner.length()

    def set_length(self, size: int) -> None:
        self._disk.ask("length", self.path, size)
        self._inner.set_length(size)

    def data_ranges(self, start: int) -> Iterator[tuple[int, int]]:
        return self._inner.data_ranges(start)

    def sync(self) -> None:
        self._disk.ask("sync", self.path, 0)
        if self._disk.syncs:
            self._inner.sync()


class TroubledDisk:
    """A `Disk`.  `trouble` may be set at any time."""

    def __init__(self, inner: Disk | None = None, *, syncs: bool = False) -> None:
        self._inner = inner or RealDisk()
        self.syncs = syncs
        self.trouble: Trouble | None = None
        self.full = False
        """`usage` says that nothing is left."""

    @property
    def boot_id(self) -> str:
        return self._inner.boot_id

    def ask(self, operation: str, path: str, size: int) -> int | None:
        """Raise what the test wants raised."""
        if self.trouble is None:
            return None
        said = self.trouble(operation, path, size)
        if isinstance(said, OSError):
            raise said
        return said

    def open(self, path: str) -> File:
        self.ask("open", path, 0)
        return TroubledFile(self, self._inner.open(path))

    def create(self, path: str, size: int) -> File:
        self.ask("create", path, size)
        return TroubledFile(self, self._inner.create(path, size))

    def entries(self, path: str) -> list[Entry]:
        return self._inner.entries(path)

    def is_directory(self, path: str) -> bool:
        return self._inner.is_directory(path)

    def make_directories(self, path: str) -> list[str]:
        self.ask("make_directories", path, 0)
        return self._inner.make_directories(path)

    def link(self, path: str, to: str) -> bool:
        self.ask("link", path, 0)
        return self._inner.link(path, to)

    def rename(self, path: str, to: str) -> None:
        self.ask("rename", path, 0)
        self._inner.rename(path, to)

    def unlink(self, path: str) -> None:
        self.ask("unlink", path, 0)
        self._inner.unlink(path)

    def remove_directory(self, path: str) -> None:
        self._inner.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self.ask("sync_directory", path, 0)
        if self.syncs:
            self._inner.sync_directory(path)

    def usage(self, path: str) -> Usage:
        found = self._inner.usage(path)
        return found._replace(free=0, usable=0) if self.full else found

    def modified_ms(self, path: str) -> int:
        return self._inner.modified_ms(path)

    def stamp(self, path: str) -> tuple[int, int]:
        return self._inner.stamp(path)

    def lock(self, path: str) -> Lock | None:
        return self._inner.lock(path)
