"""What Spark makes for each key of `grouped`: hands its rows over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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

    def take(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Some rows of it, in order; what can be given by then."""
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
        return _tables(self._reduction.take(rows))

    def terminate(self) -> Iterator[pa.Table]:
        """Behind the last of them."""
        if self._reduction is not None:
            yield from _tables(self._reduction.end())


def _tables(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    import pyarrow as pa

    return (pa.Table.from_batches([batch]) for batch in batches)


def made(home: str, shared: str) -> Reduction:
    """In a task."""
    module, _, name = home.partition(HOME)
    found: Reduction = getattr(import_module(module), name)(cached(shared))
    return found
