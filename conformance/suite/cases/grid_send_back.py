"""The grid's row about giving a message back: 36."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import NO_GROUP, NO_RIGHT, Expect, changed, four
from conformance.suite.grid.goods import nobody, where_made
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import QUIRK, SHOULD, ResponseCode, Trial
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message_id import parse_offset_message_id


async def stored(t: Trial) -> Asked:
    """A message that is stored, and a group that is known."""
    topic, group = await t.topic(), await t.group()
    sent = await t.send(topic)
    at = parse_offset_message_id(sent.msg_id).physical_offset
    return ConsumerSendMsgBack(offset=at, group=group, delay_level=1, origin_msg_id=sent.msg_id, origin_topic=topic)


async def no_writing(t: Trial) -> Asked:
    """A group whose retry topic nobody may write to."""
    topic, group = await t.topic(), await t.group()
    await t.topic(name=f"%RETRY%{group}", perm=4)
    sent = await t.send(topic)
    return ConsumerSendMsgBack(offset=parse_offset_message_id(sent.msg_id).physical_offset, group=group, delay_level=1)


async def no_retry_queues(t: Trial) -> Asked:
    """A group that wants no retries: it is answered, and nothing is stored."""
    topic, group = await t.topic(), await t.group(retry_queue_nums=0)
    sent = await t.send(topic)
    return ConsumerSendMsgBack(offset=parse_offset_message_id(sent.msg_id).physical_offset, group=group, delay_level=1)


grid(
    ConsumerSendMsgBack,
    stored,
    "AbstractSendMessageProcessor.consumerSendMsgBack",
    cells={
        "unknown-group": Cell(
            ask=where_made(stored),
            change=nobody("group"),
            expect=Expect(),
            title="A group that nobody made is made by the first message given back",
        ),
        "unknown-group-illegal": Cell(change={"group": "no group"}, expect=four(NO_GROUP, code=0, remark=...)),
        "unknown-origin-topic": Cell(
            change=nobody("originTopic"),
            expect=Expect(),
            level=QUIRK,
            title="Any message is copied into the retry topic, whatever topic it is said to be of",
        ),
        "unknown-message": Cell(
            change={"offset": str(2**62)},
            expect=Expect(code=ResponseCode.SYSTEM_ERROR, remark=re.compile("look message by offset failed")),
        ),
        "permission-read-only": Cell(ask=no_writing, expect=changed(NO_RIGHT, remark=re.compile("sending message is forbidden"))),
        "limit-no-retry-queues": Cell(ask=no_retry_queues, expect=Expect()),
        "limit-dead-letter": Cell(change={"delayLevel": "-1"}, expect=Expect()),
        "limit-level-beyond": Cell(change={"delayLevel": "99"}, expect=Expect(), level=SHOULD),
    },
)
