"""A member of a group: pulls wait at brokers, listeners get what comes, progress follows what is done.

A message counts as consumed when its listener has returned; one whose listener raised, or asks for it, comes again later.
Progress is the smallest offset that is not done, told every 5 s, with each pull, and when the block is left.  So nothing is
lost, and after a crash some come twice.  Two ways of consuming, `concurrently` and `orderly`; two of sharing: members have
queues each, or all get all (broadcasting).
Source: `DefaultMQPushConsumerImpl`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio

from rmq_client.consuming.allocation import AllocateStrategy
from rmq_client.consuming.assignment import Assignment
from rmq_client.consuming.checking import check_subscription
from rmq_client.consuming.concurrently import Concurrently
from rmq_client.consuming.giving_back import GivingBack, inner_producer
from rmq_client.consuming.listener import ConsumeHook, Listener
from rmq_client.consuming.listening import Listening
from rmq_client.consuming.local_offsets import LocalOffsets
from rmq_client.consuming.orderly import Orderly
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.progress import LocalProgress, Progress, RemoteProgress
from rmq_client.consuming.pull_result import ERROR_PAUSE_S, PullResult, PullStatus, ask_again_s, pause_after
from rmq_client.consuming.pulling import Puller
from rmq_client.consuming.queue_locks import QueueLocks
from rmq_client.consuming.rates import NOTE_MS
from rmq_client.consuming.reporting import consume_directly, running_info
from rmq_client.consuming.service import ConsumeService, Consuming, until_less
from rmq_client.consuming.subscriptions import Subscription
from rmq_client.core import ClientCore
from rmq_client.errors import CallerError, ClientError, InvalidName
from rmq_client.own_tasks import own_nursery
from rmq_client.settings import ConsumerSettings
from rmq_client.world import mono_ms
from rmq_wire import names
from rmq_wire.bodies.consumer_answers import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from rmq_wire.bodies.heartbeat import CONSUME_PASSIVELY, ConsumerData, SubscriptionData
from rmq_wire.fastjson import MessageQueue

HOLD_MS: Final = 15_000
PULL_TIMEOUT_MS: Final = 30_000
PAUSED_S: Final = 1.0
"""How often one that was told to pause says that it is alive: a queue that nobody pulls is given up."""
OFFSET_PAUSE_S: Final = 10.0
"""A queue that goes on elsewhere is begun again after so long: what listeners have of it should have ended."""
FIRST_PULL_S: Final = 0.5
"""The old owner of a queue has so long to tell how far it is; who was alone from the beginning waits for nobody."""
REBALANCE_APART_S: Final = 1.0
LAST_WORDS_S: Final = 10.0
"""How long leaving waits for brokers to hear how far it is."""
DEFAULT_INSTANCE: Final = "DEFAULT"


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
        hooks: Sequence[ConsumeHook] = (),
    ) -> None:
        self.group = group
        self.settings = settings
        self._client = client
        self._group = client.group_on_wire(group)
        self._subscriptions = {client.on_wire(topic): subscription for topic, subscription in topics.items()}
        if not settings.broadcasting:
            self._subscriptions[names.retry_topic(self._group)] = Subscription()
        self._sub_version = self._started_ms = client.world.wall_ms()
        self._puller = Puller(client, group)
        self._nursery = nursery
        self._resumed = trio.Event()
        self._resumed.set()
        self._changed = trio.Event()
        self._loops: dict[MessageQueue, trio.CancelScope] = {}
        progress = self._progress = self._kept()
        self._locks = QueueLocks(client, self._group) if settings.orderly and not settings.broadcasting else None
        self._assignment = Assignment(
            client, self._group, self._puller, progress, strategy, settings, self._admit, self._begin, self._end
        )
        self._own = Consuming(
            client,
            settings,
            nursery,
            Listening(
                listener,
                settings.consume_thread_max,
                client.log,
                group=group,
                hooks=hooks,
                timeout_ms=settings.consume_timeout_ms,
            ),
            progress,
            GivingBack(client, self._group, settings, inner_producer(client)),
            self._assignment.queues,
        )
        self._service: ConsumeService = Orderly(self._own, self._locks) if settings.orderly else Concurrently(self._own)

    def _kept(self) -> Progress:
        client = self._client
        if not self.settings.broadcasting:
            return RemoteProgress(client, self._group, self._puller)
        place = f"{client.world.ip}@{client.settings.instance_name or DEFAULT_INSTANCE}"
        return LocalProgress(client, LocalOffsets(place, self._group, self.settings.local_offset_store_dir))

    @property
    def queues(self) -> list[MessageQueue]:
        """Those that are this member's now, without retries."""
        own = [queue for queue, held in self._assignment.queues.items() if not held.dropped]
        return sorted(
            queue._replace(topic=self._client.to_caller(queue.topic)) for queue in own if not names.is_retry_topic(queue.topic)
        )

    @property
    def consume_thread_max(self) -> int:
        """How many listeners work at once; may be set."""
        return self._own.listening.most

    @consume_thread_max.setter
    def consume_thread_max(self, most: int) -> None:
        self._own.listening.most = most

    def pause(self) -> None:
        """Pull nothing more; what is here goes on."""
        if self._resumed.is_set():
            self._resumed = trio.Event()

    def resume(self) -> None:
        """Pull again."""
        self._resumed.set()

    def take_no_more(self) -> None:
        """Before leaving: listeners end what they have and get nothing new; that is left to the next member."""
        self._own.stopping = True

    # The group

    def _subscribed(self) -> list[SubscriptionData]:
        return [subscription.data(topic, self._sub_version) for topic, subscription in self._subscriptions.items()]

    def consumer_data(self) -> ConsumerData:
        """What heartbeats say of it."""
        return ConsumerData(
            group_name=self._group,
            consume_type=CONSUME_PASSIVELY,
            message_model=self.settings.message_model,
            consume_from_where=self.settings.consume_from_where,
            subscription_data_set=self._subscribed(),
        )

    def brokers(self) -> set[str]:
        """Names, of its queues."""
        return {queue.broker_name for queue in self._assignment.queues}

    async def start(self) -> None:
        """Become a member.  What would never work is said now, nobody would hear of it later.

        Raises `NoRoute`, `NetworkError` where a topic has no route, `BrokerError` for an expression that brokers cannot evaluate.
        """
        for wanted in self._subscribed():
            if not names.is_retry_topic(wanted.topic):
                await self._client.route(wanted.topic)
                await check_subscription(self._client, self._group, wanted)
        await self._progress.load()
        self._client.members.topics |= self._subscriptions.keys()
        self._client.members.join_consumer(self._group, self)
        self._client.on_members_change.append(self._heed)
        self._client.on_route_change.append(self._heed)
        try:
            await self._client.heartbeat()
        except BaseException:  # cancelled: heartbeats would go on naming a member that consumes nothing
            with trio.CancelScope(shield=True):
                await self._leave()
            raise
        for keep in (self._keep_sharing, self._keep_persisting, self._keep_noting, self._service.run):
            self._nursery.start_soon(keep)

    async def stop(self) -> None:
        """Leave the group: no new pulls, listeners end, progress is told and awaited, locks are given back."""
        self._own.stopping = True
        for scope in self._loops.values():
            scope.cancel()
        try:
            with trio.move_on_after(self.settings.await_termination_ms / 1e3):
                await self._own.working.until_idle()
            queues = list(self._assignment.queues)
            for held in self._assignment.queues.values():
                held.dropped = True
            with trio.move_on_after(LAST_WORDS_S):
                await self._progress.tell_all(queues, wait=True)
                if self._locks is not None:
                    await self._locks.unlock_all()
        finally:  # heartbeats must not go on naming it
            await self._leave()

    async def _leave(self) -> None:
        self._client.on_members_change.remove(self._heed)
        self._client.on_route_change.remove(self._heed)
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
                await self._client.heartbeat(moved=True)
            await trio.sleep(REBALANCE_APART_S)
            if self._assignment.balanced:
                with trio.move_on_after(max(self.settings.rebalance_interval_ms / 1e3 - REBALANCE_APART_S, 0)):
                    await self._changed.wait()

    # Queues that come and go

    async def _admit(self, queue: MessageQueue) -> bool:
        return not self._own.stopping and (self._locks is None or await self._locks.granted(queue))

    def _begin(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        self._progress.forget(queue)
        held.began_at = offset
        if self._own.stopping:
            held.dropped = True  # or its lock would be renewed
            return
        scope = self._loops[queue] = trio.CancelScope()
        self._nursery.start_soon(self._keep_pulling, queue, held, offset, scope)

    async def _end(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        if (scope := self._loops.pop(queue, None)) is not None:
            scope.cancel()
        if not await self._service.let_go(held):
            held.try_unlock_times += 1
            return False
        await self._progress.tell_all([queue], wait=True)
        if self._assignment.queues.get(queue) is held:  # nobody has given it up and begun it again meanwhile
            self._progress.forget(queue)
            held.locked = False
            if self._locks is not None:
                await self._locks.unlock([queue], wait=False)
        return True

    async def _keep_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int, scope: trio.CancelScope) -> None:
        subscription, settings = self._subscriptions[queue.topic], self.settings
        span_max = None if settings.orderly else settings.consume_concurrently_max_span
        with scope:
            if self._assignment.had_company:
                await trio.sleep(FIRST_PULL_S)
                held.began_at = offset = await self._read_again(queue)
            while not held.dropped:
                held.last_pull_ms = began_ms = mono_ms()
                if not self._resumed.is_set():
                    with trio.move_on_after(PAUSED_S):
                        await self._resumed.wait()
                    continue
                count_max, size_max = settings.limits_of_queue(len(self._assignment.queues))
                if held.too_full(count_max=count_max, size_max=size_max, span_max=span_max):
                    await until_less(held)
                    continue
                if self._locks is not None and not held.locked:
                    await trio.sleep(ERROR_PAUSE_S)
                    continue
                try:
                    result = await self._puller.pull(
                        queue,
                        offset,
                        subscription=subscription,
                        max_messages=settings.pull_batch_size,
                        hold_ms=HOLD_MS,
                        commit_offset=self._progress.with_pull(queue),
                        sub_version=self._sub_version,
                        timeout_ms=PULL_TIMEOUT_MS,
                    )
                except ClientError as error:
                    self._client.log.info("a pull failed: %s", str(error))
                    await trio.sleep(pause_after(error))
                    continue
                if result.status is PullStatus.OFFSET_ILLEGAL:
                    self._client.log.warning("%s has no such offset, it goes on at %d", str(queue), result.next_offset)
                    self._drop(queue, held, result.next_offset)
                    self._nursery.start_soon(self._begin_anew, {queue: held})
                    return
                stands, offset = result.next_offset == offset, result.next_offset
                self._take(queue, held, result, began_ms)
                if stands and not result.messages:
                    await trio.sleep_until(ask_again_s(began_ms / 1e3, HOLD_MS))
                if settings.pull_interval_ms:
                    await trio.sleep(settings.pull_interval_ms / 1e3)

    async def _read_again(self, queue: MessageQueue) -> int:
        """Where a queue begins: what its old owner told when it let go, which may be after it was given to us.

        Java reads only before the pause, and has all again that the old owner had done since it told last.
        """
        while True:
            try:
                return await self._assignment.where_to_begin(queue)
            except ClientError as error:
                self._client.log.warning("%s is not begun: %s", str(queue), str(error))
                await trio.sleep(ERROR_PAUSE_S)

    def _take(self, queue: MessageQueue, held: ProcessQueue, result: PullResult, began_ms: int) -> None:
        if held.dropped:
            return
        if not result.messages:
            if not held.count:  # nothing that is wanted was there, and nothing before it is open
                self._progress.table.update(queue, result.next_offset, increase_only=True)
            return
        rates = self._own.rates_of(queue.topic)
        rates.pull_ms.add(mono_ms() - began_ms)
        rates.pulled.add(len(result.messages))
        self._service.submit(result.messages, queue, held)

    # What brokers ask

    def go_on_at(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Source: `MQClientInstance.resetOffset`; it keeps all queues from pulling meanwhile, we those that it is about."""
        moved: dict[MessageQueue, ProcessQueue] = {}
        for queue, held in self._assignment.queues.items():
            if queue.topic == topic and offsets.get(queue, -1) >= 0 and not self._own.stopping:
                self._drop(queue, held, offsets[queue])
                held.clear()
                moved[queue] = held
        self._nursery.start_soon(self._begin_anew, moved)

    def _drop(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """It goes on at this offset, whoever has it then: what listeners still say of it moves nothing."""
        held.dropped = held.resting = True
        self._progress.table.freeze(queue, offset)

    async def _begin_anew(self, moved: Mapping[MessageQueue, ProcessQueue]) -> None:
        """Queues that were dropped begin again, unless they have become somebody else's meanwhile."""
        await trio.sleep(OFFSET_PAUSE_S)
        for queue, held in moved.items():
            held.resting = False
            await self._assignment.give_up(queue, held)
        self._changed.set()

    def progress(self, topic: str) -> dict[MessageQueue, int]:
        """Those of a topic."""
        known = self._progress.table
        return {queue: at for queue in self._assignment.queues if queue.topic == topic and (at := known.get(queue)) is not None}

    def running_info(self) -> ConsumerRunningInfo:
        """As `mqadmin consumerStatus` shows it."""
        return running_info(self._own, self._group, self._subscribed(), self._started_ms)

    async def consume_directly(self, unit: bytes, broker_name: str) -> ConsumeMessageDirectlyResult:
        """Have the listener take one message, outside of all order and progress.  Raises `Unreadable`."""
        return await consume_directly(self._own, self._service, unit, broker_name)

    # By itself

    async def _keep_persisting(self) -> None:
        while True:
            await trio.sleep(self.settings.persist_consumer_offset_interval_ms / 1e3)
            await self._progress.tell_all(self._progress.table.keep_only(self._assignment.queues.keys()), wait=False)

    async def _keep_noting(self) -> None:
        while True:
            for rates in self._own.rates.values():
                rates.note(self._client.world.wall_ms())
            await trio.sleep(NOTE_MS / 1e3)


@asynccontextmanager
async def consuming(
    client: ClientCore,
    group: str,
    topics: Mapping[str, Subscription],
    listener: Listener,
    strategy: AllocateStrategy,
    settings: ConsumerSettings,
    hooks: Sequence[ConsumeHook] = (),
) -> AsyncIterator[PushConsumer]:
    """A running consumer; when the block is left it has told its progress and left the group."""
    for topic in topics:
        if problem := names.topic_problem(topic):
            raise InvalidName(problem)
    if not callable(listener):
        raise CallerError(f"a listener is a function of messages and context, not {listener!r}")
    async with own_nursery() as nursery:
        consumer = PushConsumer(client, group, topics, listener, strategy, settings, nursery, hooks)
        await consumer.start()
        try:
            yield consumer
        finally:
            with trio.CancelScope(shield=True):
                await consumer.stop()
