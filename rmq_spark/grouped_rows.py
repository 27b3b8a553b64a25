"""What Spark makes for each key of `grouped`: hands its rows over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from rmq_spark.work import HOME, of_text

if TYPE_CHECKING:
    import pyarrow as pa

cached: Callable[[str], Any] = lru_cache(maxsize=4)(of_text)
"""What all tasks of a process share is unpacked once."""


class Reduction(Protocol):
    """Made anew for each key."""

    def take(self, batch: pa.RecordBatch) -> None:
        """Some rows of it, in order."""
        ...

    def end(self) -> Iterator[pa.RecordBatch]:
        """When there were all."""
        ...


class Grouped:
    """A table function; `grouped` gives it a home and what is shared."""

    home = ""
    shared = ""

    def __init__(self) -> None:
        self._reduction: Reduction | None = None

    def eval(self, rows: pa.RecordBatch) -> Iterator[Any]:
        """Some rows of a key."""
        if self._reduction is None:
            self._reduction = made(self.home, self.shared)
        self._reduction.take(rows)
        return iter(())

    def terminate(self) -> Iterator[pa.Table]:
        """Behind the last of them."""
        import pyarrow as pa

        if self._reduction is not None:
            for batch in self._reduction.end():
                yield pa.Table.from_batches([batch])


def made(home: str, shared: str) -> Reduction:
    """In a task."""
    module, _, name = home.partition(HOME)
    found: Reduction = getattr(import_module(module), name)(cached(shared))
    return found
