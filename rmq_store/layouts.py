"""The fixed layouts that the store packs and unpacks, derived from their one declaration in `rmq_wire.layout`."""

from __future__ import annotations

from typing import Final

from rmq_wire.layout import checkpoint, consume_queue, index, message
from rmq_wire.layout.flat import Flat, flat, length_of
from rmq_wire.layout.message import BORN_V6, FIXED, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_V6

__all__ = ["BORN_V6", "FIXED", "MAGIC_BLANK", "MAGIC_V1", "MAGIC_V2", "STORE_V6"]

HEAD: Final[Flat] = flat(message.HEAD)
BLANK: Final = flat(message.BLANK).packed
TOPIC_LENGTH_V1: Final = length_of(message.TOPIC_V1)
TOPIC_LENGTH_V2: Final = length_of(message.TOPIC_V2)
PROPERTIES_LENGTH: Final = length_of(message.UNIT, "properties")
QUEUE_UNITS: Final[Flat] = flat(consume_queue.UNIT)
QUEUE_UNIT: Final = QUEUE_UNITS.packed
EXT_UNIT: Final = flat(consume_queue.EXT_UNIT_HEAD).packed
EXT_END: Final = flat(consume_queue.EXT_END).packed
BATCH_UNIT: Final = flat(consume_queue.BATCH_UNIT).packed
INDEX_HEADER: Final = flat(index.HEADER).packed
INDEX_SLOT: Final = flat(index.SLOT).packed
INDEX_ENTRY: Final = flat(index.ENTRY).packed
CHECKPOINT: Final = flat(checkpoint.FIELDS).packed
CHECKPOINT_FILE_BYTES: Final = checkpoint.FILE_SIZE
