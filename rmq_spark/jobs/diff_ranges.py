"""What one side of `diff` lacks at an end of a queue: thousands of messages, and one row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame

QUEUE: Final = ("brokerName", "topic", "queueId")
BEHIND, LOST, LATER, NO_QUEUE = "behind", "lost", "begins later", "no queue"


def ranges_of(parts: DataFrame, queues: DataFrame, bounded: DataFrame | None, *, same_places: bool) -> DataFrame:
    """Offsets that one side lacks at an end of a queue, or all of it, and what that means."""
    from pyspark.sql import functions as F

    log = parts.groupBy().agg(
        *(F.min(F.when(F.col("side") == side, F.col("minPhysicalOffset"))).alias(f"logStart_{side}") for side in (0, 1)),
        *(F.max(F.when(F.col("side") == side, F.col("endPhysicalOffset"))).alias(f"logEnd_{side}") for side in (0, 1)),
    )
    if bounded is None:
        known = queues.select(*QUEUE).withColumn("ahead", F.lit(None).cast("long")).withColumn("before", F.lit(None).cast("long"))
    else:
        known = bounded.groupBy(*QUEUE).agg(
            F.min("aheadPhysicalOffset").alias("ahead"), F.max("beforePhysicalOffset").alias("before")
        )
    rows = queues.where("not isEven").join(known, list(QUEUE), "left").crossJoin(log)
    made = []
    for lacks, has_it in ((0, 1), (1, 0)):
        is_gone = F.col(f"firstOffset_{lacks}").isNull() & F.col(f"firstOffset_{has_it}").isNotNull()
        apart = F.lit(same_places)
        kept: tuple[tuple[Expression, Expression, Expression, Expression], ...] = (
            (
                ~is_gone & (F.col(f"endOffset_{lacks}") < F.col(f"endOffset_{has_it}")),
                F.col("high"),
                F.col(f"endOffset_{has_it}"),
                F.when(apart & (F.col("ahead") < F.col(f"logEnd_{lacks}")), LOST).otherwise(BEHIND),
            ),
            (
                ~is_gone & (F.col(f"firstOffset_{lacks}") > F.col(f"firstOffset_{has_it}")),
                F.col(f"firstOffset_{has_it}"),
                F.col("low"),
                F.when(apart & (F.col("before") >= F.col(f"logStart_{lacks}")), LOST).otherwise(LATER),
            ),
            (
                is_gone,
                F.col(f"firstOffset_{has_it}"),
                F.col(f"endOffset_{has_it}"),
                F.when(apart & (F.col(f"firstPlace_{has_it}") >= F.col(f"logEnd_{lacks}")), BEHIND)
                .when(apart & (F.col(f"endPlace_{has_it}") <= F.col(f"logStart_{lacks}")), LATER)
                .otherwise(NO_QUEUE),
            ),
        )
        for condition, begin, end, outcome in kept:
            made.append(
                rows.where(condition).select(
                    *QUEUE,
                    F.lit("first" if lacks == 0 else "second").alias("side"),
                    outcome.alias("outcome"),
                    begin.alias("firstOffset"),
                    end.alias("endOffset"),
                    (end - begin).alias("count"),
                )
            )
    found = made[0]
    for one in made[1:]:
        found = found.unionByName(one)
    return found.where("count > 0")
