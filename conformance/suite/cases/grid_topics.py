"""The grid's rows about a broker's topics: 17, 18, 21, 215, 300, 305, 316, 343, 351."""

from __future__ import annotations

import re

from conformance.suite.grid.expect import (
    INVALID,
    NEVER_MIND,
    NO_LIMIT,
    NO_PERMISSION,
    NO_TOPIC,
    NOTHING_NAMED,
    PAGED,
    UNREAD,
    Expect,
    by_handler,
    changed,
    four,
    has,
    holds,
)
from conformance.suite.grid.goods import nobody, of_topic, plain
from conformance.suite.grid.grid import Asked, Cell, Good, grid
from conformance.suite.kit import SHOULD, Answer, Need, ResponseCode, Trial
from rmq_wire.bodies.topics import TopicConfig, TopicConfigList
from rmq_wire.headers.offsets import UpdateConsumerOffset
from rmq_wire.headers.stats import GetTopicStatsInfo
from rmq_wire.headers.topics import (
    CleanUnusedTopic,
    CreateTopic,
    CreateTopicList,
    DeleteTopic,
    GetAllTopicConfig,
    GetSystemTopicListFromBroker,
    GetTopicConfig,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
)

NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}
TOPIC_CHARACTERS_MAX = 127
TOO_LONG = four(changed(INVALID, remark=re.compile("longer than|length")))
NO_CHARACTERS = four(changed(INVALID, remark=re.compile("illegal characters")))
SYSTEM = four(changed(INVALID, remark=re.compile("conflict with system topic")))
SYSTEM_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
BLANK = four(changed(INVALID, remark=re.compile("blank")))


async def making(t: Trial) -> Asked:
    """A topic that nobody has."""
    return CreateTopic(
        topic=t.name(),
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
        topic_sys_flag=0,
    )


def several(*names: str) -> Good:
    """Make topics of these names, or two of its own."""

    async def good(t: Trial) -> Asked:
        found = [TopicConfig(topic_name=name, read_queue_nums=1, write_queue_nums=1) for name in names or (t.name(), t.name())]
        return CreateTopicList(), TopicConfigList(topic_config_list=found).encode()

    return good


async def consumed(t: Trial) -> Asked:
    """A group that has committed: without an entry in the table Java never looks at the group."""
    topic, group = await t.topic(), await t.group()
    commit = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=0)
    t.answer("commit", await t.broker.ask(commit))
    return QueryTopicsByConsumer(group=group)


async def is_there(t: Trial, asked: CreateTopic, _: Answer) -> None:
    """Its figures can be asked for."""
    t.answer("202 after it", await t.broker.ask(GetTopicStatsInfo(topic=asked.topic)))


async def is_gone(t: Trial, asked: DeleteTopic, _: Answer) -> None:
    """Nobody knows it any more."""
    t.answer("202 after it", await t.broker.ask(GetTopicStatsInfo(topic=asked.topic)), code=ResponseCode.TOPIC_NOT_EXIST)


def longest(t: Trial) -> dict[str, str]:
    """A name of as many characters as it may have."""
    return {"topic": t.name().ljust(TOPIC_CHARACTERS_MAX, "x")}


grid(
    CreateTopic,
    making,
    "AdminBrokerProcessor.updateAndCreateTopic",
    then=is_there,
    cells={
        "unknown-characters": Cell(change={"topic": "no blanks"}, expect=NO_CHARACTERS),
        "unknown-none": Cell(change={"topic": ""}, expect=BLANK),
        "unknown-filter-type": Cell(change={"topicFilterType": "NO_TAG"}, expect=Expect(code=1), level=SHOULD),
        "unknown-attribute": Cell(
            change={"attributes": "+no.such=1"}, expect=Expect(code=1, remark=re.compile("no.such")), since=(5,)
        ),
        "permission-system-topic": Cell(change={"topic": SYSTEM_TOPIC}, expect=SYSTEM),
        "limit-name-longest": Cell(change=longest, expect=Expect()),
        "limit-name": Cell(change={"topic": "x" * (TOPIC_CHARACTERS_MAX + 1)}, expect=TOO_LONG),
        "limit-no-queues": Cell(change={"readQueueNums": "0", "writeQueueNums": "0"}, expect=Expect(), level=SHOULD),
        "limit-mixed": Cell(change={"attributes": "+message.type=MIXED"}, expect=INVALID, since=(5,)),
    },
    missing={"defaultTopic": UNREAD},
)
grid(
    CreateTopicList,
    several(),
    "AdminBrokerProcessor.updateAndCreateTopicList",
    body=True,
    cells={
        "unknown-characters": Cell(ask=several("no blanks"), expect=NO_CHARACTERS),
        "permission-system-topic": Cell(ask=several(SYSTEM_TOPIC), expect=SYSTEM),
        "limit-name": Cell(ask=several("x" * (TOPIC_CHARACTERS_MAX + 1)), expect=INVALID),
    },
    since=(5,),
)
grid(
    GetAllTopicConfig,
    plain(lambda: GetAllTopicConfig(topic_seq=0, max_topic_num=2000, data_version="")),
    "AdminBrokerProcessor.getAllTopicConfig",
    alone=True,  # 5.5.0 copies the table while others change it, and may trip (ArrayIndexOutOfBoundsException)
    ok=Expect(body=has("topicConfigTable", "dataVersion")),
    cells={
        "unknown-version": Cell(change={"dataVersion": "{}"}, expect=Expect(body=has("topicConfigTable")), level=SHOULD),
        "limit-page": Cell(change={"maxTopicNum": "1"}, expect=Expect(), since=(5, 5)),
        "limit-page-beyond": Cell(change={"topicSeq": "100000"}, expect=Expect(body=has("topicConfigTable")), since=(5, 5)),
    },
    missing={"topicSeq": PAGED},
    mistyped={"topicSeq": PAGED},
    none={"permission": NO_PERMISSION},
)
grid(
    DeleteTopic,
    of_topic(lambda topic: DeleteTopic(topic=topic)),
    "AdminBrokerProcessor.deleteTopic",
    then=is_gone,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect()),
        "unknown-none": Cell(change={"topic": ""}, expect=BLANK),
        "permission-system-topic": Cell(change={"topic": SYSTEM_TOPIC}, expect=SYSTEM),
    },
    missing={"topic": four(by_handler(ResponseCode.INVALID_PARAMETER))},
    none={"limit": NO_LIMIT},
)
grid(
    GetTopicConfig,
    of_topic(lambda topic: GetTopicConfig(topic=topic)),
    "AdminBrokerProcessor.getTopicConfig",
    ok=Expect(body=holds(readQueueNums=1, writeQueueNums=1, perm=6)),
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=changed(NO_TOPIC, remark=re.compile("[Nn]o topic in this broker")))
    },
    none=NONE,
    since=(5,),
)
grid(
    GetSystemTopicListFromBroker,
    plain(GetSystemTopicListFromBroker),
    "AdminBrokerProcessor.getSystemTopicListFromBroker",
    ok=Expect(body=has("topicList")),
    none=NEVER_MIND,
)
grid(
    QueryTopicConsumeByWho,
    of_topic(lambda topic: QueryTopicConsumeByWho(topic=topic)),
    "AdminBrokerProcessor.queryTopicConsumeByWho",
    ok=Expect(body=has("groupList")),
    cells={"unknown-topic": Cell(change=nobody("topic"), expect=Expect(body=has("groupList")))},
    none=NONE,
)
grid(
    QueryTopicsByConsumer,
    consumed,
    "AdminBrokerProcessor.queryTopicsByConsumer",
    ok=Expect(body=has("topicList")),
    cells={"unknown-group": Cell(change=nobody("group"), expect=Expect(body=has("topicList")))},
    none=NONE,
    since=(5,),
)
grid(
    CleanUnusedTopic,
    plain(CleanUnusedTopic),
    "AdminBrokerProcessor.cleanUnusedTopic",
    none={**NONE, "unknown": NOTHING_NAMED},
    alone=True,
    needs=(Need.OWN,),
)
