"""Checkpoints: how far the store is safe on disk.  Six longs at the beginning of a file of one page.

Source: `StoreCheckpoint` of 5.5.0; the sixth is new there, older versions leave it 0.
"""

from __future__ import annotations

from typing import Final

from construct import Int64sb, Padded, Struct

from rmq_wire.layout.flat import flat

FILE_SIZE: Final = 4096
"""One page: `MappedFile.OS_PAGE_SIZE`."""

FIELDS: Final = Struct(
    "physic_msg_timestamp" / Int64sb * "store time of the newest message flushed in the commit log, ms",
    "logics_msg_timestamp" / Int64sb * "store time of the newest message flushed in all consume queues, ms",
    "index_msg_timestamp" / Int64sb * "end_timestamp of the last index file that was flushed full, ms",
    "master_flushed_offset" / Int64sb * "of a slave: how far its master had flushed",
    "confirm_phy_offset" / Int64sb * "where the last valid message began at the last recovery",
    "logics_physical_offset" / Int64sb * "where the message of logics_msg_timestamp begins; 0: not known",
)
FILE: Final = Padded(FILE_SIZE, FIELDS)

FIELDS_FLAT: Final = flat(FIELDS)
