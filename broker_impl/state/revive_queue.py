"""One queue of the revive topic: the check points that were read, what of them is acknowledged, and which are due.

The queue is in the order of due times, but for what came late, so a check point is due when records of two seconds behind it have
been seen: then its acknowledgements have been.  While nothing comes, the clock takes the place of records.  What is acknowledged
as a whole is forgotten at once.  Progress is the last record before which nothing is open.

Two check points may have one name: a message that gets another time in the millisecond of a pop that begins at it, or a clock
that was set back.  Both count, and an acknowledgement for either ends the message in both.

Java: `PopReviveService` (consumeReviveMessage, mergeAndRevive, ConsumeReviveObj).  *Differs*: what was read stays known from
round to round, where Java reads it again; a clock that goes back takes the end of what was seen with it; of two of one name
Java forgets the first.
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
        self._copied = -1
        self._broker_name = broker_name
        self._open: dict[int, PopCheckPoint] = {}
        """By their place in the queue."""
        self._named: dict[Pop, tuple[int, ...]] = {}
        """Where those of a name are."""
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
        """A record that was read at this place.  Raises `BadBody` for one that names no topic or no group."""
        pop = pop_of(record, self._broker_name)
        places = self._named.get(pop, ())
        if isinstance(record, PopCheckPoint):
            self._take_point(pop, places, record, offset)
            return
        acked = set(acked_offsets(record))
        for place in places:
            point = self._open[place]
            for index in range(point.num):
                if point.offset_at(index) in acked:
                    point.set_bit(index)
            if all(map(point.has_bit, range(point.num))):
                self._drop(pop, place)

    def _take_point(self, pop: Pop, places: tuple[int, ...], point: PopCheckPoint, offset: int) -> None:
        """The same one twice, as a timer brings it after a crash, is one; two that only share their name are two."""
        if any(_is_same(self._open[place], point) for place in places):
            return
        point.revive_offset = offset
        self._open[offset] = point
        self._named[pop] = (*places, offset)
        heapq.heappush(self._due, (point.due_ms, offset, pop))

    def next_due(self) -> tuple[Pop, PopCheckPoint] | None:
        """The first that is due now."""
        while self._due:
            due_ms, offset, pop = self._due[0]
            point = self._open.get(offset)
            if point is None:
                heapq.heappop(self._due)
                continue
            return (pop, point) if self.end_ms - due_ms > DUE_AFTER_MS else None
        return None

    def overtaken(self) -> list[PopCheckPoint]:
        """Those that wait before others that are done with: a clock was set, or records came late."""
        return [point for offset, point in self._open.items() if offset < self._copied]

    def finish(self, pop: Pop, point: PopCheckPoint) -> None:
        """All of its messages are taken care of."""
        self._copied = max(self._copied, point.revive_offset)
        self._drop(pop, point.revive_offset)

    def _drop(self, pop: Pop, offset: int) -> None:
        if self._open.pop(offset, None) is None:
            return
        left = tuple(place for place in self._named[pop] if place != offset)
        if left:
            self._named[pop] = left
        else:
            del self._named[pop]


def _is_same(one: PopCheckPoint, other: PopCheckPoint) -> bool:
    return (one.num, one.diffs, one.invisible_time, one.re_put_times, one.suspend) == (
        other.num,
        other.diffs,
        other.invisible_time,
        other.re_put_times,
        other.suspend,
    )
