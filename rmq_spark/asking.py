"""What driver and tasks of a session ask for of stores: bytes, and requests for them.

A Python source has no metric of its own in Spark.  An accumulator reaches it, though, where the session has registered the
source: what a task added comes to the driver when the task ends.  The reader gets it as an option, for options are all that a
reader gets.  What planning asked for is told with the first split, since Spark plans in a process that reports nothing.

A task that is repeated counts again, for it asks again; one that fails, or is stopped because a `limit` has its rows, does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.files.counted import Asked, counting
from rmq_spark.outcome import Figure, Unit
from rmq_spark.session import accumulator
from rmq_spark.work import as_text
from rmq_wire.store_names import COMMIT_LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTER: Final = "asked"
"""Option of the format: an accumulator of this session, for what its tasks ask for."""
_COUNTER: Final[ContextVar[str | None]] = ContextVar("counter", default=None)


def figures_of(asked: Asked) -> list[Figure]:
    """Of a job's outcome; none where nobody has read."""
    if not asked.bytes:
        return []
    return [
        Figure("logBytesAsked", "bytes asked for, of the log", asked.bytes[COMMIT_LOG], Unit.BYTES),
        Figure("bytesAsked", "bytes asked for, of all files", sum(asked.bytes.values()), Unit.BYTES),
        Figure("requests", "requests for them", sum(asked.requests.values())),
    ]


@contextmanager
def asked(spark: SparkSession) -> Iterator[Asked]:
    """What is asked for of stores by DataFrames that are made within the block, whenever they are read, and by this process
    within it; the latter is there when the block has ended."""
    from rmq_spark.counted_reader import Sum

    total, before = Asked(), _COUNTER.get()
    _COUNTER.set(as_text(accumulator(spark, total, Sum())))
    try:
        with counting(Asked()) as own:
            yield total
    finally:
        _COUNTER.set(before)
        total.add(own)


def counter() -> dict[str, str]:
    """The option of whoever counts."""
    text = _COUNTER.get()
    return {} if text is None else {COUNTER: text}


def without_counter(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that say what is read."""
    return {name: value for name, value in options.items() if name.lower() != COUNTER}
