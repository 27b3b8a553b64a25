"""How many messages a second, as code 28 gives it for the timer.

Java: `PerfCounter`, without its distribution of times.
"""

from __future__ import annotations

from typing import Final

PERIOD_MS: Final = 10_000
COUNT_MAX: Final = 1_000_000
"""A period ends with the first message after this time, or with so many messages."""
SHOWN_MS: Final = PERIOD_MS + 3_000
"""For how long a period's rate is given after its end."""
FORGOTTEN_MS: Final = 2 * PERIOD_MS + 1_000
"""A period that began longer ago does not count: a new one begins."""


class Rate:
    """Messages a second in the last period that ended; 0.0 while there is none, and when it was long ago."""

    def __init__(self) -> None:
        self._began_ms: int | None = None
        self._count = 0
        self._last = 0.0

    def add(self, count: int, now_ms: int) -> None:
        """So many messages now."""
        if not count:
            return
        if self._began_ms is None or not 0 <= now_ms - self._began_ms <= FORGOTTEN_MS:
            self._began_ms, self._count, self._last = now_ms, 0, 0.0
        self._count += count
        took_ms = now_ms - self._began_ms
        if took_ms >= PERIOD_MS or self._count >= COUNT_MAX:
            self._last = (self._count + 0.1) * 1_000 / max(took_ms, 1)
            self._began_ms, self._count = now_ms, 0

    def per_second(self, now_ms: int) -> float:
        """The figure."""
        return self._last if self._began_ms is not None and now_ms - self._began_ms <= SHOWN_MS else 0.0
