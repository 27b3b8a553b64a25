"""How many messages of each topic wait for their time: the file `config/timermetrics` and the answer to code 61.

A number for people: it is written when it has changed, and a crash may leave an older one.  (Java: `TimerMetrics`)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rmq_wire import fastjson
from rmq_wire.errors import BadBody
from rmq_wire.java import iteration_order

BUCKETS: Final = 2048
"""Of Java's table of topics: `new ConcurrentHashMap<>(1024)`."""


class TimerMetrics:
    """Counts by topic, each with the time of its last change (ms)."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = {}
        self.state_version = 0
        self.version_ms = 0
        self.version_counter = 0
        self.changes = 0

    def add(self, topic: str | None, value: int, wall_ms: int) -> None:
        """So many more wait, or fewer (`addAndGet`)."""
        self.add_all(((topic, value),), wall_ms)

    def add_all(self, changes: Iterable[tuple[str | None, int]], wall_ms: int) -> None:
        """The same again and again."""
        added: dict[str, int] = {}
        number = 0
        for topic, value in changes:
            if topic is not None:
                number += 1
                if topic in added:
                    added[topic] += value
                else:
                    added[topic] = value
        if number:
            counts = self.counts
            for topic, value in added.items():
                counts[topic] = (counts[topic][0] + value if topic in counts else value, wall_ms)
            self.version_ms = wall_ms
            self.version_counter += number
            self.changes += number

    def forget(self, topic: str) -> None:
        """The topic was deleted (`removeTimingCount`)."""
        if self.counts.pop(topic, None) is not None:
            self.changes += 1

    def encode(self, counts: Mapping[str, tuple[int, int]]) -> bytes:
        """The document with these counts in this order, as Java writes it."""
        version = {"counter": self.version_counter, "stateVersion": self.state_version, "timestamp": self.version_ms}
        return fastjson.dumps_fastjson(
            {
                "dataVersion": version,
                "timingCount": {topic: {"count": count, "timeStamp": wall_ms} for topic, (count, wall_ms) in counts.items()},
            }
        )

    def snapshot(self) -> Callable[[], bytes]:
        """What gives the document as it is now; any thread may call it."""
        counts = self.counts.copy()
        version = (self.state_version, self.version_ms, self.version_counter)

        def made() -> bytes:
            taken = TimerMetrics()
            taken.state_version, taken.version_ms, taken.version_counter = version
            return taken.encode({topic: counts[topic] for topic in iteration_order(counts, BUCKETS)})

        return made

    def load(self, text: bytes) -> None:
        """Read a file that Java or we wrote.  Raises `BadBody`, and then has changed nothing."""
        document = fastjson.loads(text)
        if not isinstance(document, dict):
            raise BadBody("timermetrics: no object")
        counts = document.get("timingCount") or {}
        version = document.get("dataVersion") or {}
        if not isinstance(counts, dict) or not isinstance(version, dict):
            raise BadBody("timermetrics: no object where one should be")
        read = {str(topic): (_number(row, "count"), _number(row, "timeStamp")) for topic, row in counts.items()}
        self.state_version = _number(version, "stateVersion")
        self.version_ms = _number(version, "timestamp")
        self.version_counter = _number(version, "counter")
        self.counts = read


def _number(row: Any, name: str) -> int:
    value = row.get(name, 0) if isinstance(row, dict) else None
    if not isinstance(value, int):
        raise BadBody(f"timermetrics: {name} is no number")
    return value
