"""Topics: made, changed, listed page by page, deleted."""

from __future__ import annotations

import re
from typing import Any

from conformance.suite.kit import MAKES_TOPICS, MUST, SHOULD, Code, ResponseCode, Trial, case
from conformance.suite.means import topic_pages
from conformance.suite.means.played import route, route_comes
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import TopicConfig, TopicConfigList
from rmq_wire.headers import topics
from rmq_wire.headers.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rmq_wire.headers.positions import GetMaxOffset
from rmq_wire.headers.stats import GetTopicStatsInfo

ADMIN = "AdminBrokerProcessor"
CREATE = (Code.UPDATE_AND_CREATE_TOPIC,)


def creating(name: str, **fields: Any) -> topics.CreateTopic:
    """A request for a topic of one queue, with these fields otherwise."""
    usual = {
        "topic": name,
        "default_topic": "TBW102",
        "read_queue_nums": 1,
        "write_queue_nums": 1,
        "perm": 6,
        "topic_filter_type": "SINGLE_TAG",
        "topic_sys_flag": 0,
        "order": False,
    }
    return topics.CreateTopic(**{**usual, **fields})


async def config_of(t: Trial, topic: str) -> dict[str, Any]:
    """The broker's row of a topic (351), whatever keys it has."""
    return t.answer(f"configuration of {topic}", await t.broker.ask(topics.GetTopicConfig(topic=topic))).json()  # type: ignore[no-any-return]


@case("topics.create", MUST, codes=(*CREATE, Code.GET_TOPIC_CONFIG), since=(5,), rests_on=f"{ADMIN}.updateAndCreateTopic")
async def create(t: Trial) -> None:
    """A topic that is made can be used and found at once."""
    name = t.name()
    t.answer("create", await t.broker.ask(creating(name, read_queue_nums=5, write_queue_nums=3, perm=6)))
    row = await config_of(t, name)
    shown = (row["topicName"], row["readQueueNums"], row["writeQueueNums"], row["perm"], row["topicFilterType"], row["order"])
    t.equal("row", shown, (name, 5, 3, 6, "SINGLE_TAG", False))


@case(
    "topics.route-follows",
    MUST,
    codes=(*CREATE, Code.GET_ROUTEINFO_BY_TOPIC),
    rests_on="BrokerController.registerIncrementBrokerData",
)
async def route_follows(t: Trial) -> None:
    """A topic that is made has a route soon."""
    name = await t.topic(queues=3)

    await route_comes(t, name)
    shown = TopicRouteData.read((await route(t, name)).body)
    row = next(data for data in shown.queue_datas if data.broker_name == t.target.broker_name)
    t.equal("queues, permission", (row.read_queue_nums, row.write_queue_nums, row.perm), (3, 3, 6))


@case("topics.update", MUST, codes=(*CREATE, Code.GET_TOPIC_CONFIG), since=(5,), rests_on="TopicConfigManager.updateTopicConfig")
async def update(t: Trial) -> None:
    """A topic that is there is changed."""
    name = await t.topic(queues=2)
    await t.send(name, b"before", queue=1)
    t.answer("update", await t.broker.ask(creating(name, read_queue_nums=8, write_queue_nums=8, perm=4)))
    row = await config_of(t, name)
    t.equal("queues, permission", (row["readQueueNums"], row["writeQueueNums"], row["perm"]), (8, 8, 4))
    [unit] = await t.pull_all(name, 1, queue=1)
    t.equal("what was there is there", bytes(unit.body), b"before")


@case("topics.attributes", MUST, codes=CREATE, since=(5,), rests_on="AttributeUtil.alterCurrentAttributes")
async def attributes(t: Trial) -> None:
    """Attributes are set, changed and taken away by their signs.

    `+name=value` sets, `-name` removes; a name that is not declared is refused as a whole.
    """
    name = await t.topic(attributes="+message.type=FIFO")
    t.equal("after setting", (await config_of(t, name))["attributes"], {"message.type": "FIFO"})
    t.answer("remove", await t.broker.ask(creating(name, attributes="-message.type")))
    t.equal("after removing", (await config_of(t, name))["attributes"], {})
    answer = await t.broker.ask(creating(name, attributes="+no.such.attribute=1"))
    t.check("an unknown one is refused", answer.code != 0, seen=answer)


@case("topics.refused.attributes", SHOULD, codes=CREATE, since=(5,), rests_on="AttributeUtil, AttributeParser, TopicAttributes")
async def bad_attributes(t: Trial) -> None:
    """A change of attributes that is not lawful changes nothing, and the remark says why."""
    new, there = t.name("new"), await t.topic(attributes="+message.type=FIFO,+cleanup.policy=DELETE")
    refused = (
        (new, "-message.type", "only add attribute is supported while creating topic. key: message.type"),
        (new, "message.type=FIFO", "add/alter attribute format is wrong: message.type"),
        (new, "message.type", "delete attribute format is wrong: message.type"),
        (new, "+message.type=X", "value is not in set: ["),
        (new, "+reserve.time=-2", "value is not in range(-1, 9223372036854775807)"),
        (new, "+no.such=1", "unsupported key: no.such"),
        (new, "+message.type=FIFO,+message.type=FIFO", "key duplication: +message.type"),
        (there, "+message.type=NORMAL,-message.type", "alter duplication key. key: message.type"),
        (there, "-reserve.time", "attempt to delete a nonexistent key: reserve.time"),
        (there, "+cleanup.policy=COMPACTION", "attempt to update an unchangeable attribute. key: cleanup.policy"),
        (there, "-cleanup.policy", "attempt to update an unchangeable attribute. key: cleanup.policy"),
    )
    for name, change, remark in refused:
        answer = await t.broker.ask(creating(name, attributes=change))
        t.answer(change, answer, code=ResponseCode.SYSTEM_ERROR, remark=re.compile(re.escape(remark)))
    t.equal("what it had", (await config_of(t, there))["attributes"], {"message.type": "FIFO", "cleanup.policy": "DELETE"})
    t.answer("the new one", await t.broker.ask(topics.GetTopicConfig(topic=new)), code=ResponseCode.TOPIC_NOT_EXIST)


@case("topics.compaction", SHOULD, codes=CREATE, since=(5,), rests_on="SendMessageProcessor.sendMessage, CleanupPolicy")
async def compaction(t: Trial) -> None:
    """A topic that is to be compacted takes messages with a key only; what was just written is read as it was written."""
    name = await t.topic(attributes="+cleanup.policy=COMPACTION")
    await t.send(name, b"old", keys="k")
    await t.send(name, b"new", keys="k")
    keyless = await t.broker.ask(t.message(name), b"no key")
    t.answer("without a key", keyless, code=ResponseCode.MESSAGE_ILLEGAL, remark="Required message key is missing")
    t.equal("read", [bytes(unit.body) for unit in await t.pull_all(name, 2)], [b"old", b"new"])


@case("topics.type-not-enforced", SHOULD, codes=CREATE, since=(5,), rests_on="SendMessageProcessor: message.type is the proxy's")
async def type_not_enforced(t: Trial) -> None:
    """`message.type` is kept and shown; a message of another type is taken all the same."""
    name = await t.topic(attributes="+message.type=DELAY")
    await t.send(name, b"at once")
    t.equal("read", [bytes(unit.body) for unit in await t.pull_all(name, 1)], [b"at once"])


@case("topics.read-and-write-apart", MUST, codes=CREATE, since=(5,), rests_on="AbstractSendMessageProcessor.msgCheck")
async def apart(t: Trial) -> None:
    """A queue is there while it may be read or written; shrunk and grown again, it has what it had."""
    name = await t.topic(queues=2)
    await t.send(name, b"kept", queue=1)
    await t.pull_all(name, 1, queue=1)  # a broker may put it into its queue later than it answers
    illegal = ResponseCode.INVALID_PARAMETER
    for read, write, sent, pulled in ((1, 2, 0, illegal), (2, 1, 0, 0), (1, 1, illegal, illegal), (2, 2, 0, 0)):
        answer = await t.broker.ask(creating(name, read_queue_nums=read, write_queue_nums=write))
        t.answer(f"{read} to read, {write} to write", answer)
        answer = await t.broker.ask(t.message(name, queue=1), b"more")
        t.answer(f"{read} to read, {write} to write: send to the second", answer, code=sent)
        found = (await t.pull(name, queue=1)).answer
        t.answer(f"{read} to read, {write} to write: pull of the second", found, code=pulled)
    t.equal("read", [bytes(unit.body) for unit in await t.pull_all(name, 4, queue=1)], [b"kept", *[b"more"] * 3])


@case("topics.refused.name", MUST, codes=CREATE, rests_on="TopicValidator.validateTopic, isSystemTopic")
async def bad_names(t: Trial) -> None:
    """Names that are none, and the broker's own, cannot be made."""
    code = t.by_version({"": ResponseCode.INVALID_PARAMETER, "4": ResponseCode.SYSTEM_ERROR})
    for name in ("a/b", "with blank", "x" * 128, "TBW102", "SCHEDULE_TOPIC_XXXX"):
        t.answer(f"{name[:20]!r}", await t.broker.ask(creating(name)), code=code)


@case("topics.delete", MUST, codes=Code.DELETE_TOPIC_IN_BROKER, rests_on=f"{ADMIN}.deleteTopic")
async def delete(t: Trial) -> None:
    """A deleted topic is gone with its queues and its groups' progress."""
    name, group = await t.topic(), await t.group()
    for _ in range(3):
        await t.send(name, b"x")
    await t.pull_all(name, 3)
    t.answer("commit", await t.broker.ask(UpdateConsumerOffset(consumer_group=group, topic=name, queue_id=0, commit_offset=2)))
    t.answer("delete", await t.broker.ask(topics.DeleteTopic(topic=name)))
    t.answer("pull", (await t.pull(name)).answer, code=ResponseCode.TOPIC_NOT_EXIST)

    async def empty() -> bool:
        return (await t.broker.ask(GetMaxOffset(topic=name, queue_id=0))).ext.get("offset") == "0"

    await t.until("its queue is gone", empty)
    await t.topic(name=name)
    sent = await t.send(name, b"second life")
    t.equal("the new one counts from 0", sent.queue_offset, 0)
    if t.version is None or t.version >= (5,):
        answer = await t.broker.ask(
            QueryConsumerOffset(consumer_group=group, topic=name, queue_id=0, set_zero_if_not_found=False)
        )
        t.answer("progress", answer, code=ResponseCode.QUERY_NOT_FOUND)


@case("topics.delete-unknown", SHOULD, codes=Code.DELETE_TOPIC_IN_BROKER, rests_on=f"{ADMIN}.deleteTopic")
async def delete_unknown(t: Trial) -> None:
    """Deleting what is not there succeeds."""
    t.answer("delete", await t.broker.ask(topics.DeleteTopic(topic=t.name("nobody"))))


@case("topics.delete-system", MUST, codes=Code.DELETE_TOPIC_IN_BROKER, since=(5,), rests_on=f"{ADMIN}.deleteTopic")
async def delete_system(t: Trial) -> None:
    """The broker's own topics cannot be deleted."""
    for name in ("TBW102", "SCHEDULE_TOPIC_XXXX"):
        answer = await t.broker.ask(topics.DeleteTopic(topic=name))
        t.answer(name, answer, code=ResponseCode.INVALID_PARAMETER, remark=re.compile("conflict with system topic"))


@case("topics.config-unknown", MUST, codes=Code.GET_TOPIC_CONFIG, since=(5,), rests_on=f"{ADMIN}.getTopicConfig")
async def config_unknown(t: Trial) -> None:
    """The configuration of a topic that is not there: code 17."""
    answer = await t.broker.ask(topics.GetTopicConfig(topic=t.name("nobody")))
    t.answer("configuration", answer, code=ResponseCode.TOPIC_NOT_EXIST)


@case(
    "topics.create-list",
    SHOULD,
    codes=Code.UPDATE_AND_CREATE_TOPIC_LIST,
    since=(5, 3),
    rests_on=f"{ADMIN}.updateAndCreateTopicList",
)
async def create_list(t: Trial) -> None:
    """Several topics are made in one request."""
    names = [t.name() for _ in range(3)]
    body = TopicConfigList(
        topic_config_list=[TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2) for name in names]
    )
    t.answer("create", await t.broker.ask(topics.CreateTopicList(), body.encode()))
    for name in names:
        t.equal("queues", (await config_of(t, name))["readQueueNums"], 2)


@case("topics.all", MUST, codes=Code.GET_ALL_TOPIC_CONFIG, rests_on=f"{ADMIN}.getAllTopicConfig")
async def all_topics(t: Trial) -> None:
    """All topics in one table, with its version."""
    name = await t.topic(queues=3)
    table = t.answer("all", await t.broker.ask(topics.GetAllTopicConfig())).json()
    t.check("the table has a version", "counter" in table["dataVersion"], seen=table["dataVersion"])
    row = table["topicConfigTable"].get(name)
    t.check("ours is in it", row is not None)
    t.equal("its queues", (row["readQueueNums"], row["writeQueueNums"]), (3, 3))
    if t.target.config.get(*MAKES_TOPICS) == "true":
        t.check("the default topic, too", "TBW102" in table["topicConfigTable"])


@case(
    "paging.topics",
    SHOULD,
    codes=Code.GET_ALL_TOPIC_CONFIG,
    since=(5, 5),
    alone=True,
    rests_on=f"{ADMIN}.getAllTopicConfig: topicSeq, maxTopicNum",
)
async def paged_topics(t: Trial) -> None:
    """The table of topics page by page: every topic once.

    A broker with ten thousands of topics cannot send them in one frame.  When the table changes meanwhile, as it does where
    what was popped comes again, all pages are asked for anew.  Java changes the table first and its version after, and looks at
    the version of an answer last: pages belong together when all have a version that was there before the first of them, and it
    is not about to change.
    """
    own = {await t.topic() for _ in range(7)}
    version = await topic_pages.version_now(t)
    seen: list[str] = []
    for _ in range(topic_pages.CHANGES_MAX):
        seen, then = await topic_pages.all_pages(t, version)
        if then == version and len(seen) > len(set(seen)):
            then = await topic_pages.next_version(t, version)
        if then == version:
            break
        version = then
    t.check("none is doubled", len(seen) == len(set(seen)), seen=len(seen))
    t.check("ours are among them", own <= set(seen), seen=len(seen))


@case("topics.stats", MUST, codes=Code.GET_TOPIC_STATS_INFO, rests_on=f"{ADMIN}.getTopicStatsInfo")
async def stats(t: Trial) -> None:
    """A topic's figures are each queue's bounds and the time of its last message."""
    name = await t.topic(queues=2)
    for _ in range(3):
        await t.send(name, b"x", queue=1)
    [*_, last] = await t.pull_all(name, 3, queue=1)
    text = t.answer("stats", await t.broker.ask(GetTopicStatsInfo(topic=name))).body.decode()
    t.check("both queues", text.count('"queueId":') == 2, seen=text)
    t.check("the end of queue 1", '"maxOffset":3' in text, seen=text)
    t.check("the time of its last message", str(last.store_timestamp) in text, expected=last.store_timestamp, seen=text)
