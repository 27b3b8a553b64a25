"""A disk in memory that remembers what was synced, fails on demand, and can lose the rest.

Medium and cache are separate for file contents (by page), for lengths and for directory entries: syncing a file does not sync
the directory that names it, and a sync that failed leaves pages that count as clean and that the medium never got.  `crash` gives
the disk that the next process finds; after a kill it still knows what was not synced.  It passes the same suite as the real one
(tests/store/test_disk.py), whose contract it must not exceed: a mapped file cannot be shortened here at all.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache

from rmq_store.disk.disk import DIRECTORY, Buffer, Entry, Kind, Usage
from rmq_store.errors import ForeignFile


class Stopped(BaseException):
    """The process ends in the middle of an operation of the disk."""


PAGE_BYTES = 4096
SECTOR_BYTES = 512
_ZEROS = bytes(PAGE_BYTES)


@cache
def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


@dataclass(slots=True)
class Fault:
    """From the `first`-th call of `operation` on, `times` calls fail with `error` (0: a write is short instead)."""

    operation: str
    first: int = 1
    times: int = 1
    error: int = errno.ENOSPC
    partial: int = 0
    """bytes a failing or short write still writes"""
    path_part: str = ""
    """only paths that contain this"""


@dataclass(slots=True)
class _Inode:
    data: bytearray
    durable: bytes
    dirty: set[int] = field(default_factory=set)
    """pages that the next sync writes"""
    lost: set[int] = field(default_factory=set)
    """pages that a failed sync left: clean, and not on the medium"""
    kind: Kind = Kind.FILE
    entries: dict[str, _Inode] = field(default_factory=dict)
    """of a directory: the paths in it that are on the medium"""
    modified_ms: int = 0
    changed: int = 0
    """number of the last change of its bytes or names, among all changes of the disk"""
    durable_changed: int = 0


class MemoryFile:
    """`File` over an inode."""

    def __init__(self, disk: MemoryDisk, inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self.path = path

    def write_at(self, offset: int, data: Buffer) -> int:
        fault = self._disk.fault("write", self.path)
        view = memoryview(data).cast("B") if isinstance(data, memoryview) else memoryview(data)
        if fault is not None:
            view = view[: min(fault.partial, len(view))]
        end = offset + len(view)
        inode = self._inode
        if end > len(inode.data):
            inode.data.extend(bytes(end - len(inode.data)))
        inode.data[offset:end] = view
        inode.modified_ms = self._disk.wall_ms
        self._disk.note_change(inode)
        if len(view):
            pages = range(offset // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
            inode.dirty.update(pages)
            if inode.lost:
                inode.lost.difference_update(pages)
        self._disk.log.append(("write", self.path, offset, len(view)))
        if fault is not None and fault.error:
            raise OSError(fault.error, os.strerror(fault.error), self.path)
        return len(view)

    def read_at(self, offset: int, size: int) -> bytes:
        self._disk.raise_fault("read", self.path)
        self._disk.cold.discard(self.path)
        return bytes(self._inode.data[offset : offset + size])

    def read_nowait(self, offset: int, size: int) -> bytes | None:
        self._disk.raise_fault("read", self.path)
        if self.path in self._disk.cold or offset + size > len(self._inode.data):
            return None
        return bytes(self._inode.data[offset : offset + size])

    def resident(self, offset: int, size: int) -> bool:
        return self.path not in self._disk.cold

    def map(self) -> memoryview:
        return memoryview(self._inode.data).toreadonly()

    def length(self) -> int:
        return len(self._inode.data)

    def set_length(self, size: int) -> None:
        self._disk.raise_fault("set_length", self.path)
        data = self._inode.data
        pages = range(min(size, len(data)) // PAGE_BYTES, max(size, len(data)) // PAGE_BYTES + 1)
        if size < len(data):
            del data[size:]  # BufferError while it is mapped
        else:
            data.extend(bytes(size - len(data)))
        self._disk.note_change(self._inode)
        self._inode.dirty.update(pages)

    def data_ranges(self, start: int) -> Iterator[tuple[int, int]]:
        data = self._inode.data
        for page in range(start // PAGE_BYTES, -(-len(data) // PAGE_BYTES)):
            low, high = max(page * PAGE_BYTES, start), min((page + 1) * PAGE_BYTES, len(data))
            if data[low:high] != _ZEROS[: high - low]:
                yield low, high

    def sync(self) -> None:
        fault = self._disk.fault("sync", self.path)
        inode = self._inode
        if fault is not None:
            # As Linux does: the pages are clean now, and the medium does not have them.
            inode.lost |= inode.dirty
            inode.dirty.clear()
            raise OSError(fault.error, os.strerror(fault.error), self.path)
        inode.durable = bytes(inode.data) if not inode.lost else bytes(_but_pages(inode.data, inode.durable, inode.lost))
        inode.dirty.clear()
        inode.durable_changed = inode.changed
        self._disk.log.append(("sync", self.path, 0, 0))


class MemoryLock:
    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._inode = disk._now[path]

    def is_held(self) -> bool:
        if self._path not in self._disk._now:
            self._disk.create(self._path, 0)
            self._inode = self._disk._now[self._path]
        return self._disk._now[self._path] is self._inode

    def release(self) -> None:
        self._disk.locked.discard(self._path)


class MemoryDisk:
    """`Disk` in memory. `faults` are consulted in order; `log` has every write, sync and change of names."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.log: list[tuple[str, str, int, int]] = []
        self.locked: set[str] = set()
        self.cold: set[str] = set()
        """files whose bytes are not in memory until read with `read_at`"""
        self.space = Usage(1 << 40, 1 << 39, 1 << 39)
        self.links = True
        """It has hard links."""
        self.boot = 1
        self.wall_ms = 0
        """for the times of files; set by the test"""
        self.before: Callable[[str, str], None] | None = None
        """called before each operation, with its name and path; may raise to stop there"""
        self._calls: dict[int, int] = {}
        self._now: dict[str, _Inode] = {"/": _directory()}
        self._changes = 0

    def note_change(self, inode: _Inode) -> None:
        self._changes += 1
        inode.changed = self._changes

    def _note_name(self, path: str) -> None:
        """A name in its directory came or went."""
        self.note_change(self._now[self._parent(path)])

    @property
    def boot_id(self) -> str:
        return f"boot {self.boot}"

    def stop_after(self, calls: int) -> None:
        """After so many operations the process ends (`Stopped`), at each that it tries; until `before` is another one."""
        left = calls

        def before(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped

        self.before = before

    # --- faults

    def fault(self, operation: str, path: str) -> Fault | None:
        if self.before is not None:
            self.before(operation, path)
        if not self.faults:
            return None
        due = None
        for fault in self.faults:
            if fault.operation != operation or fault.path_part not in path:
                continue
            calls = self._calls[id(fault)] = self._calls.get(id(fault), 0) + 1
            if due is None and fault.first <= calls < fault.first + fault.times:
                due = fault
        return due

    def raise_fault(self, operation: str, path: str) -> None:
        if self.before is None and not self.faults:
            return  # without another call: most are made then
        fault = self.fault(operation, path)
        if fault is not None:
            raise OSError(fault.error, os.strerror(fault.error), path)

    # --- names

    def open(self, path: str) -> MemoryFile:
        self.raise_fault("open", path)
        inode = self._now.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if inode.kind is not Kind.FILE:
            raise ForeignFile(f"{path} is not a regular file: move it away")
        return MemoryFile(self, inode, path)

    def create(self, path: str, size: int) -> MemoryFile:
        self.raise_fault("create", path)
        if path in self._now:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        if self._parent(path) not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        inode = self._now[path] = _Inode(bytearray(size), b"", modified_ms=self.wall_ms)
        inode.dirty.update(range(-(-size // PAGE_BYTES)))
        self.note_change(inode)
        self._note_name(path)
        self.log.append(("create", path, 0, size))
        return MemoryFile(self, inode, path)

    def place(self, path: str, kind: Kind) -> None:
        """Put something there that a store must refuse."""
        self.make_directories(self._parent(path))
        self._now[path] = _Inode(bytearray(), b"", kind=kind)
        self._note_name(path)

    def entries(self, path: str) -> list[Entry]:
        path = path.rstrip("/") or "/"
        at = len(path.rstrip("/")) + 1
        found = []
        for name, inode in self._now.items():
            if parent_of(name) == path and name != "/":
                found.append(Entry(name[at:], inode.kind, len(inode.data) if inode.kind is Kind.FILE else 0))
        return sorted(found)

    def is_directory(self, path: str) -> bool:
        return path in self._now and self._now[path].kind is Kind.DIRECTORY

    def make_directories(self, path: str) -> list[str]:
        inode = self._now.get(path)
        if inode is not None:
            if inode.kind is not Kind.DIRECTORY:
                raise ForeignFile(f"{path} is not a directory: move it away")
            return []
        changed = self.make_directories(self._parent(path))
        self.raise_fault("mkdir", path)
        self._now[path] = _directory()
        self._note_name(path)
        return [*changed, self._parent(path)]

    def rename(self, path: str, to: str) -> None:
        self.raise_fault("rename", path)
        self._now[to] = self._now.pop(path)
        self._note_name(path)
        self._note_name(to)
        self.log.append(("rename", path, 0, 0))

    def link(self, path: str, to: str) -> bool:
        self.raise_fault("link", path)
        if not self.links:
            return False
        if to in self._now:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), to)
        self._now[to] = self._now[path]
        self._note_name(to)
        self.log.append(("link", path, 0, 0))
        return True

    def unlink(self, path: str) -> None:
        self.raise_fault("unlink", path)
        if path not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        del self._now[path]
        self._note_name(path)
        self.log.append(("unlink", path, 0, 0))

    def remove_directory(self, path: str) -> None:
        self.raise_fault("rmdir", path)
        if path not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if self.entries(path):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        del self._now[path]
        self._note_name(path)

    def sync_directory(self, path: str) -> None:
        self.raise_fault("sync_directory", path)
        if path not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self._now[path].entries = {name: inode for name, inode in self._now.items() if parent_of(name) == path and name != "/"}
        self._now[path].durable_changed = self._now[path].changed
        self.log.append(("sync_directory", path, 0, 0))

    def usage(self, path: str) -> Usage:
        self.raise_fault("usage", path)
        return self.space

    def modified_ms(self, path: str) -> int:
        self.raise_fault("modified", path)
        if path not in self._now:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._now[path].modified_ms

    def stamp(self, path: str) -> tuple[int, int]:
        self.raise_fault("stamp", path)
        inode = self._now.get(path)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if inode.kind not in (Kind.FILE, Kind.DIRECTORY):
            raise ForeignFile(f"{path} is neither file nor directory: move it away")
        return len(inode.data) if inode.kind is Kind.FILE else DIRECTORY, inode.changed

    def lock(self, path: str) -> MemoryLock | None:
        if path in self._now and self._now[path].kind is not Kind.FILE:
            raise ForeignFile(f"{path} is not a regular file: move it away")
        if path in self.locked:
            return None
        if path not in self._now:
            self.create(path, 0)
        self.locked.add(path)
        return MemoryLock(self, path)

    _parent = staticmethod(parent_of)

    # --- what the next process finds

    def crash(self, keep: str | random.Random) -> MemoryDisk:
        """`keep`: "all" (a process was killed), "synced" (power cut, nothing else survived), or a source of chance."""
        after = MemoryDisk()
        after.links = self.links
        after.boot = self.boot if keep == "all" else self.boot + 1
        after._changes = self._changes
        if keep == "all":
            copies: dict[int, _Inode] = {}
            after._now = {name: _copy(inode, copies) for name, inode in self._now.items()}
            return after
        survivors: dict[int, _Inode] = {}
        for name, inode in self._surviving_names(keep).items():
            found = survivors.get(id(inode))
            if found is None:
                data = _surviving(inode, keep)
                found = survivors[id(inode)] = _Inode(data, bytes(data), kind=inode.kind, modified_ms=inode.modified_ms)
                is_newest = isinstance(keep, random.Random) and inode.changed % 2  # times get to the medium on their own
                found.changed = found.durable_changed = inode.changed if is_newest else inode.durable_changed
            after._now[name] = found
            if name != "/":
                after._now[parent_of(name)].entries[name] = found
        return after

    def _surviving_names(self, keep: str | random.Random) -> dict[str, _Inode]:
        """By name, directories first. A directory that was made anew has nothing of what the one before it had."""
        names: dict[str, _Inode] = {}

        def survive(path: str, directory: _Inode) -> None:
            names[path] = directory
            new = children.get(path, {}) if self._now.get(path) is directory else {}
            for name in sorted(directory.entries.keys() | new.keys()):
                old, other = directory.entries.get(name), new.get(name)
                if old is not other and isinstance(keep, random.Random) and keep.random() < 0.5:
                    old = other
                if old is None:
                    continue
                if old.kind is Kind.DIRECTORY:
                    survive(name, old)
                else:
                    names[name] = old

        children: dict[str, dict[str, _Inode]] = {}
        for name, inode in self._now.items():
            if name != "/":
                children.setdefault(parent_of(name), {})[name] = inode
        survive("/", self._now["/"])
        return names

    def live_contents(self, part: str) -> list[tuple[str, bytearray]]:
        """Regular files with this in their path, by name, without a copy."""
        return sorted((name, inode.data) for name, inode in self._now.items() if part in name and inode.kind is Kind.FILE)

    def contents(self) -> dict[str, bytes]:
        """Every regular file, as a reader sees it now."""
        return {name: bytes(inode.data) for name, inode in sorted(self._now.items()) if inode.kind is Kind.FILE}


def _directory() -> _Inode:
    return _Inode(bytearray(), b"", kind=Kind.DIRECTORY)


def _copy(inode: _Inode, copies: dict[int, _Inode]) -> _Inode:
    """As it is, with what is not synced; `copies` by identity."""
    found = copies.get(id(inode))
    if found is None:
        found = _Inode(
            bytearray(inode.data), inode.durable, set(inode.dirty), set(inode.lost), inode.kind, modified_ms=inode.modified_ms
        )
        found.changed, found.durable_changed = inode.changed, inode.durable_changed
        copies[id(inode)] = found
        found.entries = {name: _copy(other, copies) for name, other in inode.entries.items()}
    return found


def _but_pages(data: bytearray, durable: bytes, pages: set[int]) -> bytearray:
    """`data` with these pages as they are on the medium: zeros where that never had any."""
    medium = bytearray(data)
    for page in pages:
        low, high = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, len(medium))
        medium[low:high] = durable[low:high].ljust(high - low, b"\0")
    return medium


def _surviving(inode: _Inode, keep: str | random.Random) -> bytearray:
    data = bytearray(inode.durable)
    if not isinstance(keep, random.Random) or not inode.dirty:
        return data
    if len(inode.data) != len(data) and keep.random() < 0.7:
        data = (data + bytes(max(len(inode.data) - len(data), 0)))[: len(inode.data)]
    for page in sorted(inode.dirty):
        low, high = page * PAGE_BYTES, min((page + 1) * PAGE_BYTES, len(data))
        kind = keep.random()
        if kind < 0.4:
            data[low:high] = inode.data[low:high]
        elif kind < 0.6:  # torn: any of its sectors
            for sector in range(low, high, SECTOR_BYTES):
                if keep.random() < 0.5:
                    end = min(sector + SECTOR_BYTES, high)
                    data[sector:end] = inode.data[sector:end]
    return data
