"""Sends that must be refused: with which code, and nothing stored."""

from __future__ import annotations

import re

from conformance.case import Level, case
from conformance.link import Answer
from conformance.trial import MAKES_TOPICS, Trial
from rmq_wire.codes import RequestCode as Code
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.send import SendBatchMessage
from rmq_wire.sys_flag import PERM_READ

PROCESSOR = "AbstractSendMessageProcessor.msgCheck"
MESSAGE_BYTES_MAX = 4 << 20
"""`maxMessageSize`."""
PROPERTIES_BYTES_MAX = 32_767
ILLEGAL_QUEUE = {"": ResponseCode.INVALID_PARAMETER, "4": ResponseCode.SYSTEM_ERROR}


async def _nothing_stored(t: Trial, topic: str, queue: int = 0) -> None:
    answer = await t.broker.ask(GetMaxOffset(topic=topic, queue_id=queue))
    if answer.code == 0:
        t.equal("the queue's end", answer.ext.get("offset"), "0")


async def _sent(t: Trial, topic: str, body: bytes = b"x", **more: object) -> Answer:
    return await t.broker.ask(t.message(topic, **more), body)  # type: ignore[arg-type]


@case(
    "send.read-only-topic",
    Level.QUIRK,
    "The broker does not look at a topic's write permission",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on=f"{PROCESSOR}: brokerPermission alone",
)
async def read_only(t: Trial) -> None:
    """Clients do: they find no queue to write to in the route.  What is sent all the same is stored."""
    topic = await t.topic(perm=PERM_READ)
    t.answer("send", await _sent(t, topic), code=ResponseCode.SUCCESS)


@case(
    "send.no-body",
    Level.QUIRK,
    "A message without a body is answered 1, by accident",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="AbstractSendMessageProcessor.buildMsgContext: a null pointer",
    since=(5,),
)
async def no_body(t: Trial) -> None:
    """Stock clients refuse it before they send."""
    topic = await t.topic()
    t.answer("send", await _sent(t, topic, b""), code=ResponseCode.SYSTEM_ERROR)
    await _nothing_stored(t, topic)


@case(
    "send.refused.unknown-topic",
    Level.MUST,
    "A topic that is not there and not to be made: code 17",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on=PROCESSOR,
)
async def unknown_topic(t: Trial) -> None:
    topic = t.name("nobody")
    answer = await _sent(t, topic, default_topic=t.name("nomodel"))
    t.answer("send", answer, code=ResponseCode.TOPIC_NOT_EXIST, remark=re.compile(f"topic\\[{topic}\\] not exist"))


@case(
    "send.refused.queue-out-of-range",
    Level.MUST,
    "A queue that the topic has not is refused",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on=PROCESSOR,
)
async def queue_out_of_range(t: Trial) -> None:
    topic = await t.topic(queues=2)
    for queue in (2, 100, 2**31 - 1):
        t.answer(
            f"queue {queue}",
            await _sent(t, topic, queue=queue),
            code=t.by_version(ILLEGAL_QUEUE),
            remark=re.compile(f"request queueId\\[{queue}\\] is illegal"),
        )
    t.answer("queue 1", await _sent(t, topic, queue=1))


@case(
    "send.refused.more-read-queues",
    Level.SHOULD,
    "The greater of read and write queues counts",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on=PROCESSOR,
)
async def more_read_queues(t: Trial) -> None:
    """While a topic shrinks its write queues, sends that are on their way still succeed."""
    topic = await t.topic(queues=4, write=2)
    t.answer("queue 3 of 4 read and 2 write queues", await _sent(t, topic, queue=3))
    t.answer("queue 4", await _sent(t, topic, queue=4), code=t.by_version(ILLEGAL_QUEUE))


@case(
    "send.refused.body-too-big",
    Level.MUST,
    "A body above maxMessageSize: code 13, and the connection lives on",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="CommitLog, MessageExtEncoder: MESSAGE_SIZE_EXCEEDED",
)
async def body_too_big(t: Trial) -> None:
    topic = await t.topic()
    t.answer("4 MiB and a byte", await _sent(t, topic, bytes(MESSAGE_BYTES_MAX + 1)), code=ResponseCode.MESSAGE_ILLEGAL)
    await _nothing_stored(t, topic)
    t.answer("the next one", await _sent(t, topic, b"small"), ext={"queueOffset": "0"})


@case(
    "send.body-at-limit",
    Level.MUST,
    "A body of exactly maxMessageSize is stored",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="MessageExtEncoder",
)
async def body_at_limit(t: Trial) -> None:
    topic, body = await t.topic(), bytes(range(256)) * (MESSAGE_BYTES_MAX // 256)
    t.answer("4 MiB", await _sent(t, topic, body), ext={"queueOffset": "0"})
    [unit] = await t.pull_all(topic, 1)
    t.check("the body comes back", bytes(unit.body) == body, seen=len(unit.body))


@case(
    "send.refused.properties-too-long",
    Level.MUST,
    "Properties of more than 32,767 bytes: code 13",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="MessageExtEncoder: PROPERTIES_SIZE_EXCEEDED",
)
async def properties_too_long(t: Trial) -> None:
    topic = await t.topic()
    t.answer("send", await _sent(t, topic, properties={"long": "x" * PROPERTIES_BYTES_MAX}), code=ResponseCode.MESSAGE_ILLEGAL)
    await _nothing_stored(t, topic)
    await t.send(topic, b"x", {"long": "x" * (PROPERTIES_BYTES_MAX - 500)})


@case(
    "send.refused.topic-name",
    Level.MUST,
    "Names that are none: refused before anything is made",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="TopicValidator.validateTopic",
)
async def topic_names(t: Trial) -> None:
    """128 characters are one too many; blanks, slashes, dots and other scripts are no name.

    `send.refused.empty-name` has the empty one.
    """
    for name in (
        "with blank",
        "../../etc/passwd",
        "a/b",
        "name.with.dots",
        "späßle",
        "x" * 128,
        "back\\slash",
        "line\nbreak",
        "nul\0",
    ):
        t.answer(
            f"{name[:30]!r}",
            await _sent(t, name),
            code=t.by_version({"": ResponseCode.INVALID_PARAMETER, "4": ResponseCode.SYSTEM_ERROR}),
        )


@case(
    "send.refused.empty-name",
    Level.SHOULD,
    "The empty topic name is refused",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="TopicValidator.validateTopic",
)
async def empty_name(t: Trial) -> None:
    answer = await _sent(t, "")
    t.check("not stored", answer.code != 0, expected="an error", seen=answer.code)
    t.note("code", f"{answer.code} {answer.remark or ''}")


@case(
    "send.topic-name-at-limit",
    Level.MUST,
    "A name of 127 characters is one",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="TopicValidator.TOPIC_MAX_LENGTH",
)
async def longest_name(t: Trial) -> None:
    t.wants(*MAKES_TOPICS)
    name = (t.name() + "_" + "x" * 127)[:127]
    t.answer("send", await _sent(t, name))
    [unit] = await t.pull_all(name, 1)
    t.equal("topic", bytes(unit.topic).decode(), name)


@case(
    "send.refused.system-topic",
    Level.MUST,
    "The broker's own topics take no sends",
    codes=(Code.SEND_MESSAGE_V2,),
    rests_on="TopicValidator.isNotAllowedSendTopic",
)
async def system_topics(t: Trial) -> None:
    for name in (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "OFFSET_MOVED_EVENT",
    ):
        answer = await _sent(t, name)
        t.answer(name, answer, code=ResponseCode.NO_PERMISSION)


@case(
    "send.refused.broken-batch",
    Level.MUST,
    "A batch body that is none: refused as a whole",
    codes=(Code.SEND_BATCH_MESSAGE,),
    rests_on="MessageExtBatchEncoder",
)
async def broken_batch(t: Trial) -> None:
    """The reference answers 1 after an exception in its encoder; a server that names the reason by 13 is as good.

    A length that only misleads, with zeros behind it, is not seen by the reference: it stores what it finds.
    """
    topic = await t.topic()
    asked = t.message(topic, batch=True, kind=SendBatchMessage)
    for what, body in (
        ("random bytes", b"\x7f" * 100),
        ("half an item", bytes(7)),
    ):
        answer = await t.broker.ask(asked, body)
        t.check(
            f"{what}: an error",
            answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL),
            expected="1 or 13",
            seen=answer,
        )
    await _nothing_stored(t, topic)


@case(
    "send.refused.batch-of-retries",
    Level.SHOULD,
    "Retry topics take no batches",
    codes=(Code.SEND_BATCH_MESSAGE,),
    rests_on="SendMessageProcessor.sendBatchMessage",
)
async def batch_to_retry_topic(t: Trial) -> None:
    group = await t.group()
    asked = t.message(f"%RETRY%{group}", batch=True, kind=SendBatchMessage)
    answer = await t.broker.ask(asked, bytes(10))
    t.check("refused", answer.code != 0, expected="an error", seen=answer.code)
    t.note("answer", f"{answer.code} {answer.remark}")
