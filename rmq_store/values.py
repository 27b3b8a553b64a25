"""What goes into the store and what comes out of it, as plain values.

Structs without garbage-collector bookkeeping, since one or two of them are made for every message.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from rmq_store.disk import Buffer

NO_DELAY = -1


class Draft(Struct, gc=False):
    """A message on its way into the log: every field of a unit but those that its place decides.

    `body` may be a view of a receive buffer: it is read until `commit` or rollback and never kept.  `properties` is the final
    text, in Java's order.  `tags_code` and `keys` must be what `properties` imply (`rmq_wire.message.tags_code`, `index_keys`):
    they save the store a second parse.
    """

    topic: str
    queue_id: int
    body: Buffer
    properties: bytes
    born_timestamp: int
    """ms, the client's"""
    born_host: bytes
    """4 or 16 address bytes and the port as 4-byte int, network order"""
    store_host: bytes
    flag: int = 0
    sys_flag: int = 0
    """The bits for IPv6 hosts are added by the store."""
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int = 0
    keys: tuple[str, ...] = ()
    deliver_delay_ms: int = NO_DELAY
    """>= 0: the queue entry's tags code is store time plus this (delay levels)."""


class Placed(Struct, gc=False):
    """Where a staged unit will lie once committed."""

    physical_offset: int
    queue_offset: int
    size: int
    """bytes of the unit"""
    end_offset: int
    """physical_offset + size: what a flush must reach"""


class Arrived(NamedTuple):
    """Units of one queue that became visible to consumers together."""

    topic: str
    queue_id: int
    next_queue_offset: int
    """one past the last of them: the queue's new maximum"""
    tags_codes: list[int]
    """of each of them, ascending by offset"""
    store_timestamp: int
    """of the last of them, ms"""


class GetStatus(Enum):
    """Outcome of reading a queue (Java: `GetMessageStatus`)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_RESET = "OFFSET_RESET"


class Read(NamedTuple):
    """What a pull gets."""

    status: GetStatus
    next_offset: int
    """nextBeginOffset"""
    min_offset: int
    max_offset: int
    chunks: Sequence[Buffer]
    """The units, back to back; neighbours are one chunk. Views stay valid as long as they are held."""
    message_count: int
    size: int
    """bytes of all chunks"""
    suggest_slave: bool
    """The backlog is older than what is taken to be in memory (Java: suggestPullingFromSlave)."""


class QueryResult(NamedTuple):
    """What a key query gets: whole units, ascending by position."""

    units: list[Buffer]
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class Boundary(Enum):
    """Which end of the messages of one time is meant (Java: `BoundaryType`)."""

    LOWER = "lower"
    UPPER = "upper"


class IndexType(Enum):
    """Which kind of index entry is asked for. Keys and unique keys share their texts; tags have their own."""

    KEY = "K"
    UNIQUE_KEY = "U"
    TAG = "T"
