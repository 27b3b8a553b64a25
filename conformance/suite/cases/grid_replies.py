"""The grid's rows about replies: 324, 325."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import INVALID, NO_TOPIC, REFUSED, UNREAD, Expect, by_handler, changed, four
from conformance.suite.grid.goods import answering, producer
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import Code, ResponseCode, Trial
from rmq_wire import properties as property_text
from rmq_wire import property_names
from rmq_wire.headers.replies import SendReplyMessage, SendReplyMessageV2
from rmq_wire.headers.send import SendMessage, SendMessageV2

UNREAD_V1 = {"producerGroup": UNREAD, "defaultTopic": UNREAD, "defaultTopicQueueNums": UNREAD}
UNREAD_V2 = {"a": UNREAD, "c": UNREAD, "d": UNREAD}


def replying(kind: type[SendMessage] | type[SendMessageV2], *, online: bool = True) -> Good:
    """A reply to a client that is online, and answers, or to one that is not."""

    async def good(t: Trial) -> Asked:
        client = t.name("client")
        if online:
            client = await producer(t, t.name("producers"), link=answering(t, Code.PUSH_REPLY_MESSAGE_TO_CLIENT))
        properties = {
            property_names.REPLY_TO_CLIENT: client,
            property_names.CORRELATION_ID: t.name("id"),
            property_names.MSG_TYPE: "reply",
        }
        asked = kind(
            producer_group="CONF_producers",
            topic=await t.topic(),
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            reconsume_times=0,
            unit_mode=False,
            batch=False,
            properties=property_text.encode(properties),
        )
        return asked, b"reply"

    return good


NO_CLIENT = changed(REFUSED, remark=re.compile("REPLY_TO_CLIENT"))
NOT_THERE = Expect(code=1, remark=re.compile("push reply message.*fail", re.S))

grid(
    SendReplyMessage,
    replying(SendReplyMessage),
    "ReplyMessageProcessor.processRequest",
    ok=Expect(ext={"queueId": "0", "queueOffset": int, "msgId": str}),
    cells={
        "unknown-topic": Cell(change=lambda t: {"topic": t.name("no"), "defaultTopic": t.name("no")}, expect=NO_TOPIC),
        "unknown-client": Cell(ask=replying(SendReplyMessage, online=False), expect=NOT_THERE),
        "limit-queue": Cell(change={"queueId": "1"}, expect=four(INVALID)),
    },
    missing={"properties": NO_CLIENT, **UNREAD_V1, "sysFlag": UNREAD, "topic": four(by_handler(ResponseCode.INVALID_PARAMETER))},
    mistyped={"defaultTopicQueueNums": UNREAD, "sysFlag": UNREAD},
    none={"permission": "as of a send"},
)
grid(
    SendReplyMessageV2,
    replying(SendReplyMessageV2),
    "ReplyMessageProcessor.processRequest",
    ok=Expect(ext={"queueId": "0", "queueOffset": int, "msgId": str}),
    cells={
        "unknown-topic": Cell(change=lambda t: {"b": t.name("no"), "c": t.name("no")}, expect=NO_TOPIC),
        "unknown-client": Cell(ask=replying(SendReplyMessageV2, online=False), expect=NOT_THERE),
        "limit-queue": Cell(change={"e": "1"}, expect=four(INVALID)),
    },
    missing={"i": NO_CLIENT, **UNREAD_V2, "f": UNREAD, "b": four(by_handler(ResponseCode.INVALID_PARAMETER))},
    none={"permission": "as of a send"},
)
