"""Sending: every form of it, where the message goes, what is answered, and what is stored of it."""

from __future__ import annotations

import re
import zlib
from functools import partial

import trio

from conformance.suite.kit import MAKES_TOPICS, MUST, SHOULD, Code, Form, Trial, properties_of
from conformance.suite.kit import case as declare
from rmq_wire import property_names as prop
from rmq_wire import sys_flag
from rmq_wire.batch import Item, pack_items
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.query import ViewMessage
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageResponse
from rmq_wire.message import has_good_crc, read_unit
from rmq_wire.message_id import host_address, parse_offset_message_id
from rmq_wire.properties import encode

PROCESSOR = "SendMessageProcessor"
BORN_MS = 1_700_000_000_123
UNIQUE_KEY = "^[0-9A-F]{32}([0-9A-F]{24})?$"
"""As stock clients make them; the longer form holds an IPv6 address."""


case = partial(declare, codes=Code.SEND_MESSAGE_V2)


@case("send.v2", MUST, rests_on=f"{PROCESSOR}.handlePutMessageResult")
async def v2(t: Trial) -> None:
    """A message sent with 310 is stored and answered with its place.

    The answer names queue, queue offset, offset message id, and the unique key as transaction id; no remark, no body.
    """
    topic, unique = await t.topic(queues=3), t.unique_key()
    answer = await t.broker.ask(t.message(topic, unique_key=unique, queue=2), b"hello")
    stated = t.by_version({"": unique, "4": None})
    expected = {"queueId": "2", "queueOffset": "0", "transactionId": stated, "msgId": re.compile("^[0-9A-F]{32}([0-9A-F]{24})?$")}
    t.answer("send", answer, ext=expected, body=b"", remark=None)
    [unit] = await t.pull_all(topic, 1, queue=2)
    t.equal("the stored body", bytes(unit.body), b"hello")


@case("send.v1", MUST, codes=Code.SEND_MESSAGE, rests_on="SendMessageRequestHeader")
async def v1(t: Trial) -> None:
    """The request with full names (10) does the same."""
    topic = await t.topic()
    asked = SendMessage(
        producer_group="CONF_producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=BORN_MS,
        flag=7,
        properties=encode({"TAGS": "a"}),
        reconsume_times=0,
        unit_mode=False,
        batch=False,
    )
    t.answer("send", await t.broker.ask(asked, b"hello"), ext={"queueId": "0", "queueOffset": "0"})
    [unit] = await t.pull_all(topic, 1)
    t.equal("body, flag, born", (bytes(unit.body), unit.flag, unit.born_timestamp), (b"hello", 7, BORN_MS))


@case("send.binary-header", MUST, rests_on="RocketMQSerializable")
async def binary(t: Trial) -> None:
    """A message sent in the binary header form is stored all the same."""
    topic, link = await t.topic(), t.connect(form=Form.ROCKETMQ)
    sent = await t.send(topic, b"packed", link=link, tags="a", keys="k1 k2", unique_key=t.unique_key())
    t.equal("queue offset", sent.queue_offset, 0)
    [unit] = await t.pull_all(topic, 1)
    t.equal("tags and keys", [properties_of(unit).get(name) for name in (prop.TAGS, prop.KEYS)], ["a", "k1 k2"])


@case("send.stored-as-sent", MUST, codes=(Code.SEND_MESSAGE_V2, Code.PULL_MESSAGE), rests_on="MessageExtEncoder, MessageDecoder")
async def as_sent(t: Trial) -> None:
    """What is stored is what was sent: body, properties, flags, times, hosts."""
    topic, link, body = await t.topic(), t.connect(), bytes(range(256)) * 3
    pairs = {
        "plain": "value",
        "weiß": "漢字 🙂",
        "empty-ish": " ",
        prop.KEYS: "k",
        prop.TAGS: "tag",
        prop.UNIQ_KEY: t.unique_key(),
    }
    sent = await t.send(topic, body, pairs, link=link, flag=-5, born_ms=BORN_MS)
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), body)
    t.check("its check sum", has_good_crc(unit), seen=unit.body_crc)
    found = properties_of(unit)
    t.equal("properties that were sent", {name: found.get(name) for name in pairs}, pairs)
    t.equal("flag, born timestamp", (unit.flag, unit.born_timestamp), (-5, BORN_MS))
    t.equal("born host", host_address(unit.born_host), link.local)
    t.equal("topic, queue, offset", (bytes(unit.topic).decode(), unit.queue_id, unit.queue_offset), (topic, 0, 0))
    stated = parse_offset_message_id(sent.msg_id)
    t.equal("place in the log, as in the message id", unit.physical_offset, stated.physical_offset)
    t.equal("store host, as in the message id", host_address(unit.store_host), stated.address)
    t.equal("reconsume times, prepared offset", (unit.reconsume_times, unit.prepared_transaction_offset), (0, 0))


@case("send.broker-properties", SHOULD, rests_on="AbstractSendMessageProcessor.buildMsgContext, SendMessageProcessor.sendMessage")
async def broker_properties(t: Trial) -> None:
    """The broker adds its region, its trace switch and its cluster.

    `CLUSTER` since 4.9; the answer's ext fields `MSG_REGION` and `TRACE_ON` say whether a client is to trace.
    """
    topic = await t.topic()
    answer = await t.broker.ask(t.message(topic, unique_key=t.unique_key()), b"x")
    t.answer("send", answer, ext={"MSG_REGION": "DefaultRegion", "TRACE_ON": frozenset({"true", "false"})})
    [unit] = await t.pull_all(topic, 1)
    found = properties_of(unit)
    t.equal("CLUSTER", found.get(prop.CLUSTER), t.target.cluster)
    t.equal("MSG_REGION", found.get(prop.MSG_REGION), t.by_version({"": "DefaultRegion", "4": None}))


@case("send.unique-key-made-up", SHOULD, since=(5,), rests_on="SendMessageProcessor.sendMessage")
async def made_up_key(t: Trial) -> None:
    """Without a unique key the broker makes one."""
    topic = await t.topic()
    answer = t.answer("send", await t.broker.ask(t.message(topic), b"x"))
    [unit] = await t.pull_all(topic, 1)
    made = properties_of(unit).get(prop.UNIQ_KEY)
    t.equal("UNIQ_KEY of the stored message", made, re.compile(UNIQUE_KEY))
    t.equal("transactionId of the answer", answer.ext.get("transactionId"), made)


@case("send.offsets-per-queue", MUST, rests_on="CommitLog, QueueOffsetOperator")
async def offsets_per_queue(t: Trial) -> None:
    """Each queue counts its messages by itself, from 0 on."""
    topic = await t.topic(queues=3)
    for number in range(9):
        sent = await t.send(topic, b"%d" % number, queue=number % 3)
        t.equal(f"message {number}", (sent.queue_id, sent.queue_offset), (number % 3, number // 3))
    for queue in range(3):
        bodies = [bytes(unit.body) for unit in await t.pull_all(topic, 3, queue=queue)]
        t.equal(f"queue {queue}", bodies, [b"%d" % number for number in range(queue, 9, 3)])


@case("send.from-many-connections", MUST, rests_on="CommitLog.asyncPutMessage")
async def beside_each_other(t: Trial) -> None:
    """Producers beside each other get different, gapless offsets."""
    topic = await t.topic()
    places: dict[int, bytes] = {}

    async def produce(producer: int) -> None:
        link = t.connect()
        for number in range(20):
            body = b"%d-%d" % (producer, number)
            sent = await t.send(topic, body, link=link)
            t.check("no offset twice", sent.queue_offset not in places, seen=sent.queue_offset)
            places[sent.queue_offset] = body

    async with trio.open_nursery() as nursery:
        for producer in range(8):
            nursery.start_soon(produce, producer)
    t.equal("offsets", sorted(places), list(range(160)))
    units = await t.pull_all(topic, 160)
    t.equal(
        "each message stands where the answer to its sender says",
        [bytes(unit.body) for unit in units],
        [places[at] for at in range(160)],
    )


@case("send.pipelined", MUST, rests_on="NettyRemotingServer")
async def pipelined(t: Trial) -> None:
    """A hundred sends on one connection without waiting are all answered."""
    topic, link = await t.topic(), t.connect()
    offsets: list[int] = []

    async def one(number: int) -> None:
        offsets.append((await t.send(topic, b"%d" % number, link=link)).queue_offset)

    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(one, number)
    t.equal("offsets", sorted(offsets), list(range(100)))


@case("send.any-queue", MUST, rests_on="AbstractSendMessageProcessor.randomQueueId")
async def any_queue(t: Trial) -> None:
    """Queue -1 means: any queue of the topic."""
    topic = await t.topic(queues=4)
    found = {(await t.send(topic, b"x", queue=-1)).queue_id for _ in range(40)}
    t.check("queues of the topic", found <= set(range(4)), expected="0 to 3", seen=found)
    t.check("not always the same", len(found) > 1, seen=found)


@case("send.one-way", MUST, rests_on=PROCESSOR)
async def one_way(t: Trial) -> None:
    """A one-way send is stored and not answered."""
    topic, link = await t.topic(), t.connect()
    for number in range(3):
        await link.send_oneway(t.message(topic), b"%d" % number)
    units = await t.pull_all(topic, 3)
    t.equal("bodies", sorted(bytes(unit.body) for unit in units), [b"0", b"1", b"2"])
    t.equal("an answer", await link.stray(seconds=0.5), None)


@case("send.new-topic", MUST, rests_on="TopicConfigManager.createTopicInSendMessageMethod")
async def new_topic(t: Trial) -> None:
    """A topic that is not there is made after the default topic.

    With autoCreateTopicEnable, which own subjects have.  The queues are the smaller of what the client asks and TBW102 has.
    """
    t.wants(*MAKES_TOPICS)
    topic = t.name("new")
    answer = await t.broker.ask(t.message(topic, default_topic_queue_nums=3), b"x")
    t.answer("send", answer)
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), b"x")
    sent = await t.broker.ask(t.message(topic, queue=2), b"x")
    t.answer("queue 2 is there", sent)


@case("send.batch", MUST, codes=Code.SEND_BATCH_MESSAGE, rests_on="SendMessageProcessor.sendBatchMessage")
async def batch(t: Trial) -> None:
    """A batch (320) is stored message by message, in order.

    The answer's message ids are joined by commas; its offset is the first message's.
    """
    topic = await t.topic()
    await t.send(topic, b"before")
    items = [
        Item(number, b"body %d" % number, encode({prop.TAGS: f"t{number}", prop.UNIQ_KEY: t.unique_key()}).encode())
        for number in range(5)
    ]
    asked = t.message(topic, batch=True, kind=SendBatchMessage)
    answer = t.answer("send", await t.broker.ask(asked, pack_items(items)), ext={"queueOffset": "1"}).header(SendMessageResponse)
    ids = answer.msg_id.split(",")
    t.equal("message ids", len(ids), 5)
    units = await t.pull_all(topic, 5, offset=1)
    t.equal("bodies", [bytes(unit.body) for unit in units], [b"body %d" % number for number in range(5)])
    t.equal("tags", [properties_of(unit).get(prop.TAGS) for unit in units], [f"t{number}" for number in range(5)])
    t.equal("flags", [unit.flag for unit in units], list(range(5)))
    t.equal(
        "places, as in the ids",
        [unit.physical_offset for unit in units],
        [parse_offset_message_id(one).physical_offset for one in ids],
    )


@case("send.batch-over-310", MUST, rests_on="SendMessageRequestHeaderV2: m")
async def batch_by_flag(t: Trial) -> None:
    """A batch is what says that it is one, not a code."""
    topic = await t.topic()
    items = [Item(0, b"%d" % number, b"") for number in range(3)]
    t.answer("send", await t.broker.ask(t.message(topic, batch=True), pack_items(items)), ext={"queueOffset": "0"})
    t.equal("bodies", [bytes(unit.body) for unit in await t.pull_all(topic, 3)], [b"0", b"1", b"2"])


@case("send.compressed", MUST, rests_on="MessageSysFlag.COMPRESSED_FLAG")
async def compressed(t: Trial) -> None:
    """A compressed body is stored as it came.

    Compressing and inflating is the clients' business; the flag says it.
    """
    topic, body = await t.topic(), zlib.compress(b"the same again " * 500)
    await t.send(topic, body, sys_flag=sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZLIB)
    [unit] = await t.pull_all(topic, 1)
    t.equal("body", bytes(unit.body), body)
    t.equal(
        "compression bits",
        unit.sys_flag & (sys_flag.COMPRESSED | sys_flag.COMPRESSION_MASK),
        sys_flag.COMPRESSED | sys_flag.COMPRESSION_ZLIB,
    )


@case("send.multi-tags-flag", SHOULD, rests_on="SendMessageProcessor: MULTI_TAGS_FLAG")
async def keeps_flags(t: Trial) -> None:
    """A topic of several tags marks its messages."""
    topic = await t.topic()
    await t.send(topic, b"x", sys_flag=sys_flag.MULTI_TAGS)
    [unit] = await t.pull_all(topic, 1)
    t.note("sysFlag stored", unit.sys_flag)
    t.check("no transaction bits", sys_flag.transaction_type(unit.sys_flag) == 0, seen=unit.sys_flag)


@case("send.view-by-id", MUST, codes=Code.VIEW_MESSAGE_BY_ID, rests_on="QueryMessageProcessor.viewMessageById")
async def view_by_id(t: Trial) -> None:
    """A message can be read by the offset in its id at once."""
    topic = await t.topic()
    sent = await t.send(topic, b"by id", keys="k")
    answer = await t.broker.ask(ViewMessage(offset=parse_offset_message_id(sent.msg_id).physical_offset, topic=topic))
    unit = read_unit(t.answer("view", answer).body)
    t.equal("topic, queue offset, body", (bytes(unit.topic).decode(), unit.queue_offset, bytes(unit.body)), (topic, 0, b"by id"))


@case("send.max-offset-after", MUST, codes=Code.GET_MAX_OFFSET, rests_on="AdminBrokerProcessor.getMaxOffset")
async def max_offset(t: Trial) -> None:
    """After the answer the queue's end has moved."""
    topic = await t.topic()
    for number in range(3):
        await t.send(topic, b"x")
        expected = str(number + 1)

        async def moved(expected: str = expected) -> bool:
            return (await t.broker.ask(GetMaxOffset(topic=topic, queue_id=0))).ext.get("offset") == expected

        await t.until(f"the end is {expected}", moved)


@case("send.wait-false", SHOULD, rests_on="MessageConst.PROPERTY_WAIT_STORE_MSG_OK")
async def no_wait(t: Trial) -> None:
    """A message that does not wait for the disk is answered all the same."""
    topic = await t.topic()
    await t.send(topic, b"x", {prop.WAIT: "false"})
    [unit] = await t.pull_all(topic, 1)
    t.note("properties", properties_of(unit))
    t.equal("body", bytes(unit.body), b"x")


@case("send.priority", SHOULD, since=(5, 5), rests_on=f"{PROCESSOR}.sendMessage: MessageExtBrokerInner.getPriority")
async def priority(t: Trial) -> None:
    """A message's priority is its queue, at most the last one; a message that is to keep its order keeps its queue instead.

    A priority that is no number from 0 on changes nothing; that of a message in order is not stored.
    """
    topic = await t.topic(queues=3)
    for text, queue in (("0", 0), ("1", 1), ("2", 2), ("9", 2), ("-1", 1), ("high", 1)):
        sent = await t.send(topic, text.encode(), {prop.PRIORITY: text}, queue=1)
        t.equal(f"queue of priority {text}", sent.queue_id, queue)
    sent = await t.send(topic, b"in order", {prop.PRIORITY: "2", prop.SHARDING_KEY: "k"}, queue=1)
    t.equal("queue of one in order", sent.queue_id, 1)
    stored = []
    for queue, count in enumerate((1, 4, 2)):
        units = await t.pull_all(topic, count, queue=queue)
        stored.append([(bytes(unit.body).decode(), properties_of(unit).get(prop.PRIORITY)) for unit in units])
    kept = [[("0", "0")], [("1", "1"), ("-1", "-1"), ("high", "high"), ("in order", None)], [("2", "2"), ("9", "9")]]
    t.equal("what is stored", stored, kept)
