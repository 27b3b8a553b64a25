"""The figures of `StoreStatsService`: counts, one-second samples for rates, and how long appends took.

Fed with numbers (elapsed times, the clock once a second), so it can be tested without waiting.  Quirks that tools see are kept:
rates are empty until enough samples exist, a total of zero puts is reported as 1, the distribution of the last full minute is the
text `null` during the first one.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate, chain, repeat
from typing import Final

SAMPLES_MAX: Final = 601
"""One a second; the longest rate looks back 600 s."""
RATE_SECONDS: Final = (10, 60, 600)
RESET_MS: Final = 60_000
"""The distribution and the percentiles show the last full minute."""

_DISTRIBUTION: Final = (
    ("[<=0ms]", 0),
    ("[0~10ms]", 10),
    ("[10~50ms]", 50),
    ("[50~100ms]", 100),
    ("[100~200ms]", 200),
    ("[200~500ms]", 500),
    ("[500ms~1s]", 1000),
    ("[1~2s]", 2000),
    ("[2~3s]", 3000),
    ("[3~4s]", 4000),
    ("[4~5s]", 5000),
    ("[5~10s]", 10000),
    ("[10s~]", None),
)
"""Name and exclusive upper bound in ms (the first: 0 or less)."""
_STEPS: Final = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
"""Percentile buckets: width in ms and how many of that width."""
_LONG_MAX: Final = (1 << 63) - 1
_BUCKETS: Final = (*accumulate(chain.from_iterable(repeat(width, times) for width, times in _STEPS)), _LONG_MAX)
"""Inclusive upper bounds in ms, ascending."""
_EXACT_MS: Final = 20
"""Up to here a bucket is one ms wide, so that finding it is an index."""


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
    """Counters of one store. Attributes are bumped by the store; the broker feeds elapsed times."""

    def __init__(self, boot_ms: int) -> None:
        self.boot_ms = boot_ms
        self.put_times = 0
        self.put_bytes = 0
        self.put_failed_times = 0
        self.get_found_times = 0
        self.get_missed_times = 0
        self.transferred_messages = 0
        self.dispatch_buffer_max = 0
        self.put_elapsed_max_ms = 0
        self.get_elapsed_max_ms = 0
        self._samples: deque[tuple[int, int, int, int, int]] = deque(maxlen=SAMPLES_MAX)
        self._counts = [0] * len(_DISTRIBUTION)
        self._last_counts: list[int] | None = None
        self._buckets = [0] * len(_BUCKETS)
        self._last_buckets = [0] * len(_BUCKETS)
        self._reset_at_ms = boot_ms + RESET_MS

    def put_elapsed(self, elapsed_ms: int, count: int = 1) -> None:
        """`count` appends took this long each (Java: setPutMessageEntireTimeMax)."""
        if elapsed_ms <= 0:
            self._counts[0] += count
        else:
            at = 1
            while (bound := _DISTRIBUTION[at][1]) is not None and elapsed_ms >= bound:
                at += 1
            self._counts[at] += count
        at = 0 if elapsed_ms <= 1 else min(elapsed_ms, _EXACT_MS) - 1
        while _BUCKETS[at] < elapsed_ms:
            at += 1
        self._buckets[at] += count
        self.put_elapsed_max_ms = max(self.put_elapsed_max_ms, elapsed_ms)

    def get_elapsed(self, elapsed_ms: int) -> None:
        self.get_elapsed_max_ms = max(self.get_elapsed_max_ms, elapsed_ms)

    def sample(self, wall_ms: int) -> None:
        """Once a second."""
        self._samples.append((wall_ms, self.put_times, self.get_found_times, self.get_missed_times, self.transferred_messages))
        if wall_ms > self._reset_at_ms:
            self._reset_at_ms = wall_ms + RESET_MS
            self._last_counts, self._counts = self._counts, [0] * len(_DISTRIBUTION)
            self._last_buckets, self._buckets = self._buckets, [0] * len(_BUCKETS)

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

    def percentile(self, part: float) -> float:
        """Put latency in ms below which this part of last minute's puts lay, interpolated as Java does."""
        wanted = int(sum(self._last_buckets) * part)
        passed = 0
        for at, count in enumerate(self._last_buckets):
            if wanted > passed + count:
                passed += count
                continue
            below = _BUCKETS[at - 1] if at else 0
            return below + ((_BUCKETS[at] - below) * (wanted - passed) / count if count else 0.0)
        return 0.0

    def distribution_text(self) -> str:
        if self._last_counts is None:
            return "null"
        return "".join(f"{name}:{count} " for (name, _), count in zip(_DISTRIBUTION, self._last_counts, strict=True))

    def runtime_info(self, wall_ms: int) -> dict[str, str]:
        """The store statistics of code 28 (Java: getRuntimeInfo), without order."""
        times = self.put_times or 1
        return {
            "bootTimestamp": str(self.boot_ms),
            "runtime": running_text(wall_ms - self.boot_ms),
            "putMessageEntireTimeMax": str(self.put_elapsed_max_ms),
            "putMessageTimesTotal": str(times),
            "putMessageFailedTimes": str(self.put_failed_times),
            "putMessageSizeTotal": str(self.put_bytes),
            "putMessageDistributeTime": self.distribution_text(),
            "putMessageAverageSize": double_text(self.put_bytes / times),
            "dispatchMaxBuffer": str(self.dispatch_buffer_max),
            "getMessageEntireTimeMax": str(self.get_elapsed_max_ms),
            "putTps": self._rates(1),
            "getFoundTps": self._rates(2),
            "getMissTps": self._rates(3),
            "getTotalTps": self._total_rates(),
            "getTransferredTps": self._rates(4),
            "putLatency99": f"{self.percentile(0.99):.2f}",
            "putLatency999": f"{self.percentile(0.999):.2f}",
        }
