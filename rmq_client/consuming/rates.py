"""How fast a consumer pulls and consumes, by topic, over the last minute and hour: what `mqadmin consumerStatus` shows.

Totals are counted as things happen and noted every 10 s; a rate is the difference between the newest note and one a minute older.
Pure: time is an argument, in wall milliseconds.
Source: `ConsumerStatsManager`, `StatsItem`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from rmq_wire.bodies.consumer_answers import ConsumeStatus

NOTE_MS: Final = 10_000
NOTES: Final = 7
"""A minute has six intervals."""
NOTES_TO_AN_HOURLY: Final = 60
"""Ten minutes."""


class Rate:
    """A total, and what it was: `value` grows in `times` steps."""

    def __init__(self) -> None:
        self.value = 0
        self.times = 0
        self._minute: deque[tuple[int, int, int]] = deque(maxlen=NOTES)
        self._hour: deque[tuple[int, int, int]] = deque(maxlen=NOTES)
        self._notes = 0

    def add(self, value: int, times: int = 1) -> None:
        """It grows."""
        self.value += value
        self.times += times

    def note(self, wall_ms: int) -> None:
        """Every `NOTE_MS`."""
        _noted(self._minute, wall_ms, NOTE_MS, self.value, self.times)
        if self._notes % NOTES_TO_AN_HOURLY == 0:
            _noted(self._hour, wall_ms, NOTE_MS * NOTES_TO_AN_HOURLY, self.value, self.times)
        self._notes += 1

    def a_second(self) -> float:
        """What it grew by in a second, over the last minute."""
        _, value, passed_ms = _grown(self._minute)
        return value * 1_000 / passed_ms if passed_ms > 0 else 0.0

    def a_step(self, *, or_hour: bool = False) -> float:
        """What it grew by in each step: over the last minute, or the hour when nothing happened in it."""
        times, value, _ = _grown(self._minute)
        if not value and or_hour:
            times, value, _ = _grown(self._hour)
        return value / times if times else 0.0

    def in_an_hour(self) -> int:
        """What it grew by."""
        return _grown(self._hour)[1]


class TopicRates:
    """Of one topic.  Times in milliseconds."""

    def __init__(self) -> None:
        self.pulled = Rate()
        """Messages."""
        self.pull_ms = Rate()
        self.consumed = Rate()
        self.failed = Rate()
        self.consume_ms = Rate()
        """For each call of a listener."""

    def note(self, wall_ms: int) -> None:
        """Every `NOTE_MS`."""
        for rate in (self.pulled, self.pull_ms, self.consumed, self.failed, self.consume_ms):
            rate.note(wall_ms)

    def status(self) -> ConsumeStatus:
        """As it is shown."""
        return ConsumeStatus(
            consume_failed_msgs=self.failed.in_an_hour(),
            consume_failed_tps=self.failed.a_second(),
            consume_ok_tps=self.consumed.a_second(),
            consume_rt=self.consume_ms.a_step(or_hour=True),
            pull_rt=self.pull_ms.a_step(),
            pull_tps=self.pulled.a_second(),
        )


def _noted(notes: deque[tuple[int, int, int]], wall_ms: int, apart_ms: int, value: int, times: int) -> None:
    if not notes:
        notes.append((wall_ms - apart_ms, 0, 0))
    notes.append((wall_ms, value, times))


def _grown(notes: deque[tuple[int, int, int]]) -> tuple[int, int, int]:
    """Steps, value and milliseconds between the oldest and the newest note."""
    if not notes:
        return 0, 0, 0
    (began_ms, old_value, old_times), (ended_ms, value, times) = notes[0], notes[-1]
    return times - old_times, value - old_value, ended_ms - began_ms
