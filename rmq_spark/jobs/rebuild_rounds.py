"""The rounds of `rebuild-queues`: tasks write, their runs of offsets come to the driver, what does not stand is written again.

Runs that follow one another are one by then: straight from the tasks while there are few of them, else put together in Spark's
own shuffle.  A closer look between the rounds is for queues of batches alone (`rmq_columns.rebuild.work`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.jobs import Source
from rmq_spark.measuring import lenient
from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from rmq_columns.read.options import Options
    from rmq_columns.rebuild.plan import Task
    from rmq_columns.rebuild.work import Made

RUNS_TAKEN_MAX: Final = 200_000
"""Up to so many runs the driver puts all queues together: no shuffle, which costs as much as a gigabyte of log."""
TASKS_TAKEN_MAX: Final = 64
"""Up to so many tasks give it their runs without a count before, which costs 0.1 s."""
TOO_MANY: Final = "too many"
"""In place of a kind of queue."""
RUNS_MAX: Final = 1_000_000
"""Of queues whose runs do not follow one another: the driver puts them together."""
KEY: Final = ("store", "topic", "queueId", "kind")


def build(spark: SparkSession, source: Source, given: Mapping[str, Any], progress: Progress) -> tuple[Options, list[Made]]:
    """Make the queues of all stores.  Raises `BadOption`, `StoreError`."""
    from rmq_columns import BadOption
    from rmq_columns.rebuild.plan import plan_build
    from rmq_columns.rebuild.runs import RUNS
    from rmq_columns.rebuild.work import Made, build_split, finish_all, making_all, take_rows
    from rmq_spark.options import located
    from rmq_spark.tasks import gathered, spread

    options = located({**lenient(source.options), "paths": list(source.paths)})
    try:
        plans, tasks = plan_build(
            options,
            given["to"],
            levels=given["delay_levels"],
            queue_file_bytes=given["queue_file_bytes"],
            batch_topics=given["batch_topic"],
            extensions=given["extensions"],
        )
    except ValueError as reason:
        raise reason if isinstance(reason, BadOption) else BadOption(f"delay_levels: {reason}") from reason
    made = [Made(plan) for plan in plans]

    def looked_closer(asked: Sequence[Task]) -> list[dict[str, Any]]:
        with watched(spark, "look where queues of batches go back", progress):
            return gathered(spark, build_split, asked)

    with making_all(plans):
        if (rows := _few(spark, tasks, progress)) is not None:
            again = take_rows(made, rows, tasks, looked_closer)
        else:
            runs = spread(spark, build_split, tasks, RUNS).persist()
            try:
                with watched(spark, "write queue units", progress):
                    count = runs.count()
                collected = _collected(spark, runs, made, progress, is_small=count <= RUNS_TAKEN_MAX)
                again = take_rows(made, collected, tasks, looked_closer)
            finally:
                runs.unpersist()
        if again:
            with watched(spark, "write queues that began anew", progress):
                gathered(spark, build_split, again)  # there are no rows
        finish_all(made)
    return options, made


def _few(spark: SparkSession, tasks: Sequence[Task], progress: Progress) -> list[dict[str, Any]] | None:
    """All runs, straight from the tasks; None where there may be too many of them for that."""
    from rmq_spark.tasks import gathered

    if len(tasks) > TASKS_TAKEN_MAX:
        return None
    with watched(spark, "write queue units", progress):
        rows = gathered(spark, partial(bounded, RUNS_TAKEN_MAX // max(len(tasks), 1)), tasks)
    return None if any(row["kind"] == TOO_MANY for row in rows) else rows


def bounded(runs_max: int, task: Task) -> Iterator[pa.RecordBatch]:
    """The work and the runs of one task; where it has more than `runs_max` of them, one row of the kind `TOO_MANY`."""
    import pyarrow as pa

    from rmq_columns.rebuild.runs import RUNS
    from rmq_columns.rebuild.work import build_split

    held, count = [], 0
    for batch in build_split(task):
        count += len(batch)
        if count <= runs_max:
            held.append(batch)
    yield from held if count <= runs_max else [pa.RecordBatch.from_pylist([{"kind": TOO_MANY}], RUNS)]


def _collected(
    spark: SparkSession, runs: DataFrame, made: Sequence[Made], progress: Progress, *, is_small: bool
) -> Iterable[Row]:
    """As few of the persisted runs as say everything.  Raises `CannotRead`."""
    from rmq_columns.errors import CannotRead

    with watched(spark, "put the queues together", progress):
        parts = [runs] if is_small else _aggregated(runs)
        collected = [part.collect() for part in parts]
    if len(collected[-1]) > RUNS_MAX and not is_small:
        raise CannotRead(made[0].plan.target.root, -1, f"more than {RUNS_MAX} breaks of order in the queues of the log")
    return chain.from_iterable(collected)


def _aggregated(runs: DataFrame) -> list[DataFrame]:
    """Few rows for many: a queue whose runs follow one another comes as one run, of any other come all; damage is summed up."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from rmq_columns.rebuild.entries import Kind
    from rmq_columns.rebuild.runs import DAMAGE, IN_NO_QUEUE

    is_other = F.col("kind").isin(DAMAGE, IN_NO_QUEUE)
    before = F.lag("endOffset").over(Window.partitionBy(*KEY).orderBy("firstPhysicalOffset"))
    queues = runs.where(~is_other).withColumn("before", before)
    is_simple = F.col("kind").isin(Kind.PLAIN.value, Kind.LIGHT.value)
    breaks = ~is_simple | (F.col("before").isNotNull() & (F.col("before") != F.col("firstOffset")))
    marked = queues.withColumn("isBroken", F.max(breaks).over(Window.partitionBy(*KEY)))
    whole = (
        marked.where("not isBroken")
        .groupBy(*KEY)
        .agg(
            F.min("firstOffset").alias("firstOffset"),
            F.max("endOffset").alias("endOffset"),
            F.sum("units").alias("units"),
            F.min("firstPhysicalOffset").alias("firstPhysicalOffset"),
            F.max("lastPhysicalOffset").alias("lastPhysicalOffset"),
            F.min_by("firstSize", "firstPhysicalOffset").alias("firstSize"),
            F.sum("bytes").alias("bytes"),
            F.min("split").alias("split"),
        )
    )
    other = runs.where(is_other).groupBy("store", "kind").agg(F.sum("units").alias("units"), F.sum("bytes").alias("bytes"))
    return [whole, other, marked.where("isBroken").select(whole.columns).limit(RUNS_MAX + 1)]
