"""Which queues this member has: asked of brokers and computed anew every 20 s, and when somebody says that the group has changed.

A queue that stays is not touched.  One that goes is dropped at once, so that late results do not count.  One that comes begins
where the group's progress says, else where the settings say; when that cannot be found out, the next round tries again.
Source: `RebalanceImpl`, `RebalancePushImpl`, `RebalanceService`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from rmq_client.consuming.allocation import AllocateStrategy
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.consuming.progress import Progress
from rmq_client.consuming.pulling import Puller
from rmq_client.core import ClientCore
from rmq_client.errors import BrokerError, CallerError, ClientError, NetworkError, NoRoute, Unreadable
from rmq_client.settings import ConsumerSettings
from rmq_client.world import mono_ms
from rmq_wire import names
from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.clients import GetConsumerListByGroup

Admitted = Callable[[MessageQueue], Awaitable[bool]]
"""Whether a queue may be begun now.  Raises `ClientError`."""
Dropped = Callable[[MessageQueue, ProcessQueue], Awaitable[bool]]
"""Whether it is given up now; else it is asked about again."""
Taken = Callable[[MessageQueue, ProcessQueue, int], None]
"""With the offset to begin with."""
FIRST: Final = "CONSUME_FROM_FIRST_OFFSET"
LAST: Final = "CONSUME_FROM_LAST_OFFSET"
LOOK_BACK_MS: Final = 1_800_000
"""Where CONSUME_FROM_TIMESTAMP names no time."""


class Assignment:
    """The queues of one consumer, on the wire, and what it holds of each."""

    def __init__(
        self,
        client: ClientCore,
        group: str,
        puller: Puller,
        progress: Progress,
        strategy: AllocateStrategy,
        settings: ConsumerSettings,
        admitted: Admitted,
        taken: Taken,
        dropped: Dropped,
    ) -> None:
        self.queues: dict[MessageQueue, ProcessQueue] = {}
        self.balanced = True
        """The last round ended with the queues that it should have."""
        self.had_company = False
        """Another member was known at some time: what comes may have had an owner who still tells how far it is."""
        self._silent: set[str] = set()
        """Brokers that could not be asked in this round."""
        self._client = client
        self._group = group
        self._puller = puller
        self._progress = progress
        self._strategy = strategy
        self._settings = settings
        self._admitted = admitted
        self._taken = taken
        self._dropped = dropped

    async def share_out(self, topics: Mapping[str, object]) -> bool:
        """One round over these topics.  Whether anything changed.  What cannot be asked stays as it is."""
        changed = False
        self.balanced = True
        self._silent.clear()
        had: dict[str, list[MessageQueue]] = {}
        for queue in self.queues:
            had.setdefault(queue.topic, []).append(queue)
        for topic in topics:
            try:
                mine = await self._share_of(topic)
            except NoRoute:  # a retry topic that nobody needed yet
                continue
            except ClientError as error:
                self._client.log.warning("the queues of %s are not shared out anew: %s", topic, str(error))
                continue
            if mine is not None:
                changed |= await self._become(mine, had.get(topic, []))
        return changed

    async def _share_of(self, topic: str) -> set[MessageQueue] | None:
        """None: nobody knows the members."""
        route = await self._client.route(topic)
        if not route.readable:
            return None
        if self._settings.broadcasting:
            return set(route.readable)
        members = await self._members({queue.broker_name for queue in route.readable})
        if not members:
            return None
        self.had_company |= any(member != self._client.client_id for member in members)
        return self._allocated(sorted(route.readable), sorted(members))

    def _allocated(self, queues: list[MessageQueue], members: list[str]) -> set[MessageQueue]:
        """Those of the topic that the strategy chooses: one that names queues by itself says the same of each topic."""
        try:
            mine = set(self._strategy.allocate(self._client.client_id, queues, members))
        except ClientError:
            raise
        except Exception as error:
            self._client.log.error("the strategy failed", error=error)
            raise CallerError(f"the strategy raised {type(error).__name__}: {error}") from error
        return mine & set(queues)

    async def _members(self, brokers: set[str]) -> list[str]:
        """Of any broker that answers.  Java asks one, and does nothing for 20 s when that one is gone."""
        while True:
            broker = self._client.world.rng.choice(sorted(brokers - self._silent or brokers))
            try:
                return await self._members_at(broker)
            except NetworkError:
                self._silent.add(broker)
                if brokers <= self._silent:
                    raise

    async def _members_at(self, broker: str) -> list[str]:
        place = self._client.routes.reading_place(broker)
        if place is None:
            return []
        try:
            answer = await self._client.ask(place.address, GetConsumerListByGroup(consumer_group=self._group))
            return ConsumerIdList.read(answer.body).consumer_id_list
        except BadBody as wrong:
            raise Unreadable(str(wrong), place.address) from None
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:  # nobody is known there, not even we
                return []
            raise

    async def _become(self, mine: set[MessageQueue], had: Collection[MessageQueue]) -> bool:
        """had: queues of the topic when the round began; looking through all for each topic would take seconds with thousands."""
        changed = False
        now_ms = mono_ms()
        for queue in had:
            held = self.queues.get(queue)
            if held is None:
                continue
            gone = held.dropped and not held.resting
            if queue not in mine or gone or held.pull_expired(now_ms):
                changed |= await self.give_up(queue, held)
        for queue in sorted(mine - self.queues.keys()):
            if queue.broker_name in self._silent:  # the others need not wait for each of its queues
                continue
            try:
                if not await self._admitted(queue):
                    continue
                offset = await self.where_to_begin(queue)
            except ClientError as error:
                if isinstance(error, NetworkError):
                    self._silent.add(queue.broker_name)
                self._client.log.warning("%s is not begun: %s", str(queue), str(error))
                continue
            held = self.queues[queue] = ProcessQueue(mono_ms())
            held.locked = self._settings.orderly
            self._taken(queue, held, offset)
            changed = True
        has = {queue for queue in {*mine, *had} if (one := self.queues.get(queue)) and (one.resting or not one.dropped)}
        self.balanced &= mine == has
        return changed

    async def give_up(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Drop a queue: it is somebody else's, or is to be begun anew.  Whether that is done; else the next round asks again."""
        held.dropped = True
        if self.queues.get(queue) is not held:
            return True
        if not await self._dropped(queue, held):
            return False
        if self.queues.get(queue) is held:
            del self.queues[queue]
        return True

    async def where_to_begin(self, queue: MessageQueue) -> int:
        """Source: `RebalancePushImpl.computePullFromWhereWithException`."""
        committed = await self._progress.stored(queue)
        if committed is not None:
            return committed
        where, is_retry = self._settings.consume_from_where, names.is_retry_topic(queue.topic)
        if where == FIRST or (where == LAST and is_retry):
            return 0
        if where == LAST or is_retry:
            return await self._puller.max_offset(queue)
        at_ms = self._settings.consume_timestamp_ms
        return await self._puller.offset_at(queue, self._client.world.wall_ms() - LOOK_BACK_MS if at_ms is None else at_ms)
