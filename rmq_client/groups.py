"""Groups as an operator sees them: how far behind each is, queue by queue, who has the queues, what they are doing.

What `mqadmin consumerProgress` asks (208, and 203 and 307 for the owners), and 303 for the age of what waits.  One question for
each broker, member and topic that lags, so many at once: the number of queues makes answers longer, not more.
Source: `ConsumerProgressSubCommand`, `DefaultMQAdminExtImpl.examineConsumeStats`, `examineConsumerConnectionInfo`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import trio

from rmq_client.core import ClientCore
from rmq_client.errors import BrokerError, ClientError, NoRoute, Unreadable
from rmq_client.topics import Topics
from rmq_wire import names
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.connections import ConsumerConnection
from rmq_wire.bodies.consumer_answers import ConsumerRunningInfo, ProcessQueueInfo
from rmq_wire.bodies.heartbeat import BROADCASTING
from rmq_wire.bodies.route import MASTER_ID
from rmq_wire.bodies.stats import ConsumeStats, ConsumeTimeSpans, QueueTimeSpan
from rmq_wire.bodies.topics import TopicList
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Request
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.clients import GetConsumerConnectionList, GetConsumerRunningInfo
from rmq_wire.headers.naming import GetAllTopicListFromNameserver
from rmq_wire.headers.stats import GetConsumeStats, QueryConsumeTimeSpan

AT_ONCE_MAX: Final = 32
"""Questions that wait for an answer, of one look: brokers put each into a queue, that of administration has one thread."""
_ORDERLY: Final = "PROP_CONSUMEORDERLY"
_B = TypeVar("_B", bound=Body)


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far a group is in one queue.  Times in milliseconds, `last_stored_ms` since 1970."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_stored_ms: int | None
    """When the last message that was consumed had been stored; None: unknown, or none was."""
    delay_ms: int | None
    """The age of the oldest message that waits; None: none does, or the broker does not say."""
    owner: str | None = None
    """The client that has the queue; None: nobody, or nobody that could be asked."""
    ordered: bool = False
    held: ProcessQueueInfo | None = None
    """What its owner says of it."""

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed."""
        return max(self.broker_offset - self.consumer_offset, 0)

    @property
    def next_offset(self) -> int:
        """What is consumed next: as its owner says, who tells brokers only every few seconds."""
        return max(self.consumer_offset, self.held.commit_offset if self.held else 0)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group.  `unasked`: members that did not say what they have."""

    group: str
    queues: tuple[QueueLag, ...]
    members: tuple[str, ...]
    unasked: tuple[str, ...]

    @property
    def lag(self) -> int:
        """Of all queues."""
        return sum(one.lag for one in self.queues)

    @property
    def delay_ms(self) -> int | None:
        """The age of the oldest message that waits."""
        return max((one.delay_ms for one in self.queues if one.delay_ms is not None), default=None)


class Groups:
    """Made by `Client.groups`.  Names are the caller's, without the name space."""

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._limiter = trio.CapacityLimiter(AT_ONCE_MAX)

    async def names(self) -> list[str]:
        """Those that have consumed (they have a retry topic), in order, without those of RocketMQ itself.

        With a name space only its own.
        """
        answer = await self._client.ask_name_server(GetAllTopicListFromNameserver())
        topics = self._read(TopicList, answer.body, self._client.name_servers.chosen).topic_list
        found = {names.group_of_retry_topic(topic) for topic in topics if names.is_retry_topic(topic)}
        own = [group for group in found if self._client.on_wire(group) == group and not names.is_predefined_group(group)]
        return sorted(map(self._client.to_caller, own))

    async def lag(self, group: str, *, owners: bool = True) -> GroupLag:
        """How far behind it is.  owners: ask its members, too.  Raises `InvalidName`, `NetworkError`, `BrokerError`."""
        wire = self._client.group_on_wire(group)
        look = _Look()
        addresses = await self._addresses(wire)
        calls: list[Callable[[], Awaitable[None]]] = [partial(self._progress, look, wire, address) for address in addresses]
        if owners:
            calls += [partial(self._connected, look, wire, address) for address in addresses]
        await side_by_side(calls)
        if owners:
            await side_by_side(partial(self._has, look, wire, client, at) for client, at in look.connected.items())
            untold = {(queue.topic, queue.broker_name) for queue in look.owners.keys() - look.progress.keys()}
            if look.broadcasting:  # its members keep their progress themselves
                untold.clear()
            await side_by_side(partial(self._untold, look, wire, topic, broker) for topic, broker in sorted(untold))
        queues = [look.lag_of(queue, self._client.to_caller(queue.topic)) for queue in look.progress]
        return GroupLag(
            group, tuple(sorted(queues, key=lambda one: one.queue)), tuple(sorted(look.connected)), tuple(sorted(look.unasked))
        )

    async def _addresses(self, wire: str) -> list[str]:
        """Masters that may know the group: those of its retry topic, else all."""
        try:
            route = await self._client.route(names.retry_topic(wire))
        except NoRoute:
            return sorted((await Topics(self._client).masters(None, ())).values())
        found = {one.broker_addrs[MASTER_ID] for one in route.data.broker_datas if MASTER_ID in one.broker_addrs}
        return sorted(found)

    async def _untold(self, look: _Look, wire: str, topic: str, broker: str) -> None:
        """Somebody has queues of which the broker was told no progress yet: it names only topics that it was told of."""
        try:
            await self._client.route(topic)
        except NoRoute:
            return
        address = self._client.routes.master(broker)
        if address is not None:
            await self._progress(look, wire, address, topic)

    async def _progress(self, look: _Look, wire: str, address: str, topic: str | None = None) -> None:
        stats = await self._ask(ConsumeStats, address, GetConsumeStats(consumer_group=wire, topic=topic))
        if stats is None:
            return
        look.progress |= stats.offset_table
        behind = {queue.topic for queue, row in stats.offset_table.items() if row["brokerOffset"] > row["consumerOffset"]}
        await side_by_side(partial(self._ages, look, wire, topic, address) for topic in sorted(behind))

    async def _ages(self, look: _Look, wire: str, topic: str, address: str) -> None:
        try:
            spans = await self._ask(ConsumeTimeSpans, address, QueryConsumeTimeSpan(topic=topic, group=wire))
        except BrokerError as error:  # a topic that was deleted meanwhile: how far behind is still known
            self._client.log.info("no ages: %s", str(error))
            return
        for one in spans.consume_time_span_set if spans else ():
            name = one.message_queue
            look.ages[MessageQueue(name.topic, name.broker_name or "", name.queue_id)] = _age_ms(one)

    async def _connected(self, look: _Look, wire: str, address: str) -> None:
        found = await self._ask(ConsumerConnection, address, GetConsumerConnectionList(consumer_group=wire))
        if found is None:
            return
        look.broadcasting |= found.message_model == BROADCASTING
        for one in found.connection_set:
            if one.client_id is not None:
                look.connected.setdefault(one.client_id, address)

    async def _has(self, look: _Look, wire: str, client: str, address: str) -> None:
        try:
            info = await self._ask(ConsumerRunningInfo, address, GetConsumerRunningInfo(consumer_group=wire, client_id=client))
        except ClientError as error:  # it has just gone, or hangs: the others can be shown
            self._client.log.info("a member is not shown: %s", str(error))
            info = None
        if info is None:
            look.unasked.append(client)
            return
        ordered = info.properties.get(_ORDERLY, "").lower() == "true"
        look.owners |= {queue: _Owner(client, ordered, held) for queue, held in info.mq_table.items() if not held.droped}

    async def _ask(self, kind: type[_B], address: str, request: Request) -> _B | None:
        """None: the broker knows no such group, or nobody of it."""
        unknown = (ResponseCode.CONSUMER_NOT_ONLINE, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)
        async with self._limiter:
            answer = await self._client.ask(address, request, also=unknown)
        return None if answer.code in unknown else self._read(kind, answer.body, address)

    def _read(self, kind: type[_B], body: bytes, address: str) -> _B:
        try:
            return kind.read(body)
        except BadBody as wrong:
            raise Unreadable(str(wrong), address) from None


async def side_by_side(calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Side by side; the first error, as it is, ends them all."""
    failed: list[ClientError] = []

    async def call_one(call: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            await call()
        except ClientError as error:
            failed.append(error)
            scope.cancel()

    async with trio.open_nursery() as nursery:
        for call in calls:
            nursery.start_soon(call_one, call, nursery.cancel_scope)
    if failed:
        raise failed[0]


def _age_ms(span: QueueTimeSpan) -> int:
    """Of the oldest message that waits.

    Brokers look at the message before the first where a group has no progress: for the store time -1, the age of 1970.
    """
    if span.delay_time > span.min_time_stamp > 0:
        return span.delay_time - 1 - span.min_time_stamp
    return span.delay_time


@dataclass(frozen=True, slots=True)
class _Owner:
    client: str
    ordered: bool
    held: ProcessQueueInfo


@dataclass(slots=True)
class _Look:
    """What was answered so far; queues as on the wire."""

    progress: dict[MessageQueue, dict[str, int]] = field(default_factory=dict)
    ages: dict[MessageQueue, int] = field(default_factory=dict)
    connected: dict[str, str] = field(default_factory=dict)
    """Client -> a broker that can reach it."""
    owners: dict[MessageQueue, _Owner] = field(default_factory=dict)
    unasked: list[str] = field(default_factory=list)
    broadcasting: bool = False

    def lag_of(self, queue: MessageQueue, topic: str) -> QueueLag:
        """topic: as the caller knows it."""
        row, owner = self.progress[queue], self.owners.get(queue)
        behind = row["brokerOffset"] > row["consumerOffset"]
        age_ms = self.ages.get(queue, -1)
        return QueueLag(
            queue._replace(topic=topic),
            row["brokerOffset"],
            row["consumerOffset"],
            row.get("lastTimestamp") or None,
            age_ms if behind and age_ms >= 0 else None,
            owner.client if owner else None,
            owner.ordered if owner else False,
            owner.held if owner else None,
        )
