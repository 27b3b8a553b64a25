"""The timer and its files: what a full file, a full disk, a failed sync, a lost file or a damaged unit do to it."""

from __future__ import annotations

import errno

import pytest

from rmq_store.errors import Closed, ForeignFile, Unwritable
from rmq_store.layouts import TIMER_CHECK, TIMER_UNIT
from rmq_store.log.draft import Draft
from rmq_store.timer.steps import KEY_CHARACTERS_MAX, UNITS_PER_STEP
from rmq_store.timer.timer_log import Unit
from rmq_wire import names
from rmq_wire.message import StoredMessage
from tests.support.memory_disk import Fault
from tests.support.store_rig import ROOT, START_MS
from tests.support.timer_rig import LOG_UNITS, TimerRig

LOG = f"{ROOT}/timerlog/{0:020d}"
WHEEL = f"{ROOT}/timerwheel"
CHECK = f"{ROOT}/config/timercheck"


def test_a_full_file_is_ended_by_a_blank_and_the_chain_goes_on() -> None:
    rig = TimerRig(store_changes={"mapped_file_size_commit_log": 1 << 20})
    for _ in range(2 * LOG_UNITS + 5):
        rig.send(START_MS + 5_000)
    rig.turn()
    assert len(rig.timer.log.segments.starts) == 3
    rig.crash()
    rig.wait(5_000)
    assert len(rig.keys()) == 2 * LOG_UNITS + 5


def test_log_files_go_when_the_commit_log_has_lost_their_messages() -> None:
    rig = TimerRig(store_changes={"mapped_file_size_commit_log": 1 << 20})
    for _ in range(2 * LOG_UNITS):
        rig.send(START_MS + 5_000)
    rig.turn()
    log = rig.timer.log
    last = log.unit(log.last_unit_at)
    assert last is not None
    assert log.delete_before(last.physical_offset) == 0
    assert log.delete_before(last.physical_offset + 1) == 1
    assert log.delete_before(1 << 60) == 0  # the last one stays
    rig.wait(5_000)
    assert len(rig.keys()) == LOG_UNITS


def test_the_check_file_waits_for_the_commit_log() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.turn()
    assert rig.flusher.begin(0, rig.wall_ms) is None
    assert rig.flush()
    read_ms, position, offset, master, *_ = TIMER_CHECK.unpack(rig.disk.contents()[CHECK][: TIMER_CHECK.size])
    assert (read_ms, position, offset, master) == (rig.timer.read_ms, 52, 1, 1)
    assert len(rig.disk.contents()[CHECK]) == 4096


def test_nothing_is_written_before_the_first_timer() -> None:
    rig = TimerRig()
    rig.wait(30_000)
    rig.close()
    assert not [name for name in rig.disk.contents() if "timer" in name]


def test_a_failed_append_is_done_again() -> None:
    rig = TimerRig()
    rig.send(START_MS + 2_000)
    rig.turn()
    rig.wall_ms += 3_000

    def refuse(_: StoredMessage) -> None:
        raise Unwritable(Closed.DISK_FULL)

    rig.refuse = refuse
    for _ in range(3):
        with pytest.raises(Unwritable):
            rig.step()
    assert rig.timer.metrics.counts["T"][0] == 1
    rig.refuse = None
    rig.turn()
    assert rig.keys() == ["K1"]
    assert rig.timer.metrics.counts["T"][0] == 0


def test_a_full_disk_under_the_timer_log() -> None:
    rig = TimerRig()
    rig.send(START_MS + 2_000)
    rig.disk.faults.append(Fault("create", path_part="timerlog"))
    with pytest.raises(OSError, match="No space"):
        rig.step()
    rig.turn()
    rig.wait(3_000)
    assert rig.keys() == ["K1"]


@pytest.mark.parametrize("late_ms", [0, 500])
def test_what_was_delivered_while_the_timer_log_took_nothing_comes_once(late_ms: int) -> None:
    rig = TimerRig()
    rig.send(START_MS + 2_000)
    rig.turn()
    rig.send(START_MS + 60_000)
    rig.send(START_MS + 3_000 + late_ms)
    rig.send(START_MS + 60_000)
    rig.wall_ms += 4_500
    rig.disk.faults.append(Fault("write", times=3, path_part="timerlog"))
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            rig.step()
    rig.turn()
    assert sorted(rig.keys()) == ["K1", "K3"]
    assert rig.timer.metrics.counts["T"][0] == 2
    rig.wait(60_000)
    assert sorted(rig.keys()) == ["K1", "K2", "K3", "K4"]


def test_a_full_disk_under_the_wheel_is_tried_again() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.turn()
    rig.rig.sync()
    rig.disk.faults.append(Fault("write", path_part="timerwheel", error=errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        rig.flush()
    assert rig.flush()
    rig.crash("synced")
    rig.wait(6_000)
    assert rig.keys() == ["K1"]


def test_a_failed_sync_is_the_last() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.turn()
    rig.rig.sync()
    rig.disk.faults.append(Fault("sync", path_part="timerlog", error=errno.EIO))
    with pytest.raises(OSError, match="error"):
        rig.flush()
    rig.wait(1_000)
    assert not rig.flush()
    rig.crash("synced")
    rig.wait(6_000)
    assert rig.keys() == ["K1"]


@pytest.mark.parametrize("kept", [1, 3])
def test_a_commit_log_that_lost_its_end_and_then_a_kill(kept: int) -> None:
    """What entered the timer's log at the place of what is gone has nobody to speak for it until the check file is written."""
    rig = TimerRig()
    keys = [rig.send(START_MS + 20_000 + 1_000 * number) for number in range(5)]
    rig.turn()
    rig.flush()
    ends = [message.physical_offset for message in rig.messages(names.WHEEL_TIMER_TOPIC)]
    rig.disk = rig.disk.crash("all")
    rig.disk.locked.clear()
    log = rig.disk.open(f"{ROOT}/commitlog/{0:020d}")
    log.write_at(ends[kept], bytes(log.length() - ends[kept]))
    rig.disk.unlink(f"{ROOT}/checkpoint")  # so that the end is looked for
    rig.open()
    assert rig.timer.queue_offset == kept
    keys[kept:] = [rig.send(START_MS + 30_000 + 1_000 * number, f"new{number}") for number in range(4)]
    rig.turn()
    rig.crash()
    rig.wait(50_000)
    assert rig.keys() == keys


@pytest.mark.parametrize("lost", [LOG, WHEEL, CHECK, "all"])
def test_a_lost_file(lost: str) -> None:
    rig = TimerRig()
    keys = [rig.send(START_MS + after_ms) for after_ms in (5_000, 30_000, 90_000)]
    rig.wait(2_000)
    rig.close()
    for path in (LOG, WHEEL, CHECK) if lost == "all" else (lost,):
        rig.disk.unlink(path)
    rig.open()
    behind = "3 slots of the timer's wheel lead behind the end of its log and are made again"
    assert (behind in rig.said) == (lost in (LOG, CHECK))
    rig.wait(100_000)
    assert sorted(rig.keys()) == sorted(keys)


def test_a_wheel_of_another_size_is_refused() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.wait(2_000)
    rig.close()
    rig.disk.open(WHEEL).set_length(4096)
    with pytest.raises(ForeignFile, match="the wheel is made anew from its topic"):
        rig.open()


def test_a_unit_that_is_no_timer_is_passed_over() -> None:
    rig = TimerRig()
    rig.put(names.WHEEL_TIMER_TOPIC, {"UNIQ_KEY": "forged"}, b"x")
    rig.put(names.WHEEL_TIMER_TOPIC, {"UNIQ_KEY": "forged", "TIMER_OUT_MS": str(START_MS + 1_000)}, b"x")
    rig.send(START_MS + 2_000)
    rig.wait(3_000)
    assert rig.keys() == ["K1"]
    assert len(rig.said) == 2


def damage(rig: TimerRig, number: int, **changes: int) -> None:
    """One unit of the timer's log says something else, or (no changes) nothing."""
    unit = Unit._make(TIMER_UNIT.unpack(rig.disk.contents()[LOG][number * 52 : number * 52 + 52]))
    packed = TIMER_UNIT.pack(*unit._replace(**changes)) if changes else bytes(52)
    rig.timer.log.segments.file(0).write_at(number * 52, packed)
    rig.timer.log._block = b""


@pytest.mark.parametrize(
    ("number", "changes", "lost"),
    [
        (5, {}, {"K6"}),
        (4, {"magic": 99}, {"K5"}),
        (7, {"previous": 3 * 52}, set()),  # of another slot
        (7, {"previous": 7 * 52 + 1}, {"K8"}),
        (7, {"previous": -1}, set()),
        (7, {"previous": 3 * 52 + 1}, set()),
        (5, {"delay_ms": 1_000}, {"K6"}),
        (8, {}, set()),  # of the other slot
        (9, {}, {"K10"}),  # the newest
        (0, {}, {"K1"}),  # the oldest
    ],
)
def test_a_damaged_unit_takes_nothing_with_it(number: int, changes: dict[str, int], lost: set[str]) -> None:
    """Chains go backwards: what came before it in its slot would be lost."""
    rig = TimerRig()
    others = {3, 6, 8}
    for at in range(10):
        rig.send(START_MS + (90_000 if at in others else 5_000))
    rig.turn()
    damage(rig, number, **changes)
    rig.wait(6_000)
    assert rig.keys() == [f"K{at + 1}" for at in range(10) if at not in others and f"K{at + 1}" not in lost]
    assert any("is looked for before it" in said for said in rig.said) == (number != 8)


def test_a_wheel_made_again_from_a_damaged_log_has_what_is_behind_the_damage() -> None:
    rig = TimerRig()
    for at in range(6):
        rig.send(START_MS + 5_000 * (1 + at))
    rig.wait(1_000)
    rig.close()
    rig.disk.unlink(WHEEL)
    rig.disk.open(LOG).write_at(2 * 52, bytes(52))
    rig.open()
    rig.wait(40_000)
    assert rig.keys() == ["K1", "K2", "K4", "K5", "K6"]


def test_the_search_for_what_a_damaged_unit_hides_comes_in_counted_steps() -> None:
    rig = TimerRig(store_changes={"mapped_file_size_commit_log": 1 << 22})
    first = rig.send(START_MS + 5_000)
    for _ in range(2_000):  # some twenty files of the timer's log
        rig.send(START_MS + 90_000)
    rig.send(START_MS + 5_000)
    rig.turn()
    rig.timer.log.segments.file(rig.timer.log.segments.starts[-1]).write_at(0, bytes(rig.timer.log.file_bytes))
    rig.timer.log._block = b""
    rig.wall_ms += 6_000
    steps = 0
    while rig.step():
        steps += 1
    assert (rig.keys(), steps > 2_000 // UNITS_PER_STEP) == ([first], True)


def test_cold_bytes_wait_for_a_thread() -> None:
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.wait(1_000)
    rig.reopen()
    rig.disk.cold.add(LOG)
    rig.wait(5_000)
    assert rig.keys() == ["K1"]


@pytest.mark.parametrize("length", [10, 64, 65, 8_000])
def test_a_mark_takes_out_its_message_whatever_the_length_of_its_key_and_costs_little(length: int) -> None:
    """Anybody may send marks of nothing."""
    rig = TimerRig(store_changes={"mapped_file_size_commit_log": 1 << 24})
    due_ms = START_MS + 5_000
    gone, kept = "g" * length, "k" * length
    for key in (gone, kept):
        rig.send(due_ms, key)
    for number in range(100):
        rig.recall(f"{number:03}" + "m" * length, due_ms)
    rig.recall(gone, due_ms)
    held: list[int] = []
    deliver = rig.deliver

    def noted(draft: Draft, rolls: bool) -> int:
        slot = rig.timer._slot
        assert slot is not None
        held.append(sum(map(len, slot.deleted)))
        return deliver(draft, rolls)

    rig.deliver = noted  # type: ignore[method-assign]
    rig.wait(10_000)
    assert rig.keys() == [kept]
    assert held[0] <= 101 * KEY_CHARACTERS_MAX
