"""The name server: topic lists, key-value table, write permission, configuration."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.kit import MUST, READ_WRITE, SHOULD, Code, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.played import OWN, Broker, brokers_of, registered, route, topic_of
from rmq_wire.bodies.route import QueueData, TopicRouteData
from rmq_wire.headers import naming
from rmq_wire.sys_flag import PERM_READ, TOPIC_UNIT, TOPIC_UNIT_SUBSCRIBED, topic_sys_flag

case = partial(declare, needs=OWN)


@case(
    "names.write-perm.wipe-and-add",
    MUST,
    codes=(Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER),
    rests_on="RouteInfoManager.operateWritePermOfBroker",
)
async def write_perm(t: Trial) -> None:
    """Write permission is taken from all topics of a broker, and given back."""
    topics = [t.name(), t.name(), t.name()]
    broker = await registered(t, *topics)
    for asked, field, perm in (
        (naming.WipeWritePermOfBroker(broker_name=broker.name), "wipeTopicCount", PERM_READ),
        (naming.AddWritePermOfBroker(broker_name=broker.name), "addTopicCount", READ_WRITE),
    ):
        t.answer(type(asked).__name__, await t.names.ask(asked), ext={field: str(len(topics))})
        for topic in topics:
            found = TopicRouteData.read((await route(t, topic)).body)
            t.equal(f"permission of {topic}", [data.perm for data in found.queue_datas], [perm])


@case(
    "names.write-perm.unknown-broker",
    SHOULD,
    codes=(Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER),
    rests_on="RouteInfoManager.operateWritePermOfBroker",
)
async def write_perm_of_nobody(t: Trial) -> None:
    """Write permission of an unknown broker: nothing is changed."""
    t.answer("wipe", await t.names.ask(naming.WipeWritePermOfBroker(broker_name=t.name("b"))), ext={"wipeTopicCount": "0"})
    t.answer("add", await t.names.ask(naming.AddWritePermOfBroker(broker_name=t.name("b"))), ext={"addTopicCount": "0"})


@case(
    "names.kv.put-get-delete",
    MUST,
    codes=(Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE),
    rests_on="KVConfigManager",
)
async def key_values(t: Trial) -> None:
    """A key has the value that was put, until it is deleted."""
    space = t.name("ns")
    for value in ("one", "broker-a:8;broker-b:4", "Übergröße 漢字"):
        t.answer("put", await t.names.ask(naming.PutKVConfig(namespace=space, key="k", value=value)))
        t.answer("get", await t.names.ask(naming.GetKVConfig(namespace=space, key="k")), ext={"value": value})
    t.answer("put another", await t.names.ask(naming.PutKVConfig(namespace=space, key="l", value="2")))
    listed = t.answer("list", await t.names.ask(naming.GetKVListByNamespace(namespace=space))).json()
    t.equal("table", listed, {"table": {"k": "Übergröße 漢字", "l": "2"}})
    for key in ("k", "l"):
        t.answer("delete", await t.names.ask(naming.DeleteKVConfig(namespace=space, key=key)))
        t.answer(
            "get after delete", await t.names.ask(naming.GetKVConfig(namespace=space, key=key)), code=ResponseCode.QUERY_NOT_FOUND
        )


@case(
    "names.kv.absent",
    MUST,
    codes=(Code.GET_KV_CONFIG, Code.GET_KVLIST_BY_NAMESPACE, Code.DELETE_KV_CONFIG),
    rests_on="DefaultRequestProcessor.getKVConfig",
)
async def absent_key(t: Trial) -> None:
    """A key or name space that is not there: code 22."""
    space = t.name("ns")
    t.answer("get", await t.names.ask(naming.GetKVConfig(namespace=space, key="k")), code=ResponseCode.QUERY_NOT_FOUND)
    t.answer("list", await t.names.ask(naming.GetKVListByNamespace(namespace=space)), code=ResponseCode.QUERY_NOT_FOUND)
    t.answer("delete", await t.names.ask(naming.DeleteKVConfig(namespace=space, key="k")))


@case(
    "names.topics.lists",
    MUST,
    codes=(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_TOPICS_BY_CLUSTER, Code.GET_SYSTEM_TOPIC_LIST_FROM_NS),
    rests_on="RouteInfoManager.getAllTopicList, getTopicsByCluster, getSystemTopicList",
)
async def topic_lists(t: Trial) -> None:
    """Topic lists: all, of a cluster, and the names of brokers and clusters."""
    first, second = t.name(), t.name()
    broker = await registered(t, first, second)
    everything = t.answer("all", await t.names.ask(naming.GetAllTopicListFromNameserver())).json()["topicList"]
    t.check("all topics hold both", {first, second} <= set(everything), expected=[first, second])
    of_cluster = t.answer("of the cluster", await t.names.ask(naming.GetTopicsByCluster(cluster=broker.cluster))).json()[
        "topicList"
    ]
    t.equal("topics of the cluster", sorted(of_cluster), sorted([first, second]))
    nobody = t.answer("of no cluster", await t.names.ask(naming.GetTopicsByCluster(cluster=t.name("c")))).json()
    t.equal("topics of a cluster that is not there", nobody.get("topicList"), [])
    system = t.answer("system", await t.names.ask(naming.GetSystemTopicListFromNs())).json()
    t.check("brokers and clusters are topics", {broker.name, broker.cluster} <= set(system["topicList"]), seen=system)


@case(
    "names.topics.unit-lists",
    SHOULD,
    codes=(Code.GET_UNIT_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    rests_on="RouteInfoManager.getUnitTopics",
)
async def unit_lists(t: Trial) -> None:
    """Topics of units are listed by their flags."""
    unit, subscribed, both = t.name("u"), t.name("s"), t.name("us")
    broker = Broker(t)
    rows = (
        topic_of(unit, flag=TOPIC_UNIT),
        topic_of(subscribed, flag=TOPIC_UNIT_SUBSCRIBED),
        topic_of(both, flag=topic_sys_flag(unit=True, subscribed=True)),
    )
    t.answer("register", await broker.register(*rows))
    own = {unit, subscribed, both}
    for asked, expected in (
        (naming.GetUnitTopicList(), {unit, both}),
        (naming.GetHasUnitSubTopicList(), {subscribed, both}),
        (naming.GetHasUnitSubUnunitTopicList(), {subscribed}),
    ):
        found = t.answer(type(asked).__name__, await t.names.ask(asked)).json()["topicList"]
        t.equal(f"{type(asked).__name__}: of ours", set(found) & own, expected)


@case("names.topics.delete", MUST, codes=Code.DELETE_TOPIC_IN_NAMESRV, rests_on="RouteInfoManager.deleteTopic")
async def delete_topic(t: Trial) -> None:
    """A deleted topic has no route; its broker's others have."""
    first, second = t.name(), t.name()
    await registered(t, first, second)
    t.answer("delete", await t.names.ask(naming.DeleteTopicFromNamesrv(topic=first)))
    t.answer("route of the deleted", await route(t, first), code=ResponseCode.TOPIC_NOT_EXIST)
    t.answer("route of the other", await route(t, second))


@case("names.topics.delete-in-cluster", MUST, codes=Code.DELETE_TOPIC_IN_NAMESRV, rests_on="RouteInfoManager.deleteTopic")
async def delete_in_cluster(t: Trial) -> None:
    """Deleted in one cluster, a topic stays in the other."""
    topic = t.name()
    first, second = await registered(t, topic, t.name()), await registered(t, topic, t.name())
    t.answer("delete", await t.names.ask(naming.DeleteTopicFromNamesrv(topic=topic, cluster_name=first.cluster)))
    t.equal("brokers", set(brokers_of(t.answer("route", await route(t, topic)))), {second.name})


@case(
    "names.topics.register-one",
    SHOULD,
    codes=Code.REGISTER_TOPIC_IN_NAMESRV,
    since=(5,),
    rests_on="RouteInfoManager.registerTopic",
)
async def register_topic(t: Trial) -> None:
    """A topic can be registered without its broker's table."""
    broker = await registered(t, t.name(), t.name())
    topic = t.name()
    queue = QueueData(broker_name=broker.name, read_queue_nums=2, write_queue_nums=2, perm=READ_WRITE)
    t.answer("register", await t.names.ask(naming.RegisterTopic(topic=topic), TopicRouteData(queue_datas=[queue]).encode()))
    t.equal("brokers", brokers_of(t.answer("route", await route(t, topic))), {broker.name: {0: broker.address}})


@case("names.config.read", MUST, codes=Code.GET_NAMESRV_CONFIG, needs=(), rests_on="DefaultRequestProcessor.getConfig")
async def config(t: Trial) -> None:
    """The configuration is the text of a properties file."""
    body = t.answer("configuration", await t.names.ask(naming.GetNamesrvConfig())).body.decode()
    keys = [line.partition("=")[0] for line in body.splitlines() if "=" in line]
    for key in (
        "listenPort",
        "kvConfigPath",
        "scanNotActiveBrokerInterval" if t.version is None or t.version >= (5,) else "orderMessageEnable",
    ):
        t.check(f"{key} is there", key in keys, seen=keys)
    t.equal("order of the keys", keys, t.by_version({"": sorted(keys), "4": keys}))


@case(
    "names.config.forbidden",
    MUST,
    codes=Code.UPDATE_NAMESRV_CONFIG,
    since=(5,),
    alone=True,
    rests_on="DefaultRequestProcessor.updateConfig: configBlackList",
)
async def forbidden_config(t: Trial) -> None:
    """Paths cannot be changed over the wire."""
    for key in ("kvConfigPath", "configStorePath", "configBlackList"):
        answer = await t.names.ask(naming.UpdateNamesrvConfig(), f"{key}=/tmp/elsewhere\n".encode())
        t.answer(key, answer, code=ResponseCode.NO_PERMISSION, remark=re.compile("Can not update config"))


@case(
    "names.config.order-conf",
    MUST,
    codes=(Code.UPDATE_NAMESRV_CONFIG, Code.PUT_KV_CONFIG),
    alone=True,
    rests_on="ClientRequestProcessor.getRouteInfoByTopic",
)
async def order_conf(t: Trial) -> None:
    """With orderMessageEnable the route names an ordered topic's queues."""
    topic = t.name()
    broker = await registered(t, topic, t.name())
    value = f"{broker.name}:4"
    try:
        t.answer("switch on", await t.names.ask(naming.UpdateNamesrvConfig(), b"orderMessageEnable=true\n"))
        t.answer("put", await t.names.ask(naming.PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key=topic, value=value)))
        found = TopicRouteData.read(t.answer("route", await route(t, topic)).body)
        t.equal("orderTopicConf", found.order_topic_conf, value)
    finally:
        await t.names.ask(naming.DeleteKVConfig(namespace="ORDER_TOPIC_CONFIG", key=topic))
        await t.names.ask(naming.UpdateNamesrvConfig(), b"orderMessageEnable=false\n")
    found = TopicRouteData.read((await route(t, topic)).body)
    t.equal("orderTopicConf when switched off", found.order_topic_conf, None)
