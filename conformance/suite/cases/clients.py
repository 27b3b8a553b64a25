"""Who is online: heartbeats, member lists, notices of change, leaving.

A client is known by its heartbeats (34), which name the groups that it produces and consumes for, and their subscriptions.
Members of a group divide its queues by the same computation over the same list of members (38), so lists and notices (40) must
be right.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import trio

from conformance.suite.grid.goods import answering, consumer
from conformance.suite.kit import INFO, MUST, SHOULD, Code, ResponseCode, Trial, case
from conformance.suite.means.members import Member
from rmq_wire.bodies.consumer_answers import ConsumerStatus
from rmq_wire.bodies.heartbeat import BROADCASTING, HeartbeatData, SubscriptionData
from rmq_wire.encoding import ONE_WAY
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.clients import (
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetConsumerStatus,
    GetProducerConnectionList,
    Heartbeat,
    NotifyConsumerIdsChanged,
)
from rmq_wire.headers.groups import QuerySubscriptionByConsumer
from rmq_wire.java import string_hash

MANAGER = "ClientManageProcessor"
BEAT = (Code.HEART_BEAT,)


async def members(t: Trial, group: str) -> list[str]:
    """The client ids of a group (38); empty when the broker answers that there are none."""
    answer = await t.broker.ask(GetConsumerListByGroup(consumer_group=group))
    return sorted(answer.json()["consumerIdList"]) if answer.code == 0 else []


@case(
    "clients.heartbeat",
    MUST,
    codes=(Code.HEART_BEAT, Code.GET_CONSUMER_LIST_BY_GROUP),
    rests_on=f"{MANAGER}.heartBeat, ConsumerManageProcessor.getConsumerListByGroup",
)
async def heartbeat(t: Trial) -> None:
    """A heartbeat makes a client a member of its groups."""
    group, topic = await t.group(), await t.topic()
    first, second = Member(t), Member(t)
    await first.consumes(group, topic)
    t.equal("members", await members(t, group), [first.client_id])
    await second.consumes(group, topic)
    t.equal("members", await members(t, group), sorted([first.client_id, second.client_id]))


@case("clients.nobody", MUST, codes=Code.GET_CONSUMER_LIST_BY_GROUP, rests_on="ConsumerManageProcessor.getConsumerListByGroup")
async def nobody(t: Trial) -> None:
    """A group without members: code 1."""
    group = await t.group()
    answer = await t.broker.ask(GetConsumerListByGroup(consumer_group=group))
    t.answer("members", answer, code=ResponseCode.SYSTEM_ERROR, remark=f"no consumer for this group, {group}")


@case("clients.leaves", MUST, codes=Code.UNREGISTER_CLIENT, rests_on=f"{MANAGER}.unregisterClient")
async def leaves(t: Trial) -> None:
    """Who unregisters is no member any more."""
    group, topic = await t.group(), await t.topic()
    first, second = Member(t), Member(t)
    await first.consumes(group, topic)
    await second.consumes(group, topic)
    await first.leaves(consumer=group)
    t.equal("members", await members(t, group), [second.client_id])


@case("clients.connection-ends", MUST, codes=BEAT, rests_on="ClientHousekeepingService")
async def connection_ends(t: Trial) -> None:
    """Whose connection ends is no member any more."""
    group, topic = await t.group(), await t.topic()
    first, second = Member(t), Member(t)
    await first.consumes(group, topic)
    await second.consumes(group, topic)
    await first.link.close()

    async def one_left() -> bool:
        return await members(t, group) == [second.client_id]

    await t.until("the other is left", one_left)


@case(
    "clients.notice.joins",
    MUST,
    codes=Code.HEART_BEAT,
    rests_on="DefaultConsumerIdsChangeListener, Broker2Client.notifyConsumerIdsChanged",
)
async def notice_of_coming(t: Trial) -> None:
    """Members learn that another one came, one-way.

    Without it a rebalance waits for the client's own 20 s.
    """
    group, topic = await t.group(), await t.topic()
    first, second = Member(t), Member(t)
    await first.consumes(group, topic)
    await first.told()
    await second.consumes(group, topic)
    notice = await first.notice_of_change()
    t.check("the first is notified", notice is not None)
    assert notice is not None
    t.equal("which group", notice.header(NotifyConsumerIdsChanged).consumer_group, group)
    t.check("one-way", bool(notice.flag & ONE_WAY), seen=notice.flag)


@case("clients.notice.goes", MUST, codes=Code.UNREGISTER_CLIENT, rests_on="DefaultConsumerIdsChangeListener")
async def notice_of_going(t: Trial) -> None:
    """Members learn that another one has gone."""
    for how in ("unregisters", "disconnects"):
        group, topic = await t.group(), await t.topic()
        first, second = Member(t), Member(t)
        await first.consumes(group, topic)
        await second.consumes(group, topic)
        await first.told()
        if how == "unregisters":
            await second.leaves(consumer=group)
        else:
            await second.link.close()
        t.check(f"when the second {how}, the first is notified", await first.notice_of_change() is not None)


@case("clients.notice.switched-off", SHOULD, codes=BEAT, rests_on="SubscriptionGroupConfig.notifyConsumerIdsChangedEnable")
async def no_notices(t: Trial) -> None:
    """A group may do without notices."""
    group, topic = await t.group(notify_consumer_ids_changed_enable=False), await t.topic()
    first, second = Member(t), Member(t)
    await first.consumes(group, topic)
    await second.consumes(group, topic)
    t.equal("notices", len(await first.told()), 0)
    t.equal("members", await members(t, group), sorted([first.client_id, second.client_id]))


@case("clients.notice.broadcasting", INFO, codes=BEAT, rests_on="ConsumerManager.registerConsumer")
async def broadcasting(t: Trial) -> None:
    """Whether members of a broadcasting group are notified, too."""
    group, topic = await t.group(), await t.topic()
    first, second = Member(t), Member(t)
    await first.consumes(group, topic, message_model=BROADCASTING)
    await second.consumes(group, topic, message_model=BROADCASTING)
    t.note("notified", bool(await first.told()))
    t.equal("members", await members(t, group), sorted([first.client_id, second.client_id]))


@case("clients.heartbeat.answer", SHOULD, codes=BEAT, since=(5,), rests_on=f"{MANAGER}.heartBeat")
async def heartbeat_answer(t: Trial) -> None:
    """The answer says that version 2 of the heartbeat is understood."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    answer = await member.consumes(group, topic)
    t.answer("heartbeat", answer, ext={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"})


@case("clients.heartbeat.without-subscriptions", SHOULD, codes=BEAT, since=(5,), rests_on=f"{MANAGER}.heartBeatV2")
async def heartbeat_v2(t: Trial) -> None:
    """A heartbeat of version 2 may leave out what was sent before."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
    }
    subscription = {"topic": topic, "subString": "*", "subVersion": 1}
    base = {"clientID": member.client_id, "heartbeatFingerprint": 77}
    full = HeartbeatData.from_plain(base | {"consumerDataSet": [consumer | {"subscriptionDataSet": [subscription]}]})
    t.answer("in full", await member.beats(full))
    short = HeartbeatData.from_plain(base | {"withoutSub": True, "consumerDataSet": [consumer]})
    t.answer("without", await member.beats(short), ext={"IS_SUB_CHANGE": "false"})
    t.equal("members", await members(t, group), [member.client_id])


@case(
    "clients.heartbeat.ordinals",
    MUST,
    codes=(Code.HEART_BEAT, Code.GET_CONSUMER_CONNECTION_LIST, Code.PULL_MESSAGE),
    rests_on="HeartbeatData, RemotingSerializable.decode",
)
async def heartbeat_ordinals(t: Trial) -> None:
    """A heartbeat may spell its enumerations as ordinals, as the C++ client 2.x does.

    It counts like any other: the group is listed by names, and pulls use its subscription.
    """
    subscription = {"subString": "*", "subVersion": 1}
    await spelled(t, {"consumeType": 1, "messageModel": 1, "consumeFromWhere": 0, "unitMode": False}, subscription)


@case("clients.heartbeat.quotes", SHOULD, codes=BEAT, since=(5, 5), rests_on="HeartbeatData, RemotingSerializable.decode")
async def heartbeat_quotes(t: Trial) -> None:
    """Ordinals, numbers and truth values may stand in quotes, members may be null or unknown."""
    subscription = {"subString": "*", "subVersion": "1", "tagsSet": None, "nobodyKnows": {"a": [1]}}
    await spelled(t, {"consumeType": "1", "messageModel": "1", "consumeFromWhere": "0", "unitMode": "false"}, subscription)


async def spelled(t: Trial, consumer: dict[str, Any], subscription: dict[str, Any]) -> None:
    """A push consumer with these members in its heartbeat counts like any other."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    await t.send(topic, b"one")
    await t.pull_all(topic, 1)
    said = {"groupName": group, **consumer, "subscriptionDataSet": [{"topic": topic, **subscription}]}
    body = json.dumps({"clientID": member.client_id, "consumerDataSet": [said], "producerDataSet": []}).encode()
    t.answer("heartbeat", await member.link.ask(Heartbeat(), body))
    t.equal("members", await members(t, group), [member.client_id])
    table = t.answer("connections", await t.broker.ask(GetConsumerConnectionList(consumer_group=group))).json()
    listed = [table.get(name) for name in ("consumeType", "messageModel", "consumeFromWhere")]
    t.equal("type, model, where", listed, ["CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"])
    pulled = await t.pull(topic, 0, group=group, sys_flag=0, subscription=None, sub_version=1, link=member.link)
    t.equal("bodies", [bytes(unit.body) for unit in pulled.messages], [b"one"])


@case(
    "clients.producers",
    MUST,
    codes=(Code.GET_PRODUCER_CONNECTION_LIST, Code.HEART_BEAT),
    rests_on="AdminBrokerProcessor.getProducerConnectionList",
)
async def producers(t: Trial) -> None:
    """A producer's connection is listed with its client id."""
    group, member = t.name("p"), Member(t)
    await member.produces(group)
    answer = t.answer("connections", await t.broker.ask(GetProducerConnectionList(producer_group=group)))
    [row] = answer.json()["connectionSet"]
    t.equal("client id", row["clientId"], member.client_id)
    t.equal("address", row["clientAddr"], "{}:{}".format(*member.link.local))
    await member.leaves(producer=group)
    answer = await t.broker.ask(GetProducerConnectionList(producer_group=group))
    t.answer("when it has left", answer, code=ResponseCode.SYSTEM_ERROR)


@case(
    "clients.consumer-connections",
    MUST,
    codes=Code.GET_CONSUMER_CONNECTION_LIST,
    rests_on="AdminBrokerProcessor.getConsumerConnectionList",
)
async def consumer_connections(t: Trial) -> None:
    """A group's connections, mode and subscriptions are listed."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    await member.consumes(group, topic, tags="a || b")
    table = t.answer("connections", await t.broker.ask(GetConsumerConnectionList(consumer_group=group))).json()
    t.equal("client ids", [row["clientId"] for row in table["connectionSet"]], [member.client_id])
    t.equal("type, model", (table["consumeType"], table["messageModel"]), ("CONSUME_PASSIVELY", "CLUSTERING"))
    t.equal("what it takes", table["subscriptionTable"][topic]["subString"], "a || b")
    t.note("subscribed", sorted(table["subscriptionTable"]))
    answer = await t.broker.ask(GetConsumerConnectionList(consumer_group=await t.group()))
    t.answer("of a group that is not online", answer, code=ResponseCode.CONSUMER_NOT_ONLINE)


@case(
    "clients.subscription-on-record",
    MUST,
    codes=(Code.PULL_MESSAGE, Code.HEART_BEAT),
    rests_on="PullMessageProcessor.processRequest",
)
async def subscription_on_record(t: Trial) -> None:
    """A pull without a subscription uses the heartbeat's."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    for tag in ("a", "b", "a"):
        await t.send(topic, tag.encode(), tags=tag)
    await t.pull_all(topic, 3)
    await member.consumes(group, topic, tags="a")
    pulled = await t.pull(topic, 0, group=group, sys_flag=0, subscription=None, sub_version=1, link=member.link)
    t.answer("pull", pulled.answer)
    t.equal("bodies", [bytes(unit.body) for unit in pulled.messages], [b"a", b"a"])
    pulled = await t.pull(await t.topic(), 0, group=group, sys_flag=0, subscription=None, link=member.link)
    t.answer("of a topic that it did not name", pulled.answer, code=ResponseCode.SUBSCRIPTION_NOT_EXIST)


@case(
    "clients.subscription-shown",
    SHOULD,
    codes=Code.QUERY_SUBSCRIPTION_BY_CONSUMER,
    since=(5,),
    rests_on="AdminBrokerProcessor.querySubscriptionByConsumer",
)
async def subscription_shown(t: Trial) -> None:
    """An operator is shown what a group subscribes to in a topic, and nothing of one that it does not name."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    await member.consumes(group, topic, tags="a || b")
    shown = t.answer("345", await t.broker.ask(QuerySubscriptionByConsumer(group=group, topic=topic))).json()
    t.equal("whose", (shown["group"], shown["topic"]), (group, topic))
    said = shown["subscriptionData"]
    t.equal("what", (said["topic"], said["subString"], sorted(said["tagsSet"])), (topic, "a || b", ["a", "b"]))
    other = t.answer("345", await t.broker.ask(QuerySubscriptionByConsumer(group=group, topic=await t.topic()))).json()
    t.check("of another topic", other.get("subscriptionData") is None, seen=other)


@case("clients.subscription-not-latest", MUST, codes=Code.PULL_MESSAGE, rests_on="PullMessageProcessor.processRequest")
async def not_latest(t: Trial) -> None:
    """A pull with a newer subscription than the heartbeat's must wait: code 25."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    await member.consumes(group, topic)
    pulled = await t.pull(topic, 0, group=group, sys_flag=0, subscription=None, sub_version=2, link=member.link)
    t.answer("pull", pulled.answer, code=ResponseCode.SUBSCRIPTION_NOT_LATEST, remark="the consumer's subscription not latest")


@case(
    "clients.subscription-older",
    MUST,
    codes=(Code.PULL_MESSAGE, Code.HEART_BEAT),
    rests_on="ConsumerGroupInfo.updateSubscription",
)
async def older_subscription(t: Trial) -> None:
    """The latest subscription counts for the whole group, also for a member that has not heard of it."""
    group, topic, behind, ahead = await t.group(), await t.topic(), Member(t), Member(t)
    for tag in ("a", "b"):
        await t.send(topic, tag.encode(), tags=tag)
    await t.pull_all(topic, 2)
    latest = SubscriptionData(topic=topic, sub_string="b", sub_version=2, tags_set=["b"], code_set=[string_hash("b")])
    await behind.consumes(group, topic, tags="a")
    await ahead.consumes(group, subscription_data_set=[latest])
    await behind.consumes(group, topic, tags="a")
    for member, version in ((behind, 1), (ahead, 2)):
        pulled = await t.pull(topic, 0, group=group, sys_flag=0, subscription=None, sub_version=version, link=member.link)
        t.equal(f"by version {version}", [bytes(unit.body) for unit in pulled.messages], [b"b"])


@case(
    "clients.status",
    SHOULD,
    codes=Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    rests_on="Broker2Client.getConsumeStatus, GetConsumerStatusBody",
)
async def status(t: Trial) -> None:
    """An operator is told where each member of a group says that it is in a topic, or where one of them is."""
    group, topic, said = await t.group(), await t.topic(2), {}
    for at in (7, 1 << 40):
        table = {MessageQueue(topic, t.target.broker_name, queue): at + queue for queue in range(2)}
        link = answering(t, Code.GET_CONSUMER_STATUS_FROM_CLIENT, ConsumerStatus(message_queue_table=table).encode())
        said[await consumer(t, topic, group, link=link)] = table

    async def told(client: str | None, table: dict[str, dict[MessageQueue, int]]) -> bool:
        answer = t.answer("223", await t.broker.ask(GetConsumerStatus(topic=topic, group=group, client_addr=client)))
        return ConsumerStatus.read(answer.body).consumer_table == table  # without who took more than 5 s to answer

    await t.until("all of them", lambda: told(None, said))
    for client, table in said.items():
        await t.until(f"{client} alone", partial(told, client, {client: table}))


@case("clients.silent", MUST, codes=BEAT, slow=True, rests_on="ConsumerManager.scanNotActiveChannel")
async def silent(t: Trial) -> None:
    """A client that sends no heartbeats for 120 s is no member."""
    group, topic, member = await t.group(), await t.topic(), Member(t)
    await member.consumes(group, topic)
    await trio.sleep(60)
    t.equal("after 60 s", await members(t, group), [member.client_id])

    async def gone() -> bool:
        return not await members(t, group)

    await t.until("it goes", gone, seconds=100)
