"""Filters by properties that consumer groups have registered with their heartbeats: `consumerFilter.json`.

One for each group and topic.  A newer version with another text replaces it; a group that is gone leaves it dead, to be taken up
again or replaced by its next member, whatever his version (*differs*), or cleared away a day later.  A text is compiled when it
is first needed, by a pull or the next save, never in a heartbeat, which may bring hundreds; one that cannot be compiled is then
as if it had never been registered, which is what the asker sees of the reference, too.

Java: `ConsumerFilterManager`, `ConsumerFilterData`.  Left out: bit maps of queue extensions; their positions are only written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from broker_impl.config import BrokerConfig
from broker_impl.env import Env
from broker_impl.filtering import PropertyFilter, characters_to_read, is_tag_type, property_filter
from broker_impl.state.persisted import PersistedTable, Rows, leftover
from rmq_wire import fastjson
from rmq_wire.bloom import Bloom
from rmq_wire.bodies.filters import ConsumerFilterData, FilterTable
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.java import concurrent_buckets, concurrent_order

_BUCKETS: Final = concurrent_buckets(256)
FILTERS_OF_TOPIC_MAX: Final = 256
"""What one slice of a save encodes; more groups with filters on one topic are not registered, and told so (27)."""
CHARACTERS_OF_TOPIC_MAX: Final = 128 << 10
"""Of all their texts, for the same reason: eight of the longest, or 512 for each group; 5 ms where each has to be escaped."""
FILTERS_MAX: Final = 10_000
"""On all topics."""
CHARACTERS_MAX: Final = 2 << 20
"""Of all texts: in the file it may be six times as much, compiled forty times.  Filters whose group is gone make room."""
DEAD_AT_LOAD_MS: Final = 30_000
"""Whoever is in the file counts as gone since so long before the start, but not longer than it lives."""


class ConsumerFilter:
    """One group's filter on one topic.  Times are wall milliseconds."""

    __slots__ = ("compiled", "matches", "said")

    def __init__(self, said: ConsumerFilterData) -> None:
        self.said = said
        self.matches: PropertyFilter | None = None
        self.compiled = False

    @property
    def dead(self) -> bool:
        """Nobody of the group is there (`isDead`)."""
        return self.said.dead_time >= self.said.born_time


class ConsumerFilters(PersistedTable):
    """All filters of a broker."""

    file = "consumerFilter.json"
    replaced = frozenset({"filterDataByTopic"})

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        super().__init__()
        self._env = env
        self._config = config
        self._bloom = Bloom(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self._rows: Rows[dict[str, ConsumerFilter]] = Rows(self._plain, buckets=_BUCKETS)
        self._topics_of: dict[str, dict[str, None]] = {}
        """Group -> topics."""
        self._waiting: dict[tuple[str, str], None] = {}
        """(topic, group) of those that nobody has compiled yet."""
        self._dead: dict[tuple[str, str], ConsumerFilter] = {}
        """(topic, group) of those whose group is gone."""
        self._count = 0
        self._characters: Counter[str] = Counter()
        """Topic -> of its filters."""
        self._characters_of_all = 0

    def __len__(self) -> int:
        return self._count

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """The group's filter, ready to be used.  None: there is none, or its text cannot be compiled."""
        found = (self._rows.get(topic) or {}).get(group)
        if found is None or found.compiled:
            return found
        return self._compile(topic, group, found)

    def text(self, topic: str, group: str) -> str:
        """What tools are shown of the group's filter (321): Java's object, or `null`."""
        found = self.get(topic, group)
        return "null" if found is None else fastjson.dumps_pretty(self._plain_filter(found)).decode()

    @property
    def waiting(self) -> bool:
        """Some were not read yet."""
        return bool(self._waiting)

    def characters_to_read(self, topic: str, group: str) -> int:
        """How long the selector is that `get` would have to read."""
        if (topic, group) not in self._waiting:
            return 0
        said = self._rows.rows[topic][group].said
        return characters_to_read(said.expression, said.expression_type)

    def register(self, group: str, subscriptions: Sequence[SubscriptionData]) -> None:
        """A heartbeat brought a group's subscriptions: `Clients.on_subscribed`."""
        topics = set()
        for said in subscriptions:
            topics.add(said.topic)
            if not is_tag_type(said.expression_type) and said.sub_string:
                self._register(group, said)
        for topic in self._topics_of.get(group, {}).keys() - topics:
            self._die(topic, group)

    def group_gone(self, group: str) -> None:
        """The last member has left: `Clients.on_group_gone`."""
        for topic in self._topics_of.get(group, ()):
            self._die(topic, group)

    def sweep(self) -> None:
        """Clear away those that are dead for too long (`clean`)."""
        self._clear_dead(self._config.filter_data_clean_time_span)

    def _clear_dead(self, since_ms: int) -> None:
        now = self._env.wall_ms
        for (topic, group), one in list(self._dead.items()):
            if now - one.said.dead_time >= since_ms:
                self._drop(topic, group)

    # The file

    def members(self) -> dict[str, Rows[Any] | Any]:
        return {"filterDataByTopic": self._rows}

    def take(self, document: dict[str, Any]) -> None:
        table = FilterTable.from_plain(document)
        now = self._env.wall_ms
        for topic, filters in table.filter_data_by_topic.items():
            for group, said in (filters.group_filter_data if filters is not None else {}).items():
                if said is None or not said.expression or is_tag_type(said.expression_type):
                    continue
                said.topic, said.consumer_group = topic, group
                if said.dead_time == 0:
                    said.dead_time = max(said.born_time, now - DEAD_AT_LOAD_MS)
                self._put(topic, group, ConsumerFilter(said))
        self.unknown = leftover(document, ("filterDataByTopic",))

    def encode_slices(self) -> Iterator[bytes]:
        while self._waiting:
            self.get(*next(iter(self._waiting)))
            yield b""
        yield from super().encode_slices()

    def _plain(self, topic: str, filters: dict[str, ConsumerFilter]) -> dict[str, Any]:
        order = concurrent_order(filters)
        return {"groupFilterData": {group: self._plain_filter(filters[group]) for group in order}, "topic": topic}

    def _plain_filter(self, one: ConsumerFilter) -> dict[str, Any]:
        said = one.said
        positions = self._bloom.positions(f"{said.consumer_group}#{said.topic}")
        return {
            "bloomFilterData": {"bitNum": self._bloom.bits, "bitPos": positions},
            "bornTime": said.born_time,
            "clientVersion": said.client_version,
            "consumerGroup": said.consumer_group,
            "dead": one.dead,
            "deadTime": said.dead_time,
            "expression": said.expression,
            "expressionType": said.expression_type,
            "topic": said.topic,
        }

    # One filter

    def _register(self, group: str, said: SubscriptionData) -> None:
        topic, version = said.topic, said.sub_version
        old = (self._rows.get(topic) or {}).get(group)
        if old is not None and not old.dead and version <= old.said.client_version:
            return  # a member that has not heard of the newer one
        if old is not None and (old.said.expression, old.said.expression_type) == (said.sub_string, said.expression_type):
            old.said.client_version = version
            self._live(topic, group, old)
            return
        if not self._make_room(topic, old, len(said.sub_string or "")):
            self._env.log.warning("group %s: no room for its filter on %s", group, topic)
            if old is not None:
                self._drop(topic, group)  # it is not what the group wants any more
            return
        new = ConsumerFilterData(
            consumer_group=group,
            topic=topic,
            expression=said.sub_string,
            expression_type=said.expression_type,
            born_time=self._env.wall_ms,
            client_version=version,
        )
        self._put(topic, group, ConsumerFilter(new))
        self.changed(at_once=False)

    def _make_room(self, topic: str, old: ConsumerFilter | None, characters: int) -> bool:
        if not self._has_room(topic, old, characters):
            self._clear_dead(0)
        return self._has_room(topic, old, characters)

    def _has_room(self, topic: str, old: ConsumerFilter | None, characters: int) -> bool:
        if old is None and (self._count >= FILTERS_MAX or len(self._rows.get(topic) or ()) >= FILTERS_OF_TOPIC_MAX):
            return False
        added = characters - (0 if old is None else len(old.said.expression or ""))
        return self._characters[topic] + added <= CHARACTERS_OF_TOPIC_MAX and self._characters_of_all + added <= CHARACTERS_MAX

    def _weigh(self, topic: str, one: ConsumerFilter, sign: int) -> None:
        characters = sign * len(one.said.expression or "")
        self._characters_of_all += characters
        self._characters[topic] += characters

    def _put(self, topic: str, group: str, one: ConsumerFilter) -> None:
        filters = self._rows.get(topic) or {}
        if group in filters:
            self._weigh(topic, filters[group], -1)
        else:
            self._count += 1
        self._weigh(topic, one, 1)
        self._dead.pop((topic, group), None)
        if one.dead:
            self._dead[topic, group] = one
        filters[group] = one
        self._rows.put(topic, filters)
        self._topics_of.setdefault(group, {})[topic] = None
        self._waiting[topic, group] = None

    def _compile(self, topic: str, group: str, one: ConsumerFilter) -> ConsumerFilter | None:
        one.compiled = True
        self._waiting.pop((topic, group), None)
        try:
            one.matches = property_filter(one.said.expression or "", one.said.expression_type)
        except ValueError as wrong:
            self._env.log.warning("group %s: its filter on %s cannot be compiled: %s", group, topic, wrong)
            self._drop(topic, group)
            return None
        return one

    def _drop(self, topic: str, group: str) -> None:
        filters = self._rows.rows[topic]
        self._weigh(topic, filters.pop(group), -1)
        self._count -= 1
        self._waiting.pop((topic, group), None)
        self._dead.pop((topic, group), None)
        if filters:
            self._rows.touch(topic)
        else:
            self._rows.drop(topic)
            del self._characters[topic]
        topics = self._topics_of[group]
        del topics[topic]
        if not topics:
            del self._topics_of[group]
        self.changed(at_once=False)

    def _die(self, topic: str, group: str) -> None:
        one = self._rows.rows[topic][group]
        if not one.dead:
            one.said.dead_time = max(self._env.wall_ms, one.said.born_time)  # the clock may have gone back
            self._dead[topic, group] = one
            self._touched(topic)

    def _live(self, topic: str, group: str, one: ConsumerFilter) -> None:
        self._dead.pop((topic, group), None)
        one.said.dead_time = 0
        self._touched(topic)

    def _touched(self, topic: str) -> None:
        self._rows.touch(topic)
        self.changed(at_once=False)
