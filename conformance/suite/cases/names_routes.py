"""The name server: where a topic is, for whom it is spelled how, and when that is over."""

from __future__ import annotations

import re
from functools import partial

from conformance.suite.kit import MAKES_TOPICS, MUST, SHOULD, Code, ResponseCode, Trial
from conformance.suite.kit import case as declare
from conformance.suite.means.played import OWN, V4_9_3, Broker, brokers_of, registered, route, route_goes, topic_of
from rmq_wire.bodies.route import TopicQueueMappingInfo, TopicRouteData
from rmq_wire.headers import naming

case = partial(declare, codes=Code.GET_ROUTEINFO_BY_TOPIC, needs=OWN)


@case("names.route.unknown-topic", MUST, needs=(), rests_on="ClientRequestProcessor.getRouteInfoByTopic")
async def unknown_topic(t: Trial) -> None:
    """A topic that nobody has: code 17.

    Producers take this code for "ask for the default topic", so another one stops them.
    """
    name = t.name("nobody")
    t.answer(
        "route",
        await route(t, name),
        code=ResponseCode.TOPIC_NOT_EXIST,
        remark=re.compile(f"No topic route info in name server for the topic: {name}"),
        body=b"",
    )


@case("names.route.default-topic", MUST, needs=(), rests_on="TopicConfigManager: TBW102")
async def default_topic(t: Trial) -> None:
    """The topic that new topics are modelled on has a route."""
    t.wants(*MAKES_TOPICS)
    t.equal("brokers of TBW102", set(brokers_of(t.answer("route", await route(t, "TBW102")))) >= {t.target.broker_name}, True)


@case("names.route.keys-in-quotes", MUST, since=(4, 9, 4), rests_on="ClientRequestProcessor: standardJsonOnly")
async def strict_keys(t: Trial) -> None:
    """Clients from 4.9.4 on get JSON with keys in quotes."""
    topic = t.name()
    await registered(t, topic, t.name())
    answer = t.answer("route", await route(t, topic), body=re.compile(rb'"brokerAddrs":\{"0":'))
    t.note("body", answer.body.decode())


@case("names.route.bare-keys-for-old", MUST, rests_on="ClientRequestProcessor: TopicRouteData.encode")
async def bare_keys(t: Trial) -> None:
    """Older clients get the keys that their reader wants, without quotes."""
    topic = t.name()
    await registered(t, topic, t.name())
    old = t.connect(t.target.namesrv, version=V4_9_3)
    t.answer("asked by 4.9.3", await route(t, topic, old), body=re.compile(rb'"brokerAddrs":\{0:'))
    asked = naming.GetRouteInfo(topic=topic, accept_standard_json_only=True)
    expected = t.by_version({"": rb'"brokerAddrs":\{"0":'})
    t.answer("asked by 4.9.3 that takes quotes", await old.ask(asked), body=re.compile(expected))


@case("names.route.two-brokers", MUST, rests_on="RouteInfoManager.pickupTopicRouteData")
async def two_brokers(t: Trial) -> None:
    """A topic of two brokers has both in its route."""
    topic, cluster = t.name(), t.name("c")
    first = await registered(t, topic, t.name(), cluster=cluster)
    second = await registered(t, topic, t.name(), cluster=cluster)
    t.equal("brokers", brokers_of(await route(t, topic)), {first.name: {0: first.address}, second.name: {0: second.address}})
    await second.link.close()

    async def one_left() -> bool:
        return brokers_of(await route(t, topic)) == {first.name: {0: first.address}}

    await t.until("the other one is left when one goes", one_left)


@case(
    "names.route.what-else",
    SHOULD,
    codes=(Code.REGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC),
    since=(5,),
    rests_on="RouteInfoManager.registerBroker, pickupTopicRouteData",
)
async def what_else(t: Trial) -> None:
    """A route also tells a broker's zone, its filter servers, and how it maps the queues of a static topic.

    Whether a slave may act as its master is told, too; who does not say so may not.
    """
    static, plain = t.name(), t.name()
    broker = Broker(t)
    mapping = TopicQueueMappingInfo(topic=static, total_queues=8, bname=broker.name, epoch=5, curr_id_map={0: 1, 3: 0})
    answer = await broker.register(
        *(topic_of(static), topic_of(plain)),
        mappings={static: mapping},
        filter_servers=["127.0.0.9:7777"],
        compressed=True,
        zone_name="east",
        enable_acting_master=True,
    )
    t.answer("register", answer)
    found = TopicRouteData.read(t.answer("route", await route(t, static)).body)
    [row] = found.broker_datas
    t.equal("zone, acting master", (row.zone_name, row.enable_acting_master), ("east", True))
    t.equal("filter servers", found.filter_server_table, {broker.address: ["127.0.0.9:7777"]})
    mapped = found.topic_queue_mapping_by_broker or {}
    t.equal("mappings", {name: (m.total_queues, m.curr_id_map) for name, m in mapped.items()}, {broker.name: (8, {0: 1, 3: 0})})
    other = TopicRouteData.read(t.answer("route of the other", await route(t, plain)).body)
    t.equal("no mapping of a plain topic", other.topic_queue_mapping_by_broker or {}, {})


@case("names.gone.connection", MUST, rests_on="BrokerHousekeepingService")
async def connection_ends(t: Trial) -> None:
    """A broker whose connection ends has no routes any more."""
    topic = t.name()
    broker = await registered(t, topic, t.name())
    t.answer("route", await route(t, topic))
    await broker.link.close()
    await route_goes(t, topic)


@case("names.gone.unregister", MUST, codes=Code.UNREGISTER_BROKER, rests_on="RouteInfoManager.unRegisterBroker")
async def unregister(t: Trial) -> None:
    """A broker that unregisters has no routes any more."""
    topic = t.name()
    broker = await registered(t, topic, t.name())
    t.answer("route", await route(t, topic))
    t.answer("unregister", await broker.link.ask(naming.UnregisterBroker(**broker.who)))
    await route_goes(t, topic)


@case("names.gone.slave-only", MUST, codes=Code.UNREGISTER_BROKER, rests_on="RouteInfoManager.unRegisterBroker")
async def slave_goes(t: Trial) -> None:
    """When a slave unregisters the master stays."""
    topic, other = t.name(), t.name()
    master = await registered(t, topic, other)
    reader = Broker(t, name=master.name, cluster=master.cluster, id=1)
    t.answer("the slave registers", await reader.register(topic_of(topic), topic_of(other)))
    t.answer("it unregisters", await reader.link.ask(naming.UnregisterBroker(**reader.who)))

    async def master_alone() -> bool:
        return brokers_of(await route(t, topic)) == {master.name: {0: master.address}}

    await t.until("the master is left", master_alone)


@case("names.gone.silent", MUST, codes=Code.REGISTER_BROKER, since=(5,), rests_on="RouteInfoManager.scanNotActiveBroker")
async def silent(t: Trial) -> None:
    """A broker that is silent longer than it said is gone."""
    topic = t.name()
    broker = Broker(t)
    topics = topic_of(topic), topic_of(t.name())
    t.answer("register", await broker.register(*topics))
    t.answer("route", await route(t, topic))
    t.answer("register for 1 s", await broker.register(*topics, heartbeat_timeout_millis=1_000))
    await route_goes(t, topic)


@case(
    "names.stays.heartbeat",
    MUST,
    codes=Code.BROKER_HEARTBEAT,
    since=(5,),
    rests_on="RouteInfoManager.updateBrokerInfoUpdateTimestamp",
)
async def heartbeat(t: Trial) -> None:
    """Heartbeats keep a broker alive.

    One broker of two that announced the same time-out goes on sending 904; when the other is gone it must still be there.
    """
    kept, lost = t.name(), t.name()
    alive, dead, most_ms = Broker(t), Broker(t), int(3_000 * t.patience)
    for broker, topic in ((alive, kept), (dead, lost)):
        topics = topic_of(topic), topic_of(t.name())
        t.answer(f"register for {most_ms} ms", await broker.register(*topics, heartbeat_timeout_millis=most_ms))

    async def beats_until_other_is_gone() -> bool:
        fields = {name: value for name, value in alive.who.items() if name != "broker_id"}
        t.answer("heartbeat", await alive.link.ask(naming.BrokerHeartbeat(**fields)))
        return (await route(t, lost)).code == ResponseCode.TOPIC_NOT_EXIST

    await t.until("the silent one goes", beats_until_other_is_gone)
    t.answer("the one that beats is there", await route(t, kept))


@case("names.brokers.cluster-info", MUST, codes=Code.GET_BROKER_CLUSTER_INFO, rests_on="RouteInfoManager.getAllClusterInfo")
async def cluster_info(t: Trial) -> None:
    """The cluster table names every broker with its addresses."""
    broker = await registered(t, t.name(), t.name())
    table = t.answer("cluster info", await t.names.ask(naming.GetBrokerClusterInfo())).json()
    t.equal("brokers of the cluster", table["clusterAddrTable"].get(broker.cluster), [broker.name])
    row = table["brokerAddrTable"].get(broker.name, {})
    t.equal(
        "the broker's row",
        (row.get("cluster"), row.get("brokerName"), list((row.get("brokerAddrs") or {}).values())),
        (broker.cluster, broker.name, [broker.address]),
    )


@case(
    "names.brokers.members",
    MUST,
    codes=Code.GET_BROKER_MEMBER_GROUP,
    since=(5,),
    rests_on="RouteInfoManager.getBrokerMemberGroup",
)
async def members(t: Trial) -> None:
    """The name server answers who shares a broker's name."""
    topic = t.name()
    master = await registered(t, topic, t.name())
    reader = Broker(t, name=master.name, cluster=master.cluster, id=1)
    t.answer("the slave registers", await reader.register(topic_of(topic), topic_of(t.name())))
    asked = naming.GetBrokerMemberGroup(cluster_name=master.cluster, broker_name=master.name)
    group = t.answer("members", await t.names.ask(asked)).json()["brokerMemberGroup"]
    t.equal(
        "addresses",
        {str(id): address for id, address in group["brokerAddrs"].items()},
        {"0": master.address, "1": reader.address},
    )
    asked = naming.GetBrokerMemberGroup(cluster_name=master.cluster, broker_name=t.name("b"))
    t.answer("of nobody", await t.names.ask(asked))


@case("names.zone.filter", SHOULD, since=(5,), rests_on="ZoneRouteRPCHook")
async def zone(t: Trial) -> None:
    """A client of a zone sees that zone's brokers."""
    topic = t.name()
    here, there = Broker(t), Broker(t)
    t.answer("register here", await here.register(topic_of(topic), topic_of(t.name()), zone_name="here"))
    t.answer("register there", await there.register(topic_of(topic), topic_of(t.name()), zone_name="there"))
    asked = naming.GetRouteInfo(topic=topic, zone_name="here", zone_mode=True)
    t.equal("brokers for here", set(brokers_of(t.answer("route", await t.names.ask(asked)))), {here.name})
    asked = naming.GetRouteInfo(topic=topic, zone_name="here", zone_mode=False)
    t.equal("brokers without the mode", set(brokers_of(await t.names.ask(asked))), {here.name, there.name})
