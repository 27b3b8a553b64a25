"""The timer: when what waits comes out of the wheel, how often, and what a stop or a clock that jumps does to it."""

from __future__ import annotations

import pytest

from rmq_store.errors import ForeignFile
from rmq_store.timer.steps import DELIVERIES_PER_STEP
from rmq_wire import names, properties
from rmq_wire import property_names as prop
from rmq_wire.message import StoredMessage
from tests.support.store_rig import START_MS
from tests.support.timer_rig import SLOTS, TimerRig


def values_of(message: StoredMessage) -> dict[str, str]:
    return properties.decode(message.properties.decode())


@pytest.mark.parametrize("after_ms", [1, 999, 1_000, 1_001, 59_999, 60_000])
def test_not_early_and_at_most_a_second_late(after_ms: int) -> None:
    rig = TimerRig()
    rig.send(START_MS + after_ms)
    rig.wait(after_ms - 1, every_ms=100)
    assert rig.keys() == []
    rig.wait(1_000, every_ms=100)
    assert rig.keys() == ["K1"]
    [message] = rig.messages()
    assert START_MS + after_ms <= message.store_timestamp < START_MS + after_ms + 1_000


def test_what_the_delivered_one_says() -> None:
    rig = TimerRig()
    rig.wait(300)
    rig.send(START_MS + 5_500, mine="x")
    rig.turn()
    rig.wait(10_000)
    [message] = rig.messages()
    said = values_of(message)
    assert said.pop("TIMER_DEQUEUE_MS") == str(message.store_timestamp)
    assert said == {
        "UNIQ_KEY": "K1",
        "mine": "x",
        "TIMER_DELIVER_MS": str(START_MS + 5_500),
        "TIMER_OUT_MS": str(START_MS + 5_000),
        "TIMER_ENQUEUE_MS": str(START_MS),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }


def test_order_is_that_of_slots_and_in_a_slot_that_of_sending() -> None:
    rig = TimerRig()
    for number, after_ms in enumerate([9_000, 3_000, 9_500, 3_500, 9_400, 60_000]):
        rig.send(START_MS + after_ms, f"{number}")
    rig.wait(61_000)
    assert rig.keys() == ["1", "3", "0", "2", "4", "5"]


def test_due_before_it_could_enter() -> None:
    rig = TimerRig()
    rig.send(START_MS + 1_500)
    rig.wall_ms += 10_000
    rig.turn()
    [message] = rig.messages()
    assert values_of(message)["TIMER_ENQUEUE_MS"] == str((1 << 63) - 1)
    assert rig.timer.log.end == 0
    assert rig.timer.metrics.counts == {}


def test_rolling() -> None:
    rig = TimerRig()
    rig.send(START_MS + 200_000)
    rig.wait(199_999)
    assert rig.keys() == []
    rig.wait(1_000)
    [message] = rig.messages()
    assert values_of(message)["TIMER_ROLL_TIMES"] == "3"
    assert rig.keys(names.WHEEL_TIMER_TOPIC) == ["K1"] * 4
    assert rig.timer.metrics.counts["T"][0] == 0


@pytest.mark.parametrize("after_ms", [5_000, 65_000, 130_000, 200_000])
def test_recalled_whatever_it_rolled(after_ms: int) -> None:
    rig = TimerRig()
    rig.send(START_MS + after_ms, "gone")
    rig.send(START_MS + after_ms, "stays")
    rig.wait(2_000)
    rig.recall("gone", START_MS + after_ms)
    rig.wait(after_ms)
    assert rig.keys() == ["stays"]
    assert rig.timer.metrics.counts["T"][0] == 0
    assert rig.timer.waiting == 0


def test_recalled_although_it_rolls_when_it_is_due_already() -> None:
    """A long stop: message and mark leave the slot of their step after their time."""
    rig = TimerRig()
    rig.send(START_MS + 90_000, "gone")
    rig.recall("gone", START_MS + 90_000)
    rig.send(START_MS + 90_000, "stays")
    rig.wait(2_000)
    rig.close()
    rig.wall_ms += 200_000
    rig.open()
    rig.turn()
    assert rig.keys() == ["stays"]


def test_a_mark_without_a_message_takes_nothing() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000, "other")
    rig.recall("nobody", START_MS + 5_000)
    rig.wait(6_000)
    assert rig.keys() == ["other"]
    assert rig.timer.metrics.counts["T"][0] == 0


def test_a_key_with_its_topic() -> None:
    rig = TimerRig(changes={"append_topic_for_timer_delete_key": True})
    rig.send(START_MS + 5_000, "K")
    rig.send(START_MS + 5_000, "L")
    rig.send(START_MS + 5_000, "mark", **{prop.TIMER_DEL_UNIQKEY: "T+K"})
    rig.send(START_MS + 5_000, "mark", **{prop.TIMER_DEL_UNIQKEY: "L"})
    rig.wait(6_000)
    assert rig.keys() == ["L"]


def test_many_in_one_slot_come_in_counted_steps() -> None:
    rig = TimerRig(store_changes={"mapped_file_size_commit_log": 1 << 20})
    for _ in range(500):
        rig.send(START_MS + 5_000)
    rig.turn()
    rig.wall_ms += 5_000
    steps = 0
    before = 0
    while rig.step():
        steps += 1
        assert len(rig.keys()) - before <= DELIVERIES_PER_STEP
        before = len(rig.keys())
    assert rig.keys() == [f"K{number + 1}" for number in range(500)]
    assert rig.timer.waiting == 0


@pytest.mark.parametrize("stop", ["clean", "kill"])
@pytest.mark.parametrize("at_ms", [0, 1_000, 4_000, 70_000])
def test_every_stop_loses_nothing(stop: str, at_ms: int) -> None:
    rig = TimerRig()
    keys = [rig.send(START_MS + after_ms) for after_ms in (1_500, 3_000, 61_000, 125_000)]
    rig.wait(at_ms)
    rig.reopen() if stop == "clean" else rig.crash()
    rig.wait(200_000)
    assert sorted(rig.keys() if stop == "clean" else set(rig.keys())) == sorted(keys)


def test_a_clean_stop_repeats_nothing() -> None:
    rig = TimerRig()
    keys = []
    for number in range(40):
        keys.append(rig.send(rig.wall_ms + 1_500 + 7 * number))
        rig.wait(700, every_ms=350)
        rig.reopen()
    rig.wait(5_000)
    assert sorted(rig.keys()) == sorted(keys)


def test_what_became_due_while_nothing_ran() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.wait(1_000)
    rig.close()
    rig.wall_ms += 600_000
    rig.open()
    rig.turn()
    assert rig.keys() == ["K1"]


@pytest.mark.parametrize("wheels", [0.6, 1, 1.6, 2, 5, 500])
@pytest.mark.parametrize("stop", ["stop", "kill", "none"])
def test_longer_away_than_the_wheel_reaches(wheels: float, stop: str) -> None:
    """Java does not read a slot any more that is older than a wheel; what comes now may have the place of one that is unread."""
    rig = TimerRig()
    for number in range(1, 60, 2):
        rig.send(START_MS + 1_000 * number, f"old{number}")
    rig.wait(1_000)
    old = [f"old{number}" for number in range(3, 60, 2)]
    if stop == "stop":
        rig.close()
    rig.wall_ms += int(1_000 * SLOTS * wheels)
    if stop == "stop":
        rig.open()
    elif stop == "kill":
        rig.reopen()
    for number in range(60):
        rig.send(rig.wall_ms + 1_000 * (number + 1), f"new{number}")
    rig.wait(70_000)
    came = rig.keys()[1:]
    assert sorted(came) == sorted([*old, *(f"new{number}" for number in range(60))])
    assert [key for key in came if key in old] == old


def test_what_was_to_come_before_a_clock_that_ran_ahead_at_the_start() -> None:
    rig = TimerRig()
    rig.send(START_MS + 50_000)
    rig.wait(1_000)
    rig.close()
    rig.wall_ms += 1_000 * SLOTS * 3
    rig.open()
    rig.turn()
    rig.wall_ms -= 1_000 * SLOTS * 3
    rig.reopen()
    rig.wait(60_000)
    assert rig.keys() == ["K1"]


def test_the_clock_jumps_ahead_and_back() -> None:
    rig = TimerRig()
    rig.send(START_MS + 50_000, "late")
    rig.send(START_MS + 3_000, "soon")
    rig.wait(1_000)
    rig.wall_ms -= 3_600_000
    rig.turn()
    assert rig.keys() == []
    rig.wall_ms += 3_600_000
    rig.wait(3_000)
    assert rig.keys() == ["soon"]
    rig.wall_ms += 3_600_000
    rig.turn()
    assert rig.keys() == ["soon", "late"]


@pytest.mark.parametrize("due", ["then", "in between"])
def test_a_start_after_the_clock_was_turned_back(due: str) -> None:
    rig = TimerRig()
    rig.send(START_MS + 2_000)
    rig.wait(5_000)
    if due == "in between":
        rig.send(START_MS + 600_000)
    rig.turn()
    rig.wall_ms += 700_000
    rig.turn()
    came = ["K1", "K2"] if due == "in between" else ["K1"]
    assert rig.keys() == came
    rig.wall_ms -= 700_000
    rig.reopen()
    rig.send(rig.wall_ms + 5_000, "new")
    rig.turn()
    assert rig.keys() == (came if due == "then" else [*came, "new"])  # early where slots behind it were read, never lost
    rig.wait(6_000)
    assert rig.keys() == [*came, "new"]
    rig.wait(720_000, every_ms=10_000)
    assert rig.keys() == [*came, "new"]


@pytest.mark.parametrize("precision_ms", [100, 500, 1_500, 2_000, 5_000])
@pytest.mark.parametrize("kill", [False, True])
def test_slots_of_another_length_are_refused_while_something_waits(precision_ms: int, kill: bool) -> None:
    """A slot has one chain: what belongs into several, or what several have, is not to be found by it."""
    rig = TimerRig()
    rig.send(START_MS + 2_000, "gone")
    rig.wait(4_000)
    keys = [rig.send(START_MS + after_ms) for after_ms in (20_000, 40_000, 40_500, 50_000, 60_000)]
    rig.turn()
    rig.flush()
    rig.changes["timer_precision_ms"] = precision_ms
    with pytest.raises(ForeignFile, match=r"slots of 1000 ms .*set timerPrecisionMs=1000 as it was"):
        rig.crash() if kill else rig.reopen()
    rig.disk.locked.clear()
    rig.changes["timer_precision_ms"] = 1_000
    rig.open()
    rig.wait(70_000)
    assert rig.keys() == ["gone", *keys]
    rig.close()
    rig.changes["timer_precision_ms"] = precision_ms
    rig.open()
    [said] = rig.said
    assert "nothing waits in them" in said
    keys += [rig.send(rig.wall_ms + after_ms) for after_ms in (11_000, 12_000, 30_000, 31_000)]
    rig.wait(10_000)
    rig.reopen()
    assert rig.said == []
    assert rig.keys() == ["gone", *keys[:5]]
    rig.wait(40_000)
    assert rig.keys() == ["gone", *keys]
    assert rig.timer.waiting == 0


@pytest.mark.parametrize("precision_ms", [500, 2_000, 5_000])
def test_what_did_not_reach_the_wheel_before_a_kill_enters_one_of_other_slots(precision_ms: int) -> None:
    rig = TimerRig()
    rig.send(START_MS + 2_000, "gone")
    rig.wait(4_000)
    rig.flush()
    keys = [rig.send(START_MS + after_ms) for after_ms in (20_000, 21_000, 22_000, 40_000)]
    rig.turn()
    rig.changes["timer_precision_ms"] = precision_ms
    rig.crash()
    rig.wait(10_000)
    assert rig.keys() == ["gone"]
    rig.wait(40_000)
    assert rig.keys() == ["gone", *keys]
