"""The timer between two steps and two files: what a slot lets in while it is read, what a stop knows, when time is written."""

from __future__ import annotations

from rmq_store.timer.flush import IDLE_ROUNDS
from rmq_store.timer.steps import DELIVERIES_PER_STEP, ENTRIES_PER_STEP, Step, over
from rmq_wire import names
from tests.support.store_rig import ROOT, START_MS
from tests.support.timer_rig import LOG_UNITS, TimerRig


def test_what_comes_while_a_slot_is_read_is_not_early() -> None:
    """It is for the next one."""
    rig = TimerRig()
    slot_ms = START_MS + 5_000
    many = [rig.send(slot_ms - 500) for _ in range(2 * DELIVERIES_PER_STEP)]
    rig.turn()
    rig.wall_ms = slot_ms + 100
    assert rig.step()
    assert 0 < len(rig.keys()) < len(many), "the slot is read in part"
    late = rig.send(slot_ms + 900)
    rig.turn()
    assert rig.keys() == many
    rig.wait(2_000)
    assert rig.keys() == [*many, late]


def test_a_clean_stop_repeats_nothing_that_went_past_the_wheel() -> None:
    """It stands behind the last message in the wheel."""
    rig = TimerRig()
    waits = rig.send(START_MS + 60_000)
    rig.wait(2_000)
    late = rig.send(rig.wall_ms + 1_500)
    rig.wall_ms += 10_000
    rig.turn()
    assert rig.keys() == [late]
    rig.reopen()
    rig.wait(70_000)
    assert rig.keys() == [late, waits]


def test_time_alone_is_written_every_tenth_round() -> None:
    """Java writes it every second."""
    rig = TimerRig()
    rig.send(START_MS + 5_000)
    rig.wait(2_000)
    rig.flush()
    rounds = []
    for _ in range(2 * IDLE_ROUNDS):
        rig.wait(1_000)
        rig.rig.sync_queues()
        ticket = rig.flusher.begin(rig.rig.store.flushed_offset, rig.wall_ms)
        rounds.append(ticket is not None)
        if ticket is not None:
            ticket.run()
            rig.flusher.end(ticket, None)
    assert rig.keys() == ["K1"]
    assert rounds.index(True) in (2, 3), "the delivery"
    assert rounds[4:].count(True) == 1


def test_a_step_that_may_deliver_one_lets_one_in() -> None:
    assert not Step(1).is_half_full


def test_a_log_that_lost_its_last_file_takes_in_again_only_what_that_had() -> None:
    rig = TimerRig()
    came = [rig.send(START_MS + 5_000) for _ in range(LOG_UNITS - 1)]
    waits = [rig.send(START_MS + 90_000) for _ in range(5)]
    rig.wait(10_000)
    assert rig.keys() == came
    rig.close()
    rig.disk.unlink(f"{ROOT}/timerlog/{rig.timer.log.file_bytes:020d}")
    rig.open()
    assert "the timer's log lacks messages from offset 100 of its queue on, they enter the wheel again" in rig.said
    rig.wait(100_000)
    assert sorted(rig.keys()) == sorted([*came, *waits])


def test_what_is_over_is_passed_when_the_disk_knows_it() -> None:
    """Its step is done long before what ended it is looked at; progress waits until the log is synced up to there."""
    rig = TimerRig()
    _, *others, _ = [rig.send(START_MS + 5_000) for _ in range(2 * ENTRIES_PER_STEP)]
    store = rig.rig.store
    first, last = [store.queue_unit(names.WHEEL_TIMER_TOPIC, 0, at) for at in (0, 2 * ENTRIES_PER_STEP - 1)]
    end = last[0] + last[1]
    rig.timer.tell([(place, over(end), "T") for place in (first[0], last[0])])
    assert rig.step()
    assert (rig.timer.queue_offset, rig.timer.waiting) == (ENTRIES_PER_STEP, ENTRIES_PER_STEP - 1)
    tickets = [rig.flusher.begin(flushed, rig.wall_ms, force=True) for flushed in (end - 1, end)]
    assert [ticket is not None for ticket in tickets] == [False, True]
    rig.turn()
    assert not rig.timer._told
    rig.wait(10_000)
    assert rig.keys() == others
