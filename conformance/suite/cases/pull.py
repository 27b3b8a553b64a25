"""Pulling: which messages, how many, what the answer says about the queue, and what stands in the way."""

from __future__ import annotations

from functools import partial

from conformance.suite.kit import MUST, SHOULD, Code, Form, Need, ResponseCode, Trial, properties_of
from conformance.suite.kit import case as declare
from conformance.suite.means.settings import configured
from rmq_wire.headers.offsets import QueryConsumerOffset
from rmq_wire.headers.pull import LitePullMessage, PullMessage
from rmq_wire.sys_flag import PULL_COMMIT_OFFSET, PULL_LITE, PULL_SUBSCRIPTION

PROCESSOR = "PullMessageProcessor.processRequest"
RESULT = "DefaultPullMessageResultHandler.handle"


case = partial(declare, codes=Code.PULL_MESSAGE)


async def filled(t: Trial, count: int = 5, *, tags: str = "", size: int = 0) -> str:
    """A topic of one queue with so many messages `m0`, `m1`, …, which can be pulled already."""
    topic = await t.topic()
    for number in range(count):
        await t.send(topic, b"m%d" % number + bytes(size), tags=tags)
    await t.pull_all(topic, count)
    return topic


@case("pull.found", MUST, rests_on=PROCESSOR)
async def found(t: Trial) -> None:
    """A pull brings the messages from an offset on, in order, with the queue's bounds.

    The remark is `FOUND`; the next offset is where to go on; units come one after the other as they are stored.
    """
    topic = await filled(t)
    for offset in range(5):
        pulled = await t.pull(topic, offset)
        expected = {"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5", "suggestWhichBrokerId": "0"}
        t.answer(f"pull from {offset}", pulled.answer, remark="FOUND", ext=expected)
        t.equal("bodies", [bytes(unit.body) for unit in pulled.messages], [b"m%d" % number for number in range(offset, 5)])
        t.equal("offsets", [unit.queue_offset for unit in pulled.messages], list(range(offset, 5)))


@case("pull.count", MUST, rests_on="DefaultMessageStore.getMessage")
async def count(t: Trial) -> None:
    """No more messages are brought than asked for."""
    topic = await filled(t)
    for wanted in (1, 2, 4):
        pulled = await t.pull(topic, 1, count=wanted)
        t.answer(f"{wanted} wanted", pulled.answer, ext={"nextBeginOffset": str(1 + wanted)})
        t.equal("messages", [bytes(unit.body) for unit in pulled.messages], [b"m%d" % number for number in range(1, 1 + wanted)])


@case("pull.many", MUST, rests_on="DefaultMessageStore.getMessage")
async def many(t: Trial) -> None:
    """A long queue can be read to its end, nothing doubled, nothing left out.

    One answer holds some of them: maxTransferCountOnMessageInMemory is 32 and maxTransferBytesOnMessageInMemory 256 KiB.
    """
    topic = await filled(t, 100)
    offset, bodies = 0, []
    while offset < 100:
        pulled = await t.pull(topic, offset, count=1_000)
        t.check("something came", bool(pulled.messages), seen=pulled.answer)
        bodies += [bytes(unit.body) for unit in pulled.messages]
        t.equal("next offset", pulled.answer.ext.get("nextBeginOffset"), str(len(bodies)))
        offset = len(bodies)
    t.equal("all of them", bodies, [b"m%d" % number for number in range(100)])


@case("pull.max-count-in-memory", SHOULD, rests_on="MessageStoreConfig.maxTransferCountOnMessageInMemory")
async def at_most_32(t: Trial) -> None:
    """One answer holds at most 32 messages."""
    topic = await filled(t, 40)
    t.equal("messages", len((await t.pull(topic, 0, count=1_000)).messages), 32)


@case("pull.max-bytes-in-memory", SHOULD, rests_on="MessageStoreConfig.maxTransferBytesOnMessageInMemory")
async def at_most_256_kib(t: Trial) -> None:
    """One answer holds at most 256 KiB, and one message at least."""
    topic = await filled(t, 4, size=100 << 10)
    t.equal("of 100 KiB each", len((await t.pull(topic, 0)).messages), 2)
    topic = await filled(t, 2, size=600 << 10)
    t.equal("of 600 KiB each", len((await t.pull(topic, 0)).messages), 1)


@case("pull.nothing-new", MUST, rests_on=RESULT)
async def nothing_new(t: Trial) -> None:
    """At the queue's end: code 19, at once without the suspend flag."""
    topic = await filled(t, 3)
    pulled = await t.pull(topic, 3)
    expected = {"nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3"}
    t.answer(
        "pull at the end", pulled.answer, code=ResponseCode.PULL_NOT_FOUND, remark="OFFSET_OVERFLOW_ONE", ext=expected, body=b""
    )


@case("pull.behind-the-end", MUST, rests_on=RESULT)
async def behind_the_end(t: Trial) -> None:
    """Behind the queue's end: code 21 with the offset to go on at."""
    topic = await filled(t, 3)
    for offset in (4, 1_000, 2**62):
        pulled = await t.pull(topic, offset)
        expected = {"nextBeginOffset": "3", "minOffset": "0", "maxOffset": "3"}
        t.answer(
            f"pull from {offset}",
            pulled.answer,
            code=ResponseCode.PULL_OFFSET_MOVED,
            remark="OFFSET_OVERFLOW_BADLY",
            ext=expected,
        )


@case("pull.before-the-start", MUST, rests_on=RESULT)
async def before_the_start(t: Trial) -> None:
    """Before the queue's start: code 21 with the start."""
    topic = await filled(t, 3)
    pulled = await t.pull(topic, -1)
    t.answer(
        "pull from -1",
        pulled.answer,
        code=ResponseCode.PULL_OFFSET_MOVED,
        remark="OFFSET_TOO_SMALL",
        ext={"nextBeginOffset": "0"},
    )


@case("pull.empty-queue", MUST, rests_on="DefaultMessageStore.getMessage: NO_MESSAGE_IN_QUEUE")
async def empty_queue(t: Trial) -> None:
    """A queue that never had a message: nothing found, offsets 0.

    Asked from 0: code 19.  Asked from elsewhere: code 21 sends the client to 0.
    """
    topic = await t.topic()
    expected = {"nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0"}
    t.answer("from 0", (await t.pull(topic, 0)).answer, code=ResponseCode.PULL_NOT_FOUND, ext=expected)
    t.answer("from 7", (await t.pull(topic, 7)).answer, code=ResponseCode.PULL_OFFSET_MOVED, ext=expected)


@case("pull.tags", MUST, rests_on="DefaultMessageFilter, ExpressionMessageFilter")
async def tags(t: Trial) -> None:
    """Only messages of the tags subscribed to are brought; the next offset passes over the others."""
    topic = await t.topic()
    for number in range(12):
        await t.send(topic, b"m%d" % number, tags="abc"[number % 3])
    await t.pull_all(topic, 12)
    for subscribed, wanted in (("a", "a"), ("a || c", "ac"), ("b||a", "ab"), ("*", "abc"), ("", "abc")):
        pulled = await t.pull(topic, 0, tags=subscribed)
        t.answer(f"{subscribed!r}", pulled.answer, ext={"nextBeginOffset": "12"})
        got = [properties_of(unit)["TAGS"] for unit in pulled.messages]
        t.equal("tags", got, ["abc"[number % 3] for number in range(12) if "abc"[number % 3] in wanted])
    pulled = await t.pull(topic, 0, tags="nobody")
    t.answer("a tag of none", pulled.answer, code=ResponseCode.PULL_RETRY_IMMEDIATELY, ext={"nextBeginOffset": "12"}, body=b"")


@case("pull.tag-hash-collision", MUST, rests_on="MessageExtBrokerInner.tagsString2tagsCode")
async def tag_collision(t: Trial) -> None:
    """Tags of one hash come together: the client tells them apart.

    `Aa` and `BB` have the same String.hashCode.  The broker compares hashes alone.
    """
    topic = await t.topic()
    for tag in ("Aa", "BB", "Aa"):
        await t.send(topic, tag.encode(), tags=tag)
    await t.pull_all(topic, 3)
    t.equal("bodies for Aa", [bytes(unit.body) for unit in (await t.pull(topic, 0, tags="Aa")).messages], [b"Aa", b"BB", b"Aa"])


@case("pull.messages-without-tags", MUST, rests_on="ConsumeQueue: tagsCode 0")
async def without_tags(t: Trial) -> None:
    """A message without tags comes to those who take everything."""
    topic = await t.topic()
    await t.send(topic, b"none")
    await t.send(topic, b"one", tags="one")
    await t.pull_all(topic, 2)
    t.equal("for one", [bytes(unit.body) for unit in (await t.pull(topic, 0, tags="one")).messages], [b"one"])
    t.equal("for *", [bytes(unit.body) for unit in (await t.pull(topic, 0)).messages], [b"none", b"one"])


@case(
    "pull.commits-offset", MUST, codes=(Code.PULL_MESSAGE, Code.QUERY_CONSUMER_OFFSET), rests_on="PullSysFlag.FLAG_COMMIT_OFFSET"
)
async def commits(t: Trial) -> None:
    """A pull may bring the group's progress along."""
    topic, group = await filled(t, 5), await t.group()
    await t.pull(topic, 4, group=group, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT_OFFSET, commit_offset=3)
    asked = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=0)

    async def committed() -> bool:
        return (await t.broker.ask(asked)).ext.get("offset") == "3"

    await t.until("the progress is 3", committed)


@case("pull.binary-header", MUST, rests_on="RocketMQSerializable")
async def binary(t: Trial) -> None:
    """A pull in the binary header form brings the same messages."""
    topic = await filled(t)
    pulled = await t.pull(topic, 2, link=t.connect(form=Form.ROCKETMQ))
    t.answer("pull", pulled.answer, ext={"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5"})
    t.equal("bodies", [bytes(unit.body) for unit in pulled.messages], [b"m2", b"m3", b"m4"])


@case("pull.lite", MUST, codes=Code.LITE_PULL_MESSAGE, since=(5,), rests_on=PROCESSOR)
async def lite(t: Trial) -> None:
    """The lite pull code (361) does the same."""
    topic = await filled(t)
    asked = LitePullMessage(
        consumer_group="CONF_consumers",
        topic=topic,
        queue_id=0,
        queue_offset=1,
        max_msg_nums=2,
        sys_flag=PULL_SUBSCRIPTION | PULL_LITE,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    t.answer("pull", await t.broker.ask(asked), remark="FOUND", ext={"nextBeginOffset": "3", "maxOffset": "5"})


@case("pull.bare-fields", MUST, rests_on="PullMessageRequestHeader")
async def bare(t: Trial) -> None:
    """A pull with required fields alone is served."""
    topic = await filled(t, 2)
    asked = PullMessage(
        consumer_group="CONF_consumers",
        topic=topic,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=PULL_SUBSCRIPTION,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )
    t.answer("without expressionType", await t.broker.ask(asked), remark="FOUND", ext={"nextBeginOffset": "2"})


@case("pull.beside-each-other", MUST, rests_on="publish and subscribe")
async def groups(t: Trial) -> None:
    """Groups read a queue independently of each other."""
    topic = await filled(t, 3)
    for _ in range(3):
        t.equal(
            "bodies",
            [bytes(unit.body) for unit in (await t.pull(topic, 0, group=await t.group())).messages],
            [b"m0", b"m1", b"m2"],
        )


@case("pull.same-bytes-again", MUST, rests_on="the commit log is written once")
async def again(t: Trial) -> None:
    """A second pull brings the same bytes."""
    topic = await filled(t)
    first, second = await t.pull(topic), await t.pull(topic)
    t.check("the bodies are equal", first.answer.body == second.answer.body)


@case(
    "pull.suggested-broker",
    SHOULD,
    codes=(Code.PULL_MESSAGE, Code.UPDATE_BROKER_CONFIG),
    needs=Need.OWN,
    alone=True,
    rests_on="PullMessageProcessor.composeResponseHeader: slaveReadEnable",
)
async def suggested_broker(t: Trial) -> None:
    """Where slaves may be read the answer names the group's `brokerId` as the one to pull from next; otherwise 0, the master."""
    topic, group = await filled(t, 1), await t.group(broker_id=3)
    t.answer("as it is", (await t.pull(topic, 0, group=group)).answer, ext={"suggestWhichBrokerId": "0"})
    async with configured(t, slaveReadEnable="true"):
        t.answer("found", (await t.pull(topic, 0, group=group)).answer, ext={"suggestWhichBrokerId": "3"})
        nothing = (await t.pull(topic, 1, group=group)).answer
        t.answer("nothing new", nothing, code=ResponseCode.PULL_NOT_FOUND, ext={"suggestWhichBrokerId": "3"})
        t.answer("another group", (await t.pull(topic, 0, group=await t.group())).answer, ext={"suggestWhichBrokerId": "0"})
