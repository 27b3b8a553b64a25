"""Bugs to plant into the timer."""

from __future__ import annotations

from typing import Any

import pytest

from rmq_store.timer import machine, recovery
from rmq_store.timer.flush import TimerFlusher, TimerTicket
from rmq_store.timer.machine import Timer
from rmq_store.timer.steps import SlotReading
from rmq_store.timer.timer_log import NO_UNIT
from rmq_wire.implied import timers


def check_does_not_wait_for_the_log(patch: pytest.MonkeyPatch) -> None:
    real = TimerFlusher.begin
    patch.setattr(TimerFlusher, "begin", lambda self, flushed, *more, **named: real(self, 1 << 62, *more, **named))


def timer_log_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    real = TimerTicket.__init__

    def made(self: TimerTicket, disk: Any, log_files: Any, *more: Any) -> None:
        real(self, disk, [], *more)

    patch.setattr(TimerTicket, "__init__", made)


def nothing_is_cut_at_the_start(patch: pytest.MonkeyPatch) -> None:
    """As Java: what the log has behind the check file's position stays, and comes again."""
    real = recovery._end

    def end(begin: int, is_short: bool, _: int, *more: Any) -> Any:
        return real(begin, is_short, 1 << 62, *more)

    patch.setattr(recovery, "_end", end)


def wheel_is_not_mended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_mend_wheel", lambda *_: None)


def slot_read_before_it_is_over(patch: pytest.MonkeyPatch) -> None:
    real = Timer._sees
    patch.setattr(Timer, "_sees", lambda self, wall_ms: real(self, wall_ms + 1_000))


def roll_without_its_mark(patch: pytest.MonkeyPatch) -> None:
    real = timers.step

    def step(*given: int, **more: int) -> tuple[int, int]:
        slot_ms, magic = real(*given, **more)
        return slot_ms, magic & ~timers.ROLLS

    patch.setattr(timers, "step", step)


def first_of_a_chain_is_lost(patch: pytest.MonkeyPatch) -> None:
    real = SlotReading.walk

    def walk(self: SlotReading, log: Any, precision_ms: int, _units_max: int) -> tuple[int, str | None]:
        said = real(self, log, precision_ms, 1)
        unit = log.unit(self.at) if self.at != NO_UNIT else None
        if unit is not None and unit.previous == NO_UNIT:
            self.at = NO_UNIT
        return said

    patch.setattr(SlotReading, "walk", walk)


def recall_is_lost_by_rolling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "DELETES", 0)


def slot_counts_as_read_in_the_middle(patch: pytest.MonkeyPatch) -> None:
    real = Timer.done

    def done(self: Timer, step: Any, wall_ms: int) -> None:
        real(self, step, wall_ms)
        if self._slot is not None:
            self.read_ms = (self._slot.tick + 1) * 1_000
            self._slot = None

    patch.setattr(Timer, "done", done)
    patch.setattr(machine, "DELIVERIES_PER_STEP", 1)


def due_is_delivered_before_its_recall_enters(patch: pytest.MonkeyPatch) -> None:
    """As Java, after a start."""
    real = Timer.__init__

    def made(self: Timer, *given: Any) -> None:
        real(self, *given)
        self._caught_up_at = 0

    patch.setattr(Timer, "__init__", made)
