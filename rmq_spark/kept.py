"""What a job computes once for several queries: kept while it runs and reports, let go when its outcome is closed.

Whoever calls a job's function gets a DataFrame of which nothing is kept; to `persist()` it is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rmq_spark.outcome import Outcome


class Keep(Protocol):
    """Gives the frame back, kept or as it was."""

    def __call__(self, frame: DataFrame) -> DataFrame: ...


def nothing(frame: DataFrame) -> DataFrame:
    """The `Keep` of a function that returns a DataFrame."""
    return frame


def shortened(frame: DataFrame) -> DataFrame:
    """The same rows, of a plan of one step: what they are made of is not planned again with every query over them.

    Spark analyzes, optimizes and writes out all that a frame is made of, persisted or not, for each frame that is made of it.
    Shuffles that it is made of are done now; the rest when it is asked for, and again where an executor was lost.
    """
    # Private names of PySpark, since no public one does this: `localCheckpoint` persists the rows where `unpersist` of the frame
    # does not reach them, and loses them with their executor; `checkpoint` writes them to a directory; `frame.rdd` makes a Python
    # object of each.
    from pyspark.sql.classic.dataframe import DataFrame as Classic

    session, held = frame.sparkSession, frame._jdf
    rows = held.queryExecution().toRdd()
    return Classic(session._jsparkSession.internalCreateDataFrame(rows, held.schema(), False), session)


class Short:
    """A `Keep` of shortened frames; keep: what keeps them."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep

    def __call__(self, frame: DataFrame) -> DataFrame:
        return self._keep(shortened(frame))


class Kept:
    """A `Keep` that persists."""

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def __call__(self, frame: DataFrame) -> DataFrame:
        self._frames.append(frame.persist())
        return frame

    def release(self) -> None:
        """Nothing of it is in anybody's memory or disk any more.  More than once is allowed."""
        while self._frames:
            self._frames.pop().unpersist()


@contextmanager
def keeping() -> Iterator[Kept]:
    """A `Keep` for a block in which something is looked for at once; nothing is kept behind it."""
    kept = Kept()
    try:
        yield kept
    except BaseException:
        with suppress(Exception):  # the JVM may be gone: that is what is to be said
            kept.release()
        raise
    kept.release()


def keeps(run: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Of a job's `run`, which takes a `Keep` besides: what it keeps ends with an error, or with `Outcome.close`."""

    @wraps(run)
    def running(*given: Any) -> Outcome:
        kept = Kept()
        try:
            outcome = run(*given, kept)
        except BaseException:
            with suppress(Exception):  # as above
                kept.release()
            raise
        outcome.release = kept.release
        return outcome

    return running
