"""The tables of a broker with light message queues (`enableLmq`): names that begin with %LMQ% need no entry anywhere.

A light queue counts as a topic with one queue, a light group as one with the defaults, and neither is ever written down.  The
progress of light groups has a table of its own, in a file of its own name that then holds all progress.

Java: `LmqTopicConfigManager`, `LmqSubscriptionGroupManager`, `LmqConsumerOffsetManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.state import consumer_offsets
from broker_impl.state.consumer_offsets import ABSENT, MAP_CAPACITY, SEPARATOR, ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.persisted import Rows
from broker_impl.state.safe_progress import SafeProgress
from broker_impl.state.topics import TopicTable
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.java import concurrent_buckets
from rmq_wire.names import is_lmq

LIGHT_QUEUES = 1
LIGHT_TABLE = "lmqOffsetTable"


class LightTopicTable(TopicTable):
    """Every light queue is a topic."""

    def __contains__(self, name: str) -> bool:
        return is_lmq(name) or super().__contains__(name)

    def get(self, name: str) -> TopicConfig | None:
        if is_lmq(name):
            return TopicConfig(topic_name=name, read_queue_nums=LIGHT_QUEUES, write_queue_nums=LIGHT_QUEUES)
        return super().get(name)


class LightGroupTable(GroupTable):
    """Every light group exists."""

    def __contains__(self, name: str) -> bool:
        return is_lmq(name) or super().__contains__(name)

    def get(self, name: str) -> SubscriptionGroupConfig | None:
        return SubscriptionGroupConfig(group_name=name) if is_lmq(name) else super().get(name)

    def find(self, name: str) -> SubscriptionGroupConfig | None:
        return SubscriptionGroupConfig(group_name=name) if is_lmq(name) else super().find(name)


class LightConsumerOffsets(ConsumerOffsets):
    """Light groups have one number per `topic@group`, whatever the queue id."""

    file = "lmqConsumerOffset.json"
    replaced = ConsumerOffsets.replaced | {LIGHT_TABLE}

    def __init__(self, config: BrokerConfig, env: Env, flushed: Callable[[], int] = lambda: 0) -> None:
        super().__init__(config, env, flushed)
        self._light: Rows[int] = Rows(self._in_light_file, buckets=concurrent_buckets(MAP_CAPACITY))
        self._light_safe = SafeProgress(flushed)

    def commit(self, group: str, topic: str, queue_id: int, offset: int, client: str = "") -> None:
        if not is_lmq(group):
            return super().commit(group, topic, queue_id, offset, client)
        key = topic + SEPARATOR + group
        if self._light_safe and self._light_safe.drop(key, 0):
            self._light.touch(key)
            self.changes += 1
        return self._put_light(key, offset)

    def commit_resting(self, group: str, topic: str, queue_id: int, offset: int, end_offset: int, client: str = "") -> None:
        if not is_lmq(group):
            return super().commit_resting(group, topic, queue_id, offset, end_offset, client)
        key = topic + SEPARATOR + group
        old = self._light.get(key)
        if old is not None and offset <= old:
            return None
        if old is not None:
            self._light_safe.add(key, 0, old, offset, end_offset)
        return self._put_light(key, offset)

    def is_full(self, group: str) -> bool:
        """Neither kind of groups takes the room of the other."""
        return self._is_light_full if is_lmq(group) else super().is_full(group)

    @property
    def _is_light_full(self) -> bool:
        return len(self._light.rows) >= consumer_offsets.ROWS_MAX

    def _put_light(self, key: str, offset: int) -> None:
        old = self._light.get(key)
        if old != offset and not (old is None and self._is_light_full):
            self._light.put(key, offset)
            self.changes += 1

    def query(self, group: str, topic: str, queue_id: int) -> int:
        if not is_lmq(group):
            return super().query(group, topic, queue_id)
        found = self._light.get(topic + SEPARATOR + group)
        return ABSENT if found is None else found

    def queues(self, group: str, topic: str) -> Mapping[int, int] | None:
        if not is_lmq(group):
            return super().queues(group, topic)
        found = self._light.get(topic + SEPARATOR + group)
        return None if found is None else {0: found}

    def knows(self, group: str, topic: str, queue_id: int) -> bool:
        return super().knows(group, topic, queue_id) if not is_lmq(group) else self.queues(group, topic) is not None

    def dropping_group(self, group: str) -> Generator[None, None, None]:
        if is_lmq(group):
            self._drop_light(key for key in self._light.rows if key.partition(SEPARATOR)[2] == group)
        yield from super().dropping_group(group)

    def dropping_topics(self, topics: Sequence[str]) -> list[Generator[None, None, None]]:
        """(Java keeps it, for a topic of the same name.)"""
        return [self._dropping_light(frozenset(topics)), *super().dropping_topics(topics)]

    def _dropping_light(self, topics: frozenset[str]) -> Generator[None, None, None]:
        """All rows are looked at once for all of them: 50 ms for as many as there may be."""
        self._drop_light(key for key in self._light.rows if key.partition(SEPARATOR)[0] in topics)
        yield from ()

    def _drop_light(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            self._light.drop(key)
            self._light_safe.forget(key)
            self.changes += 1

    def clamp(self, queue_bounds: Callable[[str, int], tuple[int, int]]) -> None:
        super().clamp(queue_bounds)
        for key, offset in list(self._light.rows.items()):
            most = queue_bounds(key.partition(SEPARATOR)[0], 0)[1]
            if offset > most:
                self._light.put(key, most)
                self.changed(at_once=False)

    @property
    def dirty(self) -> bool:
        return super().dirty or bool(self._light_safe)

    def encode_slices(self) -> Iterator[bytes]:
        yield from self._light_safe.settling(self._light.touch)
        yield from super().encode_slices()

    def _in_light_file(self, key: str, offset: int) -> int:
        return self._light_safe.of(key, {0: offset})[0]

    def members(self) -> dict[str, Rows[Any] | Any]:
        members = {**super().members(), LIGHT_TABLE: self._light}
        return {name: members[name] for name in sorted(members)}

    def take(self, document: dict[str, Any]) -> None:
        light = document.get(LIGHT_TABLE)
        super().take({name: value for name, value in document.items() if name != LIGHT_TABLE})
        for key, offset in light.items() if isinstance(light, dict) else ():
            if isinstance(offset, int) and not isinstance(offset, bool):
                self._light.put(str(key), offset)
