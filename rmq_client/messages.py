"""What is sent, and what comes back for it.

A `Message` is a value: sending does not change it, and it may be sent again.  Its id is made by each send, unless it has one.
Source: `Message`, `Validators.checkMessage`, `MessageBatch.generateFromList`, `SendResult`, `MessageAccessor`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from rmq_client.errors import InvalidMessage, InvalidName
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.batch import Item
from rmq_wire.fastjson import MessageQueue

__all__ = ["Message", "MessageQueue", "SendResult", "SendStatus", "check_batch", "check_message", "encoded_properties", "item_of"]

PROPERTY_BUCKETS: Final = 16
"""Of the map that Java's `Message` keeps its properties in."""
_SEPARATORS: Final = (properties.NAME_END, properties.PAIR_END)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What a message may say besides topic and body.  The delay is one of the last four, or none."""

    tags: str | None = None
    keys: Sequence[str] = ()
    """By these it can be looked up; none has a blank."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """The application's own."""
    flag: int = 0
    wait_store_msg_ok: bool = True
    """False: the broker may answer before the message is safe."""
    sharding_key: str | None = None
    """What ordered proxies and tools see; it chooses no queue here."""
    unique_key: str | None = None
    """Its id, where the caller knows one that stays the same when he sends it again."""
    delay_time_level: int = 0
    """1 to 18 with a broker's default levels."""
    delay_time_sec: int | None = None
    delay_time_ms: int | None = None
    deliver_time_ms: int | None = None
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Message(_Options):
    """One message.  body: bytes, at least one."""

    topic: str
    body: bytes

    def plain_properties(self) -> dict[str, str]:
        """All properties but the id, under the names of the wire, as Java's `Message` would put them in."""
        found: dict[str, str] = {}
        if self.tags:
            found[prop.TAGS] = self.tags
        if self.keys:
            found[prop.KEYS] = prop.KEY_SEPARATOR.join(self.keys)
        found[prop.WAIT] = "true" if self.wait_store_msg_ok else "false"
        found.update(self.properties)
        if self.sharding_key is not None:
            found[prop.SHARDING_KEY] = self.sharding_key
        if self.delay_time_level:
            found[prop.DELAY] = str(self.delay_time_level)
        for name, value in (
            (prop.TIMER_DELAY_SEC, self.delay_time_sec),
            (prop.TIMER_DELAY_MS, self.delay_time_ms),
            (prop.TIMER_DELIVER_MS, self.deliver_time_ms),
        ):
            if value is not None:
                found[name] = str(value)
        if self.unique_key is not None:
            found[prop.UNIQ_KEY] = self.unique_key
        return found

    @property
    def is_delayed(self) -> bool:
        """In any way."""
        timers = (self.delay_time_sec, self.delay_time_ms, self.deliver_time_ms)
        return self.delay_time_level > 0 or any(one is not None for one in timers)


class SendStatus(Enum):
    """How safe a message is that was stored.  Source: `SendStatus`."""

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


@dataclass(frozen=True, slots=True)
class SendResult:
    """Where a message is.  `message_id`: its unique key (of a batch: all, joined by commas), which keeps over retries and copies.

    `offset_message_id`: where exactly the broker stored it, for look-ups.  `recall_handle`: by it a timer message can be called
    back.  `queue` has the topic as the caller knows it.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str | None = None
    trace_on: bool = True
    recall_handle: str | None = None


def check_topic(topic: str) -> None:
    """Raises `InvalidName` for a topic that nobody may send to."""
    if problem := names.topic_problem(topic):
        raise InvalidName(problem)
    if names.is_not_sendable(topic):
        raise InvalidName(names.not_sendable_remark(topic))


def check_message(message: Message, topic: str, body_bytes_max: int) -> None:
    """Raises `InvalidName`, `InvalidMessage` for what no broker would take.  topic: on the wire."""
    check_topic(topic)
    body: object = message.body
    if not isinstance(body, bytes):
        raise InvalidMessage(f"the body is bytes, not {type(body).__name__}: encode it")
    if not message.body:
        raise InvalidMessage("the message body length is zero")
    if len(message.body) > body_bytes_max:
        raise InvalidMessage(f"the message body has {len(message.body)} bytes, max_message_size is {body_bytes_max}")
    if isinstance(message.keys, str) or any(prop.KEY_SEPARATOR in key or not key for key in message.keys):
        raise InvalidMessage(f"keys are several texts without blanks: {message.keys!r}")
    delays = [message.delay_time_level or None, message.delay_time_sec, message.delay_time_ms, message.deliver_time_ms]
    if sum(one is not None for one in delays) > 1:
        raise InvalidMessage("a message has one delay: a level, seconds, milliseconds or a time")
    if message.delay_time_level < 0:
        raise InvalidMessage(f"delay_time_level {message.delay_time_level}: levels begin with 1")
    _check_properties(message)


def _check_properties(message: Message) -> None:
    if not (message.properties or message.tags or message.keys or message.sharding_key or message.unique_key):
        return
    for name, value in message.properties.items():
        if not (isinstance(name, str) and isinstance(value, str) and name and value):
            raise InvalidMessage(f"property {name!r}: name and value are texts, and not empty")
        if name in prop.RESERVED:
            raise InvalidMessage(f"property {name}: RocketMQ uses this name, choose another")
    for name, value in message.plain_properties().items():
        if any(one in name or one in value for one in _SEPARATORS):
            raise InvalidMessage(f"property {name!r} has a character that separates properties (01 or 02)")
        if not (_has_bytes(name) and _has_bytes(value)):
            raise InvalidMessage(f"property {name!r} cannot be written in UTF-8: {value!r}")
    dispatched = message.properties.get(prop.INNER_MULTI_DISPATCH, "")
    if "/" in dispatched:
        raise InvalidMessage(f"INNER_MULTI_DISPATCH {dispatched} has a /")


def _has_bytes(text: str) -> bool:
    """Whether UTF-8 can say it; half of a surrogate pair would be stored as `?`."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_batch(messages: Sequence[Message]) -> None:
    """Raises `InvalidMessage` unless they may go as one.  Source: `MessageBatch.generateFromList`."""
    if not messages:
        raise InvalidMessage("a batch without messages")
    first = messages[0]
    for one in messages:
        if one.is_delayed:
            raise InvalidMessage("a message in a batch cannot be delayed")
        if names.is_retry_topic(one.topic):
            raise InvalidMessage("a batch cannot go to a retry topic")
        if one.topic != first.topic:
            raise InvalidMessage(f"the messages of a batch have one topic, not {first.topic} and {one.topic}")
        if one.wait_store_msg_ok != first.wait_store_msg_ok:
            raise InvalidMessage("the messages of a batch agree on wait_store_msg_ok")


def encoded_properties(pairs: Mapping[str, str]) -> str:
    """As Java's client writes them."""
    return properties.encode_java(pairs, PROPERTY_BUCKETS).decode()


def item_of(message: Message, pairs: Mapping[str, str]) -> Item:
    """A message of a batch."""
    return Item(message.flag, message.body, encoded_properties(pairs).encode())
