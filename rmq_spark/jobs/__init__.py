"""The operator's jobs: one module each, in which a `Job` says all that there is to say of it.

Of this value its command (`rmq spark JOB`), its rows in docs/spark-jobs.md and its tests are made.  A job's module has its name,
with _ for -, and imports PySpark inside functions only, so that `rmq spark JOB --help` works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.shown import Zone
from rmq_spark.arguments import Parameter, arguments_of
from rmq_spark.outcome import Outcome
from rmq_spark.session import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
        from rmq_spark.store import reader_of

        return reader_of(spark, table, {"pruning": "off", **self.options, **more}).load(list(self.paths))

    def topics(self) -> list[str] | None:
        """Those that the user chose, sorted; None: all.  Raises `BadOption`."""
        from rmq_columns import parse_options

        asked = next((value for name, value in self.options.items() if name.lower() == "topics"), None)
        return None if asked is None else sorted(parse_options({"path": "-", "topics": asked}).topics or ())


Run = Callable[["SparkSession", Source, dict[str, Any], Progress], Outcome]
"""The dict has every parameter by its name (`Job.arguments`)."""


@dataclass(frozen=True)
class Job:
    """Declared as `JOB` in its module."""

    name: str
    line: str
    """what `rmq spark --help` shows"""
    parameters: tuple[Parameter, ...]
    """beyond those that every job has"""
    examples: tuple[str, ...]
    """behind `rmq spark JOB`"""
    found: str
    """what exit status 1 says"""
    run: Run
    function: Callable[..., DataFrame]
    """of its own name: (session, a path or several, parameters and options of the format by name)"""
    left_out: tuple[str, ...] = ()
    """of the options that every job has, those that this one does not"""
    has_topics_of_its_own: bool = False
    """that a topic may be known from elsewhere than the stores"""

    def arguments(self, options: Mapping[str, Any], zone: Zone = None) -> tuple[dict[str, Any], dict[str, str]]:
        """As `arguments_of`.  Raises `BadOption`."""
        return arguments_of(self.parameters, options, zone)


class Jobs(Mapping[str, Job]):
    """By name; each is imported when it is asked for.  Raises `KeyError` when there is no such job."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Job:
        if name not in self._names:
            raise KeyError(name)
        job = import_module(f"rmq_spark.jobs.{name.replace('-', '_')}").JOB
        assert isinstance(job, Job)
        return job

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


JOBS: Final = Jobs(
    (
        "audit",
        "loss",
        "duplicates",
        "order",
        "lag",
        "latency",
        "skew",
        "retries",
        "pending",
        "export",
        "diff",
        "rebuild-queues",
    )
)
