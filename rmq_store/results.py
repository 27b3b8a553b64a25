"""What the store hands out: arrivals, and what pulls, searches and queries find."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from rmq_store.disk.disk import Buffer


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

    __hash__ = object.__hash__  # Enum's takes a call of Python

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


class Read(Struct, gc=False):
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
