"""The key index: which files there are, what is put into the newest, when the next begins, and look-ups across them.

A message is indexed under the texts of `rmq_wire.message.index_keys`, each hashed behind its topic.  Nothing here can fail in
the middle of a message: room for a whole dispatch is made before its first entry.  (Java: IndexService)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Final

from rmq_store.commit_log import Staged
from rmq_store.disk import Disk, Kind
from rmq_store.errors import ForeignFile
from rmq_store.index_file import INT_MAX, IndexFile, file_bytes
from rmq_wire.java import hash_suffix
from rmq_wire.sys_flag import TRANSACTION_MASK, TRANSACTION_ROLLBACK

TAIL_BYTES_MAX: Final = 8 * 1024
"""Entries gathered before they are written; what a kill loses of them is made again from the log."""
SUFFIX: Final = 3
"""Characters of a key hashed through their own cache: counters at the end of ids vary, what precedes them repeats."""
SUFFIX_FACTOR: Final = 31**SUFFIX
CACHED_HASHES_MAX: Final = 8192
CACHED_CHARACTERS_MAX: Final = 128
NAME_DIGITS: Final = 17
"""yyyyMMddHHmmssSSS (Java: UtilAll.timeMillisToHumanString)."""


class KeyHashes:
    """`IndexFile.indexKeyHashMethod` of `topic#key`, fast for keys that resemble the ones before."""

    def __init__(self) -> None:
        self._heads: dict[tuple[int, str], int] = {}
        self._tails: dict[str, int] = {}

    def of(self, prefix_hash: int, key: str) -> int:
        """Non-negative 31-bit hash; `prefix_hash` is that of `topic#`."""
        head = (prefix_hash, key[:-SUFFIX])
        try:
            value = (self._heads[head] * SUFFIX_FACTOR + self._tails[key[-SUFFIX:]]) & 0xFFFFFFFF
        except KeyError:
            value = self._slowly(head, key) & 0xFFFFFFFF
        if value <= INT_MAX:
            return value
        return 0x100000000 - value if value != 0x80000000 else 0

    def _slowly(self, head: tuple[int, str], key: str) -> int:
        if SUFFIX < len(key) <= CACHED_CHARACTERS_MAX and key.isascii():
            if len(self._heads) >= CACHED_HASHES_MAX:
                self._heads.clear()
            if len(self._tails) >= CACHED_HASHES_MAX:
                self._tails.clear()
            self._heads[head] = hash_suffix(head[0], head[1]) & 0xFFFFFFFF
            self._tails[key[-SUFFIX:]] = hash_suffix(0, key[-SUFFIX:]) & 0xFFFFFFFF
        return hash_suffix(head[0], key)


class Index:
    """All index files, oldest first; only the last is written."""

    def __init__(self, disk: Disk, directory: str, slot_num: int, index_num: int, zone: tzinfo | None) -> None:
        self._disk = disk
        self._directory = directory
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
        for name, kind, size in self._disk.entries(self._directory):
            path = f"{self._directory}/{name}"
            if kind in (Kind.LINK, Kind.OTHER):
                raise ForeignFile(f"{path} is a {kind.value}: move it away, only regular files belong there")
            if kind is not Kind.FILE or not (name.isascii() and name.isdigit()):
                continue
            if size != file_bytes(self._slot_num, self._index_num):
                wrong.append(path)
                continue
            file = IndexFile(self._disk.open(path), self._slot_num, self._index_num)
            file.load_header()
            self.files.append(file)
        return wrong

    def remove(self, file: IndexFile) -> None:
        self.files.remove(file)
        self._disk.unlink(file.file.path)

    def _create(self, wall_ms: int) -> IndexFile:
        made = self._disk.make_directories(self._directory)
        name = time_name(wall_ms, self._zone)
        before = [*self.files, *self._next]
        if before and name <= before[-1].name:
            name = str(int(before[-1].name) + 1)
        handle = self._disk.create(f"{self._directory}/{name}", file_bytes(self._slot_num, self._index_num))
        self.unsynced_directories.update(dict.fromkeys([*made, self._directory]))
        file = IndexFile(handle, self._slot_num, self._index_num)
        file.blank_slots()
        return file

    # --- writing

    def reserve(self, batch: Sequence[Staged], wall_ms: int) -> None:
        """Make sure that there is room for all entries of this batch, in further files if need be. Raises OSError."""
        if not self.files:
            self.files.append(self._create(wall_ms))
        room = self._index_num - self.files[-1].count
        needed = sum([len(staged.keys) for staged in batch])
        while needed > room + len(self._next) * (self._index_num - 1):
            self._next.append(self._create(wall_ms))

    def put_batch(self, batch: Sequence[Staged]) -> None:
        """Index these messages; those indexed before are skipped. `reserve` was called with the same batch."""
        file = self.files[-1]
        hash_of = self._hashes.of
        for staged in batch:
            at = staged.physical_offset
            if at < self.indexed_offset:
                continue
            self.indexed_offset = staged.end_offset
            keys = staged.keys
            if not keys or staged.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
                continue
            prefix = staged.queue.hash_prefix
            hashes = [hash_of(prefix, key) for key in keys]
            room = file.index_num - file.count
            if len(hashes) <= room:
                file.put(hashes, at, staged.store_timestamp)
                continue
            while hashes:
                file.put(hashes[:room], at, staged.store_timestamp)
                del hashes[:room]
                if hashes:
                    file = self._rotate()
                    room = file.index_num - file.count

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

    def close(self) -> None:
        """Write everything back: entries, slots, headers. Raises OSError."""
        self.write_gathered()
        while self.retiring:
            self.retire(1 << 30)
        if self.files:
            self.files[-1].write_slots(1 << 30)
            self.files[-1].write_header()
        while self._next:
            self._disk.unlink(self._next.pop().file.path)

    # --- reading

    def find(self, topic_hash: int, key: str, count_max: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Physical offsets of messages that may have this key, newest first; None where a caller may pause. Raises Cold.

        Hashes are all that is compared. (Java: queryOffset)
        """
        key_hash = self._hashes.of(topic_hash, key)
        found = 0
        for file in reversed(self.files):
            if file.overlaps(begin_ms, end_ms):
                for physical in file.entries(key_hash, begin_ms, end_ms):
                    yield physical
                    if physical is not None:
                        found += 1
                        if found >= count_max:
                            return
            if file.begin_timestamp < begin_ms:
                return
            yield None


def time_name(wall_ms: int, zone: tzinfo | None) -> str:
    moment = datetime.fromtimestamp(wall_ms // 1000, zone)
    return f"{moment:%Y%m%d%H%M%S}{wall_ms % 1000:03d}"
