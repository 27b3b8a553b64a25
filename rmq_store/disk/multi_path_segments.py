"""The commit log's files over several directories, so that several disks hold one log.

A file lies in the directory that its number (start divided by size) picks among the sorted ones that are neither read-only nor
full; when all are full, among all that are not read-only.  Whatever lies in any of them is the log, in order of names.  Which
directories are full is set from outside: `full` changes while the broker runs.
(Java: MultiPathMappedFileQueue)
"""

from __future__ import annotations

from rmq_store.disk.disk import Entry, File, Kind
from rmq_store.disk.segments import OpenFiles, Segments
from rmq_store.errors import ForeignFile
from rmq_store.settings import StoreSettings
from rmq_wire.store_names import offset_of


class MultiPathSegments(Segments):
    """Files of one log in several directories."""

    __slots__ = ("_places", "_readable", "_writable", "full")

    def __init__(
        self,
        files: OpenFiles,
        writable: tuple[str, ...],
        read_only: tuple[str, ...],
        file_bytes: int,
        unsynced_directories: dict[str, None],
    ) -> None:
        super().__init__(files, writable[0], file_bytes, unsynced_directories)
        self._writable = tuple(sorted(writable))
        self._readable = tuple(dict.fromkeys((*self._writable, *sorted(read_only))))
        self._places: dict[int, str] = {}
        self.full: frozenset[str] = frozenset()
        """directories that should get no new file"""

    def _entries(self) -> list[tuple[str, Entry]]:
        """Of all directories, by name. Raises ForeignFile when two hold the same piece of the log."""
        found: dict[str, str] = {}
        entries = []
        for directory in self._readable:
            for entry in self.files.disk.entries(directory):
                if entry.kind is Kind.DIRECTORY:
                    continue
                if entry.name in found:
                    raise ForeignFile(f"{entry.name} lies in {found[entry.name]} and in {directory}: move one of them away")
                found[entry.name] = directory
                entries.append((f"{directory}/{entry.name}", entry))
                if (start := offset_of(entry.name)) is not None:
                    self._places[start] = directory
        return sorted(entries, key=lambda at: at[1].name)

    @property
    def directories(self) -> tuple[str, ...]:
        return self._writable

    def directory_of(self, start: int) -> str:
        return self._places.get(start) or self._choose(start)

    def _choose(self, start: int) -> str:
        choice = [path for path in self._writable if path not in self.full] or self._writable
        return choice[start // self.file_bytes % len(choice)]

    def create(self, start: int) -> File:
        self._forget_place(start)
        self._places[start] = self._choose(start)
        return super().create(start)

    def remove(self, start: int) -> None:
        super().remove(start)
        self._forget_place(start)

    def _forget_place(self, start: int) -> None:
        """Whatever was there is gone; the next file of this start may lie elsewhere."""
        self._places.pop(start, None)
        self._last_start = -1


def log_segments(settings: StoreSettings, files: OpenFiles, unsynced_directories: dict[str, None]) -> Segments:
    """The commit log's files, in one directory or several."""
    writable = settings.commit_log_directories
    size = settings.mapped_file_size_commit_log
    if len(writable) == 1 and not settings.read_only_commit_log_directories:
        return Segments(files, writable[0], size, unsynced_directories)
    return MultiPathSegments(files, writable, settings.read_only_commit_log_directories, size, unsynced_directories)
