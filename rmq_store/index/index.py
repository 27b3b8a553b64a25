"""The key index: which files there are, what is put into the newest, when the next begins, and look-ups across them.

A message is indexed under the texts of `rmq_wire.implied.index_keys`, each hashed behind its topic.  Nothing here can fail in
the middle of a message: room for a whole dispatch is made before its first entry.  (Java: IndexService)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from rmq_store.disk.disk import Kind
from rmq_store.disk.segments import OpenFiles
from rmq_store.errors import ForeignFile
from rmq_store.index.index_file import IndexFile, file_bytes
from rmq_store.index.key_hashes import KeyHashes
from rmq_store.log.staging import Staged
from rmq_wire.implied.index_keys import is_indexed, key_hash
from rmq_wire.times import Zone, compact_time

TAIL_BYTES_MAX: Final = 8 * 1024
"""Entries gathered before they are written; what a kill loses of them is made again from the log."""


class Index:
    """All index files, oldest first; only the last is written."""

    def __init__(self, files: OpenFiles, directory: str, slot_num: int, index_num: int, zone: Zone) -> None:
        self._files = files
        self._disk = files.disk
        self.directory = directory
        self._slot_num = slot_num
        self._index_num = index_num
        self._zone = zone
        self._hashes = KeyHashes()
        self._next: list[IndexFile] = []
        """made ahead for entries that will not fit in the newest"""
        self.files: list[IndexFile] = []
        self.retiring: list[IndexFile] = []
        """full files whose slots are not all written back"""
        self.retired: list[IndexFile] = []
        """full and written back, but not synced"""
        self.unsynced_directories: dict[str, None] = {}
        self.indexed_offset = 0
        """messages that begin before this log position are indexed"""

    # --- files

    def load(self) -> list[str]:
        """Find the files, read their headers. Returns the paths of files of the wrong size, which are not taken.

        Raises ForeignFile for links and the like, OSError. Names that are no number are left alone, as Java does.
        """
        wrong = []
        for name, kind, size in self._disk.entries(self.directory):
            path = f"{self.directory}/{name}"
            if kind in (Kind.LINK, Kind.OTHER):
                raise ForeignFile(f"{path} is a {kind.value}: move it away, only regular files belong there")
            if kind is not Kind.FILE or not (name.isascii() and name.isdigit()):
                continue
            if size != file_bytes(self._slot_num, self._index_num):
                wrong.append(path)
                continue
            file = IndexFile(self._files, path, self._slot_num, self._index_num)
            file.load_header()
            self.files.append(file)
        return wrong

    def remove(self, file: IndexFile) -> None:
        self.files.remove(file)
        self._unlink(file)

    def _unlink(self, file: IndexFile) -> None:
        self._files.forget(file.path)
        with suppress(FileNotFoundError):
            self._disk.unlink(file.path)

    def _create(self, wall_ms: int) -> IndexFile:
        made = self._disk.make_directories(self.directory)
        name = compact_time(wall_ms, self._zone)
        before = [*self.files, *self._next]
        if before and name <= before[-1].name:
            name = str(int(before[-1].name) + 1)
        path = f"{self.directory}/{name}"
        self._files.create(path, file_bytes(self._slot_num, self._index_num))
        self.unsynced_directories.update(dict.fromkeys([*made, self.directory]))
        file = IndexFile(self._files, path, self._slot_num, self._index_num)
        file.blank_slots()
        return file

    # --- writing

    def reserve(self, batch: Sequence[Staged], wall_ms: int) -> None:
        """Make sure that there is room for all entries of this batch, in further files if need be. Raises OSError."""
        if not self.files:
            self.files.append(self._create(wall_ms))
        if batch and batch[0].physical_offset < self.indexed_offset:
            batch = [staged for staged in batch if staged.physical_offset >= self.indexed_offset]
        room = self.files[-1].room
        needed = sum([len(staged.keys) for staged in batch])
        if needed > room:
            needed = sum([len(staged.keys) for staged in batch if is_indexed(staged.sys_flag)])
        while needed > room + len(self._next) * (self._index_num - 1):
            self._next.append(self._create(wall_ms))

    def put_batch(self, batch: Sequence[Staged]) -> None:
        """Index these messages; those indexed before are skipped. `reserve` was called with the same batch."""
        if batch[0].physical_offset < self.indexed_offset:
            batch = [staged for staged in batch if staged.physical_offset >= self.indexed_offset]
        if not batch:
            return
        file = self.files[-1]
        if sum([len(staged.keys) for staged in batch]) <= file.room:
            file.put(batch, self._hashes)
        else:
            for staged in batch:
                file = self._put_split(file, staged)
        self.indexed_offset = batch[-1].end_offset

    def _put_split(self, file: IndexFile, staged: Staged) -> IndexFile:
        """Put a message whose entries may go over a file's end. Returns the file to go on with."""
        if not is_indexed(staged.sys_flag):
            return file
        keys = staged.keys
        while len(keys) > file.room:
            part, keys = keys[: file.room], keys[file.room :]
            file.put([replace(staged, keys=part)], self._hashes)
            file = self._rotate()
        file.put([replace(staged, keys=keys)], self._hashes)
        return file

    def _rotate(self) -> IndexFile:
        full, following = self.files[-1], self._next.pop(0)
        following.seed(full)
        self.files.append(following)
        self.retiring.append(full)
        return following

    def write_gathered(self, bytes_min: int = 1) -> None:
        """Append gathered entries to their file when there are so many. Raises OSError."""
        for file in self.retiring:
            file.write_tail()
        if self.files and self.files[-1].tail_bytes >= bytes_min:
            self.files[-1].write_tail()

    def write_headers(self) -> None:
        """Raises OSError."""
        for file in self.retiring:
            file.write_header()
        if self.files:
            self.files[-1].write_header()

    def retire(self, pages_max: int) -> None:
        """Write back some slots of full files; a file done moves to `retired`. Raises OSError."""
        if self.retiring and self.retiring[0].write_slots(pages_max):
            file = self.retiring.pop(0)
            file.write_tail()
            file.write_header()
            file.drop_slots()
            self.retired.append(file)

    @property
    def has_entries(self) -> bool:
        return any(file.count > 1 for file in self.files)

    def close(self) -> None:
        """Write everything back: entries, slots, headers. Raises OSError."""
        self.write_gathered()
        while self.retiring:
            self.retire(1 << 30)
        if self.files:
            self.files[-1].write_slots(1 << 30)
            self.files[-1].write_header()
        while self._next:
            self._unlink(self._next.pop())

    # --- reading

    def find(self, topic_hash: int, key: str, count_max: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Physical offsets of messages that may have this key, newest first; None where a caller may pause. Raises Cold.

        Hashes are all that is compared. (Java: queryOffset)
        """
        wanted = key_hash(topic_hash, key)
        found = 0
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                for physical in file.entries(wanted, begin_ms, end_ms):
                    yield physical
                    if physical is not None:
                        found += 1
                        if found >= count_max:
                            return
            if file.begin_timestamp < begin_ms:
                return
            yield None
