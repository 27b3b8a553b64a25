"""Topics and groups: made, changed, listed page by page, deleted."""

from __future__ import annotations

import json
import re
from typing import Any

from conformance.suite.kit import MAKES_TOPICS, MUST, SHOULD, Code, ResponseCode, Trial, case
from conformance.suite.means.members import Member
from conformance.suite.means.played import brokers_of, route
from rmq_wire.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupList
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import TopicConfig, TopicConfigList
from rmq_wire.headers import groups, topics
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

    async def routed() -> bool:
        answer = await route(t, name)
        return answer.code == 0 and t.target.broker_name in brokers_of(answer)

    await t.until("the route is there", routed)
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
    what was popped comes again, the next page is the first one anew.
    """
    own = {await t.topic() for _ in range(7)}
    seen: list[str] = []
    version: str | None = None
    while True:
        asked = topics.GetAllTopicConfig(topic_seq=len(seen), max_topic_num=50, data_version=version)
        answer = t.answer(f"from {len(seen)}", await t.broker.ask(asked), ext={"totalTopicNum": int})
        table = answer.json()
        now = json.dumps(table["dataVersion"])
        if version not in (None, now):
            seen.clear()
        seen += table["topicConfigTable"]
        version = now
        if not table["topicConfigTable"] or len(seen) >= int(answer.ext["totalTopicNum"]):
            break
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


@case(
    "groups.create",
    MUST,
    codes=(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Code.GET_SUBSCRIPTIONGROUP_CONFIG),
    since=(5,),
    rests_on="SubscriptionGroupManager",
)
async def group_created(t: Trial) -> None:
    """A group is what it was made to be."""
    name = await t.group(retry_queue_nums=2, retry_max_times=5, consume_enable=False)
    row = t.answer("row", await t.broker.ask(groups.GetSubscriptionGroupConfig(group=name))).json()
    t.equal("fields", (row["groupName"], row["retryQueueNums"], row["retryMaxTimes"], row["consumeEnable"]), (name, 2, 5, False))
    t.equal("defaults", (row["consumeBroadcastEnable"], row["brokerId"], row["whichBrokerWhenConsumeSlowly"]), (True, 0, 1))


@case("groups.all", MUST, codes=Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, rests_on=f"{ADMIN}.getAllSubscriptionGroup")
async def all_groups(t: Trial) -> None:
    """All groups in one table."""
    name = await t.group(retry_max_times=7)
    table = t.answer("all", await t.broker.ask(groups.GetAllSubscriptionGroup())).json()
    t.equal("ours", table["subscriptionGroupTable"].get(name, {}).get("retryMaxTimes"), 7)
    t.check("the table has a version", "counter" in table["dataVersion"], seen=table["dataVersion"])


@case("groups.delete", MUST, codes=Code.DELETE_SUBSCRIPTIONGROUP, rests_on=f"{ADMIN}.deleteSubscriptionGroup")
async def group_deleted(t: Trial) -> None:
    """A deleted group is no group any more.

    With `cleanOffset` its progress goes, too.
    """
    name, topic = await t.group(), await t.topic()
    await t.send(topic, b"x")
    await t.pull_all(topic, 1)
    t.answer("commit", await t.broker.ask(UpdateConsumerOffset(consumer_group=name, topic=topic, queue_id=0, commit_offset=1)))
    t.answer("delete", await t.broker.ask(groups.DeleteSubscriptionGroup(group_name=name, clean_offset=True)))
    table = (await t.broker.ask(groups.GetAllSubscriptionGroup())).json()
    t.check("not in the table", name not in table["subscriptionGroupTable"])
    if t.version is None or t.version >= (5,):
        asked_progress = QueryConsumerOffset(consumer_group=name, topic=topic, queue_id=0, set_zero_if_not_found=False)
        t.answer("its progress", await t.broker.ask(asked_progress), code=ResponseCode.QUERY_NOT_FOUND)


@case(
    "groups.create-list",
    SHOULD,
    codes=Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    since=(5, 3),
    rests_on=f"{ADMIN}.updateAndCreateSubscriptionGroupList",
)
async def group_list(t: Trial) -> None:
    """Several groups are made in one request."""
    names = [t.name("g") for _ in range(3)]
    body = SubscriptionGroupList(
        group_config_list=[SubscriptionGroupConfig(group_name=name, retry_max_times=3) for name in names]
    )
    t.answer("create", await t.broker.ask(groups.UpdateAndCreateSubscriptionGroupList(), body.encode()))
    table = (await t.broker.ask(groups.GetAllSubscriptionGroup())).json()["subscriptionGroupTable"]
    t.equal("limits", [table.get(name, {}).get("retryMaxTimes") for name in names], [3, 3, 3])


@case(
    "groups.forbidden",
    SHOULD,
    codes=Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    since=(5,),
    rests_on=f"{ADMIN}.updateAndGetGroupForbidden",
)
async def forbidden(t: Trial) -> None:
    """A group can be kept from one topic.

    Looked at in pulls that rest on the heartbeat's subscription, as stock clients' do after the first.
    """
    group, kept_from, other, member = await t.group(), await t.topic(), await t.topic(), Member(t)
    for topic in (kept_from, other):
        await t.send(topic, b"x")
        await t.pull_all(topic, 1)
    await member.consumes(group, kept_from, other)
    recorded: dict[str, Any] = {"group": group, "sys_flag": 0, "subscription": None, "link": member.link}
    shown = t.answer(
        "forbid", await t.broker.ask(groups.UpdateGroupForbidden(group=group, topic=kept_from, readable=False))
    ).json()
    t.equal("reset", (shown["group"], shown["topic"], shown["readable"]), (group, kept_from, False))
    t.answer("pull", (await t.pull(kept_from, **recorded)).answer, code=ResponseCode.NO_PERMISSION)
    t.answer("pull of another topic", (await t.pull(other, **recorded)).answer)
    t.answer("allow", await t.broker.ask(groups.UpdateGroupForbidden(group=group, topic=kept_from, readable=True)))
    t.answer("pull again", (await t.pull(kept_from, **recorded)).answer)
