"""Long work in slices: generators that take turns.

A work yields after at most 0.5 ms; each turn gives a slice to a few of them in rotation, so that a listing of a hundred thousand
topics, or persisting a table, holds up nobody.  What a slice stages is committed with its turn; when that fails, the work
gets the error at its next slice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from broker_impl.call import Parked

Ended = Callable[[Any, BaseException | None], None]


class Work:
    """One generator, and who is told its result: an asker (`parked`), or `ended(result, error)`."""

    __slots__ = ("ended", "error", "generator", "parked", "result")

    def __init__(self, generator: Generator[None, None, Any], parked: Parked | None = None, ended: Ended | None = None) -> None:
        self.generator = generator
        self.parked = parked
        self.ended = ended
        self.result: Any = None
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
            if error is None:
                next(self.generator)
            else:
                self.generator.throw(error)
        except StopIteration as stop:
            self.result = stop.value
            return False
        except Exception as raised:
            self.error = raised
            return False
        return True


class Works:
    """The works under way, next first."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, work: Work) -> None:
        self._waiting.append(work)

    def rotate(self, limit: int, run: Callable[[Work], bool]) -> None:
        """`run` up to `limit` works; who returns True comes back at the end of the row.  Unwanted ones are ended."""
        for _ in range(min(limit, len(self._waiting))):
            work = self._waiting.popleft()
            if not work.wanted:
                work.generator.close()
            elif run(work):
                self._waiting.append(work)
