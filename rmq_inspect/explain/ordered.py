"""Ordered POP: the batch that each group got last of each queue, as `config/consumerOrderInfo.json` has it.

A pop in order leaves no check point: this file alone, written every five seconds, says what is handed out, and what is not
acknowledged comes again from the queue itself.  What the numbers mean is `rmq_wire.implied.pop_order`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_inspect.decode.files import config_value
from rmq_inspect.decode.records import printable
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.words import when
from rmq_wire.bodies.order_info import OrderInfo, OrderInfoTable
from rmq_wire.errors import BadBody
from rmq_wire.implied import pop_order

FILE: Final = "consumerOrderInfo.json"


class Batch(NamedTuple):
    """The last of one queue.  until: offset -> when it is visible again, wall ms, of each message that is not acknowledged."""

    topic: str
    group: str
    queue_id: int
    info: OrderInfo
    offsets: list[int]
    until: dict[int, int]

    @property
    def free_ms(self) -> int | None:
        """When the queue is free again, wall time; None where all are acknowledged."""
        return max(self.until.values(), default=None)

    def as_json(self) -> dict[str, Any]:
        """Ready for JSON.  consumedTimes: how often each was handed out before, as far as that was counted."""
        consumed = self.info.consumed or {}
        return {
            "topic": self.topic,
            "group": self.group,
            "queueId": self.queue_id,
            "popTimestamp": self.info.pop_time,
            "freeTimestamp": self.free_ms,
            "attemptId": self.info.attempt,
            "messages": [
                {
                    "queueOffset": offset,
                    "acked": offset not in self.until,
                    "visibleTimestamp": self.until.get(offset),
                    "consumedTimes": consumed.get(offset, 0),
                }
                for offset in self.offsets
            ],
        }


class Held(NamedTuple):
    """A message that a group has not acknowledged.  until_ms: when it is visible again, wall time."""

    batch: Batch
    offset: int
    until_ms: int

    def says(self) -> str:
        """One line for people."""
        info = self.batch.info
        before = (info.consumed or {}).get(self.offset, 0)
        times = f", having had it {before} times before" if before > 1 else ", having had it once before" if before else ""
        attempt = "" if info.attempt is None else f" (attempt {printable(info.attempt)})"
        return (
            f"group {printable(self.batch.group)} popped it in order at {when(info.pop_time)}{attempt}{times}: unless it"
            f" is acknowledged, handed out again from {when(self.until_ms)} on;"
            f" the queue is blocked until {when(self.batch.free_ms)}"
        )


class OrderedPops:
    """Of one store; None: of a lone file, of which nothing else is known."""

    def __init__(self, store: StoreDirectory | None) -> None:
        self.batches: list[Batch] = []
        self.unread: str | None = None
        """Why the file cannot be read, one line.  Its backup is used then, as by a broker that starts."""
        self._held: dict[tuple[str, int, int], list[Held]] = {}
        files = () if store is None else (store.config.get(FILE), store.config.get(f"{FILE}.bak"))
        for file in files:
            if file is None:
                continue
            try:
                self.batches = _batches(file)
                break
            except CannotLook as reason:
                self.unread = self.unread or str(reason)
        for batch in self.batches:
            for offset, until in batch.until.items():
                self._held.setdefault((batch.topic, batch.queue_id, offset), []).append(Held(batch, offset, until))

    def held(self, topic: str, queue_id: int, offset: int) -> list[Held]:
        """Who has this message and did not acknowledge it."""
        return self._held.get((topic, queue_id, offset), [])


def _batches(file: StoreFile) -> list[Batch]:
    """Raises `CannotLook`."""
    value = config_value(file)
    if not isinstance(value, dict):
        raise CannotLook(f"{file.name}: not the table of ordered pops")
    try:
        table = OrderInfoTable.from_plain(value).table
    except BadBody as reason:
        raise CannotLook(f"{file.name}: not the table of ordered pops: {reason}") from reason
    return [
        Batch(*pop_order.place_of(key), queue_id, info, pop_order.offsets_of(info), dict(pop_order.open_until(info)))
        for key, row in sorted(table.items())
        for queue_id, info in sorted((row or {}).items())
        if info is not None and info.offsets
    ]
