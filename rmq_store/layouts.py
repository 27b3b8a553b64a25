"""The fixed layouts that the store packs and unpacks, derived from their one declaration in `rmq_wire.layout`."""

from __future__ import annotations

from typing import Final

from rmq_wire.layout import checkpoint, consume_queue, index, message, timer
from rmq_wire.layout.flat import Flat, length_of
from rmq_wire.layout.message import BORN_V6, FIXED, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_V6

__all__ = ["BORN_V6", "FIXED", "MAGIC_BLANK", "MAGIC_V1", "MAGIC_V2", "STORE_V6"]

HEAD: Final[Flat] = message.HEAD_FLAT
BLANK: Final = message.BLANK_FLAT.packed
TOPIC_LENGTH_V1: Final = length_of(message.TOPIC_V1)
TOPIC_LENGTH_V2: Final = length_of(message.TOPIC_V2)
PROPERTIES_LENGTH: Final = length_of(message.UNIT, "properties")
QUEUE_UNITS: Final[Flat] = consume_queue.UNIT_FLAT
QUEUE_UNIT: Final = QUEUE_UNITS.packed
EXT_UNIT: Final = consume_queue.EXT_UNIT_HEAD_FLAT.packed
EXT_END: Final = consume_queue.EXT_END_FLAT.packed
BATCH_UNIT: Final = consume_queue.BATCH_UNIT_FLAT.packed
INDEX_HEADER: Final = index.HEADER_FLAT.packed
INDEX_SLOT: Final = index.SLOT_FLAT.packed
INDEX_ENTRY: Final = index.ENTRY_FLAT.packed
CHECKPOINT: Final = checkpoint.FIELDS_FLAT.packed
CHECKPOINT_FILE_BYTES: Final = checkpoint.FILE_SIZE
TIMER_UNIT: Final = timer.LOG_UNIT_FLAT.packed
TIMER_BLANK: Final = timer.LOG_BLANK_FLAT.packed
TIMER_BLANK_MAGIC: Final = timer.BLANK_MAGIC
TIMER_SLOT: Final = timer.SLOT_FLAT.packed
TIMER_TICK: Final = timer.SLOT_FLAT.field("tick")
TIMER_CHECK: Final = timer.CHECK_FLAT.packed
TIMER_CHECK_FILE_BYTES: Final = timer.CHECK_FILE_SIZE
