"""One queue of the revive topic: the check points that were read, what of them is acknowledged, and which are due.

The queue is in the order of due times, but for what came late and within a slot of the timer, so a check point is due when
records of two seconds behind it have been seen, or of a slot and one: then its acknowledgements have been.  One that came late (a
timer brings after a crash what it has brought before) has them behind it all the same, and waits as if it were due when it is
read.  While nothing comes, the clock takes the place of records.  What is acknowledged as a whole is forgotten at once.  Progress
is the last record before which nothing is open.

When as many are open as may be, their acknowledgements are still to be found: they lie behind check points that there is no room
for.  So the queue is read ahead for them, and what else is read there is read again when half of the room is free.

A check point that a stop has put behind others is read behind its acknowledgements where those were still on their way to the
timer and everything is due at the next start: what names no check point is kept for one that follows, the latest of them.

Two check points may have one name (`is_same_point`): both count, and an acknowledgement for either ends the message in both.

Java: `PopReviveService` (consumeReviveMessage, mergeAndRevive, ConsumeReviveObj).  *Differs*: what was read stays known from
round to round, where Java reads it again; a clock that goes back takes the end of what was seen with it; of two of one name
Java forgets the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from rmq_wire.bodies.pop import MESSAGES_MAX, AckMsg, PopCheckPoint
from rmq_wire.implied.pop import ACK_INTERVAL_MS, Pop, acked_offsets, is_same_point, pop_of

DUE_AFTER_MS: Final = 2 * ACK_INTERVAL_MS
"""Records that are due so much later have to be seen before a check point is, where the timer's slots are not longer."""
OPEN_MAX: Final = 20_000
"""Check points that are known at once, some 1 KiB each: more wait in the queue."""
EARLY_MAX: Final = 1024
"""Pops whose acknowledgements are kept without a check point, some KiB each at most; most of them came too late."""
_NOT_AHEAD: Final = -1


class ReviveQueue:
    """`next_offset`: of the first record that was not taken.  `end_ms`: due time of the latest that was read, as far as the clock
    has come.
    """

    def __init__(self, queue_id: int, broker_name: str, next_offset: int, slot_ms: int = ACK_INTERVAL_MS) -> None:
        """slot_ms: `timerPrecisionMs`.  What is due in one slot comes in any order."""
        self.queue_id = queue_id
        self._due_after_ms = max(DUE_AFTER_MS, slot_ms + ACK_INTERVAL_MS)
        self.next_offset = next_offset
        self.end_ms = 0
        self.log_end = 0
        """Before it in the log is every record that was read."""
        self.running = False
        self._ahead = _NOT_AHEAD
        """Of the record to read next, for acknowledgements alone."""
        self._taken_ms = 0
        """`end_ms` as it was when that began."""
        self._copied = -1
        """The last place of which something was copied."""
        self._begun: set[int] = set()
        """Places of open ones of which something was copied."""
        self._broker_name = broker_name
        self._open: dict[int, PopCheckPoint] = {}
        """By their place in the queue."""
        self._named: dict[Pop, tuple[int, ...]] = {}
        """Where those of a name are."""
        self._early: dict[Pop, frozenset[int]] = {}
        """Offsets that were acknowledged before the check point came, no more than a pop may have; the newest come last."""
        self._due: list[tuple[int, int, Pop]] = []
        """A heap: due time, of what came late when it was read; place in the queue."""

    def __len__(self) -> int:
        """Open check points."""
        return len(self._open)

    @property
    def position(self) -> int:
        """Of the record to read next."""
        return self.next_offset if self._ahead == _NOT_AHEAD else self._ahead

    def moved(self, offset: int) -> None:
        """All before it was read."""
        if self._ahead == _NOT_AHEAD:
            self.next_offset = max(self.next_offset, offset)
        else:
            self._ahead = max(self._ahead, offset)

    def look_ahead(self) -> None:
        """Before reading: from now on for acknowledgements alone, or from the first that was not taken, as there is room."""
        if self._ahead == _NOT_AHEAD:
            if len(self._open) >= OPEN_MAX:
                self._ahead, self._taken_ms = self.next_offset, self.end_ms
        elif len(self._open) <= OPEN_MAX // 2:
            self.look_back()

    def look_back(self) -> None:
        """From the first record that was not taken on, with room or without.  A clock that went back meanwhile has gone back."""
        if self._ahead != _NOT_AHEAD:
            self._ahead, self.end_ms = _NOT_AHEAD, min(self.end_ms, self._taken_ms)

    @property
    def done(self) -> int:
        """The last record before which all are done with, -1 at the beginning."""
        first = next(iter(self._open.values()), None)
        return (self.next_offset if first is None else first.revive_offset) - 1

    def saw(self, deliver_ms: int, now_ms: int) -> None:
        """A record that was due then has been read."""
        if deliver_ms > self.end_ms or self.end_ms > now_ms:
            self._end_at(min(max(self.end_ms, deliver_ms), now_ms))

    def saw_nothing(self, now_ms: int) -> None:
        """Whatever was due until now has been read."""
        self._end_at(now_ms)

    def _end_at(self, ms: int) -> None:
        before, self.end_ms = self.end_ms, ms
        if ms < before:  # what came late waits no longer than if it came now
            known = self._open
            self._due = [(min(due, max(known[at].due_ms, ms)), at, pop) for due, at, pop in self._due if at in known]
            heapq.heapify(self._due)

    def take(self, record: PopCheckPoint | AckMsg, offset: int) -> None:
        """A record that was read at this place.  Raises `BadBody` for one that names no topic or no group."""
        pop = pop_of(record, self._broker_name)
        places = self._named.get(pop, ())
        if isinstance(record, PopCheckPoint):
            if self._ahead == _NOT_AHEAD:
                self._take_point(pop, places, record, offset)
            return
        acked = acked_offsets(record)
        for place in places:
            if self._open[place].end(acked):
                self._drop(pop, place)
        if not places and self._ahead == _NOT_AHEAD:
            self._came_early(pop, acked)

    def _came_early(self, pop: Pop, acked: Iterable[int]) -> None:
        before = self._early.pop(pop, frozenset())
        if len(self._early) >= EARLY_MAX:
            del self._early[next(iter(self._early))]
        known = before.union(acked)
        self._early[pop] = known if len(known) <= MESSAGES_MAX else before

    def _take_point(self, pop: Pop, places: tuple[int, ...], point: PopCheckPoint, offset: int) -> None:
        """The same one twice, as a timer brings it after a crash, is one; two that only share their name are two."""
        if places and any(is_same_point(self._open[place], point) for place in places):
            return
        point.revive_offset = offset
        early = self._early.pop(pop, None)
        if early is not None and point.end(early):
            return
        self._open[offset] = point
        self._named[pop] = (*places, offset)
        heapq.heappush(self._due, (max(point.due_ms, self.end_ms), offset, pop))

    def next_due(self) -> tuple[Pop, PopCheckPoint] | None:
        """The first that is due now."""
        while self._due:
            due_ms, offset, pop = self._due[0]
            point = self._open.get(offset)
            if point is None:
                heapq.heappop(self._due)
                continue
            return (pop, point) if self.end_ms - due_ms > self._due_after_ms else None
        return None

    def overtaken(self) -> list[PopCheckPoint]:
        """Those that are copied in part, and those that wait before others that are or are done with: a clock was set, or records
        came late.
        """
        return [point for offset, point in self._open.items() if offset < self._copied or offset in self._begun]

    def copied(self, point: PopCheckPoint, indexes: Iterable[int]) -> None:
        """Copies of these messages are written."""
        for index in indexes:
            point.set_bit(index)
        self._copied = max(self._copied, point.revive_offset)
        if point.revive_offset in self._open:
            self._begun.add(point.revive_offset)

    def finish(self, pop: Pop, point: PopCheckPoint) -> None:
        """All of its messages are taken care of."""
        self._copied = max(self._copied, point.revive_offset)
        self._drop(pop, point.revive_offset)

    def _drop(self, pop: Pop, offset: int) -> None:
        if self._open.pop(offset, None) is None:
            return
        self._begun.discard(offset)
        places = self._named[pop]
        if places == (offset,):
            del self._named[pop]
        else:
            self._named[pop] = tuple([place for place in places if place != offset])
