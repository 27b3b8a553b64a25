"""Answers requests that need not wait any longer, so many in each turn, while others are served.

Whoever is woken is no longer in the table and not answered yet: first come, first served.  What ends the waiting, an arrival, the
end of its time or whatever else, puts it here.

Java: `wakeUp` of its services hands each to a pool of threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from itertools import islice
from typing import Final, Generic

from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.state.waits import W, Waits

WAKES_PER_TURN: Final = 200
"""Waiting requests answered in one go, whatever ended their waiting: 10 ms; the rest follows in the next turns."""


class Wakes(Generic[W]):
    """Of one table.  `wake` answers one, or lets it wait again; its errors are its own.  `what`: as the log calls it."""

    def __init__(self, engine: Engine, waits: Waits[W], wake: Callable[[W], None], what: str) -> None:
        self._engine = engine
        self._waits = waits
        self._wake = wake
        self._what = what
        self._woken: deque[W] = deque()
        self._waking = False
        self._alarm: Deadline | None = None
        engine.on_peer_closed(lambda peer: engine.in_background(left) if (left := waits.leaving(peer)) else None)

    def __len__(self) -> int:
        """In requests, each at least one place."""
        return len(self._woken)

    def hold(self, one: W) -> None:
        """Let it wait."""
        if self._waits.add(one):
            self._set_alarm()

    def add(self, *woken: W) -> None:
        """These need not wait any longer; nor do those whom the table has `more` of."""
        self._woken += woken
        if not self._waking and (self._woken or self._waits.crowded):
            self._wake_some()

    def _set_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        due = self._waits.next_deadline()
        self._alarm = None if due is None else self._engine.at(due, self._time_is_up)

    def _time_is_up(self) -> None:
        self._alarm = None
        if not self._waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """In this turn and as many more as it takes."""
        self._waking = True
        self._engine.in_background(self._wake_in_turns(), self._all_woken)

    def _wake_in_turns(self) -> Generator[None, None, None]:
        woken, waits = self._woken, self._waits
        while True:
            woken += islice(waits.expired(self._engine.env.mono_ms), WAKES_PER_TURN)
            woken += waits.more()
            for _ in range(min(len(woken), WAKES_PER_TURN)):
                self._wake(woken.popleft())
                if self._engine.crowded:
                    break
            if not woken and not waits.crowded:
                return
            yield

    def _all_woken(self, _: object, error: BaseException | None) -> None:
        self._waking = False
        if error is not None:
            self._engine.env.log.error("waking a %s failed: %s", self._what, error, error=error)
        if self._alarm is None:
            self._set_alarm()
        self.add()
