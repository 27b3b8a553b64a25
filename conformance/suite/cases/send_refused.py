"""Sends that must be refused: with which code, and nothing stored."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.kit import MAKES_TOPICS, MUST, QUIRK, SHOULD, Answer, Code, ResponseCode, Trial
from conformance.suite.kit import case as declare
from rmq_wire import property_names as prop
from rmq_wire.batch import Item, pack_items
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.send import SendBatchMessage
from rmq_wire.sys_flag import PERM_READ

PROCESSOR = "AbstractSendMessageProcessor.msgCheck"
MESSAGE_BYTES_MAX = 4 << 20
"""`maxMessageSize`."""
PROPERTIES_BYTES_MAX = 32_767
ILLEGAL_QUEUE = {"": ResponseCode.INVALID_PARAMETER, "4": ResponseCode.SYSTEM_ERROR}


case = partial(declare, codes=Code.SEND_MESSAGE_V2)


async def _nothing_stored(t: Trial, topic: str, queue: int = 0) -> None:
    answer = await t.broker.ask(GetMaxOffset(topic=topic, queue_id=queue))
    if answer.code == 0:
        t.equal("the queue's end", answer.ext.get("offset"), "0")


async def _sent(t: Trial, topic: str, body: bytes = b"x", **more: object) -> Answer:
    return await t.broker.ask(t.message(topic, **more), body)  # type: ignore[arg-type]


@case("send.read-only-topic", QUIRK, rests_on=f"{PROCESSOR}: brokerPermission alone")
async def read_only(t: Trial) -> None:
    """The broker does not look at a topic's write permission.

    Clients do: they find no queue to write to in the route.  What is sent all the same is stored.
    """
    topic = await t.topic(perm=PERM_READ)
    t.answer("send", await _sent(t, topic), code=ResponseCode.SUCCESS)


@case("send.no-body", QUIRK, since=(5,), rests_on="AbstractSendMessageProcessor.buildMsgContext: a null pointer")
async def no_body(t: Trial) -> None:
    """A message without a body is answered 1, by accident.

    Stock clients refuse it before they send.
    """
    topic = await t.topic()
    t.answer("send", await _sent(t, topic, b""), code=ResponseCode.SYSTEM_ERROR)
    await _nothing_stored(t, topic)


@case("send.refused.unknown-topic", MUST, rests_on=PROCESSOR)
async def unknown_topic(t: Trial) -> None:
    """A topic that is not there and not to be made: code 17."""
    topic = t.name("nobody")
    answer = await _sent(t, topic, default_topic=t.name("nomodel"))
    t.answer("send", answer, code=ResponseCode.TOPIC_NOT_EXIST, remark=re.compile(f"topic\\[{topic}\\] not exist"))


@case("send.refused.queue-out-of-range", MUST, rests_on=PROCESSOR)
async def queue_out_of_range(t: Trial) -> None:
    """A queue that the topic has not is refused."""
    topic = await t.topic(queues=2)
    for queue in (2, 100, 2**31 - 1):
        t.answer(
            f"queue {queue}",
            await _sent(t, topic, queue=queue),
            code=t.by_version(ILLEGAL_QUEUE),
            remark=re.compile(f"request queueId\\[{queue}\\] is illegal"),
        )
    t.answer("queue 1", await _sent(t, topic, queue=1))


@case("send.refused.more-read-queues", SHOULD, rests_on=PROCESSOR)
async def more_read_queues(t: Trial) -> None:
    """The greater of read and write queues counts.

    While a topic shrinks its write queues, sends that are on their way still succeed.
    """
    topic = await t.topic(queues=4, write=2)
    t.answer("queue 3 of 4 read and 2 write queues", await _sent(t, topic, queue=3))
    t.answer("queue 4", await _sent(t, topic, queue=4), code=t.by_version(ILLEGAL_QUEUE))


@case("send.refused.body-too-big", MUST, rests_on="CommitLog, MessageExtEncoder: MESSAGE_SIZE_EXCEEDED")
async def body_too_big(t: Trial) -> None:
    """A body above maxMessageSize: code 13, and the connection lives on."""
    topic = await t.topic()
    t.answer("4 MiB and a byte", await _sent(t, topic, bytes(MESSAGE_BYTES_MAX + 1)), code=ResponseCode.MESSAGE_ILLEGAL)
    await _nothing_stored(t, topic)
    t.answer("the next one", await _sent(t, topic, b"small"), ext={"queueOffset": "0"})


@case("send.body-at-limit", MUST, rests_on="MessageExtEncoder")
async def body_at_limit(t: Trial) -> None:
    """A body of exactly maxMessageSize is stored."""
    topic, body = await t.topic(), bytes(range(256)) * (MESSAGE_BYTES_MAX // 256)
    t.answer("4 MiB", await _sent(t, topic, body), ext={"queueOffset": "0"})
    [unit] = await t.pull_all(topic, 1)
    t.check("the body comes back", bytes(unit.body) == body, seen=len(unit.body))


@case("send.refused.properties-too-long", MUST, rests_on="MessageExtEncoder: PROPERTIES_SIZE_EXCEEDED")
async def properties_too_long(t: Trial) -> None:
    """Properties of more than 32,767 bytes: code 13."""
    topic = await t.topic()
    t.answer("send", await _sent(t, topic, properties={"long": "x" * PROPERTIES_BYTES_MAX}), code=ResponseCode.MESSAGE_ILLEGAL)
    await _nothing_stored(t, topic)
    await t.send(topic, b"x", {"long": "x" * (PROPERTIES_BYTES_MAX - 500)})


@case("send.refused.topic-name", MUST, rests_on="TopicValidator.validateTopic")
async def topic_names(t: Trial) -> None:
    """Names that are none: refused before anything is made.

    128 characters are one too many; blanks, slashes, dots and other scripts are no name.

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


@case("send.refused.empty-name", SHOULD, rests_on="TopicValidator.validateTopic")
async def empty_name(t: Trial) -> None:
    """The empty topic name is refused."""
    answer = await _sent(t, "")
    t.check("not stored", answer.code != 0, expected="an error", seen=answer.code)
    t.note("code", f"{answer.code} {answer.remark or ''}")


@case("send.topic-name-at-limit", MUST, rests_on="TopicValidator.TOPIC_MAX_LENGTH")
async def longest_name(t: Trial) -> None:
    """A name of 127 characters is one."""
    t.wants(*MAKES_TOPICS)
    name = (t.name() + "_" + "x" * 127)[:127]
    t.answer("send", await _sent(t, name))
    [unit] = await t.pull_all(name, 1)
    t.equal("topic", bytes(unit.topic).decode(), name)


@case("send.refused.system-topic", MUST, rests_on="TopicValidator.isNotAllowedSendTopic")
async def system_topics(t: Trial) -> None:
    """The broker's own topics take no sends."""
    for name in (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "OFFSET_MOVED_EVENT",
    ):
        answer = await _sent(t, name)
        t.answer(name, answer, code=ResponseCode.NO_PERMISSION)


@case("send.refused.broken-batch", MUST, codes=Code.SEND_BATCH_MESSAGE, rests_on="MessageExtBatchEncoder")
async def broken_batch(t: Trial) -> None:
    """A batch body that is none: refused as a whole.

    The reference answers 1 after an exception in its encoder; a server that names the reason by 13 is as good.

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


@case("send.refused.batch-of-retries", SHOULD, codes=Code.SEND_BATCH_MESSAGE, rests_on="SendMessageProcessor.sendBatchMessage")
async def batch_to_retry_topic(t: Trial) -> None:
    """Retry topics take no batches."""
    group = await t.group()
    asked = t.message(f"%RETRY%{group}", batch=True, kind=SendBatchMessage)
    answer = await t.broker.ask(asked, bytes(10))
    t.check("refused", answer.code != 0, expected="an error", seen=answer.code)
    t.note("answer", f"{answer.code} {answer.remark}")


@case("send.refused.batch-too-big", MUST, codes=Code.SEND_BATCH_MESSAGE, rests_on="MessageExtEncoder.encode(MessageExtBatch)")
async def batch_too_big(t: Trial) -> None:
    """Items that fit, in a batch above maxMessageSize: refused as a whole."""
    topic = await t.topic()
    asked = t.message(topic, batch=True, kind=SendBatchMessage)
    items = [Item(0, bytes(1 << 20), b"")] * 5
    answer = await t.broker.ask(asked, pack_items(items))
    t.check(
        "an error",
        answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL),
        expected="1 or 13",
        seen=answer.code,
    )
    t.note("answer", f"{answer.code} {answer.remark}"[:80])
    await _nothing_stored(t, topic)
    t.answer("half of it", await t.broker.ask(asked, pack_items(items[:2])))
    t.equal("messages", len(await t.pull_all(topic, 2)), 2)


@case("send.refused.batch-with-delay", MUST, codes=Code.SEND_BATCH_MESSAGE, rests_on="HookUtils.handleScheduleMessage")
async def batch_with_delay(t: Trial) -> None:
    """A batch is not delayed: stock clients do not send such a one, a broker refuses it."""
    topic = await t.topic()
    asked = t.message(topic, batch=True, kind=SendBatchMessage, properties={prop.DELAY: "18"})
    answer = await t.broker.ask(asked, pack_items([Item(0, b"x", b"")] * 2))
    t.answer("refused", answer, code=ResponseCode.MESSAGE_ILLEGAL)
    await _nothing_stored(t, topic)
