"""One index file: a header, hash slots and 20-byte entries; a key's entries are a chain from its slot, newest first.

The slots of the newest file live in anonymous memory and go back to the file by page, in slices; its entries are only ever
appended, gathered and written together.  So a put makes no system call and touches no mapped page.  What a crash leaves (slots
older than entries, a header older than both) is mended on opening from the entries alone, which are checked one against the
next.  Full files are read by position.  (Java: IndexFile, IndexHeader)
"""

from __future__ import annotations

import mmap
import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from rmq_store.disk.disk import File, write_all
from rmq_store.disk.segments import OpenFiles
from rmq_store.errors import Cold
from rmq_store.index.key_hashes import WORD, KeyHashes
from rmq_store.layouts import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from rmq_store.log.staging import Staged
from rmq_store.queues.key_heads import HEAD_PART, TAIL_PART
from rmq_wire.implied.index_keys import HASH_MAX, is_indexed
from rmq_wire.java import word_of_suffix
from rmq_wire.layout.index import Geometry

HEADER_BYTES: Final = INDEX_HEADER.size
SLOT_BYTES: Final = INDEX_SLOT.size
ENTRY_BYTES: Final = INDEX_ENTRY.size
NO_ENTRY: Final = 0
SECOND_MS: Final = 1000
PAGE_SLOTS: Final = 1024
"""Slots written back together: 4 KiB."""
WALK_STEPS_MAX: Final = 10_000
"""Entries looked at for one key in one file; hostile chains may be as long as the file."""
_SWAP: Final = sys.byteorder == "little"


class IndexFile:
    """One file: its header in memory, its slots too while it is the newest.

    `count` is Java's indexCount: one more than the number of entries once there is one, else 0 on disk and 1 in memory.
    """

    def __init__(self, files: OpenFiles, path: str, slot_num: int, index_num: int) -> None:
        self._files = files
        self.path = path
        self.slot_num = slot_num
        self.index_num = index_num
        self._entries_at = Geometry(slot_num, 0).size
        self.begin_timestamp = 0
        self.end_timestamp = 0
        self.begin_physical = 0
        self.end_physical = 0
        self.slots_used = 0
        self.count = 1
        self._slots: memoryview | None = None
        self._slots_written = 1
        """entries from this number on are not in the file's slots yet"""
        self._pages: list[int] = []
        """pages of slots still to be written"""
        self._tail = bytearray()
        self._tail_first = 1
        """number of the first entry in the tail"""
        self._header_dirty = False

    # --- where things are

    @property
    def file(self) -> File:
        """Raises OSError."""
        return self._files.get(self.path)

    @property
    def file_bytes(self) -> int:
        return file_bytes(self.slot_num, self.index_num)

    def entry_at(self, number: int) -> int:
        return self._entries_at + number * ENTRY_BYTES

    @property
    def is_full(self) -> bool:
        return self.count >= self.index_num

    @property
    def room(self) -> int:
        """Entries that still fit."""
        return self.index_num - self.count

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    # --- opening

    def load_header(self) -> None:
        header = self.file.read_at(0, HEADER_BYTES)
        (
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_physical,
            self.end_physical,
            self.slots_used,
            self.count,
        ) = INDEX_HEADER.unpack(header)
        self.count = min(max(self.count, 1), self.index_num)
        self._tail_first = self.count

    def blank_slots(self) -> memoryview:
        """Slots of a file without entries."""
        area = memoryview(mmap.mmap(-1, self.slot_num * SLOT_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)).cast("i")
        self._slots = area
        return area

    def load_slots(self) -> None:
        """Take the slots from the file: right after a clean stop."""
        area = self.blank_slots()
        for start in range(0, self.slot_num, PAGE_SLOTS * 64):
            stop = min(start + PAGE_SLOTS * 64, self.slot_num)
            data = self.file.read_at(HEADER_BYTES + start * SLOT_BYTES, (stop - start) * SLOT_BYTES)
            if data.count(0) == len(data):
                continue
            area[start:stop] = _native(data)
        self._slots_written = self.count

    @property
    def has_slots(self) -> bool:
        return self._slots is not None

    def rebuilt(self, count: int, slots_used: int, end_physical: int) -> None:
        """The slots were filled from entries: take over what they say."""
        self.count = self._tail_first = count
        self.slots_used = slots_used
        self.end_physical = end_physical
        self._slots_written = count
        self._pages = list(range(-(-self.slot_num // PAGE_SLOTS)))
        self._header_dirty = True

    def set_bounds(self, begin_physical: int, begin_timestamp: int, end_physical: int, end_timestamp: int) -> None:
        """The first and last message with an entry here; a time of -1 is not known, and what the header says is kept."""
        self.begin_physical, self.end_physical = begin_physical, end_physical
        if begin_timestamp >= 0:
            self.begin_timestamp = begin_timestamp
        if end_timestamp >= 0:
            self.end_timestamp = end_timestamp
        self._header_dirty = True

    def seed(self, previous: IndexFile) -> None:
        """A file made after a full one starts with the end of that one (Java: the IndexFile constructor)."""
        if previous.end_physical > 0:
            self.begin_physical = self.end_physical = previous.end_physical
        if previous.end_timestamp > 0:
            self.begin_timestamp = self.end_timestamp = previous.end_timestamp
        self._header_dirty = True

    # --- writing

    def put(self, batch: Sequence[Staged], hashes: KeyHashes) -> None:
        """Append an entry for each key of each message, rolled back ones apart; the caller has made sure that they fit."""
        slots = self._slots
        if slots is None:
            return
        number, used, begin = self.count, self.slots_used, self.begin_timestamp
        slot_num, pack, tails = self.slot_num, INDEX_ENTRY.pack, hashes.tails
        head_of, tail_of, word, most = HEAD_PART, TAIL_PART, WORD, HASH_MAX
        entries: list[bytes] = []
        append = entries.append
        for staged in batch:
            keys = staged.keys
            if not keys or (staged.sys_flag and not is_indexed(staged.sys_flag)):
                continue
            physical_offset, store_timestamp = staged.physical_offset, staged.store_timestamp
            heads = staged.queue.hash_heads
            seconds = min((store_timestamp - begin) // 1000, HASH_MAX) if 0 < begin < store_timestamp else 0
            for key in keys:
                try:
                    tail = tails[key[tail_of]]
                    key_hash = heads[key[head_of]] + tail & word if tail >= 0 else word_of_suffix(heads.prefix, key)
                except KeyError:
                    key_hash = hashes.of(staged.queue, key)
                if key_hash > most:
                    key_hash = -key_hash & most
                slot = key_hash % slot_num
                previous = slots[slot]
                if not previous:
                    used += 1
                append(pack(key_hash, physical_offset, seconds, previous))
                slots[slot] = number
                if number == 1:
                    # Java sets the header's begin after the first entry, so that one alone is measured from the seed.
                    self.begin_physical, self.begin_timestamp = physical_offset, store_timestamp
                    begin, seconds = store_timestamp, 0
                number += 1
            self.end_physical, self.end_timestamp = physical_offset, store_timestamp
        if entries:
            self._tail += b"".join(entries)
            self.count, self.slots_used = number, used
            self._header_dirty = True

    @property
    def tail_bytes(self) -> int:
        return len(self._tail)

    def write_tail(self) -> None:
        """Append the gathered entries to the file. Raises OSError; then they stay gathered."""
        if self._tail:
            write_all(self.file, self.entry_at(self._tail_first), self._tail)
            self._tail = bytearray()
            self._tail_first = self.count

    def write_header(self) -> None:
        """After the entries it counts. Raises OSError."""
        if self._header_dirty and not self._tail:
            write_all(
                self.file,
                0,
                INDEX_HEADER.pack(
                    self.begin_timestamp,
                    self.end_timestamp,
                    self.begin_physical,
                    self.end_physical,
                    self.slots_used,
                    self.count if self.count > 1 else 0,
                ),
            )
            self._header_dirty = False

    def write_slots(self, pages_max: int) -> bool:
        """Write back up to so many changed pages of slots; True when none is left. Raises OSError."""
        slots = self._slots
        if slots is None:
            return True
        if not self._pages and self._slots_written < self.count:
            self._pages = self._changed_pages()
            self._slots_written = self.count
        for _ in range(min(pages_max, len(self._pages))):
            start = self._pages[-1] * PAGE_SLOTS
            write_all(self.file, HEADER_BYTES + start * SLOT_BYTES, _big_endian(slots[start : start + PAGE_SLOTS]))
            self._pages.pop()
        return not self._pages

    def _changed_pages(self) -> list[int]:
        """Pages with a slot that an entry not yet written back points from; all of them when there are many entries."""
        page_count = -(-self.slot_num // PAGE_SLOTS)
        if self.count - self._slots_written >= page_count:
            return list(range(page_count))
        self.write_tail()
        first = self._slots_written
        data = self.file.read_at(self.entry_at(first), (self.count - first) * ENTRY_BYTES)
        return sorted({entry[0] % self.slot_num // PAGE_SLOTS for entry in INDEX_ENTRY.iter_unpack(data)})

    def drop_slots(self) -> None:
        """The file is full and written back: from now on its slots are read from it."""
        self._slots = None
        self._pages = []

    # --- reading

    def overlaps(self, begin_ms: int, end_ms: int) -> bool:
        """Whether a message of this time may be in here (Java: isTimeMatched)."""
        first, last = sorted((self.begin_timestamp, self.end_timestamp))  # the clock may have gone back
        return begin_ms <= last and end_ms >= first

    def entries(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Physical offsets of this hash that may be within the times, newest first; None now and then, where a caller may pause.

        An entry keeps whole seconds, the first one of a file seconds from somewhere else: the message has to be asked.
        Ends at a broken link, at a cycle (numbers must fall) and after WALK_STEPS_MAX entries. Raises Cold.
        """
        number = self._slot(key_hash % self.slot_num)
        if not 0 < number < self.count:
            return
        begin_ms -= SECOND_MS - 1
        for step in range(1, WALK_STEPS_MAX):
            entry_hash, physical, seconds, previous = self._entry(number)
            stored_ms = self.begin_timestamp + seconds * 1000
            if seconds < 0:
                return
            if entry_hash == key_hash and (begin_ms <= stored_ms <= end_ms or number == 1):
                yield physical
            if not 0 < previous < number or stored_ms < begin_ms:
                return
            number = previous
            if not step % 256:
                yield None

    def _slot(self, slot: int) -> int:
        if self._slots is not None:
            return int(self._slots[slot])
        return int(INDEX_SLOT.unpack(self._read(HEADER_BYTES + slot * SLOT_BYTES, SLOT_BYTES))[0])

    def _entry(self, number: int) -> tuple[int, int, int, int]:
        if number >= self._tail_first:
            key_hash, physical, seconds, previous = INDEX_ENTRY.unpack_from(self._tail, (number - self._tail_first) * ENTRY_BYTES)
        else:
            key_hash, physical, seconds, previous = INDEX_ENTRY.unpack(self._read(self.entry_at(number), ENTRY_BYTES))
        return key_hash, physical, seconds, previous

    def read_entry(self, number: int) -> tuple[int, int, int, int]:
        """One written entry; waits for the disk, so only while opening. Raises OSError."""
        key_hash, physical, seconds, previous = INDEX_ENTRY.unpack(self.file.read_at(self.entry_at(number), ENTRY_BYTES))
        return key_hash, physical, seconds, previous

    def _read(self, at: int, size: int) -> bytes:
        data = self.file.read_nowait(at, size)
        if data is None:
            file = self.file
            raise Cold(lambda: file.read_at(at, size), f"{file.path} at {at}")
        return data


def file_bytes(slot_num: int, index_num: int) -> int:
    return Geometry(slot_num, index_num).size


def _native(data: bytes) -> array[int]:
    slots = array("i")
    slots.frombytes(data)
    if _SWAP:
        slots.byteswap()
    return slots


def _big_endian(slots: memoryview) -> bytes:
    data = array("i")
    data.frombytes(slots.tobytes())
    if _SWAP:
        data.byteswap()
    return data.tobytes()
