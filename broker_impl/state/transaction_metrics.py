"""How many half messages of each topic have no end yet: `transactionMetrics`, which only people and exporters read.

A count goes up with a half message and down with its end, so it may be wrong after a crash, and below zero where one message was
ended twice, as in Java.  The file is compact, unlike all others.  Java: `TransactionMetrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker_impl.state.java_order import JavaOrder, Portion, as_copied
from broker_impl.state.persisted import PersistedTable, leftover
from rmq_wire import fastjson
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.errors import BadBody
from rmq_wire.java import concurrent_buckets

MAP_CAPACITY = 1024


class TransactionMetrics(PersistedTable):
    """Counts by topic, each with the time of its last change, wall ms."""

    file = "transactionMetrics"

    def __init__(self, wall_ms: int) -> None:
        super().__init__()
        self.data_version = DataVersion(timestamp=wall_ms)
        self.counts: dict[str, tuple[int, int]] = {}
        self._order = JavaOrder(concurrent_buckets(MAP_CAPACITY))

    def add(self, topic: str, count: int, wall_ms: int, changes: int = 1) -> None:
        """So many half messages more, by so many changes (`addAndGet`)."""
        old = self.counts.get(topic)
        if old is None:
            self._order.add(topic)
        self.counts[topic] = (count if old is None else old[0] + count, wall_ms)
        self.data_version.advance(wall_ms)
        self.data_version.counter += changes - 1
        self.changed(at_once=False)

    def encode_slices(self) -> Iterator[bytes]:
        """The document, compact, its members in the order of their names, topics as Java's map has them."""
        self._in_writing = self.changes
        counts, order = dict(self.counts), self._order.portions()
        own = {"dataVersion": self.data_version.plain(), "transactionCount": None}
        members = {**self.unknown, **own}
        for number, name in enumerate(sorted(members)):
            yield (b"," if number else b"{") + fastjson.dumps_strict(name) + b":"
            if name == "transactionCount":
                yield from _rows(order, counts)
            else:
                yield fastjson.dumps_strict(members[name])
        yield b"}"

    def take(self, document: dict[str, Any]) -> None:
        rows = as_copied(document.get("transactionCount") or {}, self._order)
        if not isinstance(rows, dict):
            raise BadBody(f"{self.file}: transactionCount is a {type(rows).__name__}")
        counts = {topic: _count(topic, row) for topic, row in rows.items()}
        self.data_version.assign(DataVersion.from_plain(document.get("dataVersion") or {}))
        for topic, count in counts.items():
            if topic not in self.counts:
                self._order.add(topic)
            self.counts[topic] = count
        self.unknown = leftover(document, ("dataVersion", "transactionCount"))


def _count(topic: str, row: Any) -> tuple[int, int]:
    said = (row.get("count", 0), row.get("timeStamp", 0)) if isinstance(row, dict) else ()
    if len(said) != 2 or not all(type(number) is int for number in said):
        raise BadBody(f"{TransactionMetrics.file}: the row of {topic[:64]!r} is no count")
    return said


def _rows(order: Iterator[Portion], counts: dict[str, tuple[int, int]]) -> Iterator[bytes]:
    begin = b"{"
    for portion in order:
        rows = []
        for _, topic, _ in portion:
            count, changed_ms = counts[topic]
            rows.append(fastjson.dumps_strict(topic) + b':{"count":%d,"timeStamp":%d}' % (count, changed_ms))
        if rows:
            yield begin + b",".join(rows)
            begin = b","
    yield b"{}" if begin == b"{" else b"}"
