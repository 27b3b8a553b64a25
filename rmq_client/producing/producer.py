"""Sending: one message or a batch, to the next queue, to a chosen one, with or without an answer.

What is decided is in pure modules (`attempts`, `queue_choice`, `latency`, `selectors`, `send_requests`); here it meets the
network.  A send returns when a broker has the message, or raises: nothing is sent behind the caller's back.
Source: `DefaultMQProducer`, `DefaultMQProducerImpl`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import trio

from rmq_client.core import ClientCore
from rmq_client.errors import (
    AnswerLate,
    CallerError,
    ClientError,
    ConnectionEnded,
    InvalidMessage,
    NoBroker,
    NoQueue,
    Unreadable,
)
from rmq_client.messages import Message, SendResult, check_batch, check_message, check_topic
from rmq_client.producing.attempts import SendAttempts
from rmq_client.producing.back_pressure import BackPressure
from rmq_client.producing.latency import LatencyFaults
from rmq_client.producing.queue_choice import QueueChooser
from rmq_client.producing.requests import Prepared, prepare, prepare_batch, request_to, result_of, split_batch
from rmq_client.producing.selectors import Selector, by_hash
from rmq_client.routes import TopicRoute
from rmq_client.settings import ProducerSettings
from rmq_client.world import mono_ms
from rmq_wire.bodies.topics import PERM_WRITE
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.positions import GetMaxOffset

DETECT_LOOP_MS: Final = 3_000
"""How often is looked which brokers are to be probed."""


@dataclass(slots=True)
class SendContext:
    """What hooks see of one attempt.  `result` or `error`: afterwards, None of a one-way send."""

    group: str
    messages: Sequence[Message]
    queue: MessageQueue
    address: str
    oneway: bool
    result: SendResult | None = None
    error: ClientError | None = None


class SendHook(Protocol):
    """Looks on.  What it raises is logged and stops no send.  Java: `SendMessageHook`."""

    def before(self, context: SendContext) -> None:
        """Before the request leaves."""

    def after(self, context: SendContext) -> None:
        """When it is known what became of it."""


class _Sending(NamedTuple):
    """One send, from its beginning to its end: all attempts share the time.  `messages`: one, or those of a batch."""

    prepared: Prepared
    messages: Sequence[Message]
    queue: MessageQueue | None
    select: Selector | None
    began_ms: int
    timeout_ms: int

    @property
    def ends_ms(self) -> int:
        """When the time is up."""
        return self.began_ms + self.timeout_ms


class Producer:
    """One producer group of a client; made by `Client.producer`.  Any number of tasks may send at once."""

    def __init__(
        self,
        client: ClientCore,
        group: str,
        settings: ProducerSettings,
        hooks: Sequence[SendHook] = (),
        *,
        known: bool = True,
    ) -> None:
        """known: heartbeats name it.  Raises `InvalidName`, and `CallerError` when the client has a producer of this group."""
        self.group = group
        self.settings = settings
        self.hooks = list(hooks)
        self._client = client
        self._group = client.group_on_wire(group)
        if known:
            client.members.join_producer(self._group)
        self._faults = LatencyFaults(detect_interval_ms=settings.detect_interval_ms) if settings.send_latency_enable else None
        self._chooser = QueueChooser(client.world.rng, self._faults)
        self._pressure = (
            BackPressure(settings.back_pressure_for_async_send_num, settings.back_pressure_for_async_send_size)
            if settings.enable_backpressure_for_async_mode
            else None
        )
        if self._faults is not None and settings.start_detector_enable:
            client.nursery.start_soon(self._keep_probing, self._faults)

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        order_key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send one message and wait until a broker has it.

        To the next queue, with retries; or, tried once, to `queue`, to the one that `select` chooses, or to the one that all
        messages of `order_key` go to.  Raises `CallerError`, `NetworkError`, `BrokerError`; look at `maybe_stored`.
        """
        return await self._send(self._sending(message, queue, select, order_key, timeout_ms))

    async def pass_on(self, message: Message, packing: int) -> SendResult:
        """Send what was received, with the properties that RocketMQ itself has put in: nothing is checked.  Raises as `send`.

        packing: the bits of its sysFlag that say how its body is packed, which stays as it is.
        """
        prepared = self._prepared(message, self._client.on_wire(message.topic), packing)
        return await self._send(self._timed(prepared, [message], None, None, None))

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        select: Selector | None = None,
        order_key: str | int | None = None,
        timeout_ms: int | None = None,
    ) -> None:
        """Send one message and do not wait: whether a broker has it stays unknown.  Raises as `send`, where it cannot leave."""
        sending = self._sending(message, queue, select, order_key, timeout_ms)
        route = await self._route(sending)
        to = self._chosen(route, sending) or self._chooser.choose(route.topic, route.writable, mono_ms())
        await self._try(sending, to, sending.ends_ms - mono_ms(), oneway=True)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout_ms: int | None = None
    ) -> list[SendResult]:
        """Send messages of one topic in as few requests as `max_message_size` allows, one after the other; a result for each.

        Each request is stored whole or not at all.  When one fails, the error's `sent` has the results of those before it.
        """
        check_batch(messages)
        topic = self._client.on_wire(messages[0].topic)
        for message in messages:
            check_message(message, topic, self.settings.max_message_size)
        namespace = self._client.settings.namespace
        parts = list(split_batch(messages, topic, namespace, self.settings.max_message_size))
        results: list[SendResult] = []
        for part in parts:
            prepared = prepare_batch(part, topic, self._group, self.settings, namespace, self._make_key)
            try:
                results.append(await self._send(self._timed(prepared, part, queue, None, timeout_ms)))
            except ClientError as error:
                error.sent = tuple(results)
                raise
        return results

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Those that may be sent to now; a topic that is still to be made has those that it will get.  Raises as `send`."""
        wire_topic = self._client.on_wire(topic)
        check_topic(wire_topic)
        route = await self._route_of(wire_topic, self.settings.send_msg_timeout_ms)
        return [self._shown(one) for one in route.writable]

    # One send

    def _sending(
        self,
        message: Message,
        queue: MessageQueue | None,
        select: Selector | None,
        order_key: str | int | None,
        timeout_ms: int | None,
    ) -> _Sending:
        """Checked.  Raises `CallerError`."""
        topic = self._client.on_wire(message.topic)
        check_message(message, topic, self.settings.max_message_size)
        chosen = _one_way_to_choose(queue, select, order_key)
        return self._timed(self._prepared(message, topic), [message], queue, chosen, timeout_ms)

    def _prepared(self, message: Message, topic: str, packing: int | None = None) -> Prepared:
        namespace = self._client.settings.namespace
        return prepare(message, topic, self._group, self.settings, namespace, self._make_key, packing)

    def _timed(
        self,
        prepared: Prepared,
        messages: Sequence[Message],
        queue: MessageQueue | None,
        select: Selector | None,
        timeout_ms: int | None,
    ) -> _Sending:
        """Its time begins now.  Raises `CallerError` for a time that is none."""
        if timeout_ms is not None and timeout_ms < 0:
            raise CallerError(f"timeout_ms must not be below 0 (0 is the default), not {timeout_ms}")
        return _Sending(prepared, messages, queue, select, mono_ms(), timeout_ms or self.settings.send_msg_timeout_ms)

    async def _send(self, sending: _Sending) -> SendResult:
        if self._pressure is None:
            return await self._send_now(sending)
        try:
            with trio.fail_after(sending.timeout_ms / 1e3):
                room = await self._pressure.begin(sum(len(message.body) for message in sending.messages))
        except trio.TooSlowError:
            raise AnswerLate(f"{sending.timeout_ms} ms were over before other sends had ended: too many are under way") from None
        try:
            return await self._send_now(sending)
        finally:
            self._pressure.end(room)

    async def _send_now(self, sending: _Sending) -> SendResult:
        route = await self._route(sending)
        chosen = self._chosen(route, sending)
        if chosen is not None:
            left_ms = sending.ends_ms - mono_ms()
            if left_ms <= 0:
                raise AnswerLate(f"{sending.timeout_ms} ms were over before a queue was chosen")
            result = await self._try(sending, chosen, left_ms)
            assert result is not None
            return result
        attempts = SendAttempts(
            route.topic,
            route.writable,
            self._chooser,
            self._faults,
            self.settings,
            began_ms=sending.began_ms,
            timeout_ms=sending.timeout_ms,
        )
        while (attempt := attempts.next(mono_ms())) is not None:
            try:
                found = await self._try(sending, attempt.queue, attempt.timeout_ms)
                assert found is not None
                attempts.stored(attempt, found, mono_ms())
            except ClientError as error:
                attempts.failed(attempt, error, mono_ms())
                self._client.log.info("a send to %s failed: %s", attempt.queue.broker_name, str(error))
        return attempts.outcome()

    async def _route(self, sending: _Sending) -> TopicRoute:
        known = self._client.known_route(sending.prepared.topic, sending.began_ms)
        if known is not None and known.writable:
            return known
        return await self._route_of(sending.prepared.topic, sending.timeout_ms)

    async def _route_of(self, topic: str, timeout_ms: int) -> TopicRoute:
        try:
            with trio.fail_after(timeout_ms / 1e3):
                told = self.settings
                route = await self._client.route_to_write(topic, told.create_topic_key, told.default_topic_queue_nums)
        except trio.TooSlowError:
            raise AnswerLate(f"no name server told the route of {topic} within {timeout_ms} ms") from None
        if not route.writable:
            may_be = any(one.perm & PERM_WRITE and one.write_queue_nums > 0 for one in route.data.queue_datas)
            why = "no broker of it has a master now" if may_be else "it is read only"
            raise NoBroker(f"{self._client.to_caller(topic)} has no queue that may be written: {why}")
        return route

    def _chosen(self, route: TopicRoute, sending: _Sending) -> MessageQueue | None:
        """The queue that the caller wants, on the wire."""
        queue, message = sending.queue, sending.messages[0]
        if queue is None and sending.select is not None:
            shown = [self._shown(one) for one in route.writable]
            queue = sending.select(shown, message)
            if queue is None or queue not in shown:
                raise NoQueue(f"the selector chose {queue}, which is no queue of {message.topic} that may be written")
        elif queue is not None and queue.topic != message.topic:
            raise CallerError(f"the queue is of {queue.topic}, the message of {message.topic}")
        return None if queue is None else queue._replace(topic=route.topic)

    def _shown(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=self._client.to_caller(queue.topic))

    async def _try(self, sending: _Sending, queue: MessageQueue, timeout_ms: int, *, oneway: bool = False) -> SendResult | None:
        """One attempt."""
        client, prepared = self._client, sending.prepared
        address = client.routes.master(queue.broker_name)
        if address is None:
            raise NoBroker(f"no route names a master of the broker {queue.broker_name}")
        context = SendContext(self.group, sending.messages, queue, address, oneway)
        for hook in self.hooks:
            self._call(hook.before, context)
        try:
            request = request_to(prepared, queue, client.world.wall_ms())
            if oneway:
                await client.connections.send_oneway(address, request, prepared.body, timeout_ms=timeout_ms)
            else:
                answer = await client.connections.ask(address, request, prepared.body, timeout_ms=timeout_ms)
                context.result = result_of(prepared, queue, answer, address, sending.messages[0].topic)
        except ClientError as error:
            context.error = error
            error.maybe_stored = not oneway and isinstance(error, AnswerLate | ConnectionEnded | Unreadable)
            raise
        finally:
            for hook in self.hooks:
                self._call(hook.after, context)
        return context.result

    def _call(self, hook: Any, context: SendContext) -> None:
        try:
            hook(context)
        except Exception as error:
            self._client.log.error("a send hook failed", error=error)

    def _make_key(self) -> str:
        return self._client.unique_keys.make(self._client.world.wall_ms())

    async def _keep_probing(self, faults: LatencyFaults) -> None:
        while True:
            await trio.sleep(DETECT_LOOP_MS / 1e3)
            for name, address in faults.to_probe(mono_ms(), self._client.routes.master):
                topic = self._topic_in(name)
                if topic is None:
                    continue
                try:
                    probe = GetMaxOffset(topic=topic, queue_id=0)
                    await self._client.ask(address, probe, timeout_ms=self.settings.detect_timeout_ms)
                    faults.answered(name)
                except ClientError as error:
                    self._client.log.debug("%s is not back: %s", name, str(error))

    def _topic_in(self, broker_name: str) -> str | None:
        routes = self._client.routes
        for topic in routes.topics:
            route = routes.get(topic)
            if route is not None and any(queue.broker_name == broker_name for queue in route.writable):
                return topic
        return None


def _one_way_to_choose(queue: MessageQueue | None, select: Selector | None, order_key: str | int | None) -> Selector | None:
    if sum(one is not None for one in (queue, select, order_key)) > 1:
        raise InvalidMessage("name a queue, a selector or an order key, not several")
    return by_hash(order_key) if order_key is not None else select
