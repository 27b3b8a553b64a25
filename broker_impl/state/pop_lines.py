"""Where the next pop of a queue begins, and in which order what was handed out counts as progress.

A pop hands out a stretch of a queue.  The next one begins behind it at once, while the group's committed progress moves only over
stretches whose check point is stored, first come, first served: what is committed is never behind an open stretch, and the file
has nothing whose check point the disk does not have.  So a crash hands out again and loses nothing.  A queue has a line as long
as one of its stretches is open.

Java: `PopBufferMergeService` (commitOffsets, getLatestOffset, clearOffsetQueue), `PopMessageProcessor.QueueLockManager`,
`PopInflightMessageCounter`.  *Differs*: a queue's lock is needed only while its bytes are read from the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from broker_impl.state.consumer_offsets import ConsumerOffsets

ABSENT: Final = -1
_NONE: Final[Mapping[int, deque[Stretch]]] = {}
COMMITTER: Final = "PopBufferMergeService"
"""Who the log says has committed."""


class QueueOfGroup(NamedTuple):
    """A queue as one group reads it."""

    topic: str
    group: str
    queue_id: int


class Stretch:
    """What one pop handed out: up to `next_offset`.

    `count`: its messages.  `settled`: its check point is written, or nothing of it needs one.  `end_offset`: up to where in the
    log it rests on records.
    """

    __slots__ = ("count", "end_offset", "line", "next_offset", "place", "settled")

    def __init__(self, place: QueueOfGroup, next_offset: int, line: deque[Stretch], count: int) -> None:
        self.place = place
        self.next_offset = next_offset
        self.count = count
        self.line = line
        """It, and those before and behind it; empty when that was cleared."""
        self.end_offset = 0
        self.settled = False

    def rests_on(self, end_offset: int) -> None:
        """A record that it needs ends there."""
        if end_offset > self.end_offset:
            self.end_offset = end_offset


class PopLines:
    """The lines of all groups, and the queues that are being read.  `started_ms`: when this run of the broker began."""

    def __init__(self, offsets: ConsumerOffsets, started_ms: int = 0) -> None:
        self._offsets = offsets
        self._started_ms = started_ms
        self._lines: dict[tuple[str, str], dict[int, deque[Stretch]]] = {}
        """By topic and group; by queue."""
        self._in_flight: dict[QueueOfGroup, int] = {}
        offsets.on_reset.append(lambda *place: self.forget_in_flight(QueueOfGroup(*place)))
        self.locked: set[QueueOfGroup] = set()
        """Somebody waits for the disk and has not said yet what it takes of them."""

    def __len__(self) -> int:
        """Queues with open stretches."""
        return sum(map(len, self._lines.values()))

    def of_topic(self, topic: str, group: str) -> Mapping[int, deque[Stretch]]:
        """By queue, of those that have one."""
        return self._lines.get((topic, group), _NONE)

    def _line(self, place: QueueOfGroup) -> deque[Stretch] | None:
        lines = self._lines.get(place[:2])
        return None if lines is None else lines.get(place[2])

    def _drop(self, place: QueueOfGroup) -> None:
        topic, group, queue_id = place
        lines = self._lines.get((topic, group))
        if lines is not None:
            line = lines.pop(queue_id, None)
            if line is not None:
                line.clear()
                if not lines:
                    del self._lines[topic, group]

    def latest(self, place: QueueOfGroup) -> int:
        """Where the last open stretch ends; `ABSENT` where there is none (`getLatestOffset`)."""
        topic, group, queue_id = place
        lines = self._lines.get((topic, group))
        line = None if lines is None else lines.get(queue_id)
        return line[-1].next_offset if line else ABSENT

    def length(self, place: QueueOfGroup) -> int:
        """Open stretches of a queue (`getOffsetTotalSize`)."""
        line = self._line(place)
        return len(line) if line else 0

    def open(self, place: QueueOfGroup, next_offset: int, count: int = 0) -> Stretch:
        """A pop hands out so many messages, up to here; without any it passes over what it does not want."""
        topic, group, queue_id = place
        lines = self._lines.get((topic, group))
        if lines is None:
            lines = self._lines[topic, group] = {}
        line = lines.get(queue_id)
        if line is None:
            line = lines[queue_id] = deque()
        stretch = Stretch(place, next_offset, line, count)
        line.append(stretch)
        if count:
            self.took(place, count)
        return stretch

    def settle(self, stretch: Stretch) -> None:
        """It counts as soon as all before it do.  One whose line was cleared meanwhile counts no more."""
        stretch.settled = True
        place, line = stretch.place, stretch.line
        if not line or not line[0].settled:
            return
        offset, end_offset = ABSENT, 0
        while line and line[0].settled:
            first = line.popleft()
            offset = first.next_offset
            if first.end_offset > end_offset:
                end_offset = first.end_offset
        if not line:
            self._drop(place)
        topic, group, queue_id = place
        offsets = self._offsets
        if offsets.has_resets and offsets.has_reset(group, topic, queue_id):
            return  # the group starts anew there; what was in flight says nothing about it
        offsets.commit_resting(group, topic, queue_id, offset, end_offset, COMMITTER)

    def undo(self, stretch: Stretch) -> None:
        """Nothing was handed out after all."""
        line = stretch.line
        if stretch in line:
            line.remove(stretch)
            self.returned(stretch.place, stretch.count)
            if not line:
                self._drop(stretch.place)

    def clear(self, place: QueueOfGroup) -> None:
        """The group starts anew in this queue (`clearOffsetQueue`)."""
        self._drop(place)

    # What nobody has acknowledged yet

    def in_flight(self, place: QueueOfGroup) -> int:
        """Messages that somebody has; of this run of the broker."""
        return self._in_flight.get(place, 0)

    def took(self, place: QueueOfGroup, count: int) -> None:
        """So many were handed out."""
        self._in_flight[place] = self._in_flight.get(place, 0) + count

    def returned(self, place: QueueOfGroup, count: int) -> None:
        """So many go back."""
        left = self._in_flight.get(place, 0) - count
        if left > 0:
            self._in_flight[place] = left
        else:
            self._in_flight.pop(place, None)

    def freed(self, place: QueueOfGroup, count: int, pop_ms: int) -> None:
        """So many that were popped then are acknowledged, or come again (`decrementInFlightMessageNum`).

        What an earlier run of the broker handed out was not counted in this one.
        """
        if pop_ms >= self._started_ms:
            self.returned(place, count)

    def forget_in_flight(self, place: QueueOfGroup) -> None:
        """An ordered pop begins, or the group starts anew: all of it is free (`clearInFlightMessageNum`)."""
        self._in_flight.pop(place, None)

    def forget(self, topics: Set[str], groups: Set[str]) -> None:
        """These were deleted: one look at every queue, 0.1 µs each."""
        for pair in [one for one in self._lines if one[0] in topics or one[1] in groups]:
            for line in self._lines.pop(pair).values():
                line.clear()
        self.forget_all_in_flight(topics, groups)

    def forget_all_in_flight(self, topics: Set[str], groups: Set[str]) -> None:
        """Of these: for who makes them again all is free."""
        for place in [one for one in self._in_flight if one.topic in topics or one.group in groups]:
            del self._in_flight[place]
