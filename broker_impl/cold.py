"""Reading what may not be in memory, from long work: the read lane fetches it, the loop goes on, then the read is tried again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeVar

from rmq_net.service import Job
from rmq_store.errors import Cold

if TYPE_CHECKING:
    from broker_impl.engine import Engine

T = TypeVar("T")


def warmed(engine: Engine, read: Callable[[], T]) -> Generator[None, None, T]:
    """The result of `read`, yielding while a thread loads what it found cold.  Raises what the load or the read raises."""
    while True:
        try:
            return read()
        except Cold as cold:
            ended: list[BaseException | None] = []
            engine.job(Job("read", cold.run, lambda _, error, ended=ended: ended.append(error)))  # type: ignore[misc]
            while not ended:
                yield
            if ended[0] is not None:
                raise ended[0] from None
