"""Request and reply: the broker takes a consumer's answer to the producer that waits for it.

The requester writes `CORRELATION_ID` and, into `REPLY_TO_CLIENT`, its client id into a message's properties.  Who consumes it
sends the answer (324, 325) with both, and the broker pushes that over the requester's connection (326).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import trio

from conformance.suite.kit import MUST, SHOULD, Answer, Code, ResponseCode, Trial, case
from conformance.suite.link import ANSWER_S
from conformance.suite.means.members import Member
from conformance.suite.trial import properties_of
from rmq_wire import names
from rmq_wire import properties as property_text
from rmq_wire import property_names as prop
from rmq_wire.command import Command
from rmq_wire.headers.replies import PushReplyMessageToClient, SendReplyMessageV2
from rmq_wire.headers.topics import GetTopicConfig

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
        prop.UNIQ_KEY: t.unique_key(),
    }
    asked = t.message(topic, properties, kind=SendReplyMessageV2)
    return await t.broker.ask(asked, body)


async def replied(t: Trial, requester: Member, topic: str, takes: Callable[[Command], Awaitable[None]]) -> Answer:
    """Reply to a requester that does this with what it is pushed; what the replier is answered, not judged."""
    answers: list[Answer] = []

    async def replies() -> None:
        answers.append(await reply(t, topic, requester.client_id))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(replies)
        pushed = await requester.link.request(Code.PUSH_REPLY_MESSAGE_TO_CLIENT, seconds=ANSWER_S)
        t.check("the requester gets the reply", pushed is not None)
        assert pushed is not None
        await takes(pushed)
    return answers[0]


@case("reply.arrives", MUST, codes=CODES, rests_on=f"{PROCESSOR}.pushReplyMessage")
async def arrives(t: Trial) -> None:
    """A reply is pushed to the client that it names, and answered when that one has taken it."""
    requester, topic = Member(t), await t.topic()
    await requester.produces(t.name("p"))

    async def takes(pushed: Command) -> None:
        t.equal("body", bytes(pushed.body), b"the answer")
        header = pushed.header(PushReplyMessageToClient)
        t.equal("correlation id", property_text.decode(header.properties or "").get(prop.CORRELATION_ID), "c-1")
        t.equal("topic", header.topic, topic)
        await requester.link.reply(pushed)

    t.answer("the replier", await replied(t, requester, topic, takes))


@case("reply.nobody", MUST, codes=Code.SEND_REPLY_MESSAGE_V2, rests_on=PROCESSOR)
async def nobody(t: Trial) -> None:
    """A reply to a client that is not there: code 1, and the replier learns why."""
    client = t.name("client")
    answer = await reply(t, await t.topic(), client)
    t.answer(
        "reply", answer, code=ResponseCode.SYSTEM_ERROR, remark=re.compile(f"push reply message fail, channel of <{client}>")
    )


@case("reply.push-header", SHOULD, codes=CODES, since=(5,), rests_on=f"{PROCESSOR}.pushReplyMessage")
async def push_header(t: Trial) -> None:
    """The requester is told what the replier said of the message, who and where that is, and when it was pushed."""
    requester, topic = Member(t), await t.topic()
    await requester.produces(t.name("p"))
    seen: list[PushReplyMessageToClient] = []

    async def takes(pushed: Command) -> None:
        seen.append(pushed.header(PushReplyMessageToClient))
        await requester.link.reply(pushed)

    t.answer("the replier", await replied(t, requester, topic, takes))
    [header] = seen
    asked = t.message(topic, kind=SendReplyMessageV2)
    for name in ("producer_group", "default_topic", "default_topic_queue_nums", "queue_id", "sys_flag", "born_timestamp", "flag"):
        t.equal(name, getattr(header, name), getattr(asked, name))
    host, port = t.broker.local
    t.equal("bornHost", header.born_host, f"{host}:{port}")
    t.check("storeHost: address and port", re.fullmatch(r"[0-9.]+:[0-9]+", header.store_host) is not None, seen=header.store_host)
    found = property_text.decode(header.properties or "")
    t.equal("pushed when it says it was stored", abs(int(found[prop.PUSH_REPLY_TIME]) - header.store_timestamp) < 1_000, True)
    t.equal("MSG_REGION, TRACE_ON, CLUSTER", [found.get(name) for name in ADDED], ["DefaultRegion", "true", None])


ADDED = (prop.MSG_REGION, prop.TRACE_ON, prop.CLUSTER)
"""What a broker adds to a message that is sent, and to a reply but for the cluster."""


@case("reply.stored", SHOULD, codes=CODES, since=(5,), rests_on=f"{PROCESSOR}.handlePutMessageResult")
async def stored(t: Trial) -> None:
    """A reply that was taken is also stored in the topic it was sent to, without the time of the push; the answer says where."""
    requester, topic = Member(t), await t.topic()
    await requester.produces(t.name("p"))

    async def takes(pushed: Command) -> None:
        await requester.link.reply(pushed)

    answer = t.answer("the replier", await replied(t, requester, topic, takes))
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"the answer")
    t.equal("queue and offset", (answer.ext["queueId"], answer.ext["queueOffset"]), ("0", "0"))
    t.check(
        "the id has the place in the log", int(answer.ext["msgId"][-16:], 16) == unit.physical_offset, seen=answer.ext["msgId"]
    )
    found = properties_of(unit)
    t.equal("MSG_REGION, TRACE_ON, CLUSTER", [found.get(name) for name in ADDED], ["DefaultRegion", "true", None])
    t.equal("PUSH_REPLY_TIME", found.get(prop.PUSH_REPLY_TIME), None)
    t.equal("REPLY_TO_CLIENT", found.get(prop.REPLY_TO_CLIENT), requester.client_id)


@case("reply.refused-by-requester", MUST, codes=CODES, rests_on=f"{PROCESSOR}.pushReplyMessage")
async def refused(t: Trial) -> None:
    """A requester that answers an error: code 1 for the replier; the reply is stored all the same, and the answer says where."""
    requester, topic = Member(t), await t.topic()
    await requester.produces(t.name("p"))

    async def refuses(pushed: Command) -> None:
        await requester.link.reply(pushed, code=ResponseCode.SYSTEM_ERROR)

    answer = await replied(t, requester, topic, refuses)
    remark = f"push reply message to {requester.client_id}fail."
    t.answer("the replier", answer, code=ResponseCode.SYSTEM_ERROR, remark=remark, ext={"queueId": "0", "queueOffset": "0"})
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"the answer")


@case("reply.gone", MUST, codes=Code.SEND_REPLY_MESSAGE_V2, rests_on="ProducerManager.findChannel")
async def gone(t: Trial) -> None:
    """A requester that has left or whose connection is closed is not there any more."""
    topic = await t.topic()
    for how in ("unregistered", "closed"):
        requester, group = Member(t), t.name("p")
        await requester.produces(group)
        if how == "closed":
            await requester.link.close()
        else:
            await requester.leaves(producer=group)
        remark = f"push reply message fail, channel of <{requester.client_id}> not found."

        async def not_found(client: str = requester.client_id, remark: str = remark) -> Answer | None:
            answer = await reply(t, topic, client)
            return answer if answer.remark == remark else None

        answer = await t.until(f"{how}: not found", not_found)
        t.equal(f"{how}: code", answer.code, ResponseCode.SYSTEM_ERROR)


@case("reply.silent", MUST, codes=CODES, rests_on="Broker2Client.callClient: 10 s")
async def silent(t: Trial) -> None:
    """A requester that takes the reply and never answers: after 10 s the replier learns that it failed."""
    requester, topic = Member(t), await t.topic()
    await requester.produces(t.name("p"))

    async def keeps_silent(pushed: Command) -> None:
        t.equal("body", bytes(pushed.body), b"the answer")

    answer = await replied(t, requester, topic, keeps_silent)
    remark = f"push reply message to {requester.client_id}fail."
    t.answer("the replier", answer, code=ResponseCode.SYSTEM_ERROR, remark=remark)
    t.check("after 10 s", answer.took_s >= 9.5, seen=answer.took_s)


@case("reply.to-nobody", SHOULD, codes=Code.SEND_REPLY_MESSAGE_V2, rests_on=PROCESSOR)
async def to_nobody(t: Trial) -> None:
    """A reply that does not say to whom: code 1, and stored all the same."""
    topic = await t.topic()
    answer = await t.broker.ask(t.message(topic, {prop.CORRELATION_ID: "c"}, kind=SendReplyMessageV2), b"to nobody")
    remark = f"reply message properties[{prop.REPLY_TO_CLIENT}] is null"
    t.answer("reply", answer, code=ResponseCode.SYSTEM_ERROR, remark=remark, ext={"queueId": "0", "queueOffset": "0"})
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"to nobody")


@case("reply.topic", SHOULD, codes=Code.GET_TOPIC_CONFIG, since=(5,), rests_on="TopicConfigManager.init")
async def reply_topic(t: Trial) -> None:
    """Each cluster has its reply topic from the start, of one queue."""
    answer = t.answer("the topic", await t.broker.ask(GetTopicConfig(topic=names.reply_topic(t.target.cluster))))
    row = answer.json()
    t.equal("queues and permission", (row["readQueueNums"], row["writeQueueNums"], row["perm"]), (1, 1, 6))
