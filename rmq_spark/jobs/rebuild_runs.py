"""Runs of offsets on their way to the driver: as few as say everything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from rmq_columns.rebuild.work import Made

RUNS_MAX: Final = 1_000_000
"""Of queues whose runs do not follow one another: the driver puts them together."""
KEY: Final = ("store", "topic", "queueId", "kind")


def collected(spark: SparkSession, runs: DataFrame, made: Sequence[Made], progress: Progress, *, is_small: bool) -> Iterable[Row]:
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
