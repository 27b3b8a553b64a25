"""The rounds of `rebuild-queues`: tasks write, their runs of offsets come to the driver, what does not stand is written again.

Runs that follow one another are one by then: straight from the tasks while there are few of them, else put together in Spark's
own shuffle.  A closer look between the rounds is for queues of batches alone (`rmq_columns.rebuild.work`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rmq_spark import reasons
from rmq_spark.jobs import Source
from rmq_spark.jobs.rebuild_runs import collected
from rmq_spark.jobs.rebuild_shuffle import build_by_shuffle
from rmq_spark.measuring import lenient
from rmq_spark.session import Progress, watched
from rmq_spark.work import Given, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

    from rmq_columns.read.options import Options
    from rmq_columns.rebuild.plan import Task
    from rmq_columns.rebuild.work import Made

RUNS_TAKEN_MAX: Final = 200_000
"""Up to so many runs the driver puts all queues together: no shuffle, which costs as much as a gigabyte of log."""
TASKS_TAKEN_MAX: Final = 64
"""Up to so many tasks give it their runs without a count before, which costs 0.1 s."""
TOO_MANY: Final = "too many"
"""In place of a kind of queue."""


def build(spark: SparkSession, source: Source, given: Mapping[str, Any], progress: Progress) -> tuple[Options, list[Made]]:
    """Make the queues of all stores.  Raises `BadOption`, `StoreError`."""
    from rmq_columns import BadOption
    from rmq_columns.rebuild.plan import plan_build
    from rmq_columns.rebuild.work import Made, finish_all, making_all, take_rows
    from rmq_spark.options import located
    from rmq_spark.reading import worked

    options = located({**lenient(source.options), "paths": list(source.paths)})
    try:
        plans, tasks = plan_build(
            options,
            given["to"],
            levels=given["delay_levels"],
            queue_file_bytes=given["queue_file_bytes"],
            batch_topics=given["batch_topic"],
            extensions=given["extensions"],
            shuffle=given["shuffle"],
        )
    except ValueError as reason:
        raise reason if isinstance(reason, BadOption) else BadOption(f"delay_levels: {reason}") from reason
    made = [Made(plan) for plan in plans]
    if given["shuffle"]:
        build_by_shuffle(spark, made, tasks, progress, RUNS_TAKEN_MAX)
        return options, made

    def looked_closer(asked: Sequence[Task]) -> list[Row]:
        with watched(spark, "look where queues of batches go back", progress):
            return worked(spark, "queueRuns", splits=asked).collect()

    with making_all(plans, tasks, lambda error: not reasons.is_ours(error)):
        if (rows := _few(spark, tasks, progress)) is not None:
            again = take_rows(made, rows, tasks, looked_closer)
        else:
            runs = worked(spark, "queueRuns", splits=tasks).persist()
            try:
                with watched(spark, "write queue units", progress):
                    count = runs.count()
                few = collected(spark, runs, made, progress, is_small=count <= RUNS_TAKEN_MAX)
                again = take_rows(made, few, tasks, looked_closer)
            finally:
                runs.unpersist()
        if again:
            with watched(spark, "write queues that began anew", progress):
                worked(spark, "queueRuns", splits=again).collect()  # there are no rows
        finish_all(made)
    return options, made


def _few(spark: SparkSession, tasks: Sequence[Task], progress: Progress) -> list[Row] | None:
    """All runs, straight from the tasks; None where there may be too many of them for that."""
    from rmq_spark.reading import worked

    if len(tasks) > TASKS_TAKEN_MAX:
        return None
    with watched(spark, "write queue units", progress):
        rows = worked(spark, "queueRuns", splits=tasks, runsMax=RUNS_TAKEN_MAX // max(len(tasks), 1)).collect()
    return None if any(row["kind"] == TOO_MANY for row in rows) else rows


def _schema(given: Given) -> pa.Schema:
    from rmq_columns.rebuild.runs import RUNS

    return RUNS


def _built(given: Given, task: Task) -> Iterator[pa.RecordBatch]:
    """The work and the runs of one task; where it has more than `runsMax` of them, one row of the kind `TOO_MANY`."""
    import pyarrow as pa

    from rmq_columns.rebuild.runs import RUNS
    from rmq_columns.rebuild.work import build_split

    runs_max = given.get("runsMax")
    if runs_max is None:
        yield from build_split(task)
        return
    held, count = [], 0
    for batch in build_split(task):
        count += len(batch)
        if count <= runs_max:
            held.append(batch)
    yield from held if count <= runs_max else [pa.RecordBatch.from_pylist([{"kind": TOO_MANY}], RUNS)]


BUILT: Final = Work(_schema, _built, parameters={"runsMax": int})
"""To read this table is to write the queue units of its splits; its rows are the runs of offsets that were met."""
