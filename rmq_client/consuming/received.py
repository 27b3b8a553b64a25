"""A message as a consumer gets it, read from the units of a pull's answer; body and properties are unpacked when looked at.

Source: `MessageExt`, `MessageDecoder.decodesBatch`, `PullAPIWrapper.processPullResult`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from rmq_client.errors import Unreadable, UnreadableBody
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.errors import BadRecord
from rmq_wire.fastjson import MessageQueue
from rmq_wire.message import StoredMessage, has_good_crc, read_unit
from rmq_wire.message_id import host_address, offset_message_id
from rmq_wire.packed_body import StillPacked, compression_of, unpack

__all__ = ["MessageQueue", "ReceivedMessage", "read_messages"]


class ReceivedMessage:
    """One message.  `queue`, `topic`: as the caller knows them.  Times are wall milliseconds."""

    def __init__(self, unit: StoredMessage, queue: MessageQueue, topic: str, *, damaged: bool = False) -> None:
        self.unit = unit
        self.queue = queue
        self.topic = topic
        self.damaged = damaged
        """The body is not the one that was stored: its check sum says so, and `body` raises."""
        self.tried_here = 0
        """How often an orderly listener has put it off since it came."""

    def __repr__(self) -> str:
        return f"ReceivedMessage({self.topic}, {self.queue.broker_name}, {self.queue.queue_id}@{self.queue_offset})"

    @property
    def topic_on_wire(self) -> str:
        """The topic that it was sent to, with the name space; of a retry not the retry topic."""
        stored = self.stored_topic
        return (names.is_retry_topic(stored) and self.properties.get(prop.RETRY_TOPIC)) or stored

    @property
    def stored_topic(self) -> str:
        """The one that it lies in, with the name space; as in Java U+FFFD stands for bytes that are no UTF-8."""
        return self.unit.topic.decode("utf-8", "replace")

    @property
    def queue_offset(self) -> int:
        """Its number in the queue."""
        return self.unit.queue_offset

    @property
    def body_size(self) -> int:
        """Bytes of the body as it came, packed or not."""
        return len(self.unit.body)

    @cached_property
    def body(self) -> bytes:
        """As it was sent.  Raises `UnreadableBody`."""
        if self.damaged:
            raise UnreadableBody(f"the body of {self!r} fails its check sum")
        packed = compression_of(self.unit.sys_flag)
        if packed is None:
            return bytes(self.unit.body)
        try:
            return unpack(bytes(self.unit.body), packed)
        except StillPacked as reason:
            raise UnreadableBody(f"the body of {self!r} is packed ({packed}): {reason}") from None

    @cached_property
    def properties(self) -> dict[str, str]:
        """All of them, under the names of the wire."""
        return properties.decode(self.unit.properties.decode("utf-8", "replace"))

    @property
    def tags(self) -> str | None:
        """What it was tagged with."""
        return self.properties.get(prop.TAGS)

    @property
    def keys(self) -> list[str]:
        """By which it can be looked up."""
        return self.properties.get(prop.KEYS, "").split()

    @property
    def message_id(self) -> str:
        """The producer's id, the same for each copy; where it gave none, that of the place."""
        return self.properties.get(prop.UNIQ_KEY) or self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """Of the place in the broker's log."""
        return offset_message_id(self.unit.store_host, self.unit.physical_offset)

    @property
    def reconsume_times(self) -> int:
        """How often it was tried and given back, or put off."""
        return self.unit.reconsume_times + self.tried_here

    @property
    def born_timestamp(self) -> int:
        """When the producer sent it, by the producer's clock."""
        return self.unit.born_timestamp

    @property
    def born_host(self) -> str:
        """Whence."""
        return "{}:{}".format(*host_address(self.unit.born_host))

    @property
    def store_timestamp(self) -> int:
        """When the broker stored it."""
        return self.unit.store_timestamp


def read_messages(body: bytes, queue: MessageQueue, address: str) -> Iterator[ReceivedMessage]:
    """The messages in an answer, in order, damaged ones among them.  Raises `Unreadable` where its bytes are no messages."""
    at = 0
    while at < len(body):
        try:
            unit = read_unit(body, at)
        except BadRecord as wrong:
            raise Unreadable(f"pull of {queue}: {wrong}", address) from None
        yield ReceivedMessage(unit, queue, queue.topic, damaged=not has_good_crc(unit))
        at += unit.total_size
