"""The fixed layouts that the store packs and unpacks, derived from their one declaration in `rmq_wire.layout`."""

from __future__ import annotations

from struct import Struct as Packed
from typing import Final

from rmq_wire.layout import checkpoint, consume_queue, index, message
from rmq_wire.layout.flat import Flat, flat
from rmq_wire.layout.message import BORN_V6, FIXED, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_V6

__all__ = ["BORN_V6", "FIXED", "MAGIC_BLANK", "MAGIC_V1", "MAGIC_V2", "STORE_V6"]

HEAD: Final[Flat] = flat(message.HEAD)
BLANK: Final = flat(message.BLANK).packed
TOPIC_LENGTH_V1: Final = Packed(">b")
TOPIC_LENGTH_V2: Final = Packed(">h")
PROPERTIES_LENGTH: Final = Packed(">h")
"""These three are what `Prefixed` means in `rmq_wire.layout.message.UNIT`; a test compares whole units."""
QUEUE_UNIT: Final = flat(consume_queue.UNIT).packed
INDEX_HEADER: Final = flat(index.HEADER).packed
INDEX_SLOT: Final = flat(index.SLOT).packed
INDEX_ENTRY: Final = flat(index.ENTRY).packed
CHECKPOINT: Final = flat(checkpoint.FIELDS).packed
CHECKPOINT_FILE_BYTES: Final = checkpoint.FILE_SIZE
