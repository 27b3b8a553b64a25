"""Units of the log that nobody waits for: they get into queues and index some milliseconds later, many of them together.

Records of pops are such: they are read when the timer takes them in, and come by the thousand, one or two in a turn.  What others
wait for never waits for them: then all go at once, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_impl.engine.loop import Loop

Told = tuple[int, int, str]
"""Of a message for the timer's topic: its place in the log, the time of its slot, and the topic where it belongs."""

GATHER_MS: Final = 30
"""After the last dispatch of such; the first after a pause goes at once."""
GATHER_MAX: Final = 128
"""So many do not wait: with what the timer does about them one piece of 1 ms at least, 2 ms on a slow machine that is busy."""


class Unhurried:
    """Of what is committed and not dispatched."""

    def __init__(self, loop: Loop) -> None:
        self._env = loop.env
        self._deadlines = loop.deadlines
        self.count = 0
        """How many there are; 0 also where that is not known any more."""
        self.tell: Callable[[list[Told]], None] = lambda _: None
        """Hears what was said of those that are dispatched, before they are."""
        self.told: list[Told] = []
        """What was said of those that are not dispatched: another list after each dispatch, or when it is not known any more."""
        self._until_ms = 0
        self._dispatched_ms = -GATHER_MS
        self._has_alarm = False

    def add(self, until_ms: int, told: Told) -> None:
        """One was staged.  It may wait until this wall time."""
        if not self.count or until_ms < self._until_ms:
            self._until_ms = until_ms
        self.count += 1
        self.told.append(told)

    def undone(self) -> None:
        """Something that was staged is not, perhaps one of these: of none it is known what it is."""
        self.count = 0
        self.told = []

    def wait(self, waiting: int) -> bool:
        """All that is `waiting` may wait now; else nothing does any more."""
        env = self._env
        due_ms = self._dispatched_ms + GATHER_MS
        if waiting != self.count or waiting >= GATHER_MAX or env.wall_ms >= self._until_ms or env.mono_ms >= due_ms:
            self._dispatched_ms = env.mono_ms
            self.count = 0
            told, self.told = self.told, []
            self.tell(told)
            return False
        if not self._has_alarm:
            self._has_alarm = True
            self._deadlines.at(due_ms, self._alarm)
        return True

    def _alarm(self) -> None:
        """A turn comes; its dispatch, which goes before, has taken those that were due."""
        self._has_alarm = False
        if self.count:
            self._has_alarm = True
            self._deadlines.at(self._dispatched_ms + GATHER_MS, self._alarm)
