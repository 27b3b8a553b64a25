"""How much of a backlog the broker may deliver in one turn, beside the requests of others.

While nobody asks for much, as many messages as a step has.  While requests come in numbers, few in each millisecond, so that a
burst which is due at once takes a share of the loop and not all of it; the later the backlog is, the more, so that it never grows
for ever.
"""

from __future__ import annotations

from typing import Final

from broker_impl.engine.counters import Counters
from broker_impl.env import Env

LOOK_MS: Final = 20
"""So often the requests are counted."""
REQUESTS_PER_MS: Final = 1
"""From so many on they come in numbers."""
MESSAGES_PER_MS: Final = 6
"""Some 20 µs each."""
LATE_MS: Final = 5_000
"""Each time that a backlog is so much later it may take twice as much."""
FREE_MS: Final = 4 * LATE_MS
"""And all that it wants when it is so late."""


class Beside:
    """Of one backlog."""

    def __init__(self, env: Env, counters: Counters) -> None:
        self._env = env
        self._counters = counters
        self._counted_ms = self._stepped_ms = env.mono_ms
        self._requests = counters.requests
        self._is_busy = False

    def most(self, wanted: int, late_ms: int) -> int:
        """How many of `wanted` messages may be delivered now; 0: ask again in a millisecond.  `late_ms`: since they were due."""
        now_ms, requests = self._env.mono_ms, self._counters.requests
        passed_ms = now_ms - self._counted_ms
        if passed_ms >= LOOK_MS:
            self._is_busy = requests - self._requests >= REQUESTS_PER_MS * passed_ms
            self._counted_ms, self._requests = now_ms, requests
        if not self._is_busy or late_ms >= FREE_MS:
            return wanted
        since_ms, self._stepped_ms = now_ms - self._stepped_ms, now_ms
        return min((MESSAGES_PER_MS << late_ms // LATE_MS) * since_ms, wanted)
