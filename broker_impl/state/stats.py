"""Counters by topic, queue and group, with sums over the last minute, hour and day.

A counter only ever grows; every 10 s, 10 min and hour its value is noted, and a window is the difference between the oldest and
the newest note (Java: `StatsItem`).  The send and the pull path each add to several counters at once, so what belongs to one
queue, or to one group in one queue, is found by one look-up.

Java: `BrokerStatsManager`, `StatsItemSet`, `StatsItem`, `BrokerStats`.  Left out: statistics for accounts and for sale.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from broker_impl.config import BrokerConfig
from broker_impl.env import Env

QUEUE_PUT_NUMS = "QUEUE_PUT_NUMS"
QUEUE_PUT_SIZE = "QUEUE_PUT_SIZE"
QUEUE_GET_NUMS = "QUEUE_GET_NUMS"
QUEUE_GET_SIZE = "QUEUE_GET_SIZE"
TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
GROUP_ACK_NUMS = "GROUP_ACK_NUMS"
GROUP_CK_NUMS = "GROUP_CK_NUMS"
BROKER_ACK_NUMS = "BROKER_ACK_NUMS"
BROKER_CK_NUMS = "BROKER_CK_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"
BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC = "BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC"
BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC = "BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC"
"""Names by which tools ask (code 315)."""

KEPT_NAMES = (
    QUEUE_PUT_NUMS,
    QUEUE_PUT_SIZE,
    QUEUE_GET_NUMS,
    QUEUE_GET_SIZE,
    TOPIC_PUT_NUMS,
    TOPIC_PUT_SIZE,
    GROUP_GET_NUMS,
    GROUP_GET_SIZE,
    SNDBCK_PUT_NUMS,
    GROUP_ACK_NUMS,
    GROUP_CK_NUMS,
    BROKER_ACK_NUMS,
    BROKER_CK_NUMS,
    BROKER_PUT_NUMS,
    BROKER_GET_NUMS,
    BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC,
    BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC,
)

SECONDS_MS = 10_000
MINUTES_MS = 600_000
HOURS_MS = 3_600_000
"""How often the notes of the minute, the hour and the day are taken."""
ITEMS_MAX = 100_000
"""Counters of one kind, some 2 KiB each: others count for the broker's totals only."""
ITEMS_PER_SLICE = 200
"""Counters noted between two yields: about 1 µs each."""
FOLD_MAX = 4_096
"""Slots that are folded for one who asks, 0.7 µs each; what is left is folded every 10 s, in slices."""
MS_PER_MINUTE = 60_000

_NOTES = {SECONDS_MS: 7, MINUTES_MS: 7, HOURS_MS: 25}
"""How many notes of each kind are kept: 60 s, 60 min, 24 h between the first and the last."""


class Note(NamedTuple):
    """A counter at one moment."""

    wall_ms: int
    times: int
    value: int


class Snapshot(NamedTuple):
    """One window: how much, per second, per call, in how many calls."""

    sum: int = 0
    tps: float = 0.0
    average: float = 0.0
    times: int = 0


class StatsItem:
    """One counter.  `value` is what is counted, `times` the calls that added to it."""

    __slots__ = ("_day", "_hour", "_minute", "noted_value", "times", "touched_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.value = 0
        self.times = 0
        self.noted_value = 0
        self.touched_ms = now_ms
        self._minute: deque[Note] = deque(maxlen=_NOTES[SECONDS_MS])
        self._hour: deque[Note] = deque(maxlen=_NOTES[MINUTES_MS])
        self._day: deque[Note] = deque(maxlen=_NOTES[HOURS_MS])

    def note(self, period_ms: int, wall_ms: int) -> None:
        """Take a note; before the first one stands a note of zero, a period ago."""
        notes = self._minute if period_ms == SECONDS_MS else self._hour if period_ms == MINUTES_MS else self._day
        if not notes:
            notes.append(Note(wall_ms - period_ms, 0, 0))
        notes.append(Note(wall_ms, self.times, self.value))

    def minute(self) -> Snapshot:
        """The last minute."""
        return _window(self._minute)

    def hour(self) -> Snapshot:
        """The last hour."""
        return _window(self._hour)

    def day(self) -> Snapshot:
        """The last day."""
        return _window(self._day)


def _window(notes: deque[Note]) -> Snapshot:
    if not notes:
        return Snapshot()
    first, last = notes[0], notes[-1]
    total, times = last.value - first.value, last.times - first.times
    elapsed_ms = last.wall_ms - first.wall_ms
    return Snapshot(total, total * 1000 / elapsed_ms if elapsed_ms else 0.0, total / times if times > 0 else 0.0, times)


class _Slot:
    """What was added to one queue, or by one group to one queue or topic, and is not in the counters yet."""

    __slots__ = ("calls", "count", "nums", "size_bytes", "sizes", "totals")

    def __init__(self, nums: tuple[StatsItem, ...], sizes: tuple[StatsItem, ...], totals: tuple[StatsItem, ...]) -> None:
        self.calls = self.count = self.size_bytes = 0
        self.nums = nums
        self.sizes = sizes
        self.totals = totals

    def fold(self) -> None:
        """Put it into the counters."""
        for item in self.nums:
            item.value += self.count
            item.times += self.calls
        for item in self.sizes:
            item.value += self.size_bytes
            item.times += self.calls
        for item in self.totals:
            item.value += self.count
        self.calls = self.count = self.size_bytes = 0


class Stats:
    """All counters.  `is_system` says which topics the broker's totals leave out.

    The paths that serve messages add to a slot; slots are folded into the counters before anybody looks at one.  Where so many
    are used that this would take long, some are ten seconds old.
    """

    def __init__(self, config: BrokerConfig, env: Env, is_system: Callable[[str], bool]) -> None:
        self._config = config
        self._env = env
        self._is_system = is_system
        self._tables: dict[str, dict[str, StatsItem]] = {name: {} for name in KEPT_NAMES}
        self._puts: dict[tuple[str, int], _Slot] = {}
        self._gets: dict[tuple[str, str, int], _Slot] = {}
        self._pops: dict[tuple[str, str, str], _Slot] = {}
        self._unfolded: deque[_Slot] = deque()
        self.put_yesterday_morning = self.put_today_morning = 0
        self.get_yesterday_morning = self.get_today_morning = 0

    # -- adding

    def add_put(self, topic: str, queue_id: int, count: int, size_bytes: int, calls: int = 1) -> None:
        """A send request stored `count` messages of together `size_bytes` in a queue; so many `calls` of them did."""
        slot = self._puts.get((topic, queue_id)) or self._put_slot(topic, queue_id)
        if not slot.calls:
            self._unfolded.append(slot)
        slot.calls += calls
        slot.count += count
        slot.size_bytes += size_bytes

    def add_get(self, group: str, topic: str, queue_id: int, count: int, size_bytes: int, calls: int = 1) -> None:
        """A pull, or so many `calls`, gave a group `count` messages of together `size_bytes` from a queue."""
        slot = self._gets.get((group, topic, queue_id)) or self._get_slot(group, topic, queue_id)
        if not slot.calls:
            self._unfolded.append(slot)
        slot.calls += calls
        slot.count += count
        slot.size_bytes += size_bytes

    def add_send_back(self, group: str, topic: str) -> None:
        """A group sent one message of a topic back."""
        item = self._item(SNDBCK_PUT_NUMS, f"{topic}@{group}")
        item.value += 1
        item.times += 1

    def add_ack(self, group: str, topic: str, count: int) -> None:
        """A group has so many messages of a topic acknowledged in one record, or changed when one comes again."""
        self._add_pop(GROUP_ACK_NUMS, BROKER_ACK_NUMS, group, topic, count)

    def add_check_point(self, group: str, topic: str) -> None:
        """A group popped from a queue of a topic, or changed when a message comes again."""
        self._add_pop(GROUP_CK_NUMS, BROKER_CK_NUMS, group, topic, 1)

    def _add_pop(self, name: str, total: str, group: str, topic: str, count: int) -> None:
        slot = self._pops.get((name, group, topic))
        if slot is None:
            if len(self._pops) >= ITEMS_MAX:
                self._drop_slots()
            totals = (self._item(total, self._config.broker_cluster_name),)
            slot = self._pops[name, group, topic] = _Slot((self._item(name, f"{topic}@{group}"),), (), totals)
        if not slot.calls:
            self._unfolded.append(slot)
        slot.calls += 1
        slot.count += count

    # -- asking

    def item(self, name: str, key: str) -> StatsItem | None:
        """A counter by the names that tools use."""
        self._fold()
        return self._tables.get(name, {}).get(key)

    @property
    def tables(self) -> Mapping[str, Mapping[str, StatsItem]]:
        """All counters by name and key."""
        self._fold()
        return self._tables

    def topic_put_tps(self, topic: str) -> float:
        """Messages a second sent to the topic in the last minute."""
        item = self.item(TOPIC_PUT_NUMS, topic)
        return item.minute().tps if item is not None else 0.0

    def group_get_tps(self, group: str, topic: str) -> float:
        """Messages a second pulled by the group from the topic in the last minute."""
        item = self.item(GROUP_GET_NUMS, f"{topic}@{group}")
        return item.minute().tps if item is not None else 0.0

    @property
    def put_now(self) -> int:
        """Messages sent to topics of users since the start."""
        return self._total(BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC)

    @property
    def get_now(self) -> int:
        """Messages pulled from topics of users since the start."""
        return self._total(BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC)

    # -- as time passes

    def sample(self, period_ms: int) -> Generator[None, None, None]:
        """In the background, every `period_ms`: note every counter (`samplingInSeconds`, `…InMinutes`, `…InHour`)."""
        yield from self._folding()
        done = 0
        for name in KEPT_NAMES:
            for item in list(self._tables[name].values()):
                if item.value != item.noted_value:
                    item.noted_value = item.value
                    item.touched_ms = self._env.mono_ms
                item.note(period_ms, self._env.wall_ms)
                done += 1
                if done % ITEMS_PER_SLICE == 0:
                    yield

    def morning(self) -> None:
        """It is midnight: what is the total now is this morning's (`BrokerStats.record`)."""
        self.put_yesterday_morning, self.put_today_morning = self.put_today_morning, self.put_now
        self.get_yesterday_morning, self.get_today_morning = self.get_today_morning, self.get_now

    def dropping_topic(self, topic: str) -> Generator[None, None, None]:
        """In slices: the topic was deleted (`onTopicDeleted`)."""
        if self._config.auto_delete_unused_stats:
            yield from self._dropping(lambda name, key: _parts_of(name, key)[0] == topic)

    def dropping_group(self, group: str) -> Generator[None, None, None]:
        """In slices: the group was deleted (`onGroupDeleted`)."""
        if self._config.auto_delete_unused_stats:
            yield from self._dropping(lambda name, key: _parts_of(name, key)[1] == group)

    def dropping_idle(self) -> Generator[None, None, None]:
        """Every 10 min: forget counters that did not move for `maxStatsIdleTimeInMinutes`; −1 keeps all (`cleanAllResource`)."""
        limit_ms = self._config.max_stats_idle_time_in_minutes * MS_PER_MINUTE
        if limit_ms > 0:
            oldest = self._env.mono_ms - limit_ms
            yield from self._dropping(
                lambda name, key: not name.startswith("BROKER_") and self._tables[name][key].touched_ms < oldest
            )

    def _fold(self, most: int = FOLD_MAX) -> None:
        unfolded = self._unfolded
        for _ in range(min(len(unfolded), most)):
            unfolded.popleft().fold()

    def _folding(self) -> Generator[None, None, None]:
        """All that are not folded now, in slices."""
        left = len(self._unfolded)
        while left > ITEMS_PER_SLICE:
            self._fold(ITEMS_PER_SLICE)
            left -= ITEMS_PER_SLICE
            yield
        self._fold(left)

    def _dropping(self, gone: Callable[[str, str], bool]) -> Generator[None, None, None]:
        yield from self._folding()
        looked = 0
        for name, table in self._tables.items():
            for key, item in list(table.items()):
                if table.get(key) is item and gone(name, key):
                    del table[key]
                looked += 1
                if looked % ITEMS_PER_SLICE == 0:
                    yield
        self._drop_slots()

    def _total(self, name: str) -> int:
        item = self.item(name, self._config.broker_cluster_name)
        return item.value if item is not None else 0

    def _item(self, name: str, key: str) -> StatsItem:
        table = self._tables[name]
        found = table.get(key)
        if found is None:
            found = StatsItem(self._env.mono_ms)
            if len(table) < ITEMS_MAX:
                table[key] = found
        return found

    def _drop_slots(self) -> None:
        """They are made again as they are needed."""
        self._fold(len(self._unfolded))
        self._puts.clear()
        self._gets.clear()
        self._pops.clear()

    def _put_slot(self, topic: str, queue_id: int) -> _Slot:
        if len(self._puts) >= ITEMS_MAX:
            self._drop_slots()
        nums, sizes = [self._item(TOPIC_PUT_NUMS, topic)], [self._item(TOPIC_PUT_SIZE, topic)]
        if self._config.enable_detail_stat:
            nums.append(self._item(QUEUE_PUT_NUMS, f"{topic}@{queue_id}"))
            sizes.append(self._item(QUEUE_PUT_SIZE, f"{topic}@{queue_id}"))
        totals = self._totals(topic, BROKER_PUT_NUMS, BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC)
        slot = self._puts[topic, queue_id] = _Slot(tuple(nums), tuple(sizes), totals)
        return slot

    def _get_slot(self, group: str, topic: str, queue_id: int) -> _Slot:
        if len(self._gets) >= ITEMS_MAX:
            self._drop_slots()
        key = f"{topic}@{group}"
        nums, sizes = [self._item(GROUP_GET_NUMS, key)], [self._item(GROUP_GET_SIZE, key)]
        if self._config.enable_detail_stat:
            nums.append(self._item(QUEUE_GET_NUMS, f"{topic}@{queue_id}@{group}"))
            sizes.append(self._item(QUEUE_GET_SIZE, f"{topic}@{queue_id}@{group}"))
        totals = self._totals(topic, BROKER_GET_NUMS, BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC)
        slot = self._gets[group, topic, queue_id] = _Slot(tuple(nums), tuple(sizes), totals)
        return slot

    def _totals(self, topic: str, all_topics: str, users_topics: str) -> tuple[StatsItem, ...]:
        cluster = self._config.broker_cluster_name
        names = (all_topics,) if self._is_system(topic) else (all_topics, users_topics)
        return tuple(self._item(name, cluster) for name in names)


def _parts_of(name: str, key: str) -> tuple[str | None, str | None]:
    """Topic and group of a counter's key: `topic`, `topic@queue`, `topic@group` or `topic@queue@group`."""
    if name.startswith("BROKER_"):
        return None, None
    topic, *rest = key.split("@")
    return topic, rest[-1] if rest and name not in (QUEUE_PUT_NUMS, QUEUE_PUT_SIZE) else None
