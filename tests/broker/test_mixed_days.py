"""Random days of delayed, timed and half messages together, and bugs planted into the broker that they find."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.schedule import Schedule
from broker_impl.capabilities.timers import Timers
from broker_impl.half_copies import HalfCopies
from broker_impl.state.delay_offsets import DelayOffsets
from broker_impl.state.ended_halves import EndedHalves
from rmq_store.timer.machine import Timer
from rmq_store.timer.timer_log import TimerLog
from tests.support.mixed_sim import mixed_day
from tests.support.night_seeds import each_of_the_night
from tests.support.planting import Plant, find_by_seed
from tests.support.timer_bugs import nothing_is_cut_at_the_start, slot_counts_as_read_in_the_middle

DAYS = 50
DAYS_BY_NIGHT = 350
SEEDS_MAX = 40


@pytest.mark.parametrize("seed", range(DAYS))
def test_a_day(seed: int, tmp_path: Path) -> None:
    mixed_day(seed, tmp_path)


@pytest.mark.nightly
def test_many_days(tmp_path: Path) -> None:
    def play(seed: int) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as root:
            mixed_day(seed, Path(root))

    each_of_the_night(DAYS_BY_NIGHT, play)


def a_level_passes_over_what_was_not_written(patch: pytest.MonkeyPatch) -> None:
    real = Schedule._written
    patch.setattr(Schedule, "_written", lambda self, *given: real(self, *given[:-1], None))


def the_timer_passes_over_what_was_not_written(patch: pytest.MonkeyPatch) -> None:
    real = Timers._written
    patch.setattr(Timers, "_written", lambda self, step, _: real(self, step, None))


def the_timers_log_is_not_asked_whether_it_took_them(patch: pytest.MonkeyPatch) -> None:
    real = TimerLog.append

    def append(self: TimerLog, at: int, units: bytes) -> None:
        try:
            real(self, at, units)
        except OSError:
            self.end = at + len(units)

    patch.setattr(TimerLog, "append", append)


def recalls_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timer, "_is_deleted", lambda *_: False)


def levels_begin_at_the_end_of_their_queue(patch: pytest.MonkeyPatch) -> None:
    real = DelayOffsets.clamp

    def clamp(self: DelayOffsets, delays: Any, bounds: Any, log: Any) -> None:
        real(self, delays, bounds, log)
        self.progress.update({level: bounds(level)[1] for level in self.progress})

    patch.setattr(DelayOffsets, "clamp", clamp)


def progress_is_one_too_far(patch: pytest.MonkeyPatch) -> None:
    real = EndedHalves.pass_to
    patch.setattr(EndedHalves, "pass_to", lambda self, offset: real(self, offset + 1))


def commits_are_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfCopies, "is_committed", lambda *_: False)


SEEDS_OF_BUGS: dict[Plant, int] = {
    a_level_passes_over_what_was_not_written: 6,
    the_timer_passes_over_what_was_not_written: 3,
    the_timers_log_is_not_asked_whether_it_took_them: 3,
    recalls_are_not_looked_at: 0,
    levels_begin_at_the_end_of_their_queue: 0,
    slot_counts_as_read_in_the_middle: 3,
    nothing_is_cut_at_the_start: 3,
    progress_is_one_too_far: 1,
    commits_are_not_looked_for: 0,
}
"""Bug: the first day on which it shows."""


def play(seed: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        mixed_day(seed, Path(root))


@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_planted(plant: Plant) -> None:
    find_by_seed(plant, play, [SEEDS_OF_BUGS[plant]])


@pytest.mark.nightly
@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first(plant: Plant) -> None:
    assert find_by_seed(plant, play, range(SEEDS_MAX)) == SEEDS_OF_BUGS[plant]
