"""The index file: a header, hash slots, and entries chained backwards from their slot.

Source: `IndexHeader`, `IndexFile` of the reference.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from construct import Int32sb, Int64sb, Struct

from rmq_wire.layout.flat import flat

HEADER: Final = Struct(
    "begin_timestamp" / Int64sb * "store time of the first message, ms",
    "end_timestamp" / Int64sb * "store time of the last message, ms",
    "begin_physical_offset" / Int64sb * "of the first message",
    "end_physical_offset" / Int64sb * "of the last message",
    "slot_count" / Int32sb * "slots in use",
    "index_count" / Int32sb * "number of the next entry; entry 0 is never used; 0 in a file without any",
)
SLOT: Final = Struct("newest" / Int32sb * "number of the newest entry with this slot; 0: none")
ENTRY: Final = Struct(
    "key_hash" / Int32sb * "hash of topic#key without its sign",
    "physical_offset" / Int64sb * "where the message unit begins in the commit log",
    "seconds" / Int32sb * "store time minus begin_timestamp, in seconds",
    "previous" / Int32sb * "number of the next older entry with this slot; 0: none",
)

HEADER_FLAT: Final = flat(HEADER)
SLOT_FLAT: Final = flat(SLOT)
ENTRY_FLAT: Final = flat(ENTRY)
DEFAULT_SLOTS: Final = 5_000_000
DEFAULT_ENTRIES: Final = 20_000_000
"""`maxHashSlotNum`, `maxIndexNum`."""
ENTRIES_PER_SLOT: Final = DEFAULT_ENTRIES // DEFAULT_SLOTS
"""What people who change both keep."""


class Geometry(NamedTuple):
    """How a file is divided; nothing in it says that.  entries: for how many there is room, the unused entry 0 included."""

    slots: int
    entries: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.entry_at(self.entries)

    def slot_at(self, slot: int) -> int:
        """Byte of the file at which a slot begins."""
        return HEADER_FLAT.size + slot * SLOT_FLAT.size

    def entry_at(self, number: int) -> int:
        """Byte of the file at which an entry begins."""
        return self.slot_at(self.slots) + number * ENTRY_FLAT.size


def divided(size: int, slots: int) -> Geometry:
    """A file of so many bytes with so many slots."""
    return Geometry(slots, max((size - Geometry(slots, 0).size) // ENTRY_FLAT.size, 0))
