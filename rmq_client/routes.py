"""Where topics live: which queues may be written and read, and at which address each broker is.

Pure tables, filled with what name servers answer (`TopicRouteData`); nobody here asks anything.
Source: `MQClientInstance` (`topicRouteData2TopicPublishInfo`, `topicRouteData2TopicSubscribeInfo`, `findBrokerAddressIn…`,
`cleanOfflineBroker`, `updateTopicRouteInfoFromNameServer`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from rmq_client.errors import CallerError
from rmq_wire.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from rmq_wire.bodies.topics import PERM_READ, PERM_WRITE
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue

__all__ = ["MessageQueue", "Place", "RouteTable", "TopicRoute", "modelled_on"]

QUEUES_MAX = 100_000
"""Of a topic in all brokers: what a client lays out for one answer.  The largest real topics have some thousand."""


class TopicRoute(NamedTuple):
    """One topic as a client uses it.  Queues are in order: brokers by name, then ids."""

    topic: str
    writable: tuple[MessageQueue, ...]
    """Those that a producer may choose: of brokers with a master, or those that the name server's ordered configuration names."""
    readable: tuple[MessageQueue, ...]
    ordered: bool
    """The queues follow from `ORDER_TOPIC_CONFIG`, whichever brokers are alive."""
    data: TopicRouteData

    @classmethod
    def of(cls, topic: str, data: TopicRouteData) -> TopicRoute:
        """Lay an answer out.  Raises `BadBody` for one that no server means."""
        if data.topic_queue_mapping_by_broker:
            raise CallerError(f"{topic} is a static topic, which this client cannot serve yet")
        queues = sorted(data.queue_datas, key=lambda one: one.broker_name)
        total = sum(max(one.write_queue_nums, 0) + max(one.read_queue_nums, 0) for one in queues)
        if total > QUEUES_MAX:
            raise BadBody(f"a route of {total} queues")
        readable = _laid_out(topic, ((q.broker_name, q.read_queue_nums) for q in queues if q.perm & PERM_READ))
        if data.order_topic_conf:
            return cls(topic, _laid_out(topic, _ordered(data.order_topic_conf)), readable, True, data)
        masters = {broker.broker_name for broker in data.broker_datas if MASTER_ID in broker.broker_addrs}
        written = ((q.broker_name, q.write_queue_nums) for q in queues if q.perm & PERM_WRITE and q.broker_name in masters)
        return cls(topic, _laid_out(topic, written), readable, False, data)


def _laid_out(topic: str, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, broker, at) for broker, count in counts for at in range(count))


def _ordered(text: str) -> Iterable[tuple[str, int]]:
    """`broker:num;broker:num`.  Raises `BadBody`."""
    found = []
    for one in text.split(";"):
        broker, colon, count = one.partition(":")
        if not (colon and count.isascii() and count.isdigit() and int(count) <= QUEUES_MAX):
            raise BadBody(f"orderTopicConf: {text[:64]!r}")
        found.append((broker, int(count)))
    return found


def modelled_on(data: TopicRouteData, queues_max: int) -> TopicRouteData:
    """The route of a topic that does not exist yet, from that of the topic that it is made after (`TBW102`)."""

    def cut(one: QueueData) -> QueueData:
        count = min(queues_max, one.read_queue_nums)
        return QueueData(
            broker_name=one.broker_name,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=one.perm,
            topic_sys_flag=one.topic_sys_flag,
        )

    return TopicRouteData(queue_datas=[cut(one) for one in data.queue_datas], broker_datas=data.broker_datas)


class Place(NamedTuple):
    """Where a queue is read."""

    address: str
    is_slave: bool


class RouteTable:
    """All topics that were asked for, and all brokers that their routes name."""

    def __init__(self) -> None:
        self._routes: dict[str, TopicRoute] = {}
        self._brokers: dict[str, BrokerData] = {}

    @property
    def topics(self) -> list[str]:
        """Those that have a route."""
        return list(self._routes)

    def get(self, topic: str) -> TopicRoute | None:
        """The topic's route as last heard."""
        return self._routes.get(topic)

    def put(self, topic: str, data: TopicRouteData) -> bool:
        """Take what a name server said.  Whether it changes anything.  Raises `BadBody`, and keeps the old one then."""
        old = self._routes.get(topic)
        changed = old is None or old.data != data
        if changed:
            self._routes[topic] = TopicRoute.of(topic, data)
        for broker in data.broker_datas:
            self._brokers[broker.broker_name] = broker
        return changed

    def forget(self, topic: str) -> None:
        """Nobody wants this topic any more."""
        self._routes.pop(topic, None)

    def drop_unrouted(self, needed: Collection[str] = ()) -> list[str]:
        """Forget brokers that no topic's route names any more; their addresses, which need no connection now.

        needed: the names of brokers to keep all the same.
        """
        named = set(needed) | {broker.broker_name for route in self._routes.values() for broker in route.data.broker_datas}
        before = self.addresses()
        self._brokers = {name: broker for name, broker in self._brokers.items() if name in named}
        return sorted(before - self.addresses())

    def addresses(self, *, masters_only: bool = False) -> set[str]:
        """Of all brokers."""
        return {
            address
            for broker in self._brokers.values()
            for broker_id, address in broker.broker_addrs.items()
            if not masters_only or broker_id == MASTER_ID
        }

    def brokers(self) -> dict[str, BrokerData]:
        """By name."""
        return dict(self._brokers)

    def master(self, broker_name: str) -> str | None:
        """Where one writes, and asks for offsets."""
        broker = self._brokers.get(broker_name)
        return broker.broker_addrs.get(MASTER_ID) if broker else None

    def reading_place(self, broker_name: str, broker_id: int = MASTER_ID) -> Place | None:
        """Where one reads: the broker of this id, the next slave where that one is gone, else any of the name."""
        broker = self._brokers.get(broker_name)
        if broker is None or not broker.broker_addrs:
            return None
        addresses = broker.broker_addrs
        if broker_id in addresses:
            return Place(addresses[broker_id], broker_id != MASTER_ID)
        if broker_id != MASTER_ID and broker_id + 1 in addresses:
            return Place(addresses[broker_id + 1], True)
        lowest = min(addresses)
        return Place(addresses[lowest], lowest != MASTER_ID)
