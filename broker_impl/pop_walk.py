"""In which order a pop goes through queues, where it begins in each, and how much lies there: for pop, peek and notification.

A pop reads the queue that it names, or all of the topic; before them, or behind them, those of the group's retry topic.  Chance
decides where it begins and whether retries come first, so that no queue starves; a topic with priorities is mostly read from its
highest queue down.

Java: `PopMessageProcessor` (processRequest, popMsgFromTopic, getPopOffset, getInitOffset), `PeekMessageProcessor`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state.attributes import MESSAGE_TYPE, PRIORITY_FACTOR
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.order_info import OrderInfos
from broker_impl.state.pop_lines import PopLines, QueueOfGroup
from broker_impl.state.topics import TopicTable
from rmq_store.store import Store
from rmq_wire import names
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.java import parse_long

FROM_FIRST: Final = 0
"""`initMode`: a new group begins at the first message (`ConsumeInitMode.MIN`)."""
CHANCES: Final = 100
QUEUES_MAX: Final = 2_048
"""That one pop of all queues goes through, some 5 µs each: of a topic with more it begins with another one each time."""
FEW_QUEUES: Final = 16
"""Of topics with so many the ways are remembered."""
PEEK_RETRY_EACH: Final = 5
"""One peek of so many looks at retries first."""


PRIORITY: Final = "PRIORITY"
"""The `message.type` of a topic whose queues are priorities."""
FACTOR: Final = 100
"""`priority.factor` of a group that has none."""


class NoRoom(Exception):
    """The table of progress is full, and has none of the group in this queue: nothing may be handed out of it."""


class Leg(NamedTuple):
    """Queues of one topic on the way.  `last`: of retries that are looked at only when there is still room."""

    topic: str
    queue_ids: Sequence[int]
    is_retry: bool
    last: bool


class PopWalk:
    """Of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Env,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        lines: PopLines,
        orders: OrderInfos,
        store: Store,
    ) -> None:
        self._config = config
        self._env = env
        self._topics = topics
        self._offsets = offsets
        self._lines = lines
        self._orders = orders
        self._store = store

    def of_pop(self, topic: TopicConfig, group: SubscriptionGroupConfig, queue_id: int, *, order: bool = False) -> Iterator[Leg]:
        """The queues of a pop, or of the wait for one.  `queue_id`: -1 for all.  An ordered one reads no retries."""
        config = self._config
        chance = self._env.rng.randrange(CHANCES)
        by_priority = not order and topic.attributes.get(MESSAGE_TYPE) == PRIORITY and chance < _factor(group)
        probability = config.pop_from_retry_probability_for_priority if by_priority else config.pop_from_retry_probability
        v2 = config.enable_retry_topic_v2
        if v2 and config.retrieve_message_from_pop_retry_topic_v1 and chance % 2 == 0:
            v2 = False
        retry = None if order else names.pop_retry_topic(topic.topic_name, group.group_name, v2=v2)
        walk = self._walk(
            topic,
            queue_id,
            retry,
            0 if by_priority else chance,
            retry_first=chance < probability,
            descending=config.priority_order_asc,
        )
        return iter(walk)

    def of_peek(self, topic: TopicConfig, group: str, queue_id: int) -> Iterator[Leg]:
        """The queues of a peek."""
        chance = self._env.rng.randrange(CHANCES)
        retry = names.pop_retry_topic(topic.topic_name, group, v2=self._config.enable_retry_topic_v2)
        return iter(self._walk(topic, queue_id, retry, chance, retry_first=chance % PEEK_RETRY_EACH == 0, descending=False))

    def _walk(
        self, topic: TopicConfig, queue_id: int, retry: str | None, chance: int, *, retry_first: bool, descending: bool
    ) -> Sequence[Leg]:
        retries = None if retry is None else self._topics.get(retry)
        count = topic.read_queue_nums
        if retries is None and queue_id < 0 < count <= FEW_QUEUES:
            return _all_few(topic.topic_name, count, chance % count, descending)
        queue_ids = self._queues(topic, chance, descending) if queue_id < 0 else (queue_id,)
        plain = Leg(topic.topic_name, queue_ids, is_retry=False, last=False)
        if retries is None:
            return (plain,)
        again = Leg(retries.topic_name, self._queues(retries, chance, descending), is_retry=True, last=not retry_first)
        return (again, plain) if retry_first else (plain, again)

    def _queues(self, topic: TopicConfig, chance: int, descending: bool) -> Sequence[int]:
        count = topic.read_queue_nums
        if count > QUEUES_MAX:
            chance = self._env.rng.randrange(count)
        return _few(count, chance, descending) if count <= FEW_QUEUES else _rotated(count, chance, descending)

    # Where a pop begins

    def begin(self, place: QueueOfGroup, init_mode: int = FROM_FIRST, *, init: bool = False) -> int:
        """The offset where the next pop of this queue begins.  `init`: one that is new is committed.  Raises Cold, `NoRoom`."""
        topic, group, queue_id = place
        offset = self._offsets.query(group, topic, queue_id)
        if offset < 0:
            offset = self._first(topic, queue_id, init_mode)
            if init:
                if self._offsets.is_full(group) and not self._offsets.knows(group, topic, queue_id):
                    raise NoRoom
                self._offsets.commit(group, topic, queue_id, offset, "getPopOffset")
        latest = self._lines.latest(place)
        return latest if latest > offset else offset

    def take_reset(self, place: QueueOfGroup) -> int | None:
        """An operator has set the group's progress: it starts anew there (`resetPopOffset`).  Told once."""
        topic, group, queue_id = place
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self._orders.clear_block(topic, group, queue_id)
            self._lines.clear(place)
            self._offsets.commit(group, topic, queue_id, reset, "ResetPopOffset")
        return reset

    def rest(self, place: QueueOfGroup, offset: int) -> int:
        """How many entries the queue has from there on."""
        return self._store.queue_bounds(place.topic, place.queue_id)[1] - offset

    def rest_of(self, topic: str, group: str, queue_ids: Sequence[int], init_mode: int) -> int:
        """How much lies in queues of which a pop that is full takes nothing: the sum of `rest`, from `begin` on.  Raises Cold."""
        progress = self._offsets.queues(group, topic) or {}
        lines = self._lines.of_topic(topic, group)
        ends = self._store.queue_ends(topic, queue_ids)
        try:
            left = sum(ends) - sum(map(progress.__getitem__, queue_ids))
        except KeyError:  # it has no progress in one of them
            init = not self._offsets.is_full(group)
            return sum(
                [
                    end - self.begin(QueueOfGroup(topic, group, queue_id), init_mode, init=init)
                    for queue_id, end in zip(queue_ids, ends, strict=True)
                ]
            )
        looked_at = queue_ids if len(lines) <= FEW_QUEUES else frozenset(queue_ids)
        for queue_id, line in lines.items():
            if queue_id in looked_at and (beyond := line[-1].next_offset - progress[queue_id]) > 0:
                left -= beyond
        return left

    def _first(self, topic: str, queue_id: int, init_mode: int) -> int:
        """For a group that has no progress (`getInitOffset`): the first message, or the last one.  Raises Cold.

        `initPopOffsetByCheckMsgInMem`: a queue that is young as a whole is read as a whole.
        """
        lowest, highest = self._store.queue_bounds(topic, queue_id)
        if init_mode == FROM_FIRST or names.is_retry_topic(topic):
            return lowest
        if self._config.init_pop_offset_by_check_msg_in_mem and self._store.is_in_memory(topic, queue_id):
            return 0
        return max(highest - 1, 0)


def _rotated(count: int, chance: int, descending: bool) -> Sequence[int]:
    numbers = range(count - 1, -1, -1) if descending else range(count)
    return [(number + chance) % count for number in numbers[:QUEUES_MAX]]


_few: Final = lru_cache(maxsize=4_096)(_rotated)


@lru_cache(maxsize=4_096)
def _all_few(topic: str, count: int, chance: int, descending: bool) -> tuple[Leg]:
    """The one way through a topic without retries."""
    return (Leg(topic, _few(count, chance, descending), is_retry=False, last=False),)


def _factor(group: SubscriptionGroupConfig) -> int:
    """Of so many pops in a hundred a group begins with the highest priority."""
    factor = parse_long(group.attributes.get(PRIORITY_FACTOR, ""))
    return FACTOR if factor is None else factor
