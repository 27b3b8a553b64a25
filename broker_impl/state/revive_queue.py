"""One queue of the revive topic: the check points that were read, what of them is acknowledged, and which are due.

The queue is in the order of due times, but for what came late, so a check point is due when records of two seconds behind it have
been seen: then its acknowledgements have been.  While nothing comes, the clock takes the place of records.  What is acknowledged
as a whole is forgotten at once.  Progress is the last record before which nothing is open.

Java: `PopReviveService` (consumeReviveMessage, mergeAndRevive, ConsumeReviveObj).  *Differs*: what was read stays known from
round to round, where Java reads it again; a clock that goes back takes the end of what was seen with it.
"""

from __future__ import annotations

import heapq
from typing import Final

from rmq_wire.bodies.pop import AckMsg, PopCheckPoint
from rmq_wire.implied.pop import ACK_INTERVAL_MS, Pop, acked_offsets, pop_of

DUE_AFTER_MS: Final = 2 * ACK_INTERVAL_MS
"""Records that are due so much later have to be seen before a check point is."""
OPEN_MAX: Final = 20_000
"""Check points that are read ahead, some 1 KiB each: more wait in the queue."""


class ReviveQueue:
    """`next_offset`: of the record to read next.  `end_ms`: due time of the latest record, as far as the clock has come."""

    def __init__(self, queue_id: int, broker_name: str, next_offset: int) -> None:
        self.queue_id = queue_id
        self.next_offset = next_offset
        self.end_ms = 0
        self.running = False
        self._broker_name = broker_name
        self._open: dict[Pop, PopCheckPoint] = {}
        self._due: list[tuple[int, int, Pop]] = []
        """A heap: due time, place in the queue."""

    def __len__(self) -> int:
        """Open check points."""
        return len(self._open)

    @property
    def is_full(self) -> bool:
        return len(self._open) >= OPEN_MAX

    @property
    def done(self) -> int:
        """The last record before which all are done with, -1 at the beginning."""
        first = next(iter(self._open.values()), None)
        return (self.next_offset if first is None else first.revive_offset) - 1

    def saw(self, deliver_ms: int, now_ms: int) -> None:
        """A record that was due then has been read."""
        self.end_ms = min(max(self.end_ms, deliver_ms), now_ms)

    def saw_nothing(self, now_ms: int) -> None:
        """Whatever was due until now has been read."""
        self.end_ms = now_ms

    def take(self, record: PopCheckPoint | AckMsg, offset: int) -> None:
        """A record at this place of the queue.  Raises `BadBody`."""
        pop = pop_of(record, self._broker_name)
        if isinstance(record, PopCheckPoint):
            if pop in self._open:
                return
            record.revive_offset = offset
            self._open[pop] = record
            heapq.heappush(self._due, (record.due_ms, offset, pop))
            return
        point = self._open.get(pop)
        if point is None:
            return
        acked = set(acked_offsets(record))
        for index in range(point.num):
            if point.offset_at(index) in acked:
                point.set_bit(index)
        if all(point.has_bit(index) for index in range(point.num)):
            del self._open[pop]

    def next_due(self) -> tuple[Pop, PopCheckPoint] | None:
        """The first that is due now."""
        while self._due:
            due_ms, offset, pop = self._due[0]
            point = self._open.get(pop)
            if point is None or point.revive_offset != offset:
                heapq.heappop(self._due)
                continue
            return (pop, point) if self.end_ms - due_ms > DUE_AFTER_MS else None
        return None

    def finish(self, pop: Pop) -> None:
        """All of its messages are taken care of."""
        self._open.pop(pop, None)
