"""How the loop looks for the next request when it has answered one: who has an answer often asks again at once.

A wait through trio costs twice what a small request does.  And where nobody else needs the core, it goes to sleep in any wait;
that and the wake-up cost as much as a client needs to ask again, and what was in its caches is cold.  So the loop first looks
again and again, then it waits in the kernel for a moment, and only then through trio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

NS_PER_MS: Final = 1_000_000
LOOKS_NS: Final = 100_000
"""For so long it looks again and again.  Measured (the load of `make bench`, 1 connection): pulls and pops come a third more
often, for the same CPU or less; with 40 and 250 µs it is a little less.
"""
SHARED_NS: Final = 15_000
"""A look takes 1 or 2 µs.  When it took longer, somebody else ran on this core meanwhile, maybe who was answered: a wait does it,
too.
"""
BRIEF_S: Final = 0.001
"""So long it waits in the kernel."""
MISSES_MAX: Final = 1_023

Events = list[tuple[int, int]]


class Chances:
    """Whether to try what often brings nothing: each time it did not, twice as many chances are passed over."""

    def __init__(self) -> None:
        self._misses = 0
        self._passes = 0

    def take(self) -> bool:
        """This one?"""
        if self._passes:
            self._passes -= 1
            return False
        return True

    def took(self, found: bool) -> None:
        """What it brought."""
        self._misses = 0 if found else min(2 * self._misses + 1, MISSES_MAX)
        self._passes = self._misses


class Patience:
    """`poll(seconds)`: what is ready, or becomes ready within the time.  `give_way()`: let others run who wait for this core.

    Who asks at leisure costs next to nothing of it: both kinds of waiting end as long as they bring nothing.  `may_wait`: also in
    the kernel, where nobody else in this loop is held up by a millisecond.
    """

    def __init__(
        self, poll: Callable[[float], Events], clock_ns: Callable[[], int], give_way: Callable[[], None], *, may_wait: bool
    ) -> None:
        self._poll, self._clock_ns, self._give_way = poll, clock_ns, give_way
        self._looks, self._waits = Chances(), Chances()
        self._may_wait = may_wait

    def poll(self, deadline_ms: int | None, now_ns: int) -> Events:
        """What is ready, or becomes ready soon.

        When something is due within 2 ms it does not wait: in the kernel that counts in whole milliseconds.
        """
        events = self._poll(0)
        if events or (deadline_ms is not None and deadline_ms * NS_PER_MS - now_ns <= 2 * NS_PER_MS):
            return events
        if self._looks.take():
            events = self._look_again()
        if not events and self._may_wait and self._waits.take():
            events = self._poll(BRIEF_S)
            self._waits.took(bool(events))
        return events

    def _look_again(self) -> Events:
        """Until there is something, others need the core, or the time is over."""
        began_ns = last_ns = self._clock_ns()
        while True:
            self._give_way()
            events = self._poll(0)
            now_ns = self._clock_ns()
            shares = now_ns - last_ns > SHARED_NS
            if events or shares or now_ns - began_ns > LOOKS_NS:
                self._looks.took(bool(events) and not shares)
                return events
            last_ns = now_ns
