"""The grid's rows about sending: 10, 310, 320."""

from __future__ import annotations

import re
from typing import Any, Final

from conformance.suite.grid.expect import INVALID, NO_RIGHT, NO_TOPIC, REFUSED, UNREAD, Expect, accident, changed, four
from conformance.suite.grid.goods import with_body
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import QUIRK, SHOULD, ResponseCode, Trial
from rmq_wire import properties as property_text
from rmq_wire import property_names
from rmq_wire.batch import Item, pack_items
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageV2

MESSAGE_BYTES_MAX = 4 * 1024 * 1024
"""`maxMessageSize` of the reference's broker."""
PROPERTIES_BYTES_MAX = 32_767
"""Java's `Short.MAX_VALUE` (`MessageExtEncoder`)."""
TOPIC_CHARACTERS_MAX = 127
HIT = {"queueId": "0", "queueOffset": re.compile(r"^\d+$"), "msgId": re.compile(r"^[0-9A-F]{32}$"), "transactionId": "UNIQUE1"}
V1: Final[dict[str, Any]] = {
    "producer_group": "CONF_producers",
    "default_topic": "TBW102",
    "default_topic_queue_nums": 4,
    "queue_id": 0,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000,
    "flag": 0,
    "reconsume_times": 0,
    "unit_mode": False,
    "batch": False,
}
UNIQUE = property_text.encode({property_names.UNIQ_KEY: "UNIQUE1"})
BATCH = pack_items(
    Item(0, b"item", property_text.encode({property_names.UNIQ_KEY: f"ITEM{number}"}).encode()) for number in range(2)
)
UNREAD_V2 = {"a": UNREAD, "c": UNREAD, "d": UNREAD}
TOO_LONG = four(changed(INVALID, remark=re.compile("longer than|length")))
NO_CHARACTERS = four(changed(INVALID, remark=re.compile("illegal characters")))
LONG_BATCH = four(REFUSED, code=ResponseCode.MESSAGE_ILLEGAL)
LONG = Expect(code=ResponseCode.MESSAGE_ILLEGAL)


async def one(t: Trial) -> Asked:
    """A message to a topic of its own, by the long names of version 1."""
    return with_body(SendMessage(topic=await t.topic(), properties=UNIQUE, **V1), b"grid")


async def one_v2(t: Trial) -> Asked:
    """A message to a topic of its own, by the short names of version 2."""
    return with_body(SendMessageV2(topic=await t.topic(), properties=UNIQUE, **V1), b"grid")


async def several(t: Trial) -> Asked:
    """Two messages in one request."""
    return with_body(SendBatchMessage(topic=await t.topic(), properties=UNIQUE, **{**V1, "batch": True}), BATCH)


async def read_only(t: Trial) -> Asked:
    """A topic that nobody may write to."""
    return with_body(SendMessageV2(topic=await t.topic(perm=4), properties=UNIQUE, **V1), b"grid")


async def read_only_v1(t: Trial) -> Asked:
    """A topic that nobody may write to."""
    return with_body(SendMessage(topic=await t.topic(perm=4), properties=UNIQUE, **V1), b"grid")


async def read_only_batch(t: Trial) -> Asked:
    """A topic that nobody may write to."""
    return with_body(SendBatchMessage(topic=await t.topic(perm=4), properties=UNIQUE, **{**V1, "batch": True}), BATCH)


async def nobodys(t: Trial) -> Asked:
    """A topic that does not exist, modelled on one that does not either."""
    return with_body(SendMessageV2(topic=t.name("no"), properties=UNIQUE, **{**V1, "default_topic": t.name("no")}), b"grid")


async def longest(t: Trial) -> Asked:
    """A topic whose name has as many characters as one may have."""
    name = t.name().ljust(TOPIC_CHARACTERS_MAX, "x")
    return with_body(SendMessageV2(topic=await t.topic(name=name), properties=UNIQUE, **V1), b"grid")


NO_TOPIC_AT_ALL = changed(NO_TOPIC, remark=re.compile("not exist, apply first please"))
READ_ONLY = "A topic that may only be read takes messages all the same: producers obey the route, the broker does not look"
NO_QUEUE = four(changed(INVALID, remark=re.compile(r"queueId\[\d+\] is illegal")))
STORED = {"": Expect(ext=HIT), "4": Expect(ext={name: HIT[name] for name in ("queueId", "queueOffset", "msgId")})}

grid(
    SendMessage,
    one,
    "SendMessageProcessor.sendMessage",
    ok=STORED,
    cells={
        "unknown-topic": Cell(change=lambda t: {"topic": t.name("no"), "defaultTopic": t.name("no")}, expect=NO_TOPIC_AT_ALL),
        "permission-read-only": Cell(ask=read_only_v1, expect=Expect(), level=QUIRK, title=READ_ONLY),
        "limit-queue": Cell(change={"queueId": "1"}, expect=NO_QUEUE),
        "limit-body": Cell(body=bytes(MESSAGE_BYTES_MAX + 1), expect=LONG),
    },
    missing={"producerGroup": UNREAD, "defaultTopic": UNREAD, "defaultTopicQueueNums": UNREAD},
    mistyped={"defaultTopicQueueNums": UNREAD},
)
grid(
    SendMessageV2,
    one_v2,
    "SendMessageProcessor.sendMessage",
    ok=STORED,
    cells={
        "unknown-topic": Cell(ask=nobodys, expect=NO_TOPIC_AT_ALL),
        "permission-read-only": Cell(ask=read_only, expect=Expect(), level=QUIRK, title=READ_ONLY),
        "permission-system-topic": Cell(
            change={"b": "RMQ_SYS_TRANS_HALF_TOPIC"},
            expect=changed(NO_RIGHT, remark=re.compile("Sending message to topic.*forbidden")),
        ),
        "limit-queue": Cell(change={"e": "1"}, expect=NO_QUEUE),
        "limit-body-largest": Cell(body=bytes(MESSAGE_BYTES_MAX), expect=Expect(ext={"queueOffset": int})),
        "limit-body": Cell(body=bytes(MESSAGE_BYTES_MAX + 1), expect=LONG),
        "limit-body-none": Cell(body=b"", expect=four(REFUSED, code=0), level=SHOULD),
        "limit-properties": Cell(change={"i": property_text.encode({"k": "v" * PROPERTIES_BYTES_MAX})}, expect=LONG),
        "limit-topic-longest": Cell(ask=longest, expect=Expect(ext={"queueOffset": int})),
        "limit-topic": Cell(change={"b": "x" * (TOPIC_CHARACTERS_MAX + 1)}, expect=TOO_LONG),
        "unknown-characters": Cell(change={"b": "no blanks"}, expect=NO_CHARACTERS),
    },
    missing=UNREAD_V2,
)
grid(
    SendBatchMessage,
    several,
    "SendMessageProcessor.sendBatchMessage",
    ok=Expect(ext={"queueId": "0", "queueOffset": "0", "msgId": re.compile(r"^[0-9A-F]{32},[0-9A-F]{32}$")}),
    body=True,
    each=True,
    cells={
        "unknown-topic": Cell(change=lambda t: {"b": t.name("no"), "c": t.name("no")}, expect=NO_TOPIC_AT_ALL),
        "permission-read-only": Cell(ask=read_only_batch, expect=Expect(), level=QUIRK, title=READ_ONLY),
        "permission-retry-topic": Cell(
            change=lambda t: {"b": f"%RETRY%{t.name('g')}"}, expect=four(Expect(code=ResponseCode.MESSAGE_ILLEGAL), code=0)
        ),
        "limit-queue": Cell(change={"e": "1"}, expect=NO_QUEUE),
        "limit-body": Cell(body=bytes(MESSAGE_BYTES_MAX + 1), expect=LONG_BATCH, level=SHOULD),
    },
    mistyped={"body": accident("Java trips over a batch that does not add up", ResponseCode.SYSTEM_ERROR)},
    missing=UNREAD_V2,
)
