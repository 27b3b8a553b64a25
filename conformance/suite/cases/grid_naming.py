"""The grid's rows about the name server: routes, registrations, write permission, lists.

A broker of ours that does not exist registers on the case's connection; the name server forgets it when that is closed.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

from conformance.suite.grid.expect import (
    NEVER_MIND,
    NO_LIMIT,
    NO_PERMISSION,
    NO_TOPIC,
    NOTHING_TO_DO,
    REFUSED,
    UNREAD,
    Expect,
    by_handler,
    changed,
    drop,
    four,
    has,
    holds,
)
from conformance.suite.grid.goods import nobody, plain
from conformance.suite.grid.grid import Asked, Cell, grid
from conformance.suite.kit import Answer, Need, ResponseCode, Trial
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.registration import RegisterBrokerBody
from rmq_wire.bodies.route import QueueData, TopicRouteData
from rmq_wire.bodies.topics import TopicConfig, TopicConfigTable
from rmq_wire.headers.naming import (
    AddWritePermOfBroker,
    BrokerHeartbeat,
    DeleteTopicFromNamesrv,
    GetAllTopicListFromNameserver,
    GetBrokerClusterInfo,
    GetBrokerMemberGroup,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteInfo,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
    QueryDataVersion,
    RegisterBroker,
    RegisterTopic,
    UnregisterBroker,
    WipeWritePermOfBroker,
)

WHERE = "namesrv DefaultRequestProcessor"
ROUTE = "namesrv ClientRequestProcessor.getRouteInfoByTopic"
NONE = {"permission": NO_PERMISSION, "limit": NO_LIMIT}
OWN: Final = (Need.NAMESRV,)


def version() -> DataVersion:
    """A first version of a broker's topics."""
    return DataVersion(counter=1, timestamp=1_700_000_000_000, state_version=0)


def register(t: Trial) -> tuple[RegisterBroker, bytes]:
    """A broker that does not exist, with two topics: Java takes one alone for an increment, which needs a first registration."""
    name = t.name("broker")
    number = zlib.crc32(name.encode())
    address = f"127.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.{number & 0xFF}:10911"
    topics = TopicConfigTable(
        data_version=version(),
        topic_config_table={
            one: TopicConfig(topic_name=one, read_queue_nums=1, write_queue_nums=1) for one in (name, f"{name}_2")
        },
    )
    body = RegisterBrokerBody(topic_config_serialize_wrapper=topics).encode()
    asked = RegisterBroker(broker_name=name, broker_addr=address, cluster_name=f"{name}_C", ha_server_addr=address, broker_id=0)
    return asked, body


async def registering(t: Trial) -> Asked:
    """A broker registers."""
    return register(t)


async def registering_with_sum(t: Trial) -> Asked:
    """A broker registers, with the check sum of its body (Java's is never negative)."""
    asked, body = register(t)
    asked.body_crc32 = zlib.crc32(body) & 0x7FFFFFFF
    return asked, body


async def registered(t: Trial) -> RegisterBroker:
    """A broker that has registered on this case's connection."""
    asked, body = register(t)
    t.answer("register", await t.names.ask(asked, body))
    return asked


async def leaving(t: Trial) -> Asked:
    """A broker says good-bye."""
    it = await registered(t)
    return UnregisterBroker(broker_name=it.broker_name, broker_addr=it.broker_addr, cluster_name=it.cluster_name, broker_id=0)


async def routed(t: Trial) -> Asked:
    """A topic that has a route."""
    return GetRouteInfo(topic=(await registered(t)).broker_name)


async def perm_of(t: Trial, broker: str) -> object:
    """What the route says of the topic that is named like the broker."""
    found = t.answer("105 after it", await t.names.ask(GetRouteInfo(topic=broker, accept_standard_json_only=True)))
    return found.json()["queueDatas"][0]["perm"]


async def is_routed(t: Trial, asked: RegisterBroker, _: Answer) -> None:
    """Its topics have a route."""
    t.equal("perm of the route", await perm_of(t, asked.broker_name), 6)


async def may_be_read(t: Trial, asked: WipeWritePermOfBroker, _: Answer) -> None:
    """Its topics may be read only."""
    t.equal("perm of the route", await perm_of(t, asked.broker_name), 4)


async def may_be_written(t: Trial, asked: AddWritePermOfBroker, _: Answer) -> None:
    """Its topics may be read and written."""
    t.equal("perm of the route", await perm_of(t, asked.broker_name), 6)


async def no_route(t: Trial, topic: str) -> bool:
    """Whether a topic has no route."""
    return (await t.names.ask(GetRouteInfo(topic=topic))).code == ResponseCode.TOPIC_NOT_EXIST


async def is_away(t: Trial, asked: UnregisterBroker, _: Answer) -> None:
    """Its topics have no route, soon."""
    await t.until("no route any more", lambda: no_route(t, asked.broker_name))


async def is_forgotten(t: Trial, asked: DeleteTopicFromNamesrv, _: Answer) -> None:
    """The topic has no route."""
    t.check("no route any more", await no_route(t, asked.topic))


async def is_announced(t: Trial, asked: RegisterTopic, _: Answer) -> None:
    """The topic has a route."""
    t.answer("105 after it", await t.names.ask(GetRouteInfo(topic=asked.topic)))


async def compared(t: Trial) -> Asked:
    """A broker asks whether what it registered is up to date."""
    it = await registered(t)
    asked = QueryDataVersion(broker_name=it.broker_name, broker_addr=it.broker_addr, cluster_name=it.cluster_name, broker_id=0)
    return asked, version().encode()


async def beating(t: Trial) -> Asked:
    """A broker lives."""
    it = await registered(t)
    return BrokerHeartbeat(cluster_name=it.cluster_name, broker_addr=it.broker_addr, broker_name=it.broker_name)


async def grouped(t: Trial) -> Asked:
    """The brokers of a name."""
    it = await registered(t)
    return GetBrokerMemberGroup(cluster_name=it.cluster_name, broker_name=it.broker_name)


async def wiping(t: Trial) -> Asked:
    """Nobody shall write to this broker."""
    return WipeWritePermOfBroker(broker_name=(await registered(t)).broker_name)


async def allowing(t: Trial) -> Asked:
    """All may write to this broker."""
    return AddWritePermOfBroker(broker_name=(await registered(t)).broker_name)


async def of_cluster(t: Trial) -> Asked:
    """The topics of a cluster."""
    return GetTopicsByCluster(cluster=(await registered(t)).cluster_name)


async def forgetting(t: Trial) -> Asked:
    """A topic's route goes."""
    return DeleteTopicFromNamesrv(topic=(await registered(t)).broker_name)


async def announcing(t: Trial) -> Asked:
    """A broker announces one more topic."""
    it = await registered(t)
    queues = QueueData(broker_name=it.broker_name, read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
    return RegisterTopic(topic=t.name()), TopicRouteData(queue_datas=[queues]).encode()


NAMELESS = drop("Java enters something without a name then, which a server that others use had better not hold")
ASTRAY = drop("answered before it is done: a broken one goes astray in the thread that serves all brokers")
NO_ROUTE = changed(NO_TOPIC, remark=re.compile("No topic route info in name server"))

grid(
    GetRouteInfo,
    routed,
    ROUTE,
    missing={"topic": by_handler(ResponseCode.TOPIC_NOT_EXIST)},
    ok=Expect(body=has("brokerDatas", "queueDatas", "filterServerTable")),
    cells={"unknown-topic": Cell(change=nobody("topic"), expect=NO_ROUTE)},
    none=NONE,
)
grid(
    RegisterBroker,
    registering,
    f"{WHERE}.registerBroker",
    then=is_routed,
    body=True,
    needs=OWN,
    cells={
        "with-check-sum": Cell(ask=registering_with_sum, expect=Expect(), then=is_routed),
        "limit-check-sum": Cell(change={"bodyCrc32": "1"}, expect=changed(REFUSED, remark=re.compile("crc32 not match"))),
    },
    missing={"brokerName": NAMELESS, "clusterName": NAMELESS, "brokerAddr": NAMELESS, "haServerAddr": UNREAD, "body": Expect()},
    none={"permission": NO_PERMISSION, "unknown": "a broker that nobody knows is what it is for"},
)
grid(
    UnregisterBroker,
    leaving,
    f"{WHERE}.unregisterBroker",
    then=is_away,
    missing=dict.fromkeys(("brokerName", "brokerAddr", "clusterName", "brokerId"), ASTRAY),
    mistyped={"brokerId": ASTRAY},
    needs=OWN,
    cells={"unknown-broker": Cell(change=nobody("brokerName", "brokerAddr"), expect=Expect())},
    none=NONE,
)
grid(
    QueryDataVersion,
    compared,
    f"{WHERE}.queryBrokerTopicConfig",
    missing={"brokerName": UNREAD, "brokerId": UNREAD, "brokerAddr": four(REFUSED, code=0), "clusterName": four(REFUSED, code=0)},
    mistyped={"brokerId": UNREAD},
    ok=Expect(ext={"changed": "false"}, body=has("counter")),
    needs=OWN,
    cells={"unknown-broker": Cell(change=nobody("brokerAddr"), expect=Expect(ext={"changed": "true"}))},
    none=NONE,
)
grid(
    BrokerHeartbeat,
    beating,
    f"{WHERE}.brokerHeartbeat",
    missing={"brokerName": UNREAD},
    needs=OWN,
    cells={"unknown-broker": Cell(change=nobody("brokerAddr"), expect=Expect())},
    none=NONE,
    since=(5,),
)
grid(
    GetBrokerMemberGroup,
    grouped,
    f"{WHERE}.getBrokerMemberGroup",
    missing={"clusterName": UNREAD, "brokerName": UNREAD},
    ok=Expect(body=holds(brokerMemberGroup__brokerAddrs=lambda found: isinstance(found, dict) and len(found) == 1)),
    needs=OWN,
    cells={
        "unknown-broker": Cell(
            change=nobody("brokerName"), expect=Expect(body=holds(brokerMemberGroup__brokerAddrs=lambda found: not found))
        )
    },
    none=NONE,
    since=(5,),
)
grid(
    WipeWritePermOfBroker,
    wiping,
    f"{WHERE}.wipeWritePermOfBroker",
    then=may_be_read,
    missing={"brokerName": UNREAD},
    ok=Expect(ext={"wipeTopicCount": "2"}),
    needs=OWN,
    cells={"unknown-broker": Cell(change=nobody("brokerName"), expect=Expect(ext={"wipeTopicCount": "0"}))},
    none={"permission": "it is the permission", "limit": NO_LIMIT},
)
grid(
    AddWritePermOfBroker,
    allowing,
    f"{WHERE}.addWritePermOfBroker",
    then=may_be_written,
    missing={"brokerName": UNREAD},
    ok=Expect(ext={"addTopicCount": "2"}),
    needs=OWN,
    cells={"unknown-broker": Cell(change=nobody("brokerName"), expect=Expect(ext={"addTopicCount": "0"}))},
    none={"permission": "it is the permission", "limit": NO_LIMIT},
)
grid(
    GetTopicsByCluster,
    of_cluster,
    f"{WHERE}.getTopicsByCluster",
    missing={"cluster": UNREAD},
    ok=Expect(body=holds(topicList=lambda found: bool(found) and len(found) == 2)),
    needs=OWN,
    cells={"unknown-cluster": Cell(change=nobody("cluster"), expect=Expect(body=holds(topicList=[])))},
    none=NONE,
)
grid(
    DeleteTopicFromNamesrv,
    forgetting,
    f"{WHERE}.deleteTopicInNamesrv",
    then=is_forgotten,
    missing={"topic": UNREAD},
    needs=OWN,
    each=True,
    cells={
        "unknown-topic": Cell(change=nobody("topic"), expect=Expect()),
        "unknown-cluster": Cell(change=nobody("clusterName"), expect=Expect()),
    },
    none=NONE,
)
grid(
    RegisterTopic,
    announcing,
    f"{WHERE}.registerTopicToNamesrv",
    then=is_announced,
    missing={"topic": NAMELESS, "body": NOTHING_TO_DO},
    needs=OWN,
    body=True,
    cells={},
    none={**NONE, "unknown": "a topic that nobody knows is what it is for"},
    since=(5,),
)
grid(
    GetBrokerClusterInfo,
    plain(GetBrokerClusterInfo),
    f"{WHERE}.getBrokerClusterInfo",
    ok=Expect(body=has("brokerAddrTable", "clusterAddrTable")),
    none=NEVER_MIND,
)
for request, where in (
    (GetAllTopicListFromNameserver, "getAllTopicListFromNameserver"),
    (GetSystemTopicListFromNs, "getSystemTopicListFromNs"),
    (GetUnitTopicList, "getUnitTopicList"),
    (GetHasUnitSubTopicList, "getHasUnitSubTopicList"),
    (GetHasUnitSubUnunitTopicList, "getHasUnitSubUnUnitTopicList"),
):
    grid(request, plain(request), f"{WHERE}.{where}", ok=Expect(body=has("topicList")), none=NEVER_MIND)
