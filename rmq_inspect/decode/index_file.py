"""One index file: its header, a slot, an entry, a chain.

Chains are followed only from higher to lower numbers, so a cyclic one ends.  Source: `IndexFile`, `IndexHeader` of the reference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

from rmq_columns.decode import index_slots
from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_wire.layout import index

HEADER: Final = index.HEADER_FLAT
SLOT: Final = index.SLOT_FLAT
ENTRY: Final = index.ENTRY_FLAT
CHECKED_ENTRIES: Final = 64
CHAIN_STEPS_MAX: Final = 1_000_000
"""Entries looked at for one key in one file; an honest chain has some dozens."""
READ_ENTRIES: Final = 4096
OPEN_FILES: Final = 2
"""The newest, and the one before it, whose slots may be on their way to the disk: our broker keeps them in memory and writes them
within a minute, Java's has them in a map."""


class Header(NamedTuple):
    """As `IndexHeader`."""

    begin_timestamp: int
    end_timestamp: int
    begin_physical_offset: int
    end_physical_offset: int
    slot_count: int
    index_count: int


class Entry(NamedTuple):
    """number: its own, from 1 on.  at: byte of the file."""

    number: int
    at: int
    key_hash: int
    physical_offset: int
    seconds: int
    previous: int

    def store_time(self, header: Header) -> int:
        """ms, as exact as the index is: whole seconds behind the first message."""
        return header.begin_timestamp + self.seconds * 1000

    @property
    def raw(self) -> bytes:
        return ENTRY.packed.pack(self.key_hash, self.physical_offset, self.seconds, self.previous)


def has_room(size: int, slots: int) -> bool:
    """Whether a file of so many bytes can have so many hash slots, and an entry."""
    return index.divided(size, slots).entries > 1


class IndexReader:
    """Reads one file; a context manager.  slots: how many hash slots, 0 when that could not be found.

    no_slots: why, in words.
    """

    def __init__(self, file: StoreFile, slots: int | None = None) -> None:
        """slots: how many are said to be there; None: find out."""
        self.file = file
        self._reader = file.open()
        self.size = self._reader.size()
        self.header = Header(*HEADER.packed.unpack(self._reader.read(0, HEADER.size).ljust(HEADER.size, b"\0")))
        head = index_slots.Header.of(self.header._asdict())
        if slots is None:
            found = index_slots.likely_geometry(self._reader, self.size, head)
            self.no_slots = "the number of its hash slots cannot be found out (give --hash-slots)"
        else:
            found = index.divided(self.size, slots) if has_room(self.size, slots) else None
            self.no_slots = f"its {self.size} bytes have no room for an entry behind {slots} hash slots (--hash-slots)"
        self.geometry = found or index.divided(self.size, 0)
        self.slots = self.geometry.slots

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._reader.close()

    @property
    def capacity(self) -> int:
        """Entries for which there is room, the unused one included."""
        return self.geometry.entries

    @property
    def count(self) -> int:
        """Behind the number of the newest entry: the header's, but never more than there is room for."""
        return min(max(self.header.index_count, 0), self.capacity)

    def slot_at(self, slot: int) -> int:
        """Byte of a slot."""
        return self.geometry.slot_at(slot)

    def entry_at(self, number: int) -> int:
        """Byte of an entry."""
        return self.geometry.entry_at(number)

    def slot(self, slot: int) -> int:
        """The number of its newest entry, as it stands there."""
        data = self._reader.read(self.slot_at(slot), SLOT.size)
        return int(SLOT.packed.unpack(data)[0]) if len(data) == SLOT.size else 0

    def entry(self, number: int) -> Entry | None:
        """None where there is no room for one."""
        at = self.entry_at(number)
        data = self._reader.read(at, ENTRY.size)
        return Entry(number, at, *ENTRY.packed.unpack(data)) if number >= 0 and len(data) == ENTRY.size else None

    def entries(self, first: int = 1) -> Iterator[Entry]:
        """All entries that the header counts, oldest first."""
        for at, data in self._reader.chunks(self.entry_at(first), self.entry_at(self.count), READ_ENTRIES * ENTRY.size):
            whole = len(data) - len(data) % ENTRY.size
            for number, fields in enumerate(ENTRY.packed.iter_unpack(memoryview(data)[:whole])):
                place = at + number * ENTRY.size
                yield Entry((place - self.entry_at(0)) // ENTRY.size, place, *fields)

    def chain(self, slot: int) -> Iterator[Entry]:
        """The entries of a slot, newest first; ends where Java's walk does, and where a chain does not lead backwards."""
        number = self.slot(slot)
        if not 0 < number < max(self.count, 1):
            return
        for _ in range(CHAIN_STEPS_MAX):
            entry = self.entry(number)
            if entry is None:
                return
            yield entry
            if not 0 < entry.previous < number:
                return
            number = entry.previous

    def slots_may_lag(self, store: StoreDirectory) -> bool:
        """Whether entries may be there to which no slot leads yet: of a store that runs, was killed, or was copied meanwhile."""
        return self.file in store.index[-OPEN_FILES:] and (store.abort is not None or not self._leads_to_newest())

    def with_hashes(self, hashes: Collection[int]) -> Iterator[Entry]:
        """All entries with one of these hashes, oldest first, by reading every entry: slots and chains are not asked."""
        return (entry for entry in self.entries() if entry.key_hash in hashes)

    def _leads_to_newest(self) -> bool:
        """Whether the newest entries and their slots agree."""
        newest = self.header.index_count - 1
        count = min(newest, CHECKED_ENTRIES)
        first = newest - count + 1
        data = self._reader.read(self.entry_at(first), count * ENTRY.size)
        if self.slots < 1 or len(data) < count * ENTRY.size:
            return False
        newest_of: dict[int, int] = {}
        for place, (key_hash, physical, seconds, previous) in enumerate(ENTRY.packed.iter_unpack(data)):
            number = first + place
            slot = key_hash % self.slots
            before = newest_of.get(slot)
            expected = previous == before if before is not None else 0 <= previous < first
            if key_hash < 0 or physical < 0 or seconds < 0 or not expected:
                return False
            newest_of[slot] = number
        return all(self.slot(slot) == number for slot, number in newest_of.items())
