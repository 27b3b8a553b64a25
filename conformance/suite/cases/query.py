"""Looking messages up: by place in the log, by key, by unique key, by queue entry."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.kit import MUST, SHOULD, Code, ResponseCode, Trial, properties_of, units
from conformance.suite.kit import case as declare
from rmq_wire import property_names as prop
from rmq_wire.headers.query import QueryConsumeQueue, QueryMessage, QueryMessageResponse, ViewMessage
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import StoredMessage
from rmq_wire.message_id import parse_offset_message_id

PROCESSOR = "QueryMessageProcessor"
ALWAYS_MS = 1 << 62


case = partial(declare, codes=Code.QUERY_MESSAGE)


async def found(
    t: Trial, topic: str, key: str, count: int, *, most: int = 32, begin: int = 0, end: int = ALWAYS_MS, unique: bool = False
) -> list[StoredMessage]:
    """The messages that a query (12) finds, as soon as there are so many of them; 0: there must be none."""
    asked = QueryMessage(
        topic=topic,
        key=key,
        max_num=most,
        begin_timestamp=begin,
        end_timestamp=end,
        index_type=t.by_version({"": "U", "5.3": None, "4": None}) if unique else None,
        unique_key_query=True if unique else None,
    )
    if not count:
        answer = await t.broker.ask(asked)
        t.answer(f"nothing under {key!r}", answer, code=ResponseCode.QUERY_NOT_FOUND)
        return []

    async def there() -> list[StoredMessage] | None:
        answer = await t.broker.ask(asked)
        read = units(answer.body) if answer.code == 0 else []
        return read if len(read) >= count else None

    read = await t.until(f"{count} messages under {key!r}", there)
    t.equal("no more than that", len(read), count)
    return read


@case("query.by-key", MUST, rests_on=f"{PROCESSOR}.queryMessage, IndexService")
async def by_key(t: Trial) -> None:
    """A message is found under each of its keys."""
    topic = await t.topic()
    await t.send(topic, b"two keys", keys="order-1 order-2")
    await t.send(topic, b"one key", keys="order-2")
    [unit] = await found(t, topic, "order-1", 1)
    t.equal("body", bytes(unit.body), b"two keys")
    both = await found(t, topic, "order-2", 2)
    t.equal("bodies", sorted(bytes(unit.body) for unit in both), [b"one key", b"two keys"])


@case("query.by-unique-key", MUST, rests_on=f"{PROCESSOR}: UNIQUE_MSG_QUERY_FLAG")
async def by_unique_key(t: Trial) -> None:
    """A message is found under its unique key."""
    topic = await t.topic()
    unique_key = t.unique_key()
    await t.send(topic, b"unique", unique_key=unique_key)
    await t.send(topic, b"another", unique_key=t.unique_key())
    [unit] = await found(t, topic, unique_key, 1, unique=True)
    t.equal("body, unique key", (bytes(unit.body), properties_of(unit)[prop.UNIQ_KEY]), (b"unique", unique_key))


@case("query.answer-header", MUST, rests_on="QueryMessageResponseHeader")
async def answer_header(t: Trial) -> None:
    """The answer says how far the index is."""
    topic = await t.topic()
    sent = await t.send(topic, b"x", keys="k")
    await found(t, topic, "k", 1)
    asked = QueryMessage(topic=topic, key="k", max_num=1, begin_timestamp=0, end_timestamp=ALWAYS_MS)
    header = t.answer("query", await t.broker.ask(asked)).header(QueryMessageResponse)
    place = parse_offset_message_id(sent.msg_id).physical_offset
    t.check("last indexed place", header.index_last_update_phyoffset >= place, expected=f">= {place}", seen=header)
    t.check("last indexed time", header.index_last_update_timestamp > 0, seen=header)


@case("query.other-topic", MUST, rests_on="IndexService.buildKey")
async def other_topic(t: Trial) -> None:
    """A key of another topic is not found."""
    topic, other = await t.topic(), await t.topic()
    await t.send(topic, b"x", keys="shared")
    await t.send(other, b"y", keys="shared")
    for name, body in ((topic, b"x"), (other, b"y")):
        [unit] = await found(t, name, "shared", 1)
        t.equal("body", bytes(unit.body), body)


@case("query.not-found", MUST, rests_on=f"{PROCESSOR}.queryMessage")
async def not_found(t: Trial) -> None:
    """A key that nobody has: code 22."""
    topic = await t.topic()
    await t.send(topic, b"x", keys="there")
    await found(t, topic, "there", 1)
    asked = QueryMessage(topic=topic, key="not-there", max_num=32, begin_timestamp=0, end_timestamp=ALWAYS_MS)
    t.answer(
        "query",
        await t.broker.ask(asked),
        code=ResponseCode.QUERY_NOT_FOUND,
        remark=re.compile("can not find message, maybe time range not correct"),
    )


@case("query.at-most", MUST, rests_on="IndexService.queryOffset")
async def at_most(t: Trial) -> None:
    """No more messages are brought than asked for."""
    topic = await t.topic()
    for number in range(6):
        await t.send(topic, b"%d" % number, keys="many")
    await found(t, topic, "many", 6)
    t.equal("three of six", len(await found(t, topic, "many", 3, most=3)), 3)


@case("query.newest-first", SHOULD, rests_on="IndexFile: chains begin at the newest entry")
async def newest(t: Trial) -> None:
    """Where there are more than asked for, the newest are taken."""
    topic = await t.topic()
    for number in range(6):
        await t.send(topic, b"%d" % number, keys="many")
    await found(t, topic, "many", 6)
    taken = await found(t, topic, "many", 2, most=2)
    t.equal("bodies", sorted(bytes(unit.body) for unit in taken), [b"4", b"5"])


@case("query.time-range", MUST, rests_on="IndexFile.selectPhyOffset")
async def time_range(t: Trial) -> None:
    """A look-up may be limited to messages stored between two times.

    The index keeps seconds, so the edges are that coarse.
    """
    topic = await t.topic()
    await t.send(topic, b"x", keys="k")
    [unit] = await found(t, topic, "k", 1)
    await found(t, topic, "k", 0, begin=unit.store_timestamp + 60_000)
    await found(t, topic, "k", 0, end=unit.store_timestamp - 60_000)
    await found(t, topic, "k", 1, begin=unit.store_timestamp - 60_000, end=unit.store_timestamp + 60_000)


@case("query.odd-keys", MUST, rests_on="IndexService.indexKeyHashMethod")
async def odd_keys(t: Trial) -> None:
    """Keys of any characters are found."""
    topic = await t.topic()
    for number, key in enumerate(("späß", "漢字", "a#b", "-1", "x" * 500, "polygenelubricants")):
        await t.send(topic, b"%d" % number, keys=key)
        [unit] = await found(t, topic, key, 1)
        t.equal("body", bytes(unit.body), b"%d" % number)


@case("query.view.unit", MUST, codes=Code.VIEW_MESSAGE_BY_ID, rests_on=f"{PROCESSOR}.viewMessageById")
async def view(t: Trial) -> None:
    """By its place in the log a whole unit is read."""
    topic = await t.topic()
    sent = await t.send(topic, b"x" * 10_000, tags="a")
    [pulled] = await t.pull_all(topic, 1)
    answer = t.answer("view", await t.broker.ask(ViewMessage(offset=parse_offset_message_id(sent.msg_id).physical_offset)))
    t.equal("the same bytes as pulled", units(answer.body), [pulled])


@case("query.view.nowhere", MUST, codes=Code.VIEW_MESSAGE_BY_ID, rests_on=f"{PROCESSOR}.viewMessageById")
async def view_nowhere(t: Trial) -> None:
    """A place where nothing is: code 1."""
    for place in (1 << 50, -1):
        answer = await t.broker.ask(ViewMessage(offset=place))
        t.answer(
            f"place {place}", answer, code=ResponseCode.SYSTEM_ERROR, remark=re.compile("can not find message by the offset")
        )


@case("query.queue-entries", SHOULD, codes=Code.QUERY_CONSUME_QUEUE, rests_on="AdminBrokerProcessor.queryConsumeQueue")
async def queue_entries(t: Trial) -> None:
    """The entries of a consume queue can be looked at.

    Each states place, size and tag hash of a message.
    """
    topic = await t.topic()
    for tag in ("a", "b"):
        await t.send(topic, tag.encode(), tags=tag)
    stored = await t.pull_all(topic, 2)
    table = t.answer("entries", await t.broker.ask(QueryConsumeQueue(topic=topic, queue_id=0, index=0, count=10))).json()
    t.equal("bounds", (table["minQueueIndex"], table["maxQueueIndex"]), (0, 2))
    rows = [(row["physicOffset"], row["physicSize"], row["tagsCode"]) for row in table["queueData"]]
    t.equal(
        "rows", rows, [(unit.physical_offset, unit.total_size, tags_code(tag)) for unit, tag in zip(stored, "ab", strict=True)]
    )
