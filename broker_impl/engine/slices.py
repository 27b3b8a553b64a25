"""Counted slices: what the generator of a background task does between two yields, whoever asks and whatever for.

`ROWS_PER_SLICE` rows or `BYTES_PER_SLICE` bytes, counted and not timed, so that a test without a clock holds them.  What one call
of C does (a decode, a join, a copy of a table) cannot be cut: its input has a limit, and docs/limits.md a row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Final, TypeVar

from broker_impl.engine.answers import Pause, Refusal, Reply
from rmq_wire.bodies.body import STRICT, Body, Dialect
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Header
from rmq_wire.java import spread_of, walked
from rmq_wire.layout.frame import FRAME_BYTES_MAX

ROWS_PER_SLICE: Final = 64
"""Of some 10 µs each: a slice stays near the 0.5 ms of a background task."""
BYTES_PER_SLICE: Final = 64 << 10

T = TypeVar("T")
Slices = Generator[Pause | None, None, T]


def begun(work: Slices[T]) -> T | Slices[T]:
    """The result, when one slice is enough for it, else the work as it then is: what a handler returns."""
    try:
        pause = next(work)
    except StopIteration as end:
        found: T = end.value
        return found
    return work if pause is None else _paused(pause, work)


def _paused(pause: Pause, work: Slices[T]) -> Slices[T]:
    """The work that waits already."""
    yield pause
    return (yield from work)


def going_on(work: Slices[T], in_background: Callable[[Slices[T]], None]) -> Slices[T]:
    """The work of a request that is done to its end also when its asker goes meanwhile: half of it would be worse than either."""
    go_on: Callable[[], Pause | None] = partial(next, work)
    while True:
        try:
            pause = go_on()
        except StopIteration as end:
            found: T = end.value
            return found
        try:
            yield pause
            go_on = partial(next, work)
        except GeneratorExit:
            in_background(work if pause is None else _paused(pause, work))
            raise
        except Exception as error:
            go_on = partial(work.throw, error)


def finished(work: Slices[T]) -> T:
    """The result at once, for who has nobody to wait for."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


class OneAtATime:
    """A row for work that is large: `yield from enter()`, and whatever happens then, also to this, `leave()`."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: deque[Pause] = deque()

    def enter(self) -> Slices[None]:
        """Pauses at least once: until the others have left."""
        pause = Pause()
        if self._is_taken:
            self._waiting.append(pause)
        else:
            self._is_taken = True
            pause.end()
        yield pause

    def leave(self) -> None:
        """The next one's turn."""
        if self._waiting:
            self._waiting.popleft().end()
        else:
            self._is_taken = False


def in_turn(works: Iterable[Iterator[None]]) -> Slices[None]:
    """One after the other."""
    for work in works:
        yield from work


def joined(pieces: Iterable[bytes | Pause | None], bytes_max: int = FRAME_BYTES_MAX) -> Slices[bytes]:
    """All pieces as one text.  What stands in place of a piece is handed on: a pause of whoever makes them.

    Raises `Refusal` above what a frame holds; until then nobody would know.
    """
    found: list[bytes] = []
    rows = size = total = 0
    for piece in pieces:
        if isinstance(piece, bytes):
            found.append(piece)
            rows += 1
            size += len(piece)
            if rows < ROWS_PER_SLICE and size < BYTES_PER_SLICE:
                continue
            total += size
            if total > bytes_max:
                raise Refusal(ResponseCode.SYSTEM_ERROR, f"an answer of more than {bytes_max} bytes")
        rows = size = 0
        yield None if isinstance(piece, bytes) else piece
    return b"".join(found)


def body_of(pieces: Iterable[bytes | Pause | None]) -> Slices[Reply]:
    """An answer with this body."""
    return Reply(body=(yield from joined(pieces)))


def spelled(body: Body, dialect: Dialect = STRICT, header: Header | None = None) -> Slices[Reply]:
    """An answer with this body.  The tables and lists of the body are walked as they are, so nobody else may change them."""
    return Reply(header, body=(yield from joined(body.pieces(dialect))))


def in_javas_order(names: Iterable[str], buckets: int = 16) -> Slices[list[str]]:
    """`rmq_wire.java.iteration_order` in slices: 0.5 µs a name, and at the end a sort."""
    listed = list(names)
    spread: list[int] = []
    for at in range(0, len(listed), 4 * ROWS_PER_SLICE):
        if at:
            yield None
        spread += map(spread_of, listed[at : at + 4 * ROWS_PER_SLICE])
    return walked(listed, spread, buckets)
