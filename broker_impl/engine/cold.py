"""Cold reads from a background task: a thread fetches it, the loop goes on, then the read is tried again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeVar

from broker_impl.engine.answers import Pause
from rmq_net.service import Job
from rmq_store.errors import Cold

if TYPE_CHECKING:
    from broker_impl.engine.engine import Engine

T = TypeVar("T")


def warmed(engine: Engine, read: Callable[[], T]) -> Generator[Pause | None, None, T]:
    """The result of `read`; pauses while a thread loads what it found cold.  Raises what the load or the read raises."""
    while True:
        try:
            return read()
        except Cold as cold:
            yield from _loaded(engine, cold)


def _loaded(engine: Engine, cold: Cold) -> Generator[Pause, None, None]:
    pause = Pause()
    wrong: list[BaseException] = []

    def done(_: object, error: BaseException | None) -> None:
        if error is not None:
            wrong.append(error)
        pause.end()

    engine.job(Job("read", cold.run, done))
    yield pause
    if wrong:
        raise wrong[0] from None
