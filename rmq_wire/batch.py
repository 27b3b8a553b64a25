"""The body of a batch send (code 320): items one after another, each with flag, body and properties of one message.

Sources: `MessageDecoder.encodeMessages`, `MessageExtEncoder.encode(MessageExtBatch, …)`.  The reference believes an item's
lengths and never looks at its total size; here they must add up exactly, since a wrong one is damage or an attack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import error as PackedError
from typing import Final, NamedTuple

from rmq_wire.errors import BadBody
from rmq_wire.layout.flat import length_of
from rmq_wire.layout.message import ITEM, ITEM_HEAD_FLAT

_HEAD: Final = ITEM_HEAD_FLAT.packed
_PROPERTIES_LENGTH: Final = length_of(ITEM, "properties")
_PROPERTIES_LENGTH_SIZE: Final = _PROPERTIES_LENGTH.size


class Item(NamedTuple):
    """One message of a batch.  body: a view of what was read."""

    flag: int
    body: bytes | memoryview
    properties: bytes


def walk_items(body: bytes | memoryview) -> Iterator[Item]:
    """One message of a batch body after the other.  Raises `BadBody` at the first byte that is not part of exactly one whole
    item, and at the end when there was none.
    """
    view = memoryview(body)
    at, end = 0, len(view)
    if not end:
        raise BadBody("a batch without messages")
    try:
        while at < end:
            size, _, _, flag, body_size = _HEAD.unpack_from(view, at)
            body_at = at + _HEAD.size
            body_end = body_at + body_size
            if body_size < 0:
                raise BadBody(f"batch item at {at}: body of {body_size} bytes")
            [properties_size] = _PROPERTIES_LENGTH.unpack_from(view, body_end)
            properties_at = body_end + _PROPERTIES_LENGTH_SIZE
            at += size
            if properties_size < 0 or at != properties_at + properties_size or at > end:
                raise BadBody(f"batch item at {at - size}: its fields do not fill {size} bytes")
            yield Item(flag, view[body_at:body_end], bytes(view[properties_at:at]))
    except PackedError as reason:
        raise BadBody(f"batch item at {at}: {reason}") from None


def read_items(body: bytes | memoryview) -> list[Item]:
    """All messages of a batch body.  Raises `BadBody` unless every byte belongs to exactly one whole item."""
    return list(walk_items(body))


def pack_items(items: Iterable[Item]) -> bytes:
    """The body that a producer sends for these messages."""
    parts: list[bytes | memoryview] = []
    for flag, body, properties in items:
        size = _HEAD.size + len(body) + _PROPERTIES_LENGTH_SIZE + len(properties)
        parts += (_HEAD.pack(size, 0, 0, flag, len(body)), body, _PROPERTIES_LENGTH.pack(len(properties)), properties)
    return b"".join(parts)
