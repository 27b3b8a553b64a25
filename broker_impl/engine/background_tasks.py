"""Background task in slices: generators that take turns.

A task yields after at most 0.5 ms; each turn gives a slice to a few of them in rotation, so that a listing of a hundred thousand
topics, or persisting a table, holds up nobody.  One that waits for a thread yields a `Pause` and gets no slice until it ends.
What a slice stages is committed with its turn; when that fails, the task gets the error at its next slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from broker_impl.engine.answers import Pause
from broker_impl.engine.call import PendingAnswer
from broker_impl.engine.commits import NoCommits
from broker_impl.engine.loop import Loop, Mark

Ended = Callable[[Any, BaseException | None], None]


class Task:
    """One generator, and who gets its result: an asker (`pending`), or `ended(result, error)`."""

    __slots__ = ("ended", "error", "generator", "pause", "pending", "result")

    def __init__(
        self, generator: Generator[Pause | None, None, Any], pending: PendingAnswer | None = None, ended: Ended | None = None
    ) -> None:
        self.generator = generator
        self.pending = pending
        self.ended = ended
        self.result: Any = None
        self.pause: Pause | None = None
        """What the last slice said that it waits for."""
        self.error: Exception | None = None
        """Before a slice: thrown into the generator.  After the last: what it raised."""

    @property
    def wanted(self) -> bool:
        """False once the asker has gone."""
        return self.pending is None or self.pending.oneway or self.pending.alive

    def fail(self, error: BaseException | None) -> None:
        """As a `Committed`: what the last slice staged was undone, the next slice gets to know."""
        if isinstance(error, Exception):
            self.error = error

    def slice(self) -> bool:
        """Run on to the next yield.  True when it wants another slice; else `result` or `error` is there."""
        error, self.error = self.error, None
        try:
            self.pause = next(self.generator) if error is None else self.generator.throw(error)
        except StopIteration as stop:
            self.result = stop.value
            return False
        except Exception as raised:
            self.error = raised
            return False
        return True


class BackgroundTasks:
    """The tasks under way, next first.  What a slice stages stands or falls with its turn; the answer rests on it."""

    def __init__(self, loop: Loop, commits: NoCommits) -> None:
        self._loop = loop
        self._commits = commits
        self.waiting: deque[Task] = deque()
        """Those that want another slice."""

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, task: Task) -> None:
        self.waiting.append(task)

    def rotate(self, limit: int) -> None:
        """A slice of up to `limit` tasks; who wants another comes back at the end of the row.  Unwanted ones are ended."""
        for _ in range(min(limit, len(self.waiting))):
            task = self.waiting.popleft()
            if not task.wanted:
                task.generator.close()
                self._release(task)
            elif self._slice(task):
                if task.pause is None:
                    self.waiting.append(task)
                else:
                    task.pause.then(partial(self.waiting.append, task))

    def _slice(self, task: Task) -> bool:
        commits = self._commits
        mark = commits.mark()
        again = task.slice()
        if task.error is not None:
            commits.undo(mark, task.error)
        elif again and commits.grown(mark):
            commits.after_commit(task.fail)
        if not again:
            self._end(task, mark)
        return again

    def _end(self, task: Task, mark: Mark) -> None:
        pending, error = task.pending, task.error
        self._release(task)
        if pending is not None:
            if error is None and task.result is None:
                error = TypeError("a background task answers nothing")
            answer = task.result if error is None else self._loop.excuse(error, pending.peer, 0)
            if pending.alive and not pending.oneway:
                pending.unanswered = False
                self._commits.finish(pending.peer, pending.opaque, pending.form, answer, mark)
        elif task.ended is not None:
            self._loop.guard(task.ended, task.result, error)
        elif error is not None:
            self._loop.bug("a background task", error)

    def _release(self, task: Task) -> None:
        """The asker's next request may be served."""
        if task.pending is not None:
            peer = task.pending.peer
            peer.tasks -= 1
            if peer.held:
                peer.held = False
                self._loop.buffers.touch(peer)
