"""Counters and their windows, fed by hand and sampled at times that the test sets."""

from __future__ import annotations

from pathlib import Path

from broker_impl.config import BrokerConfig, Machine
from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.state.stats import HOURS_MS, MINUTES_MS, SECONDS_MS, Snapshot, Stats
from rmq_wire.headers.runtime import GetBrokerRuntimeInfo
from tests.support.engine import Harness


class World:
    def __init__(self, **entries: str) -> None:
        self.env = Env(wall_ms=1_700_000_000_000, mono_ms=0)
        config = BrokerConfig({"brokerName": "b", **entries}, Machine())
        self.stats = Stats(config, self.env, lambda topic: topic.startswith("SYS"))

    def sample(self, period_ms: int = SECONDS_MS) -> None:
        self.env.advance(period_ms)
        for _ in self.stats.sample(period_ms):
            pass

    def minute(self, name: str, key: str) -> Snapshot:
        item = self.stats.item(name, key)
        assert item is not None, (name, key)
        return item.minute()


def test_a_window_is_the_difference_between_its_oldest_and_newest_note() -> None:
    world = World()
    world.stats.add_put("T", 0, 5, 500)
    world.stats.add_put("T", 1, 1, 100)
    world.sample()
    assert world.minute("TOPIC_PUT_NUMS", "T") == Snapshot(6, 0.6, 3.0, 2)
    assert world.minute("TOPIC_PUT_SIZE", "T") == Snapshot(600, 60.0, 300.0, 2)
    assert world.minute("QUEUE_PUT_NUMS", "T@0") == Snapshot(5, 0.5, 5.0, 1)
    assert world.minute("BROKER_PUT_NUMS", "DefaultCluster").sum == 6
    for _ in range(6):
        world.sample()
    assert world.minute("TOPIC_PUT_NUMS", "T") == Snapshot(0, 0.0, 0.0, 0)
    assert world.stats.topic_put_tps("T") == 0.0
    assert world.stats.topic_put_tps("nobody") == 0.0


def test_hours_and_days_have_windows_of_their_own() -> None:
    world = World()
    world.stats.add_get("G", "T", 0, 10, 1000)
    world.sample(MINUTES_MS)
    world.sample(HOURS_MS)
    item = world.stats.item("GROUP_GET_NUMS", "T@G")
    assert item is not None
    assert (item.minute().sum, item.hour().sum, item.day().sum) == (0, 10, 10)
    assert item.hour().tps == 10 / 600
    assert item.day().average == 10.0


def test_a_counter_that_was_never_noted_says_nothing_yet() -> None:
    world = World()
    world.stats.add_send_back("G", "T")
    assert world.minute("SNDBCK_PUT_NUMS", "T@G") == Snapshot()
    assert world.stats.item("NO_SUCH", "T") is None


def test_totals_leave_out_system_topics() -> None:
    world = World()
    world.stats.add_put("T", 0, 2, 1)
    world.stats.add_put("SYS", 0, 3, 1)
    world.stats.add_get("G", "SYS", 0, 4, 1)
    assert world.stats.put_now == 2
    assert world.stats.get_now == 0
    item = world.stats.item("BROKER_PUT_NUMS", "DefaultCluster")
    assert item is not None
    assert item.value == 5


def test_mornings() -> None:
    world = World()
    world.stats.add_put("T", 0, 2, 1)
    world.stats.morning()
    world.stats.add_put("T", 0, 3, 1)
    world.stats.morning()
    assert (world.stats.put_yesterday_morning, world.stats.put_today_morning, world.stats.put_now) == (2, 5, 5)


def test_detail_may_be_switched_off() -> None:
    world = World(enableDetailStat="false")
    world.stats.add_put("T", 0, 2, 1)
    assert world.stats.item("QUEUE_PUT_NUMS", "T@0") is None
    assert world.stats.item("TOPIC_PUT_NUMS", "T") is not None


def test_deleting_a_topic_or_a_group_forgets_its_counters_only() -> None:
    world = World()
    for topic in ("T", "TT"):
        world.stats.add_put(topic, 0, 1, 1)
        world.stats.add_get("G", topic, 0, 1, 1)
        world.stats.add_get("0", topic, 0, 1, 1)
        world.stats.add_send_back("G", topic)
    finished(world.stats.dropping_topic("T"))
    left = {(name, key) for name, table in world.stats.tables.items() for key in table}
    assert not [key for _, key in left if key.split("@")[0] == "T"]
    finished(world.stats.dropping_group("0"))
    assert world.stats.item("QUEUE_PUT_NUMS", "TT@0") is not None
    assert world.stats.item("QUEUE_GET_NUMS", "TT@0@0") is None
    assert world.stats.item("GROUP_GET_NUMS", "TT@G") is not None
    world.stats.add_put("T", 0, 1, 1)
    item = world.stats.item("TOPIC_PUT_NUMS", "T")
    assert item is not None
    assert item.value == 1


def test_idle_counters_are_forgotten_when_set_so() -> None:
    world = World(maxStatsIdleTimeInMinutes="5")
    world.stats.add_put("Busy", 0, 1, 1)
    world.stats.add_put("Idle", 0, 1, 1)
    for _ in range(40):
        world.stats.add_put("Busy", 0, 1, 1)
        world.sample()
        finished(world.stats.dropping_idle())
    assert world.stats.item("TOPIC_PUT_NUMS", "Idle") is None
    assert world.stats.item("TOPIC_PUT_NUMS", "Busy") is not None
    assert world.stats.item("BROKER_PUT_NUMS", "DefaultCluster") is not None


def test_sampling_many_counters_comes_in_slices() -> None:
    world = World()
    for number in range(1000):
        world.stats.add_put(f"T{number}", 0, 1, 1)
    assert len(list(world.stats.sample(SECONDS_MS))) >= 10


DAY_MS = 24 * 3_600_000


def with_puts(root: Path) -> tuple[Harness, Stats]:
    """A broker with a thousand messages of today, that does little each second: days pass."""
    harness = Harness(root, reviveInterval="60000", timerWheelEnable="false")
    harness.topic("T")
    stats: Stats = harness.capability(GetBrokerRuntimeInfo.code)._stats
    stats.add_put("T", 0, 1_000, 1_000)
    return harness, stats


def test_a_morning_comes_once_whatever_the_clock_does(tmp_path: Path) -> None:
    """It may be set back a little, so that the alarm is early."""
    harness, stats = with_puts(tmp_path)
    left_ms = DAY_MS - harness.env.wall_ms % DAY_MS
    harness.driver.advance(left_ms - 10_000)
    harness.env.wall_ms -= 5_000
    assert stats.put_today_morning == 0
    for _ in range(30):
        harness.driver.advance(1_000)
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (0, 1_000)
    harness.driver.advance(DAY_MS - 60_000)
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (0, 1_000)
    harness.driver.advance(60_000)
    assert (stats.put_yesterday_morning, stats.put_today_morning) == (1_000, 1_000)


def test_mornings_go_on_when_a_clock_that_was_far_ahead_is_set_right(tmp_path: Path) -> None:
    harness, stats = with_puts(tmp_path)
    harness.env.wall_ms -= 365 * DAY_MS
    for _ in range(2):
        harness.driver.advance(DAY_MS)
    assert stats.put_today_morning == 1_000
