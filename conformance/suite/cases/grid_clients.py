"""The grid's rows about who is there: 34, 35, 38, 46, 203, 204, 307, 309, 328."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.grid.expect import (
    NEVER_MIND,
    NO_LIMIT,
    NO_PERMISSION,
    NOTHING_TO_DO,
    REFUSED,
    UNREAD,
    Expect,
    changed,
    four,
    has,
)
from conformance.suite.grid.goods import answering, consumer, nobody, plain, producer
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import Answer, Code, Need, ResponseCode, Trial
from rmq_wire.bodies.heartbeat import CheckClientRequest, HeartbeatData, ProducerData, SubscriptionData
from rmq_wire.codes import VERSION_REPORTS_RUNNING_INFO
from rmq_wire.headers.clients import (
    CheckClientConfig,
    ConsumeMessageDirectly,
    GetAllProducerInfo,
    GetConsumerConnectionList,
    GetConsumerListByGroup,
    GetConsumerRunningInfo,
    GetProducerConnectionList,
    Heartbeat,
    UnregisterClient,
)

NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}
RUNNING = b'{"jstack":"as the client said it"}'
CONSUMED = b'{"consumeResult":"CR_SUCCESS"}'
"""Relayed as they are."""
NOT_ONLINE = Expect(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=re.compile("not online"))


async def heartbeat(t: Trial) -> Asked:
    """A client with one producer group."""
    data = HeartbeatData(client_id=t.name("client"), producer_data_set=[ProducerData(group_name=t.name("g"))])
    return Heartbeat(), data.encode()


async def online(t: Trial) -> tuple[str, str, str]:
    """Topic, group and client id of a consumer that is online on this connection."""
    topic, group = await t.topic(), await t.group()
    return topic, group, await consumer(t, topic, group)


async def leaving(t: Trial) -> Asked:
    """A consumer that is online."""
    _, group, client = await online(t)
    return UnregisterClient(client_id=client, consumer_group=group)


async def is_away(t: Trial, asked: UnregisterClient, _: Answer) -> None:
    """Its group has no member any more."""
    t.answer("38 after it", await t.broker.ask(GetConsumerListByGroup(consumer_group=asked.consumer_group or "")), code=1)


async def listed(t: Trial) -> Asked:
    """A consumer that is online."""
    _, group, _ = await online(t)
    return GetConsumerListByGroup(consumer_group=group)


async def connected(t: Trial) -> Asked:
    """A consumer that is online."""
    _, group, _ = await online(t)
    return GetConsumerConnectionList(consumer_group=group)


async def producing(t: Trial) -> Asked:
    """A producer that is online."""
    group = t.name("producers")
    await producer(t, group)
    return GetProducerConnectionList(producer_group=group)


async def checked(t: Trial) -> Asked:
    """An ordinary subscription."""
    sub = SubscriptionData(topic=await t.topic(), sub_string="a || b", expression_type="TAG", sub_version=1)
    body = CheckClientRequest(client_id=t.name("client"), group=await t.group(), namespace="", subscription_data=sub)
    return CheckClientConfig(), body.encode()


async def bad_sql(t: Trial) -> Asked:
    """An expression that is no SQL92."""
    sub = SubscriptionData(topic=await t.topic(), sub_string="a = = b", expression_type="SQL92", sub_version=1)
    body = CheckClientRequest(client_id=t.name("client"), group=await t.group(), namespace="", subscription_data=sub)
    return CheckClientConfig(), body.encode()


async def member(t: Trial) -> Asked:
    """A member that answers."""
    topic, group = await t.topic(), await t.group()
    client = await consumer(t, topic, group, link=answering(t, Code.GET_CONSUMER_RUNNING_INFO, RUNNING))
    return GetConsumerRunningInfo(consumer_group=group, client_id=client)


async def member_of_old(t: Trial) -> Asked:
    """A member that is too old to be asked."""
    topic, group = await t.topic(), await t.group()
    client = await consumer(t, topic, group, link=t.connect(version=VERSION_REPORTS_RUNNING_INFO - 1))
    return GetConsumerRunningInfo(consumer_group=group, client_id=client)


async def consuming(t: Trial) -> Asked:
    """A stored message and a member that consumes it."""
    topic, group = await t.topic(), await t.group()
    sent = await t.send(topic)
    client = await consumer(t, topic, group, link=answering(t, Code.CONSUME_MESSAGE_DIRECTLY, CONSUMED))
    return ConsumeMessageDirectly(
        consumer_group=group, client_id=client, msg_id=sent.msg_id, broker_name=t.target.broker_name, topic=topic
    )


NOBODY = Expect(code=ResponseCode.SYSTEM_ERROR, remark=re.compile("not online|not exist|no consumer", re.I))

row = partial(grid, none=NONE)

row(
    Heartbeat,
    heartbeat,
    "ClientManageProcessor.heartBeat",
    ok={"": Expect(ext={"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}), "4": Expect()},
    body=True,
    none={**NONE, "unknown": "groups that it names are made by it"},
)
row(
    UnregisterClient,
    leaving,
    "ClientManageProcessor.unregisterClient",
    then=is_away,
    cells={
        "unknown-client": Cell(change=nobody("clientID"), expect=Expect()),
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=Expect()),
    },
    missing={"clientID": UNREAD},
)
row(
    GetConsumerListByGroup,
    listed,
    "ConsumerManageProcessor.getConsumerListByGroup",
    ok=Expect(body=has("consumerIdList")),
    cells={
        "unknown-group": Cell(
            change=nobody("consumerGroup"),
            expect=Expect(code=ResponseCode.SYSTEM_ERROR, remark=re.compile("no consumer for this group")),
        )
    },
)
row(
    CheckClientConfig,
    checked,
    "ClientManageProcessor.checkClientConfig",
    body=True,
    cells={
        "unknown-expression": Cell(
            ask=bad_sql,
            expect=Expect(code=ResponseCode.SUBSCRIPTION_PARSE_FAILED),
            needs=(Need.OWN,),
            title="SQL92 that cannot be parsed is refused",
        )
    },
    missing={"body": four(NOTHING_TO_DO)},
)
row(
    GetConsumerConnectionList,
    connected,
    "AdminBrokerProcessor.getConsumerConnectionList",
    ok=Expect(body=has("connectionSet", "subscriptionTable", "consumeType", "messageModel", "consumeFromWhere")),
    cells={"unknown-group": Cell(change=nobody("consumerGroup"), expect=NOT_ONLINE)},
)
row(
    GetProducerConnectionList,
    producing,
    "AdminBrokerProcessor.getProducerConnectionList",
    ok=Expect(body=has("connectionSet")),
    cells={"unknown-group": Cell(change=nobody("producerGroup"), expect=Expect(code=1, remark=re.compile("not exist")))},
)
row(
    GetAllProducerInfo,
    plain(GetAllProducerInfo),
    "AdminBrokerProcessor.getAllProducerInfo",
    trips="NullPointerException",  # a group whose last producer leaves just then (ProducerManager.getProducerTable)
    ok=Expect(body=has("data")),
    none=NEVER_MIND,
    since=(4, 9, 2),
)
row(
    GetConsumerRunningInfo,
    member,
    "AdminBrokerProcessor.getConsumerRunningInfo",
    ok=Expect(body=RUNNING),
    cells={
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=NOBODY),
        "unknown-client": Cell(change=nobody("clientId"), expect=NOBODY),
        "limit-version": Cell(ask=member_of_old, expect=changed(REFUSED, remark=re.compile("too low"))),
    },
    none={"permission": NO_PERMISSION},
)
row(
    ConsumeMessageDirectly,
    consuming,
    "AdminBrokerProcessor.consumeMessageDirectly",
    missing={"clientId": NOBODY, "msgId": REFUSED},
    ok=Expect(body=CONSUMED),
    cells={
        "unknown-group": Cell(change=nobody("consumerGroup"), expect=NOBODY),
        "unknown-client": Cell(change=nobody("clientId"), expect=NOBODY),
        "unknown-message": Cell(change={"msgId": "7F00000100002A9F00FFFFFFFFFFFFFF"}, expect=Expect(code=1)),
    },
)
