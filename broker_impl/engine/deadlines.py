"""What is due when: one heap for everything that waits for a time.

Times are `mono_ms`.  Cancelling only empties an entry; the heap is rebuilt when most of it is empty, so ten thousand held
pulls that are all answered early leave nothing behind.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

Action = Callable[[], None]
COMPACT_ENTRIES_MIN = 1024
"""Below this a heap with empty entries is not worth rebuilding."""


class Deadline:
    """Something that will happen unless it is cancelled.  `period_ms`: it then happens again, so long after its last time."""

    __slots__ = ("_heap", "action", "due_ms", "period_ms")

    def __init__(self, heap: Deadlines, due_ms: int, action: Action, period_ms: int | None) -> None:
        self._heap = heap
        self.due_ms = due_ms
        self.action: Action | None = action
        self.period_ms = period_ms

    def cancel(self) -> None:
        """It will not happen.  Harmless when it already has."""
        if self.action is not None:
            self.action = None
            self._heap.forget()


class Deadlines:
    """A heap of `Deadline`s; equal times happen in the order in which they were asked for."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._count = 0
        self._empty = 0
        self._now_ms = 0
        """Of the last call of `due`: what enters for a time that is over comes behind what was due then."""

    def __len__(self) -> int:
        return len(self._heap) - self._empty

    def at(self, due_ms: int, action: Action, period_ms: int | None = None) -> Deadline:
        """Enter `action` at `due_ms`."""
        deadline = Deadline(self, max(due_ms, self._now_ms), action, period_ms)
        self._push(deadline)
        return deadline

    def next(self) -> int | None:
        """When the earliest is due."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
            self._empty -= 1
        return heap[0][0] if heap else None

    def are_due(self, now_ms: int) -> bool:
        """Whether `due` has anything; if not, it need not be asked this time."""
        self._now_ms = now_ms
        return bool(self._heap) and self._heap[0][0] <= now_ms

    def due(self, now_ms: int, limit: int) -> Iterator[Action]:
        """Take out what is due, earliest first, at most `limit` of them: the rest stays due.

        What enters meanwhile waits for the next call, however soon it is due: who goes on and on has a piece in each turn.  A
        periodic one re-enters before it is handed out, at its next time after `now_ms`: after a pause it happens once.
        """
        self._now_ms, last = now_ms, self._count
        while limit > 0 and self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] <= last:
            deadline = heapq.heappop(self._heap)[2]
            action = deadline.action
            if action is None:
                self._empty -= 1
                continue
            limit -= 1
            if deadline.period_ms is None:
                deadline.action = None
            else:
                deadline.due_ms = max(deadline.due_ms + deadline.period_ms, now_ms + 1)
                self._push(deadline)
            yield action

    def forget(self) -> None:
        """One more entry is empty."""
        self._empty += 1
        if self._empty > len(self._heap) // 2 and len(self._heap) >= COMPACT_ENTRIES_MIN:
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._empty = 0

    def _push(self, deadline: Deadline) -> None:
        self._count += 1
        heapq.heappush(self._heap, (deadline.due_ms, self._count, deadline))
