"""What a name server answers about its tables: routes, clusters, members, topic lists.  Reads `RouteTable`, changes nothing.

Orders are those of Java's hash maps where a tool prints them as they come.  A broker that runs in our own process is shown under
the host that the asker itself is connected to: loopback to a client on loopback, the outer address to one from outside.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Final

from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, finished, in_javas_order
from broker_impl.namesrv.route_table import RouteTable
from rmq_wire.bodies.cluster import BrokerMemberGroup, ClusterInfo
from rmq_wire.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from rmq_wire.bodies.topics import PERM_WRITE, TOPIC_UNIT, TOPIC_UNIT_SUB, TopicList
from rmq_wire.java import iteration_order

SYNC_BROKER_MEMBER_GROUP_PREFIX: Final = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics by which brokers find their own slaves: never an acting master in them (Java: `TopicValidator`)."""

_BROKER_BUCKETS: Final = 256
"""Buckets of the `ConcurrentHashMap` that Java makes for 128 brokers."""
_COPIED_BUCKETS_MIN: Final = 16
_LOAD: Final = 0.75


class RouteAnswers:
    """Answers over one table.  `supports_acting_master()` is asked each time: the configuration may change."""

    def __init__(self, table: RouteTable, supports_acting_master: Callable[[], bool]) -> None:
        self.table = table
        self.supports_acting_master = supports_acting_master

    def route(self, topic: str, asker_host: str | None = None) -> TopicRouteData | None:
        """Where a topic's queues are (Java: `pickupTopicRouteData`); None when no broker has it.

        `asker_host`: the local host of the asker's connection.
        """
        return finished(self.finding_route(topic, asker_host))

    def finding_route(self, topic: str, asker_host: str | None = None) -> Slices[TopicRouteData | None]:
        """The same in slices; brokers that go meanwhile are left out."""
        table = self.table
        queues = table.topics.get(topic)
        if not queues:
            return None
        names = yield from in_javas_order(queues)
        order = yield from in_javas_order(names, _copied_buckets(len(names)))
        shown = yield from self._all_shown(order, asker_host)
        brokers = [table.brokers[name] for name in shown]
        mappings = table.mappings.get(topic)
        route = TopicRouteData(
            queue_datas=[queues[name] for name in names if name in queues and name in shown],
            broker_datas=list(shown.values()),
            topic_queue_mapping_by_broker=dict(mappings) if mappings is not None else None,
        )
        if table.filter_servers:
            route.filter_server_table = {
                addr: table.filter_servers.get((broker.cluster, addr))
                for broker in brokers
                for addr in broker.broker_addrs.values()
            }
        if self.supports_acting_master() and not topic.startswith(SYNC_BROKER_MEMBER_GROUP_PREFIX):
            _name_acting_masters(route)
        return route

    def clusters(self, asker_host: str | None = None) -> Slices[ClusterInfo]:
        """Everybody."""
        shown = yield from self._all_shown(list(self.table.brokers), asker_host)
        return ClusterInfo(
            broker_addr_table=shown,
            cluster_addr_table={cluster: list(names) for cluster, names in self.table.clusters.items()},
        )

    def members(self, cluster: str, name: str, asker_host: str | None = None) -> BrokerMemberGroup:
        """A broker's master and slaves, empty when it is not here.  The cluster is only echoed, as Java does."""
        broker = self.table.brokers.get(name)
        addrs = self._shown(broker, asker_host).broker_addrs if broker is not None else {}
        return BrokerMemberGroup(cluster=cluster, broker_name=name, broker_addrs=addrs)

    def addr(self, cluster: str, addr: str | None, asker_host: str | None) -> str | None:
        """An address of a broker as this asker is given it."""
        if addr is None or asker_host is None:
            return addr
        live = self.table.live.get((cluster, addr))
        return at_host(addr, asker_host) if live is not None and live.embedded and not live.keeps_address else addr

    def all_topics(self) -> TopicList:
        """Every topic with a route (206)."""
        return TopicList(topic_list=list(self.table.topics))

    def topics_of_cluster(self, cluster: str) -> Slices[TopicList]:
        """Topics with queues in this cluster's brokers (224); none for an unknown cluster."""
        names = self.table.clusters.get(cluster, {}).keys()
        return self._picked(lambda queues: not names.isdisjoint(queues))

    def system_topics(self, asker_host: str | None = None) -> TopicList:
        """Names of clusters and brokers, which are topics too, and the address of some broker (304)."""
        table = self.table
        listed = dict.fromkeys(name for cluster, names in table.clusters.items() for name in (cluster, *names))
        for name in iteration_order(table.brokers, _BROKER_BUCKETS)[:1]:
            addrs = self._shown(table.brokers[name], asker_host).broker_addrs
            return TopicList(topic_list=list(listed), broker_addr=addrs[min(addrs)])
        return TopicList(topic_list=list(listed))

    def unit_topics(self) -> Slices[TopicList]:
        """Topics of this unit (311)."""
        return self._flagged(lambda flag: bool(flag & TOPIC_UNIT))

    def unit_sub_topics(self) -> Slices[TopicList]:
        """Topics that other units subscribe (312)."""
        return self._flagged(lambda flag: bool(flag & TOPIC_UNIT_SUB))

    def unit_sub_ununit_topics(self) -> Slices[TopicList]:
        """Those among them that are not of this unit (313)."""
        return self._flagged(lambda flag: bool(flag & TOPIC_UNIT_SUB) and not flag & TOPIC_UNIT)

    def _flagged(self, wanted: Callable[[int], bool]) -> Slices[TopicList]:
        """Topics by the system flag in the first broker that Java's map would give."""
        return self._picked(lambda queues: wanted(_first(queues).topic_sys_flag))

    def _picked(self, wanted: Callable[[dict[str, QueueData]], bool]) -> Slices[TopicList]:
        """Topics by their queues, in slices; those that go meanwhile are left out."""
        topics = self.table.topics
        found = []
        rows = 0
        for topic in list(topics):
            if rows >= 4 * ROWS_PER_SLICE:
                rows = 0
                yield None
            queues = topics.get(topic)
            if queues:
                rows += len(queues)
                if wanted(queues):
                    found.append(topic)
        return TopicList(topic_list=found)

    def _all_shown(self, names: list[str], asker_host: str | None) -> Slices[dict[str, BrokerData]]:
        """By name, of those that are here at the end."""
        brokers = self.table.brokers
        shown = {}
        for count, name in enumerate(names, 1):
            if count % (2 * ROWS_PER_SLICE) == 0:
                yield None
            if name in brokers:
                shown[name] = self._shown(brokers[name], asker_host)
        return {name: data for name, data in shown.items() if name in brokers}

    def _shown(self, broker: BrokerData, asker_host: str | None) -> BrokerData:
        """A copy, with addresses that the asker reaches."""
        shown = broker.copy()
        if asker_host is not None:
            for number, addr in shown.broker_addrs.items():
                shown.broker_addrs[number] = self.addr(broker.cluster, addr, asker_host) or addr
        return shown


def near_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """What is left of a route for an asker that wants its own zone (Java: `ZoneRouteRPCHook`): masterless brokers stay."""
    gone = {
        broker.broker_name: broker
        for broker in route.broker_datas
        if MASTER_ID in broker.broker_addrs and (broker.zone_name or "").lower() != zone.lower()
    }
    gone_addrs = {addr for broker in gone.values() for addr in broker.broker_addrs.values()}
    return TopicRouteData(
        order_topic_conf=route.order_topic_conf,
        queue_datas=[queues for queues in route.queue_datas if queues.broker_name not in gone],
        broker_datas=[broker for broker in route.broker_datas if broker.broker_name not in gone],
        filter_server_table={addr: servers for addr, servers in route.filter_server_table.items() if addr not in gone_addrs},
        topic_queue_mapping_by_broker=route.topic_queue_mapping_by_broker,
    )


def at_host(addr: str, host: str) -> str:
    """The same port at another host; IPv6 in brackets as Java writes it, an IPv4 address that came as IPv6 as IPv4."""
    _, _, port = addr.rpartition(":")
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return f"{host}:{port}"
    if isinstance(ip, ipaddress.IPv6Address):
        return f"{ip.ipv4_mapped}:{port}" if ip.ipv4_mapped is not None else f"[{ip}]:{port}"
    return f"{ip}:{port}"


def _name_acting_masters(route: TopicRouteData) -> None:
    """Where the master is gone and the topic is not writable there, the least slave answers as id 0."""
    perms = {queues.broker_name: queues.perm for queues in route.queue_datas}
    for broker in route.broker_datas:
        addrs = broker.broker_addrs
        if MASTER_ID in addrs or not addrs or not broker.enable_acting_master or perms[broker.broker_name] & PERM_WRITE:
            continue
        acting = addrs.pop(min(addrs))
        broker.broker_addrs = {MASTER_ID: acting, **addrs}


def _first(queues: dict[str, QueueData]) -> QueueData:
    if len(queues) == 1:
        return next(iter(queues.values()))
    return queues[next(iter(iteration_order(queues)))]


def _copied_buckets(count: int) -> int:
    """Buckets of `new HashSet<>(collection)`."""
    wanted = max(int(count / _LOAD) + 1, _COPIED_BUCKETS_MIN)
    return 1 << (wanted - 1).bit_length()
