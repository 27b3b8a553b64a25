"""The figures of `StoreStatsService`: counts, and one-second samples for rates.

Fed with numbers (the clock once a second), so it can be tested without waiting.  Quirks that tools see are kept: rates are empty
until enough samples exist, a total of zero puts is reported as 1.  How long appends and reads took is not measured
(docs/differences.md): the figures for that stay as they are in a store that has just begun.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SAMPLES_MAX: Final = 601
"""One a second; the longest rate looks back 600 s."""
RATE_SECONDS: Final = (10, 60, 600)


def double_text(value: float) -> str:
    """`Double.toString`: at least one digit after the point, scientific from 10^7 on and below 10^-3."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = repr(value)
        return text if "e" not in text else f"{value:f}"
    sign, digits, exponent = "-" if value < 0 else "", *f"{abs(value):.16e}".split("e")
    shortest = repr(abs(value))
    mantissa = "".join(c for c in shortest.split("e")[0] if c != ".").strip("0") or digits[0]
    return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{int(exponent)}"


def running_text(elapsed_ms: int) -> str:
    """`[ d days, h hours, m minutes, s seconds ]` with Java's thousands separators."""
    seconds = elapsed_ms // 1000
    days, seconds = divmod(seconds, 86_400)
    return f"[ {days:,} days, {seconds // 3600} hours, {seconds % 3600 // 60} minutes, {seconds % 60} seconds ]"


class StoreStatistics:
    """Counters of one store. Attributes are bumped by the store."""

    def __init__(self, boot_ms: int) -> None:
        self.boot_ms = boot_ms
        self.put_times = 0
        self.put_bytes = 0
        self.put_failed_times = 0
        self.get_found_times = 0
        self.get_missed_times = 0
        self.transferred_messages = 0
        self.dispatch_buffer_max = 0
        self._samples: deque[tuple[int, int, int, int, int]] = deque(maxlen=SAMPLES_MAX)

    def sample(self, wall_ms: int) -> None:
        """Once a second."""
        self._samples.append((wall_ms, self.put_times, self.get_found_times, self.get_missed_times, self.transferred_messages))

    def rate(self, column: int, seconds: int) -> float | None:
        """Per second over the last `seconds` samples; None while there are not that many."""
        if len(self._samples) <= seconds:
            return None
        before, last = self._samples[-seconds - 1], self._samples[-1]
        elapsed = last[0] - before[0]
        return (last[column] - before[column]) / elapsed * 1000 if elapsed else 0.0

    def _rates(self, column: int) -> str:
        rates = [self.rate(column, seconds) for seconds in RATE_SECONDS]
        return " ".join("" if rate is None else double_text(rate) for rate in rates)

    def _total_rates(self) -> str:
        sums = [(self.rate(2, seconds) or 0.0) + (self.rate(3, seconds) or 0.0) for seconds in RATE_SECONDS]
        return " ".join(map(double_text, sums))

    def runtime_info(self, wall_ms: int) -> dict[str, str]:
        """The store statistics of code 28 (Java: getRuntimeInfo), without order."""
        times = self.put_times or 1
        return {
            "bootTimestamp": str(self.boot_ms),
            "runtime": running_text(wall_ms - self.boot_ms),
            "putMessageEntireTimeMax": "0",
            "putMessageTimesTotal": str(times),
            "putMessageFailedTimes": str(self.put_failed_times),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageDistributeTime": "null",
            "putMessageAverageSize": double_text(self.put_bytes / times),
            "dispatchMaxBuffer": str(self.dispatch_buffer_max),
            "getMessageEntireTimeMax": "0",
            "putTps": self._rates(1),
            "getFoundTps": self._rates(2),
            "getMissTps": self._rates(3),
            "getTotalTps": self._total_rates(),
            "getTransferredTps": self._rates(4),
            "putLatency99": "0.00",
            "putLatency999": "0.00",
        }
