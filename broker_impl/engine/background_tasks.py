"""Long work in slices: generators that take turns.

A work yields after at most 0.5 ms; each turn gives a slice to a few of them in rotation, so that a listing of a hundred thousand
topics, or persisting a table, holds up nobody.  One that waits for a thread yields a `Pause` and gets no slice until it ends.
What a slice stages is committed with its turn; when that fails, the work gets the error at its next slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from broker_impl.engine.call import Parked, Pause, Reply, Settled
from broker_impl.engine.commits import NOTHING_STAGED, Commits, Mark
from broker_impl.engine.peer import Peer
from rmq_wire.command import Form

Ended = Callable[[Any, BaseException | None], None]


class Work:
    """One generator, and who is told its result: an asker (`parked`), or `ended(result, error)`."""

    __slots__ = ("ended", "error", "generator", "parked", "pause", "result")

    def __init__(
        self, generator: Generator[Pause | None, None, Any], parked: Parked | None = None, ended: Ended | None = None
    ) -> None:
        self.generator = generator
        self.parked = parked
        self.ended = ended
        self.result: Any = None
        self.pause: Pause | None = None
        """What the last slice said that it waits for."""
        self.error: Exception | None = None
        """Before a slice: thrown into the generator.  After the last: what it raised."""

    @property
    def wanted(self) -> bool:
        """False once the asker has gone."""
        return self.parked is None or self.parked.oneway or self.parked.alive

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
    """The works under way, next first.  What a slice stages stands or falls with its turn; the answer rests on it."""

    def __init__(
        self,
        commits: Commits | None,
        finish: Callable[[Peer, int, Form, Settled, Mark], None],
        excuse: Callable[[Exception, Peer, int], Reply],
        guard: Callable[..., None],
        bug: Callable[[str, BaseException], None],
        touch: Callable[[Peer], None],
    ) -> None:
        """From the engine: `finish` sends an answer that rests on what was staged since the mark, `excuse` words an error for
        its asker, `guard` runs something whose errors are nobody else's, `bug` logs an error that nobody was told, `touch` has
        the shell look at a peer again.
        """
        self._commits = commits
        self._finish = finish
        self._excuse = excuse
        self._guard = guard
        self._bug = bug
        self._touch = touch
        self._waiting: deque[Work] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, work: Work) -> None:
        self._waiting.append(work)

    def rotate(self, limit: int) -> None:
        """A slice of up to `limit` works; who wants another comes back at the end of the row.  Unwanted ones are ended."""
        for _ in range(min(limit, len(self._waiting))):
            work = self._waiting.popleft()
            if not work.wanted:
                work.generator.close()
                self._release(work)
            elif self._slice(work):
                if work.pause is None:
                    self._waiting.append(work)
                else:
                    work.pause.then(partial(self._waiting.append, work))

    def _slice(self, work: Work) -> bool:
        commits = self._commits
        mark = commits.mark() if commits is not None else NOTHING_STAGED
        again = work.slice()
        if commits is not None:
            if work.error is not None:
                commits.undo(mark, work.error)
            elif again and commits.grown(mark):
                commits.after_commit(work.fail)
        if not again:
            self._end(work, mark)
        return again

    def _end(self, work: Work, mark: Mark) -> None:
        parked, error = work.parked, work.error
        self._release(work)
        if parked is not None:
            if error is None and work.result is None:
                error = TypeError("a long work answers nothing")
            answer = work.result if error is None else self._excuse(error, parked.peer, 0)
            if parked.alive and not parked.oneway:
                parked.pending = False
                self._finish(parked.peer, parked.opaque, parked.form, answer, mark)
        elif work.ended is not None:
            self._guard(work.ended, work.result, error)
        elif error is not None:
            self._bug("a long work", error)

    def _release(self, work: Work) -> None:
        """The asker's next request may be served."""
        if work.parked is not None:
            peer = work.parked.peer
            peer.works -= 1
            if peer.held:
                peer.held = False
                self._touch(peer)
