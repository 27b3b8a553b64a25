"""Topics as an operator sees them: which there are, where their queues are, making and deleting them.

A topic is a row in each broker's table; name servers learn of it from the brokers, a moment later.
Source: `DefaultMQAdminExtImpl`, `UpdateTopicSubCommand`, `DeleteTopicSubCommand`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import trio

from rmq_client.core import ClientCore
from rmq_client.errors import AnswerLate, CallerError, ClientError, InvalidName, NoBroker, NoRoute, Unreadable
from rmq_wire import names
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.bodies.route import MASTER_ID
from rmq_wire.bodies.stats import TopicStatsTable
from rmq_wire.bodies.topics import PERM_READ, PERM_WRITE, TopicList
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.naming import DeleteTopicFromNamesrv, GetAllTopicListFromNameserver, GetBrokerClusterInfo
from rmq_wire.headers.stats import GetTopicStatsInfo
from rmq_wire.headers.topics import CreateTopic, DeleteTopic

ROUTE_WAIT_MS: Final = 5_000
"""How long `create` waits until name servers know what brokers have."""
_B = TypeVar("_B", bound=Body)
_LOOK_AGAIN_MS: Final = 20
_QUEUES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue and what is in it; `last_update_ms`: when its last message was stored, None: never.  Wall milliseconds."""

    queue: MessageQueue
    min_offset: int
    max_offset: int
    last_update_ms: int | None


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A broker that serves a topic.  perm: bits, 4 read, 2 write."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]
    read_queue_nums: int
    write_queue_nums: int
    perm: int


@dataclass(frozen=True, slots=True)
class TopicState:
    """Where a topic is and what is in it."""

    topic: str
    brokers: tuple[BrokerState, ...]
    queues: tuple[QueueState, ...]


class Topics:
    """Made by `Client.topics`.  Names are the caller's, without the name space."""

    def __init__(self, client: ClientCore) -> None:
        self._client = client

    async def names(self, *, system: bool = False) -> list[str]:
        """The names of those that have a route, in order; without `system` not those of RocketMQ itself.

        With a name space only its own, and the system topics that belong to all.
        """
        answer = await self._client.ask_name_server(GetAllTopicListFromNameserver())
        found = set(self._read(TopicList, answer.body).topic_list)
        if not system:
            info = await self._cluster()
            own = {*info.broker_addr_table, *info.cluster_addr_table, *map(names.reply_topic, info.cluster_addr_table)}
            found = {name for name in found - own if not _is_internal(name)}
        return sorted(self._client.to_caller(name) for name in found if self._client.on_wire(name) == name)

    async def show(self, topic: str) -> TopicState:
        """Raises `NoRoute`, `NetworkError`, `BrokerError`."""
        if problem := names.topic_problem(topic):
            raise InvalidName(problem)
        client = self._client
        route = await client.route(client.on_wire(topic), fresh=True)
        data = {broker.broker_name: broker for broker in route.data.broker_datas}
        brokers: list[BrokerState] = []
        queues: list[QueueState] = []
        for row in sorted(route.data.queue_datas, key=lambda one: one.broker_name):
            broker = data.get(row.broker_name)
            if broker is None:
                continue
            brokers.append(
                BrokerState(
                    row.broker_name,
                    broker.cluster,
                    dict(broker.broker_addrs),
                    row.read_queue_nums,
                    row.write_queue_nums,
                    row.perm,
                )
            )
            address = broker.broker_addrs.get(MASTER_ID)
            if address is not None:
                queues += await self._queues_in(address, route.topic, topic)
        return TopicState(topic, tuple(brokers), tuple(sorted(queues, key=lambda one: one.queue)))

    async def _queues_in(self, address: str, topic: str, shown: str) -> Iterable[QueueState]:
        answer = await self._client.ask(address, GetTopicStatsInfo(topic=topic))
        rows = self._read(TopicStatsTable, answer.body).offset_table
        return [
            QueueState(queue._replace(topic=shown), row["minOffset"], row["maxOffset"], row.get("lastUpdateTimestamp") or None)
            for queue, row in rows.items()
        ]

    async def create(
        self,
        topic: str,
        *,
        queues: int = 8,
        cluster: str | None = None,
        brokers: Iterable[str] = (),
        perm: int = PERM_READ | PERM_WRITE,
        order: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Make a topic, or change it to this, in all masters, in those of a cluster or in the named ones; their names.

        attributes: such as `{"message.type": "FIFO"}`.  Returns when a name server knows the topic.
        """
        if problem := names.topic_problem(topic):
            raise InvalidName(problem)
        if not 1 <= queues <= _QUEUES_MAX:
            raise CallerError(f"queues: 1 to {_QUEUES_MAX}, not {queues}")
        client = self._client
        masters = await self.masters(cluster, brokers)
        changes = ",".join(f"+{name}={value}" for name, value in (attributes or {}).items())
        request = CreateTopic(
            topic=client.on_wire(topic),
            default_topic=names.AUTO_CREATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            order=order,
            topic_sys_flag=0,
            attributes=changes or None,
        )
        for address in masters.values():
            await client.ask(address, request)
        await self._routed(request.topic, set(masters))
        return sorted(masters)

    async def delete(self, topic: str, *, cluster: str | None = None) -> list[str]:
        """Delete a topic with its messages in all brokers, or in those of a cluster, and its route; the masters that had it.

        Raises `NoRoute` where nobody has it.
        """
        if problem := names.topic_problem(topic):
            raise InvalidName(problem)
        client = self._client
        wire_topic = client.on_wire(topic)
        await client.route(wire_topic, fresh=True)
        masters = await self.masters(cluster, ())
        for address in masters.values():
            await client.ask(address, DeleteTopic(topic=wire_topic), also=(ResponseCode.TOPIC_NOT_EXIST,))
        failed: ClientError | None = None
        for address in client.name_servers.addresses:
            try:
                await client.ask(address, DeleteTopicFromNamesrv(topic=wire_topic, cluster_name=cluster))
            except ClientError as error:  # the others still can
                failed = error
        client.routes.forget(wire_topic)
        if failed is not None:
            raise failed
        return sorted(masters)

    async def _routed(self, topic: str, brokers: set[str]) -> None:
        known: set[str] = set()
        with trio.move_on_after(ROUTE_WAIT_MS / 1e3):
            while True:
                try:
                    route = await self._client.route(topic, fresh=True)
                    known = {row.broker_name for row in route.data.queue_datas}
                except NoRoute:
                    pass
                if brokers <= known:
                    return
                await trio.sleep(_LOOK_AGAIN_MS / 1e3)
        missing = ", ".join(sorted(brokers - known))
        raise AnswerLate(f"{topic} is made, but name servers do not know within {ROUTE_WAIT_MS} ms that {missing} has it")

    async def masters(self, cluster: str | None, brokers: Iterable[str]) -> dict[str, str]:
        """Broker name -> address of its master: of all, of those of a cluster, of the named ones.  Raises `NoBroker`."""
        info = await self._cluster()
        wanted = set(brokers) or set(info.broker_addr_table)
        if cluster is not None:
            if cluster not in info.cluster_addr_table:
                raise CallerError(f"there is no cluster {cluster}: {', '.join(sorted(info.cluster_addr_table)) or 'none at all'}")
            wanted &= set(info.cluster_addr_table[cluster])
        found: dict[str, str] = {}
        for name in sorted(wanted):
            broker = info.broker_addr_table.get(name)
            if broker is None or MASTER_ID not in broker.broker_addrs:
                raise NoBroker(f"no name server knows a master of the broker {name}")
            found[name] = broker.broker_addrs[MASTER_ID]
        if not found:
            raise NoBroker("no broker has told a name server that it is there")
        return found

    async def _cluster(self) -> ClusterInfo:
        answer = await self._client.ask_name_server(GetBrokerClusterInfo())
        return self._read(ClusterInfo, answer.body)

    def _read(self, kind: type[_B], body: bytes) -> _B:
        try:
            return kind.read(body)
        except BadBody as wrong:
            raise Unreadable(str(wrong), self._client.name_servers.chosen) from None


def _is_internal(name: str) -> bool:
    return names.is_system_topic(name) or name.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
