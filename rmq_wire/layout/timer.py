"""Timer messages: a log of what entered the wheel, the wheel's slots, and the timer's own checkpoint.

Sources: `TimerLog`, `TimerWheel`, `Slot`, `TimerCheckpoint`, `DataVersion` of the reference.
"""

from __future__ import annotations

from typing import Final

from construct import Int32sb, Int64sb, Padded, Struct

from rmq_wire.layout.flat import flat

LOG_UNIT: Final = Struct(
    "size" / Int32sb * "52; at a file's end: bytes left in it",
    "previous" / Int64sb * "where the previous unit of the same slot begins in this log; -1: none",
    "magic" / Int32sb * "1 plain, +2 to be rolled, +4 deletes another; CBD43194 at a file's end",
    "write_ms" / Int64sb * "when it entered the wheel, in steps of the precision",
    "delay_ms" / Int32sb * "due time minus write_ms",
    "physical_offset" / Int64sb * "where the message unit begins in the commit log",
    "message_size" / Int32sb * "bytes of that unit",
    "topic_hash" / Int32sb * "hash of the topic it will be delivered to",
    "reserved" / Int64sb * "0",
)
BLANK_MAGIC: Final = 0xCBD43194 - (1 << 32)
"""`TimerLog.BLANK_MAGIC_CODE`."""
LOG_BLANK: Final = Struct(
    "size" / Int32sb * "bytes left in this file, this field included",
    "previous" / Int64sb * "0",
    "magic" / Int32sb * "CBD43194",
)

SLOT: Final = Struct(
    "tick" / Int64sb * "due time divided by the precision; a slot of another time is stale",
    "first" / Int64sb * "where its first unit begins in the log",
    "last" / Int64sb * "where its last unit begins in the log",
    "count" / Int32sb * "units in its chain",
    "magic" / Int32sb * "as in the log",
)

CHECK_FILE_SIZE: Final = 4096
CHECK: Final = Struct(
    "last_read_ms" / Int64sb * "how far time has been delivered",
    "last_log_flush_position" / Int64sb * "how far the log is on disk",
    "last_queue_offset" / Int64sb * "next message of the timer topic that will enter the wheel",
    "master_queue_offset" / Int64sb * "of a slave: the same of its master",
    "state_version" / Int64sb * "data version: epoch of the controller, else 0",
    "version_timestamp" / Int64sb * "data version: ms of the last change",
    "version_counter" / Int64sb * "data version: changes so far",
)
"""The answer to code 60, and the beginning of the file `config/timercheck`."""
CHECK_FILE: Final = Padded(CHECK_FILE_SIZE, CHECK)

CHECK_FLAT: Final = flat(CHECK)
LOG_UNIT_FLAT: Final = flat(LOG_UNIT)
LOG_BLANK_FLAT: Final = flat(LOG_BLANK)
SLOT_FLAT: Final = flat(SLOT)
