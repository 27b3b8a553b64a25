"""The operator's jobs: one module each, which declares its parameters and says how it runs.

A job's module has, besides functions that return DataFrames:

    PARAMETERS: tuple[Parameter, ...]                                   beyond those that every job has
    def run(spark, source: Source, given: dict[str, Any], tell: Progress) -> Outcome

It imports PySpark inside functions only, so that `rmq spark JOB --help` works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS: Final[dict[str, str]] = {
    "audit": "Check log, queues and index against each other: chain, check sums, sizes, continuity.",
    "loss": "Hold a ledger of what was sent against log, queues, committed offsets and dead letters.",
    "duplicates": "Messages that are there more than once, by unique key or by business key.",
    "order": "Breaks of sequence within a sharding key.",
    "lag": "How far each consumer group is behind its queues.",
    "latency": "From born to stored, and from stored to consumed where there is a trace.",
    "skew": "Hot queues and hot keys.",
    "retries": "Retried and dead messages, back to where they came from.",
    "pending": "Messages still to come: delayed, timed, half, not yet acknowledged.",
    "export": "Write messages as Parquet: partitioned, sorted, with a manifest; goes on where it was interrupted.",
    "diff": "Compare two stores, or a store and its replica.",
    "rebuild-queues": "Make the consume queues anew from the log, byte for byte.",
}
"""Name -> the line that `rmq spark --help` shows.  A job's module has its name, with _ for -."""


@dataclass(frozen=True)
class Parameter:
    """Of a job: an option of its subcommand, and the key in `given`.  kind: str, int, float, bool, "path", "time" (ms)."""

    name: str
    kind: Any
    help: str
    default: Any = None
    metavar: str | None = None
    is_many: bool = False
    is_required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """What a job looks at.  options: of the format `rocketmq_store`, but for `table`."""

    paths: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    def read(self, spark: SparkSession, table: str = "messages", **more: str) -> DataFrame:
        """A table of these stores; `more` outweighs the options."""
        from rmq_spark.store import FORMAT, register

        register(spark)
        options = {**self.options, "table": table, **more}
        return spark.read.format(FORMAT).options(**options).load(list(self.paths))


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
