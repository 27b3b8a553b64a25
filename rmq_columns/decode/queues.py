"""Units of consume queues as records of a numpy array, and the few things that hold for a whole run of them.

A file is a row of fixed units; the first one without a size ends it (`ConsumeQueue.recover`: valid is an offset of 0 or more and
a size above 0).
"""

from __future__ import annotations

from typing import Final

from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT, Bytes, Mask, Records, records

FILLER_SIZE: Final = 0x7FFFFFFF
"""Of the units before the first message of a queue that does not begin at 0; their offset and tags code are 0."""
EXTENSION_ADDRESS_MAX: Final = -2147483649
"""A tags code up to this is an address in consumequeue_ext (`ConsumeQueueExt.isExtAddr`): no hash is as low."""


def queue_units(buffer: Bytes | bytes | bytearray | memoryview) -> Records:
    """Fields physical_offset, size, tags_code (big-endian views of the buffer)."""
    return records(buffer, QUEUE_UNIT)


def batch_units(buffer: Bytes | bytes | bytearray | memoryview) -> Records:
    """Fields of the 46-byte units of batch consume queues."""
    return records(buffer, BATCH_UNIT)


def is_written(units: Records) -> Mask:
    """Which units the reference takes for valid; fillers are among them."""
    return (units["physical_offset"] >= 0) & (units["size"] > 0)


def is_filler(units: Records) -> Mask:
    return (units["size"] == FILLER_SIZE) & (units["physical_offset"] == 0)


def is_empty(units: Records) -> Mask:
    """Which units were never written: all zeros."""
    found: Mask = (units["physical_offset"] == 0) & (units["size"] == 0) & (units["tags_code"] == 0)
    return found
