"""A message on its way into the log, and the place that it gets.

Structs without garbage-collector bookkeeping, since one or two of them are made for every message.
"""

from __future__ import annotations

from msgspec import Struct

from rmq_store.disk.disk import Buffer

NO_DELAY = -1


class Draft(Struct, gc=False):
    """A message on its way into the log: every field of a unit but those that its place decides.

    `body` may be a view of a receive buffer: it is read until `commit` or rollback and never kept.  `properties` is the final
    text, in Java's order.  `tags_code` and `keys` must be what `properties` imply (`rmq_wire.implied`):
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
