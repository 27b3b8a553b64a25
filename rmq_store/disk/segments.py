"""A row of files of one size, each named by the position of its first byte: what Java calls a mapped file queue.

The row knows which files exist, not how full they are.  Files open when first touched, through a shared table with a cap.
Loading checks every name and size, since the Java broker refuses a directory with a stray or short file in it.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rmq_store.disk.disk import Disk, Entry, File, Kind
from rmq_store.errors import ForeignFile
from rmq_wire.store_names import offset_name, offset_of

PAGE_BYTES = 4096
"""Java: OS_PAGE_SIZE."""
NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
"""The process, or the system, can open nothing more."""
FULL_FILE_PAGES = 1 << 31
"""More than anybody can ask for."""


class OpenFiles:
    """Open files by path, at most `capacity` of them; the one opened longest ago goes first.

    A file that goes is closed by its last reference, so a reader in another thread is never cut off.  When the system has no
    descriptor left all the same, half of them go.
    """

    def __init__(self, disk: Disk, capacity: int) -> None:
        self.disk = disk
        self._capacity = max(capacity, 1)
        self._files: dict[str, File] = {}

    def get(self, path: str) -> File:
        """Raises OSError, ForeignFile."""
        file = self._files.get(path)
        if file is None:
            file = self._add(path, lambda: self.disk.open(path))
        return file

    def opened(self, path: str) -> File | str:
        """The file if it is open, else its path: for a thread, which opens it for itself."""
        return self._files.get(path, path)

    def create(self, path: str, size: int) -> File:
        """A new file of `size` zero bytes. Raises OSError."""
        return self._add(path, lambda: self.disk.create(path, size))

    def _add(self, path: str, make: Callable[[], File]) -> File:
        self._shrink(self._capacity - 1)
        try:
            file = make()
        except OSError as reason:
            if reason.errno not in NO_DESCRIPTOR or not self._files:
                raise
            self._shrink(len(self._files) // 2)
            file = make()
        self._files[path] = file
        return file

    def _shrink(self, count: int) -> None:
        while len(self._files) > count:
            del self._files[next(iter(self._files))]

    def forget(self, path: str) -> File | None:
        """Its name is going away. Returns it when it was open, for whoever has the time to let go of it."""
        return self._files.pop(path, None)

    def clear(self) -> None:
        self._files.clear()


def note_dirty(dirty_files: dict[str, int], path: str, within: int, end: int, file_bytes: int) -> None:
    """These bytes of a queue's file are about to be written: it has to be synced.

    `dirty_files` counts page borders passed since the last sync, as Java's least number of dirty pages is meant
    (DefaultMappedFile.isAbleToFlush); a file that gets full has enough of them.
    """
    pages = FULL_FILE_PAGES if end >= file_bytes else end // PAGE_BYTES - within // PAGE_BYTES
    dirty_files[path] = dirty_files.get(path, 0) + pages


class Segments:
    """The files of one directory. `starts` is ascending."""

    __slots__ = ("_last_path", "_last_start", "directory", "file_bytes", "files", "starts", "unsynced_directories")

    def __init__(self, files: OpenFiles, directory: str, file_bytes: int, unsynced_directories: dict[str, None]) -> None:
        """`unsynced_directories` collects those whose entries change here, also when the change then fails half way."""
        self.files = files
        self.unsynced_directories = unsynced_directories
        self.directory = directory
        self.file_bytes = file_bytes
        self.starts: list[int] = []
        self._last_start = -1
        self._last_path = ""

    def load(self, clean: bool) -> list[str]:
        """Read the directory. Returns the paths of empty files, to be removed: the last one may be empty after any stop (as for
        Java), others only when the last stop was not clean, for a power cut may take a new file's length.

        Raises ForeignFile for what the Java broker would refuse too (links, unknown names, wrong sizes) and for names that
        are not a multiple of the file size.
        """
        entries = self._entries()
        empty = []
        for path, (name, kind, size) in entries:
            if kind is Kind.FILE and not size and (not clean or name == entries[-1][1].name):
                empty.append(path)
                continue
            if kind is not Kind.FILE:
                raise ForeignFile(f"{path} is a {kind.value}: move it away, only regular files belong there")
            start = offset_of(name)
            if start is None:
                raise ForeignFile(f"{path} does not belong there: move it away")
            if size != self.file_bytes:
                raise ForeignFile(
                    f"{path} has {size} bytes, configured are {self.file_bytes}: restore the file, or set the size that the"
                    " store was made with"
                )
            if start % self.file_bytes:
                raise ForeignFile(f"{path} does not start at a multiple of {self.file_bytes}: move it away")
            self.starts.append(start)
        return empty

    def _entries(self) -> list[tuple[str, Entry]]:
        """What lies there, with its path, by name; directories are nobody's business (Java's neither)."""
        found = self.files.disk.entries(self.directory)
        return [(f"{self.directory}/{entry.name}", entry) for entry in found if entry.kind is not Kind.DIRECTORY]

    @property
    def directories(self) -> tuple[str, ...]:
        """Where files may be made."""
        return (self.directory,)

    def directory_of(self, start: int) -> str:
        """Where the file that starts here lies."""
        return self.directory

    def path(self, start: int) -> str:
        if start != self._last_start:
            self._last_start, self._last_path = start, f"{self.directory_of(start)}/{offset_name(start)}"
        return self._last_path

    def start_of(self, position: int) -> int | None:
        """Start of the file that holds this position, or None."""
        at = bisect_right(self.starts, position) - 1
        if at < 0 or position >= self.starts[at] + self.file_bytes:
            return None
        return self.starts[at]

    def file(self, start: int) -> File:
        return self.files.get(self.path(start))

    def create(self, start: int) -> File:
        """Make the file that starts here, full length and sparse. Raises OSError."""
        disk = self.files.disk
        directory = self.directory_of(start)
        if not self.starts:
            missing = self._missing_directories(directory)
            self.unsynced_directories.update(dict.fromkeys(missing))  # noted first: what follows may fail half way
            if missing:
                disk.make_directories(directory)
        self.unsynced_directories[directory] = None
        file = self.files.create(self.path(start), self.file_bytes)
        self.starts.append(start)
        self.starts.sort()
        return file

    def _missing_directories(self, directory: str) -> list[str]:
        """Directories that will get a new entry when this one is made, nearest first."""
        found = []
        while not self.files.disk.is_directory(directory):
            directory = directory.rpartition("/")[0] or "/"
            found.append(directory)
        return found

    def remove(self, start: int) -> None:
        """Unlink the file; somebody may have done so already. Raises OSError."""
        path = self.path(start)
        self.files.forget(path)
        with suppress(FileNotFoundError):
            self.files.disk.unlink(path)
        self.starts.remove(start)

    @property
    def end(self) -> int:
        """One past the last byte of the last file; 0 without files."""
        return self.starts[-1] + self.file_bytes if self.starts else 0
