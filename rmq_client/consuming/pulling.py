"""Reading a queue from any offset on, and how far a group has read it.

A pull is one question; held, it waits at the broker for a first message.  Where a broker says that its slave should be asked next
time, the next pull of that queue goes there; offsets are the master's business.
Source: `DefaultMQPullConsumerImpl`, `PullAPIWrapper`, `MQAdminImpl`, `RemoteBrokerOffsetStore`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, TypeVar

import trio

from rmq_client.consuming.pull_result import STATUS_OF, PullResult, PullStatus, ask_again_s
from rmq_client.consuming.received import ReceivedMessage, read_messages
from rmq_client.consuming.subscriptions import EVERYTHING, Subscription
from rmq_client.core import ClientCore
from rmq_client.errors import CallerError, InvalidName, NoBroker, Unreadable
from rmq_client.routes import Place
from rmq_wire import names, sys_flag
from rmq_wire.bodies.heartbeat import TAG
from rmq_wire.bodies.route import MASTER_ID
from rmq_wire.codes import VERSION_FILTERS_BY_SQL, ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Header
from rmq_wire.errors import BadHeader
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset
from rmq_wire.headers.positions import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffset,
    GetMaxOffsetResponse,
    GetMinOffset,
    GetMinOffsetResponse,
    SearchOffset,
    SearchOffsetResponse,
)
from rmq_wire.headers.pull import PullMessage, PullMessageResponse

PULL_TIMEOUT_MS: Final = 10_000
"""Java: consumerPullTimeoutMillis."""
HOLD_GRACE_MS: Final = 10_000
"""What a held pull's answer may take longer than it was to be held.  Java: 30 s for 20 s."""
WARN_AGAIN_S: Final = 600.0

_H = TypeVar("_H", bound=Header)


class Puller:
    """Reads queues for one group; made by `Client.puller`."""

    def __init__(self, client: ClientCore, group: str) -> None:
        self.group = group
        self._client = client
        self._group = client.group_on_wire(group)
        self._suggested: dict[MessageQueue, int] = {}
        """Queue -> the broker id that its last answer named."""
        self._warned: dict[MessageQueue, tuple[int, float]] = {}
        """Queue -> the offset of which was said last that it is damaged, and until when that will do."""

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Those that may be read.  Raises `NoRoute`, `NetworkError`."""
        if problem := names.topic_problem(topic):
            raise InvalidName(problem)
        route = await self._client.route(self._client.on_wire(topic))
        return [queue._replace(topic=topic) for queue in route.readable]

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        subscription: Subscription = EVERYTHING,
        max_messages: int = 32,
        hold_ms: int = 0,
        commit_offset: int | None = None,
        sub_version: int = 0,
        timeout_ms: int | None = None,
    ) -> PullResult:
        """Read from this offset on.  hold_ms: how long the broker may wait for a first message.

        commit_offset: progress of the group that goes along.  sub_version: when the subscription was made, in wall milliseconds.

        Raises `BrokerError`, `NetworkError`, `CallerError` for properties that a broker is too old to filter by.  A status says
        where there is nothing, or where the offset is none of the queue's.
        """
        if offset < 0 or max_messages < 1 or hold_ms < 0:
            raise CallerError("offset and hold_ms are at least 0, max_messages is at least 1")
        topic = self._client.on_wire(queue.topic)
        place = await self._reading(queue, topic)
        self._check_version(subscription, place.address)
        flags = (sys_flag.PULL_SUSPEND if hold_ms else 0) | sys_flag.PULL_SUBSCRIPTION
        if commit_offset is not None and not place.is_slave:
            flags |= sys_flag.PULL_COMMIT_OFFSET
        request = PullMessage(
            consumer_group=self._group,
            topic=topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_messages,
            sys_flag=flags,
            commit_offset=commit_offset or 0,
            suspend_timeout_millis=hold_ms,
            sub_version=sub_version,
            subscription=subscription.expression,
            expression_type=subscription.expression_type,
            bname=queue.broker_name,
        )
        timeout_ms = timeout_ms or (hold_ms + HOLD_GRACE_MS if hold_ms else PULL_TIMEOUT_MS)
        also = [int(status.value) for status in PullStatus]
        answer = await self._client.ask(place.address, request, timeout_ms=timeout_ms, also=also)
        return self._result(answer, request, queue, subscription, place.address)

    async def messages(
        self, queue: MessageQueue, offset: int | None = None, *, subscription: Subscription = EVERYTHING, hold_ms: int = 0
    ) -> AsyncIterator[ReceivedMessage]:
        """One after the other, from this offset on, None: from the oldest.  With `hold_ms` for ever, else to the end.

        Raises as `pull`.
        """
        reading = self.reading(queue, offset, subscription=subscription, hold_ms=hold_ms)
        while (found := await reading.next()) is not None:
            for message in found:
                yield message

    def reading(
        self, queue: MessageQueue, offset: int | None = None, *, subscription: Subscription = EVERYTHING, hold_ms: int = 0
    ) -> Reading:
        """The same pull by pull."""
        return Reading(self, queue, offset, subscription, hold_ms)

    def _check_version(self, subscription: Subscription, address: str) -> None:
        """Java asks no broker whose version it has not heard either; where nobody of the client is in a group, it never has."""
        version = self._client.broker_versions.get(address, VERSION_FILTERS_BY_SQL)
        if subscription.expression_type != TAG and version < VERSION_FILTERS_BY_SQL:
            raise CallerError(f"{address} is older than 4.1.0: it filters by tags, not by {subscription.expression_type}")

    def _result(
        self, answer: Command, asked: PullMessage, queue: MessageQueue, subscription: Subscription, address: str
    ) -> PullResult:
        header = _header(answer, PullMessageResponse, address)
        self._suggested[queue] = header.suggest_which_broker_id
        status, next_offset = STATUS_OF[answer.code], header.next_begin_offset
        messages: tuple[ReceivedMessage, ...] = ()
        if status is PullStatus.FOUND:
            found, wrong = self._read(bytes(answer.body), queue, address)
            if wrong is not None:
                next_offset = self._before(wrong, found, asked, queue, next_offset)
            messages = tuple(subscription.wanted(found) if subscription.expression_type == TAG else found)
        return PullResult(status, next_offset, header.min_offset, header.max_offset, messages)

    def _read(self, body: bytes, queue: MessageQueue, address: str) -> tuple[list[ReceivedMessage], Unreadable | None]:
        """The messages up to where the bytes are none, and what is wrong there."""
        found: list[ReceivedMessage] = []
        try:
            for message in read_messages(body, queue, address):
                found.append(message)
                if message.damaged:
                    self._warn(queue, message.queue_offset, "its body fails its check sum, and is given to nobody")
        except Unreadable as wrong:
            return found, wrong
        return found, None

    def _before(self, wrong: Unreadable, found: list[ReceivedMessage], asked: PullMessage, queue: MessageQueue, end: int) -> int:
        """Where to go on behind what could be read of an answer.  Raises `wrong` where nothing could.

        Raises it as well where queue offsets in the messages are not those of the queue: a light one has them of another's.
        """
        at = found[-1].queue_offset + 1 if found else asked.queue_offset
        behind = asked.queue_offset < at < end and found[-1].stored_topic == asked.topic
        where = at if behind else asked.queue_offset
        self._warn(queue, where, "what lies there is no message, and hides where the next one begins")
        if not behind:
            raise wrong
        return at

    def _warn(self, queue: MessageQueue, offset: int, what: str) -> None:
        """Say what is wrong with a message, and again only after a while: who waits behind it asks every few seconds."""
        said, until_s = self._warned.get(queue, (-1, 0.0))
        if offset != said or trio.current_time() >= until_s:
            self._warned[queue] = (offset, trio.current_time() + WARN_AGAIN_S)
            self._client.log.warning("%s, offset %d: %s", str(queue), offset, what)

    # Where a queue begins and ends

    async def min_offset(self, queue: MessageQueue) -> int:
        """The offset of its oldest message."""
        address, topic = await self._master(queue)
        answer = await self._client.ask(address, GetMinOffset(topic=topic, queue_id=queue.queue_id, bname=queue.broker_name))
        return _header(answer, GetMinOffsetResponse, address).offset

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that its next message will have."""
        address, topic = await self._master(queue)
        answer = await self._client.ask(address, GetMaxOffset(topic=topic, queue_id=queue.queue_id, bname=queue.broker_name))
        return _header(answer, GetMaxOffsetResponse, address).offset

    async def offset_at(self, queue: MessageQueue, wall_ms: int) -> int:
        """The offset of the first message that was stored at this time or later."""
        address, topic = await self._master(queue)
        request = SearchOffset(topic=topic, queue_id=queue.queue_id, timestamp=wall_ms, bname=queue.broker_name)
        return _header(await self._client.ask(address, request), SearchOffsetResponse, address).offset

    async def earliest_store_time(self, queue: MessageQueue) -> int | None:
        """When its oldest message was stored, in wall milliseconds; None: it is empty."""
        address, topic = await self._master(queue)
        request = GetEarliestMsgStoretime(topic=topic, queue_id=queue.queue_id, bname=queue.broker_name)
        found = _header(await self._client.ask(address, request), GetEarliestMsgStoretimeResponse, address).timestamp
        return None if found < 0 else found

    # A group's progress

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """The offset that the group consumes next; None: it has none, and must choose where to begin."""
        address, topic = await self._keeper(queue)
        request = QueryConsumerOffset(
            consumer_group=self._group, topic=topic, queue_id=queue.queue_id, set_zero_if_not_found=False, bname=queue.broker_name
        )
        answer = await self._client.ask(address, request, also=(ResponseCode.QUERY_NOT_FOUND,))
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        return _header(answer, QueryConsumerOffsetResponse, address).offset

    async def commit_offset(self, queue: MessageQueue, offset: int) -> None:
        """Say that the group has consumed all before this offset.  Returns when the broker has taken it."""
        if offset < 0:
            raise CallerError(f"an offset of {offset}")
        address, topic = await self._keeper(queue)
        request = UpdateConsumerOffset(
            consumer_group=self._group, topic=topic, queue_id=queue.queue_id, commit_offset=offset, bname=queue.broker_name
        )
        await self._client.ask(address, request)

    # Addresses

    async def _reading(self, queue: MessageQueue, topic: str) -> Place:
        for fresh in (False, True):
            await self._client.route(topic, fresh=fresh)
            place = self._client.routes.reading_place(queue.broker_name, self._suggested.get(queue, MASTER_ID))
            if place is not None:
                return place
        raise NoBroker(f"no route names the broker {queue.broker_name}")

    async def _master(self, queue: MessageQueue) -> tuple[str, str]:
        """Its address, and the topic on the wire."""
        topic = self._client.on_wire(queue.topic)
        for fresh in (False, True):
            await self._client.route(topic, fresh=fresh)
            address = self._client.routes.master(queue.broker_name)
            if address is not None:
                return address, topic
        raise NoBroker(f"no route names a master of the broker {queue.broker_name}")

    async def _keeper(self, queue: MessageQueue) -> tuple[str, str]:
        """Who keeps progress: the master, a slave while there is none.  Source: `RemoteBrokerOffsetStore`."""
        try:
            return await self._master(queue)
        except NoBroker:
            place = self._client.routes.reading_place(queue.broker_name)
            if place is None:
                raise
            return place.address, self._client.on_wire(queue.topic)


class Reading:
    """A queue read on and on; made by `Puller.reading`.  `offset`: the next one."""

    def __init__(self, puller: Puller, queue: MessageQueue, offset: int | None, subscription: Subscription, hold_ms: int) -> None:
        self.offset = offset
        self._puller = puller
        self._queue = queue
        self._subscription = subscription
        self._hold_ms = hold_ms

    async def next(self) -> tuple[ReceivedMessage, ...] | None:
        """The messages that come next, at least one; None: at the end, and nobody wants to wait for more."""
        if self.offset is None:
            self.offset = await self._puller.min_offset(self._queue)
        while True:
            began_s = trio.current_time()
            result = await self._puller.pull(self._queue, self.offset, subscription=self._subscription, hold_ms=self._hold_ms)
            moved = result.next_offset != self.offset
            self.offset = result.next_offset
            if result.messages:
                return result.messages
            if not moved:
                if not self._hold_ms:
                    return None
                await trio.sleep_until(ask_again_s(began_s, self._hold_ms))


def _header(answer: Command, kind: type[_H], address: str) -> _H:
    try:
        return answer.header(kind)
    except BadHeader as wrong:
        raise Unreadable(str(wrong), address) from None
