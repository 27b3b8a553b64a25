"""Packing units, one behind the other, at the positions that they will have: the hottest step of a send.

The commit log does it at its end, a batch (`rmq_store.log.batch`) beside the log, from zero on.
(Java: MessageExtEncoder, CommitLog.DefaultAppendMessageCallback)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from rmq_store.errors import Illegal, IllegalKind
from rmq_store.layouts import BORN_V6, FIXED, PROPERTIES_LENGTH, STORE_V6
from rmq_store.log.draft import Draft, Placed
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.settings import PROPERTIES_BYTES_MAX
from rmq_wire import property_names as prop
from rmq_wire.checksum import MASK
from rmq_wire.implied.queue_entries import UNQUEUED
from rmq_wire.layout.message import HOST_V4_SIZE
from rmq_wire.message import SEAL_BYTES, crc32_property
from rmq_wire.properties import PAIR_END, delete

Piece = bytes | bytearray | memoryview
PIECES: Final = 5
"""of a unit that `stage` has packed: fixed part, body, topic with length, properties length, properties"""
_PACK_V4: Final = FIXED[0].packed.pack
_V4_BYTES: Final = FIXED[0].size + PROPERTIES_LENGTH.size
"""Of a unit with IPv4 hosts: all but topic, body and properties."""
_NO_HOST_BITS: Final = ~(BORN_V6 | STORE_V6)
"""A client may set these bits; only the hosts' widths decide."""
_SEAL_PLACE: Final = crc32_property(0)
_PAIR_END: Final = PAIR_END.encode()
_CRC_NAME: Final = prop.CRC32.encode()


class Staged(Placed, gc=False):
    """A unit from its staging to its dispatch; what `Store.stage` returns."""

    queue: ConsumeQueue
    sys_flag: int
    store_timestamp: int
    tags_code: int
    keys: tuple[str, ...]
    count: int = 1
    """offsets that it takes in its queue; more than one for an inner batch"""
    light: tuple[tuple[ConsumeQueue, int], ...] = ()
    """light queues that it goes to as well, with its offset there"""
    undone: tuple[tuple[ConsumeQueue, int], ...] = ()
    """light queues whose offsets it only counts on"""


class Staging:
    """`unit_bytes_max`, `body_bytes_max`: of one message."""

    def __init__(self, unit_bytes_max: int, body_bytes_max: int) -> None:
        self.staged: list[Staged] = []
        self._unit_bytes_max = unit_bytes_max
        self._body_bytes_max = body_bytes_max
        self._pieces: list[Piece] = []
        self._end = 0
        self._room = 0
        """Bytes left for units where `_end` lies."""

    def stage(self, draft: Draft, queue: ConsumeQueue, wall_ms: int) -> Staged:
        """Reserve a place and pack the unit. Raises Illegal, and then nothing is reserved."""
        body = draft.body
        properties = draft.properties
        body_bytes = len(body)
        properties_bytes = len(properties)
        born_host = draft.born_host
        store_host = draft.store_host
        sys_flag = draft.sys_flag & _NO_HOST_BITS
        size = _V4_BYTES + body_bytes + queue.topic_field_bytes + properties_bytes
        hosts = 0
        if len(born_host) != HOST_V4_SIZE or len(store_host) != HOST_V4_SIZE:
            hosts = (BORN_V6 if len(born_host) != HOST_V4_SIZE else 0) | (STORE_V6 if len(store_host) != HOST_V4_SIZE else 0)
            sys_flag |= hosts
            size += FIXED[hosts].size - FIXED[0].size
        if size > self._unit_bytes_max or body_bytes > self._body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX:
            self._refuse(size, body_bytes, properties_bytes)
        if size > self._room:
            self._roll()
        at = self._end
        queue_offset = 0 if sys_flag & UNQUEUED else queue.next_offset
        pack = FIXED[hosts].packed.pack if hosts else _PACK_V4
        self._pieces += (
            pack(
                size,
                queue.magic,
                crc32(body) & MASK,
                draft.queue_id,
                draft.flag,
                queue_offset,
                at,
                sys_flag,
                draft.born_timestamp,
                born_host,
                wall_ms,
                store_host,
                draft.reconsume_times,
                draft.prepared_transaction_offset,
                body_bytes,
            ),
            body,
            queue.topic_field,
            PROPERTIES_LENGTH.pack(properties_bytes),
            properties,
        )
        if not sys_flag & UNQUEUED:
            queue.next_offset = queue_offset + 1
        end = at + size
        self._end = end
        self._room -= size
        delay = draft.deliver_delay_ms
        staged = Staged(
            at,
            queue_offset,
            size,
            end,
            queue,
            sys_flag,
            wall_ms,
            draft.tags_code if delay < 0 else wall_ms + delay,
            draft.keys,
        )
        self.staged.append(staged)
        return staged

    def seal(self) -> None:
        """Put the check sum of the newest staged unit into the place that its properties keep for it at their end."""
        *before, properties = self._pieces[-PIECES:]
        self._pieces[-1] = bytes(properties[:-SEAL_BYTES]) + seal_of((*before, properties[:-SEAL_BYTES]))

    def _roll(self) -> None:
        """Go on where there is room."""
        raise NotImplementedError

    def _refuse(self, size: int, body_bytes: int, properties_bytes: int) -> None:
        check_sizes(body_bytes, properties_bytes, self._body_bytes_max)
        raise Illegal(IllegalKind.MESSAGE, f"the message takes {size} bytes, {self._unit_bytes_max} are allowed")


def check_sizes(body_bytes: int, properties_bytes: int, body_bytes_max: int) -> None:
    """Raise `Illegal` for a message that no place in the log is large enough for."""
    if properties_bytes > PROPERTIES_BYTES_MAX:
        raise Illegal(IllegalKind.PROPERTIES, f"properties have {properties_bytes} bytes, {PROPERTIES_BYTES_MAX} are allowed")
    if body_bytes > body_bytes_max:
        raise Illegal(IllegalKind.MESSAGE, f"the body has {body_bytes} bytes, {body_bytes_max} are allowed")


def seal_of(before: Iterable[Piece]) -> bytes:
    """The check sum property over everything before it in a unit (Java: __CRC32#, enabledAppendPropCRC)."""
    crc = 0
    for piece in before:
        crc = crc32(piece, crc)
    return crc32_property(crc & MASK)


def with_seal_place(properties: bytes) -> bytes:
    """The properties with a place for the check sum at their end, any that a client has put there gone."""
    if _CRC_NAME in properties:
        properties = delete(properties.decode("utf-8", "surrogateescape"), prop.CRC32).encode("utf-8", "surrogateescape")
    if properties and not properties.endswith(_PAIR_END):
        properties += _PAIR_END
    return properties + _SEAL_PLACE
