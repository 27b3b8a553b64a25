"""The index file: a header, hash slots, and entries chained backwards from their slot.

Source: `IndexHeader`, `IndexFile` of the reference.
"""

from __future__ import annotations

from typing import Final

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
