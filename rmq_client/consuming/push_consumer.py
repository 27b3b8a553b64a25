"""A member of a group that consumes concurrently: pulls wait at brokers, listeners get what comes, progress follows what is done.

A message counts as consumed when its listener has returned; one whose listener raised, or asks for it, is given back and comes
again later.  Progress is the smallest offset that is not done, told to the broker every 5 s, with each pull, and when the block
is left.  So nothing is lost, and after a crash some come twice.
Source: `DefaultMQPushConsumerImpl`, `ConsumeMessageConcurrentlyService`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from rmq_client.consuming.allocation import AllocateStrategy
from rmq_client.consuming.assignment import Assignment
from rmq_client.consuming.giving_back import GivingBack
from rmq_client.consuming.listening import ConsumeConcurrentlyContext, Listener, Listening, acknowledged
from rmq_client.consuming.offset_table import OffsetTable
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.pulling import Puller, PullResult, PullStatus
from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import Subscription
from rmq_client.core import ClientCore
from rmq_client.errors import ClientError, InvalidName
from rmq_client.producing.producer import Producer
from rmq_client.settings import ConsumerSettings, ProducerSettings
from rmq_wire import names
from rmq_wire.bodies.heartbeat import CLUSTERING, CONSUME_PASSIVELY, ConsumerData
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import UpdateConsumerOffset

HOLD_MS: Final = 15_000
PULL_TIMEOUT_MS: Final = 30_000
FULL_PAUSE_S: Final = 0.05
ERROR_PAUSE_S: Final = 3.0
OFFSET_PAUSE_S: Final = 10.0
"""A queue whose offset was none of its own is begun again after so long."""
LOCAL_RETRY_S: Final = 5.0
FIRST_PULL_S: Final = 0.5
"""The old owner of a queue has so long to tell how far it is."""
REBALANCE_APART_S: Final = 1.0
EXPIRED_LEVEL: Final = 3
INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"


def inner_producer(client: ClientCore) -> Producer:
    """The one that passes messages on for all consumers of a client; no heartbeat names it."""
    return Producer(client, INNER_PRODUCER_GROUP, ProducerSettings(), known=False)


class PushConsumer:
    """Made by `Client.push_consumer`.  `consume_thread_max` and `pause`, `resume` may be used while it runs."""

    def __init__(
        self,
        client: ClientCore,
        group: str,
        topics: Mapping[str, Subscription],
        listener: Listener,
        strategy: AllocateStrategy,
        settings: ConsumerSettings,
        nursery: trio.Nursery,
    ) -> None:
        self.group = group
        self.settings = settings
        self._client = client
        self._group = client.group_on_wire(group)
        self._listening = Listening(listener, settings.consume_thread_max, client.log)
        self._stopping = False
        self._subscriptions = {client.on_wire(topic): subscription for topic, subscription in topics.items()}
        self._subscriptions[names.retry_topic(self._group)] = Subscription()
        self._sub_version = client.world.wall_ms()
        self._offsets = OffsetTable()
        self._puller = Puller(client, group)
        self._nursery = nursery
        self._working = 0
        self._resumed = trio.Event()
        self._resumed.set()
        self._changed = trio.Event()
        self._idle = trio.Event()
        self._loops: dict[MessageQueue, trio.CancelScope] = {}
        self._giving_back = GivingBack(client, self._group, settings, inner_producer(client))
        self._assignment = Assignment(client, self._group, self._puller, strategy, settings, self._begin, self._end)

    @property
    def queues(self) -> list[MessageQueue]:
        """Those that are this member's now, without retries."""
        own = [queue for queue in self._assignment.queues if not names.is_retry_topic(queue.topic)]
        return sorted(queue._replace(topic=self._client.to_caller(queue.topic)) for queue in own)

    @property
    def consume_thread_max(self) -> int:
        """How many listeners work at once; may be set."""
        return self._listening.most

    @consume_thread_max.setter
    def consume_thread_max(self, most: int) -> None:
        self._listening.most = most

    def pause(self) -> None:
        """Pull nothing more; what is here goes on."""
        if self._resumed.is_set():
            self._resumed = trio.Event()

    def resume(self) -> None:
        """Pull again."""
        self._resumed.set()

    # The group

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say of it."""
        data = [subscription.data(topic, self._sub_version) for topic, subscription in self._subscriptions.items()]
        return ConsumerData(
            group_name=self._group,
            consume_type=CONSUME_PASSIVELY,
            message_model=CLUSTERING,
            consume_from_where=self.settings.consume_from_where,
            subscription_data_set=data,
        )

    async def start(self) -> None:
        """Become a member.  Raises `NoRoute`, `NetworkError` where a topic has no route: nobody would ever hear."""
        for topic in self._subscriptions:
            if not names.is_retry_topic(topic):
                await self._client.route(topic)
        self._client.members.topics |= self._subscriptions.keys()
        self._client.members.join_consumer(self._group, self.consumer_data)
        self._client.on_members_change.append(self._heed)
        self._client.on_route_change.append(self._heed)
        await self._client.heartbeat()
        self._nursery.start_soon(self._keep_sharing)
        self._nursery.start_soon(self._keep_persisting)
        self._nursery.start_soon(self._keep_expiring)

    async def stop(self) -> None:
        """Leave the group: no new pulls, listeners end, progress is told and awaited."""
        self._client.on_members_change.remove(self._heed)
        self._client.on_route_change.remove(self._heed)
        self._stopping = True
        for scope in self._loops.values():
            scope.cancel()
        with trio.move_on_after(self.settings.await_termination_ms / 1e3):
            while self._working:
                self._idle = trio.Event()
                await self._idle.wait()
        with trio.move_on_after(self.settings.await_termination_ms / 1e3):
            for queue, held in list(self._assignment.queues.items()):
                held.dropped = True
                await self._tell(queue)
        self._client.members.leave_consumer(self._group)
        await self._client.say_goodbye(None, self._group)

    def _heed(self, name: str) -> None:
        if name == self._group or name in self._subscriptions:
            self._changed.set()

    async def _keep_sharing(self) -> None:
        while True:
            self._changed = trio.Event()
            if await self._assignment.share_out(self._subscriptions):
                self._sub_version = max(self._client.world.wall_ms(), self._sub_version + 1)
                await self._client.heartbeat()
            await trio.sleep(REBALANCE_APART_S)
            with trio.move_on_after(self.settings.rebalance_interval_ms / 1e3):
                await self._changed.wait()

    # Queues that come and go

    def _begin(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        self._offsets.remove(queue)
        if self._stopping:
            return
        scope = self._loops[queue] = trio.CancelScope()
        self._nursery.start_soon(self._keep_pulling, queue, held, offset, scope)

    async def _end(self, queue: MessageQueue, held: ProcessQueue) -> None:
        if (scope := self._loops.pop(queue, None)) is not None:
            scope.cancel()
        await self._tell(queue)
        self._offsets.remove(queue)

    async def _keep_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int, scope: trio.CancelScope) -> None:
        subscription, settings = self._subscriptions[queue.topic], self.settings
        with scope:
            await trio.sleep(FIRST_PULL_S)
            while not held.dropped:
                await self._resumed.wait()
                held.last_pull_ms = self._client.world.wall_ms()
                if held.too_full(
                    count_max=settings.pull_threshold_for_queue,
                    size_max=settings.pull_threshold_size_for_queue,
                    span_max=settings.consume_concurrently_max_span,
                ):
                    await trio.sleep(FULL_PAUSE_S)
                    continue
                try:
                    result = await self._puller.pull(
                        queue,
                        offset,
                        subscription=subscription,
                        max_messages=settings.pull_batch_size,
                        hold_ms=HOLD_MS,
                        commit_offset=self._offsets.get(queue),
                        sub_version=self._sub_version,
                        timeout_ms=PULL_TIMEOUT_MS,
                    )
                except ClientError as error:
                    self._client.log.info("a pull failed: %s", str(error))
                    await trio.sleep(ERROR_PAUSE_S)
                    continue
                if result.status is PullStatus.OFFSET_ILLEGAL:
                    await self._correct(queue, held, result)
                    return
                offset = result.next_offset
                self._take(queue, held, result)
                if settings.pull_interval_ms:
                    await trio.sleep(settings.pull_interval_ms / 1e3)

    def _take(self, queue: MessageQueue, held: ProcessQueue, result: PullResult) -> None:
        if not result.messages:
            if not held.count:  # nothing that is wanted was there, and nothing before it is open
                self._offsets.update(queue, result.next_offset, increase_only=True)
            return
        held.put(result.messages)
        most = self.settings.consume_message_batch_max_size
        for at in range(0, len(result.messages), most):
            self._nursery.start_soon(self._consume, result.messages[at : at + most], queue, held)

    async def _correct(self, queue: MessageQueue, held: ProcessQueue, result: PullResult) -> None:
        """The queue begins elsewhere than we thought: give it up, go on from where the broker says."""
        self._client.log.warning("%s has no such offset, it goes on at %d", str(queue), result.next_offset)
        held.dropped = True
        await trio.sleep(OFFSET_PAUSE_S)
        self._offsets.freeze(queue, result.next_offset)
        if self._assignment.queues.get(queue) is held:
            self._nursery.start_soon(self._begin_anew, queue)  # not here: what pulls, this task, ends with it

    async def _begin_anew(self, queue: MessageQueue) -> None:
        await self._assignment.give_up(queue)
        self._changed.set()

    # Messages

    async def _consume(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        """One batch, to its end.  What is left of it when neither way back works is tried again here."""
        for message in messages:
            message.topic = self._client.to_caller(message.topic_on_wire)
        shown = queue._replace(topic=messages[0].topic)

        def begins() -> bool:
            held.started(messages, self._client.world.wall_ms())
            return not (held.dropped or self._stopping)

        while messages and not held.dropped:
            context = ConsumeConcurrentlyContext(shown)
            self._working += 1
            try:
                called, status = await self._listening.call(messages, context, begins)
                if not called or held.dropped:  # another member has it now: whatever came out does not count
                    return
                done = acknowledged(len(messages), status, context.ack_index)
                left = await self._given_back(messages[done:], held, context.delay_level_when_next_consume)
                self._done([message for message in messages if message not in left], queue, held)
            finally:
                self._working -= 1
                if not self._working:
                    self._idle.set()
            messages = left
            if messages:
                await trio.sleep(LOCAL_RETRY_S)

    async def _given_back(
        self, messages: Sequence[ReceivedMessage], held: ProcessQueue, delay_level: int
    ) -> list[ReceivedMessage]:
        """Those that could not be given back."""
        left = []
        for message in messages:
            if not held.holds(message):  # it took too long, and was given back meanwhile
                continue
            try:
                await self._giving_back.give_back(message, delay_level)
            except ClientError as error:
                self._client.log.warning("%s is tried again here: %s", repr(message), str(error))
                left.append(message)
        return left

    def _done(self, messages: Sequence[ReceivedMessage], queue: MessageQueue, held: ProcessQueue) -> None:
        offset = held.remove(messages, self._client.world.wall_ms())
        if offset is not None and not held.dropped:
            self._offsets.update(queue, offset, increase_only=True)

    # Progress

    async def _keep_persisting(self) -> None:
        while True:
            await trio.sleep(self.settings.persist_consumer_offset_interval_ms / 1e3)
            for queue in self._offsets.keep_only(self._assignment.queues.keys()):
                await self._tell(queue, oneway=True)

    async def _tell(self, queue: MessageQueue, *, oneway: bool = False) -> None:
        offset = self._offsets.get(queue)
        if offset is None:
            return
        try:
            if not oneway:
                await self._puller.commit_offset(queue, offset)
            elif (address := self._client.routes.master(queue.broker_name)) is not None:
                request = UpdateConsumerOffset(
                    consumer_group=self._group,
                    topic=queue.topic,
                    queue_id=queue.queue_id,
                    commit_offset=offset,
                    bname=queue.broker_name,
                )
                timeout_ms = self._client.settings.mq_client_api_timeout_ms
                await self._client.connections.send_oneway(address, request, timeout_ms=timeout_ms)
        except ClientError as error:
            self._client.log.warning("progress in %s is not told: %s", str(queue), str(error))

    async def _keep_expiring(self) -> None:
        """Messages whose listener hangs are given back, so that they do not hold the queue's progress for ever."""
        while True:
            await trio.sleep(self.settings.consume_timeout_ms / 1e3)
            for queue, held in list(self._assignment.queues.items()):
                late = held.expired(self._client.world.wall_ms(), self.settings.consume_timeout_ms)
                for message in late:
                    assert isinstance(message, ReceivedMessage)
                    if not await self._given_back([message], held, EXPIRED_LEVEL):
                        self._done([message], queue, held)


@asynccontextmanager
async def consuming(
    client: ClientCore,
    group: str,
    topics: Mapping[str, Subscription],
    listener: Listener,
    strategy: AllocateStrategy,
    settings: ConsumerSettings,
) -> AsyncIterator[PushConsumer]:
    """A running consumer; when the block is left it has told its progress and left the group."""
    for topic in topics:
        if problem := names.topic_problem(topic):
            raise InvalidName(problem)
    raised: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            consumer = PushConsumer(client, group, topics, listener, strategy, settings, nursery)
            await consumer.start()
            try:
                yield consumer
            finally:
                with trio.CancelScope(shield=True):
                    await consumer.stop()
        except BaseException as error:
            raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised
