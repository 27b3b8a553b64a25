"""Request and reply: the broker takes a consumer's answer to the producer that waits for it.

The requester writes `CORRELATION_ID` and, into `REPLY_TO_CLIENT`, its client id into a message's properties.  Who consumes it
sends the answer (324, 325) with both, and the broker pushes that over the requester's connection (326).
"""

from __future__ import annotations

import re

import trio

from conformance.suite.kit import MUST, Answer, Code, ResponseCode, Trial, case
from conformance.suite.means.members import Member
from rmq_wire import properties as property_text
from rmq_wire import property_names as prop
from rmq_wire.headers.replies import PushReplyMessageToClient, SendReplyMessageV2

PROCESSOR = "ReplyMessageProcessor"
CODES = (Code.SEND_REPLY_MESSAGE_V2, Code.PUSH_REPLY_MESSAGE_TO_CLIENT)
MESSAGE_TYPE = "reply"


async def reply(t: Trial, topic: str, to: str, body: bytes = b"the answer", *, correlation: str = "c-1") -> Answer:
    """Send a reply (325) to the client of this id, not judged."""
    properties = {
        prop.REPLY_TO_CLIENT: to,
        prop.CORRELATION_ID: correlation,
        prop.MSG_TYPE: MESSAGE_TYPE,
        prop.TTL: "3000",
        prop.UNIQ_KEY: "7F000001000018B4AAC2000000000009",
    }
    asked = t.message(topic, properties, kind=SendReplyMessageV2)
    return await t.broker.ask(asked, body)


@case("reply.arrives", MUST, codes=CODES, rests_on=f"{PROCESSOR}.pushReplyMessage")
async def arrives(t: Trial) -> None:
    """A reply is pushed to the client that it names, and answered when that one has taken it."""
    requester, topic = Member(t), await t.topic()
    await requester.produces(t.name("p"))
    answers: list[Answer] = []

    async def replies() -> None:
        answers.append(await reply(t, topic, requester.client_id))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(replies)
        pushed = await requester.link.request(Code.PUSH_REPLY_MESSAGE_TO_CLIENT)
        t.check("the requester gets the reply", pushed is not None)
        assert pushed is not None
        t.equal("body", bytes(pushed.body), b"the answer")
        header = pushed.header(PushReplyMessageToClient)
        t.equal("correlation id", property_text.decode(header.properties or "").get(prop.CORRELATION_ID), "c-1")
        t.equal("topic", header.topic, topic)
        await requester.link.reply(pushed)
    t.answer("the replier", answers[0])


@case("reply.nobody", MUST, codes=Code.SEND_REPLY_MESSAGE_V2, rests_on=PROCESSOR)
async def nobody(t: Trial) -> None:
    """A reply to a client that is not there: code 1, and the replier learns why."""
    client = t.name("client")
    answer = await reply(t, await t.topic(), client)
    t.answer(
        "reply", answer, code=ResponseCode.SYSTEM_ERROR, remark=re.compile(f"push reply message fail, channel of <{client}>")
    )
