"""Consume queues: fixed units that say where the messages of a queue are.

Sources: `ConsumeQueue`, `ConsumeQueueExt`, `BatchConsumeQueue`, `SparseConsumeQueue` of the reference.
"""

from __future__ import annotations

from typing import Final

from construct import Bytes, Int16sb, Int32sb, Int64sb, Struct, this

from rmq_wire.layout.flat import flat

UNIT: Final = Struct(
    "physical_offset" / Int64sb * "where the message unit begins in the commit log",
    "size" / Int32sb * "bytes of that unit; 7FFFFFFF with offset 0: filler before a queue's first message",
    "tags_code" / Int64sb * "hash of the tags; of a delayed message: ms when due; below -2147483648: address of an extension",
)

EXT_UNIT_HEAD: Final = Struct(
    "size" / Int16sb * "bytes of the whole extension; -1: nothing more in this file",
    "tags_code" / Int64sb * "hash of the tags",
    "store_timestamp" / Int64sb * "ms, of the message",
    "bit_map_size" / Int16sb * "bytes of the bit map that follows",
)
EXT_UNIT: Final = Struct(
    *EXT_UNIT_HEAD.subcons,
    "bit_map" / Bytes(this.bit_map_size) * "bloom filter of the consumers whose SQL filter matched",
)
"""Units of consumequeue_ext, one after another; its first one has the address -2^63."""
EXT_ADDRESS_FIRST: Final = -(1 << 63)
EXT_ADDRESS_LAST: Final = -(1 << 31) - 1
"""Greatest number that is an address: no hash is as small."""
EXT_END: Final = Struct("size" / Int16sb * "-1: nothing more in this file")
EXT_END_BYTES: Final = 4
"""Left at a file's end, for the mark (`END_BLANK_DATA_LENGTH`)."""

BATCH_UNIT: Final = Struct(
    "physical_offset" / Int64sb * "where the message unit begins in the commit log",
    "size" / Int32sb * "bytes of that unit",
    "tags_code" / Int64sb * "hash of the tags",
    "store_timestamp" / Int64sb * "ms, of the message",
    "base_offset" / Int64sb * "queue offset of the batch's first message",
    "batch_size" / Int16sb * "messages in the batch; 1 for an ordinary one",
    "compacted_offset" / Int32sb * "-1; 0 in the marker at the end of a compacted file",
    "reserved" / Int32sb * "0",
)
"""Units of batchconsumequeue and of compacted queues."""

UNIT_FLAT: Final = flat(UNIT)
BATCH_UNIT_FLAT: Final = flat(BATCH_UNIT)
EXT_UNIT_HEAD_FLAT: Final = flat(EXT_UNIT_HEAD)
EXT_END_FLAT: Final = flat(EXT_END)
