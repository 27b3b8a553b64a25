"""The operator's jobs: one module each, which declares its parameters and says how it runs.

A job's module has, besides functions that return DataFrames:

    PARAMETERS: tuple[Parameter, ...]                                   beyond those that every job has
    LEFT_OUT: tuple[str, ...]       of the options that every job has, those that this one does not; it may be absent
    HAS_TOPICS_OF_ITS_OWN: bool     that a topic may be known from elsewhere than the stores; it may be absent
    EXAMPLES: tuple[str, ...]       behind `rmq spark JOB`
    FOUND: str                      what exit status 1 says
    REPORT: tuple[Shown, ...]       tables of its report that are made of its frames (`rmq_spark.tables`); it may be absent
    def run(spark, source: Source, given: dict[str, Any], progress: Progress) -> Outcome    given: of `arguments_of`

It imports PySpark inside functions only, so that `rmq spark JOB --help` works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter as Parameter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS: Final[dict[str, str]] = {
    "audit": "Check log, queues and index against each other: chain, check sums, sizes, continuity.",
    "loss": "Hold a ledger of what was sent against log, queues, committed positions and dead letters.",
    "duplicates": "Find messages that are there more than once, by unique key or by business key.",
    "order": "Find breaks of order: within a sharding key, in queues, in the log.",
    "lag": "Measure how far each consumer group is behind its queues.",
    "latency": "Measure from born to stored, and from stored to consumed where there is a trace.",
    "skew": "Find hot queues, hot keys and hot producers.",
    "retries": "Trace retried and dead messages back to where they came from.",
    "pending": "Find messages still to come: delayed, timed, half, popped; and those that came late.",
    "export": "Write messages as Parquet: partitioned, sorted, with a manifest; goes on where it stopped.",
    "diff": "Compare two stores, or a store and its replica, message by message.",
    "rebuild-queues": "Make the consume queues anew from the log, byte for byte.",
}
"""Name -> the line that `rmq spark --help` shows.  A job's module has its name, with _ for -."""
RANGE: Final = ("since", "until")
"""Left out by jobs that look at the whole log, or at none."""


@dataclass(frozen=True)
class Source:
    """What a job looks at.  options: of the format `rocketmq_store`, but for `table`."""

    paths: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    def read(self, spark: SparkSession, table: str = "messages", **more: str) -> DataFrame:
        """A table of these stores; `more` outweighs the options.  A job holds log and queues against each other: neither
        leaves out what the other does not know.
        """
        from rmq_spark.store import FORMAT, register

        register(spark)
        options = {"pruning": "off", **self.options, "table": table, **more}
        return spark.read.format(FORMAT).options(**options).load(list(self.paths))

    def topics(self) -> list[str] | None:
        """Those that the user chose, sorted; None: all.  Raises `BadOption`."""
        from rmq_columns import parse_options

        asked = next((value for name, value in self.options.items() if name.lower() == "topics"), None)
        return None if asked is None else sorted(parse_options({"path": "-", "topics": asked}).topics or ())


def module_of(job: str) -> ModuleType:
    """Raises `KeyError` when there is no such job."""
    if job not in JOBS:
        raise KeyError(job)
    return import_module(f"rmq_spark.jobs.{job.replace('-', '_')}")


def function_of(job: str) -> Callable[..., Any]:
    """The function of the job's own name, which returns a DataFrame."""
    name = job.replace("-", "_")
    function = getattr(module_of(job), name)
    assert callable(function)
    return function
