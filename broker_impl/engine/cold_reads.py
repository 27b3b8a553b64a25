"""Waiting for bytes that are not in memory: the request waits, a thread reads, the request is looked at again.

The store raises `Cold` instead of stopping the loop.  Several requests may wait for the same read; it is done once.  What happens
afterwards happens among the engine's deadlines, so that what it stages is committed with a turn; it may well meet the next cold
place, and waits again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TypeVar

from broker_impl.engine.answers import LATER, Answer, Durable, Pause, Refusal, Settled, Unsaved
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.engine import Engine
from rmq_net.log import plain_text
from rmq_net.service import Job
from rmq_store.errors import Cold
from rmq_wire.codes import ResponseCode

T = TypeVar("T")
Then = Callable[[BaseException | None], None]
Attempt = Callable[[], Settled | Durable]


class ColdReads:
    """The reads under way and who waits for them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[Cold, list[Then]] = {}

    def after(self, cold: Cold, then: Then) -> None:
        """Call `then(None)` when the bytes have been read, `then(error)` when they cannot be."""
        waiting = self._waiting.get(cold)
        if waiting is not None:
            waiting.append(then)
            return
        self._waiting[cold] = [then]
        self._engine.job(Job("read", cold.run, lambda _result, error: self._read(cold, error)))

    def answer(self, call: Call, attempt: Attempt) -> Answer:
        """What a handler returns whose work is `attempt`: its result, at once or when what it needs has been read.

        `attempt` keeps nothing of the request's body.  It may raise `Refusal`.
        """
        try:
            return attempt()
        except Cold as cold:
            self.after(cold, partial(self._again, attempt, call.detach()))
            return LATER

    def warmed(self, read: Callable[[], T]) -> Generator[Pause, None, T]:
        """The result of `read`, for a background task: it pauses while a thread loads what `read` found cold.

        Raises what the load or the read raises.
        """
        while True:
            try:
                return read()
            except Cold as cold:
                yield from self.loaded(cold)

    def loaded(self, cold: Cold) -> Generator[Pause, None, None]:
        """Wait for these bytes in a background task.  Raises what the load raises."""
        pause = Pause()
        wrong: list[BaseException] = []

        def then(error: BaseException | None) -> None:
            if error is not None:
                wrong.append(error)
            pause.end()

        self.after(cold, then)
        yield pause
        if wrong:
            raise wrong[0] from None

    def _read(self, cold: Cold, error: BaseException | None) -> None:
        for then in self._waiting.pop(cold):
            self._soon(then, error)

    def _soon(self, then: Then, error: BaseException | None) -> None:
        self._engine.at(self._engine.env.mono_ms, partial(then, error))

    def _again(self, attempt: Attempt, pending: PendingAnswer, error: BaseException | None) -> None:
        if not pending.alive:
            return
        try:
            if error is not None:
                raise error
            answer: Settled | Durable | Refusal = attempt()
        except Cold as cold:
            self.after(cold, partial(self._again, attempt, pending))
            return
        except Unsaved as unsaved:
            unsaved.table.when_saved(lambda no: self._soon(partial(self._again, attempt, pending), no))
            return
        except Refusal as no:
            answer = no
        except Exception as wrong:
            pending.answer(Refusal(ResponseCode.SYSTEM_ERROR, f"{type(wrong).__name__}: {plain_text(wrong)}"))
            raise
        pending.answer(answer)
