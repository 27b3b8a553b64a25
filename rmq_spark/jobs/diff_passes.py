"""The passes of the job diff: digests of blocks; then the ends of queues where one side has more, and messages of blocks that
differ.  Only where there are more of these than are looked into are the logs read a third time, for messages at ends of queues.

All numbers come from Spark, but for the blocks to be looked into and the queues that do not end alike on both sides: those the
driver gives to the tasks that met them.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.jobs import Source
from rmq_spark.jobs.diff_ranges import QUEUE, ranges_of
from rmq_spark.kept import Keep
from rmq_spark.local import local
from rmq_spark.measuring import has, lenient
from rmq_spark.picking import refuse_ranges
from rmq_spark.session import Progress, watched
from rmq_spark.work import Given, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as Expression
    from pyspark.sql import DataFrame, Row, SparkSession

    from rmq_columns.read.digests import DigestTask, Queue, Wanted

BORDERS_MAX: Final = 200_000
"""Blocks in which a queue begins or ends differently that one more pass compares; more of them take several passes, for they are
given to the tasks by the driver."""
TOGETHER_MAX: Final = 200_000
"""Rows that one task joins faster than Spark shuffles them."""
BLOCK: Final = (*QUEUE, "block")
FIELDS: Final = (
    "body",
    "bodyCrc",
    "properties",
    "flag",
    "sysFlag",
    "bornTimestamp",
    "bornHost",
    "reconsumeTimes",
)
EXACT_FIELDS: Final = ("preparedTransactionOffset", "physicalOffset", "storeTimestamp", "storeHost")
_OF_QUEUE: Final = "brokerName string, topic string, queueId int"
_RANGES: Final = f"{_OF_QUEUE}, side string, outcome string, firstOffset long, endOffset long, count long"
_MESSAGES: Final = (
    f"{_OF_QUEUE}, queueOffset long, outcome string, fields string, physicalOffset long, otherPhysicalOffset long,"
    " properties binary, otherProperties binary"
)
ONLY_FIRST, ONLY_SECOND, DIFFERS = "only in the first", "only in the second", "differs"


@dataclass
class Compared:
    """What was found.  All DataFrames have few rows, but for a store that is altogether another."""

    queues: DataFrame
    """a row for each queue: bounds of both sides, how many blocks differ"""
    ranges: DataFrame
    """offsets that one side lacks at an end of a queue"""
    messages: DataFrame
    """messages that differ or that one side lacks, of the blocks that were looked into"""
    different_blocks: int
    looked_into: int
    same_places: bool
    damaged: dict[int, int]
    messages_of: dict[int, int]


def tasks_of(source: Source, given: Mapping[str, Any]) -> list[DigestTask]:
    """A task for each split of both sides.  Raises `BadOption`, `CannotRead`."""
    from rmq_columns import BadOption, plan_splits
    from rmq_columns.read.digests import KEY_BYTES, DigestTask, How
    from rmq_columns.read.options import Table
    from rmq_columns.read.stores import list_stores
    from rmq_spark.options import located

    refuse_ranges(source, "diff")
    other = given["other"]
    if not other and len(source.paths) != 2:
        raise BadOption("diff: two stores, or one and --other")
    sides = (source.paths, (str(other),)) if other else ((source.paths[0],), (source.paths[1],))
    how = How(
        secrets.token_bytes(KEY_BYTES),
        given["exact"],
        tuple(name.encode() for name in given["ignore_property"]),
    )
    options = lenient(source.options)
    if not has(options, "includeSystemTopics"):
        options["includeSystemTopics"] = "true"
    parsed = [replace(located({**options, "paths": list(side)}), table=Table.MESSAGES, columns=None) for side in sides]
    names = [[store.broker_name for store in list_stores(one)] for one in parsed]
    is_one = all(len(one) == 1 for one in names)
    if not is_one and sorted(names[0]) != sorted(names[1]):
        raise BadOption(
            f"diff: brokers {', '.join(names[0])} and {', '.join(names[1])}: the same names on both sides, or one each"
        )
    found: list[DigestTask] = []
    for side, one in enumerate(parsed):
        for split in plan_splits(one):
            broker = names[0][0] if is_one else split.store.broker_name
            found.append(DigestTask(split, len(found), side, broker, how))
    return found


def compare(spark: SparkSession, source: Source, given: Mapping[str, Any], progress: Progress, keep: Keep) -> Compared:
    """All passes.  Raises `BadOption`, `CannotRead`."""
    from pyspark.sql import functions as F

    from rmq_columns.read.digests import BLOCK_OFFSETS
    from rmq_spark.reading import worked

    tasks = tasks_of(source, given)
    parts = keep(worked(spark, "digests", splits=tasks))
    with watched(spark, "digest both stores", progress):
        parts_of_side = parts.groupBy("side", F.isnull("topic").alias("isDamage"))
        sizes = F.sum(F.when(F.isnull("topic"), F.col("sum0"))).alias("bytes")
        totals = parts_of_side.agg(F.sum("count").alias("count"), sizes).collect()
        parts = _together(parts)
    sound = parts.where("topic is not null")
    blocks, queues = keep(_joined(sound)), keep(_queues(sound))
    held = blocks.join(queues.select(*QUEUE, "low", "high", "isEven"), list(QUEUE))
    first, last = F.col("block") * BLOCK_OFFSETS, (F.col("block") + 1) * BLOCK_OFFSETS
    is_common = (F.col("block") < 0) | ((first < F.col("high")) & (last > F.col("low")))
    is_border = (F.col("block") >= 0) & ~F.col("isEven") & ((first < F.col("low")) | (last > F.col("high")))
    bounds = queues.select(*QUEUE, "low", "high")
    different = held.where("isDifferent").where(is_common & ~is_border).select(*BLOCK)
    known, borders = keep(different.join(bounds, list(QUEUE))), keep(_border_blocks(queues))
    with watched(spark, "compare blocks", progress):
        equal, same = _equal_blocks(blocks, F.col("startsAlike") & F.col("endsAlike"))
        edges, number, most = borders.count(), known.count(), given["max_blocks"]
        chosen = known.orderBy("block", *QUEUE).limit(most).collect() if number else []
        is_once = edges + number <= most
        looked = _Looked(spark, sound, tasks, progress, keep)
        looked.look(borders, edges, [*chosen, *(borders.collect() if is_once else ())])
    suspects, bounded = known.select(*BLOCK), looked.digests()
    if edges and bounded is not None:
        joined = _joined(bounded)
        more = _equal_blocks(joined, F.col("startsAlike") | F.col("endsAlike"))
        equal, same = equal + more[0], same + more[1]
        again = keep(joined.where("isDifferent").select(*BLOCK).join(bounds, list(QUEUE)))
        suspects = suspects.unionByName(again.select(*BLOCK))
        with watched(spark, "compare borders", progress):
            number += again.count()
            rest = again.orderBy("block", *QUEUE).limit(most - len(chosen)).collect()
        chosen += rest
        looked.look(borders, 0, [] if is_once else rest)
    is_even = not edges and not queues.where("not isEven").head(1)
    details = looked.details() if chosen else None
    messages = local(spark, [], _MESSAGES) if details is None else keep(_messages(details, given["exact"]))
    same_places = 0 < equal == same
    counted = suspects.groupBy(*QUEUE).agg(F.count("*").alias("differentBlocks"))
    ranges = local(spark, [], _RANGES)
    if not is_even:
        ranges = keep(ranges_of(sound, queues, bounded, same_places=same_places))
    every = queues.join(counted, list(QUEUE), "left").na.fill({"differentBlocks": 0})
    return Compared(
        every,
        ranges,
        messages,
        different_blocks=number,
        looked_into=len(chosen),
        same_places=same_places,
        damaged={row["side"]: row["bytes"] for row in totals if row["isDamage"]},
        messages_of={row["side"]: row["count"] for row in totals if not row["isDamage"]},
    )


def _together(rows: DataFrame) -> DataFrame:
    """The same persisted rows; few of them in one partition, which spares every shuffle that follows."""
    return rows.coalesce(1) if rows.count() <= TOGETHER_MAX else rows


# --- blocks and queues


def _joined(parts: DataFrame) -> DataFrame:
    """A row for each block of either side, and whether they differ."""
    from pyspark.sql import functions as F

    from rmq_columns.read.digests import PARTS

    sums = ("count", *(f"sum{part}" for part in range(PARTS)))
    made = []
    for side in (0, 1):
        whole = (
            parts.where(F.col("side") == side)
            .groupBy(*BLOCK)
            .agg(
                *(F.sum(name).alias(f"{name}_{side}") for name in sums),
                F.min("minPhysicalOffset").alias(f"place_{side}"),
                F.max("endPhysicalOffset").alias(f"end_{side}"),
            )
        )
        made.append(whole.where(F.col(f"count_{side}") > 0))
    equal = F.lit(True)
    for name in sums:
        equal = equal & F.col(f"{name}_0").eqNullSafe(F.col(f"{name}_1"))
    joined = made[0].join(made[1], list(BLOCK), "full").withColumn("isDifferent", ~equal)
    for name, column in (("startsAlike", "place"), ("endsAlike", "end")):
        joined = joined.withColumn(name, F.col(f"{column}_0").eqNullSafe(F.col(f"{column}_1")))
    return joined


def _equal_blocks(joined: DataFrame, is_same_place: Expression) -> tuple[int, int]:
    """(blocks that are equal, those of them at the same physical offsets)."""
    from pyspark.sql import functions as F

    places = F.sum(is_same_place.cast("int")).alias("same")
    [row] = joined.where("not isDifferent").agg(F.count("*").alias("equal"), places).collect()
    return row["equal"], row["same"] or 0


def _queues(parts: DataFrame) -> DataFrame:
    """A row for each queue: bounds and messages on both sides, the common range low … high."""
    from pyspark.sql import functions as F

    made = [
        parts.where(F.col("side") == side)
        .groupBy(*QUEUE)
        .agg(
            F.min(F.when(F.col("block") >= 0, F.col("minOffset"))).alias(f"firstOffset_{side}"),
            F.max(F.when(F.col("block") >= 0, F.col("endOffset"))).alias(f"endOffset_{side}"),
            F.sum("count").alias(f"messages_{side}"),
            F.min("minPhysicalOffset").alias(f"firstPlace_{side}"),
            F.max("endPhysicalOffset").alias(f"endPlace_{side}"),
        )
        for side in (0, 1)
    ]
    both = made[0].join(made[1], list(QUEUE), "full")
    has_both = F.col("firstOffset_0").isNotNull() & F.col("firstOffset_1").isNotNull()
    low = F.when(has_both, F.greatest("firstOffset_0", "firstOffset_1")).otherwise(0)
    high = F.when(has_both, F.least("endOffset_0", "endOffset_1")).otherwise(0)
    even = F.col("firstOffset_0").eqNullSafe(F.col("firstOffset_1")) & F.col("endOffset_0").eqNullSafe(F.col("endOffset_1"))
    return both.withColumn("low", low).withColumn("high", high).withColumn("isEven", even)


def _border_blocks(queues: DataFrame) -> DataFrame:
    """Blocks of both sides in which a common range begins or ends that is not the whole queue on both."""
    from pyspark.sql import functions as F

    from rmq_columns.read.digests import BLOCK_OFFSETS

    uneven = queues.where("not isEven and high > low")
    ends = uneven.where("endOffset_0 != endOffset_1").select(
        *QUEUE, "low", "high", F.floor(F.col("high") / BLOCK_OFFSETS).alias("block")
    )
    heads = uneven.where("firstOffset_0 != firstOffset_1").select(
        *QUEUE, "low", "high", F.floor((F.col("low") - 1) / BLOCK_OFFSETS).alias("block")
    )
    more = heads.withColumn("block", F.floor(F.col("low") / BLOCK_OFFSETS))
    return ends.unionByName(heads).unionByName(more).where("block >= 0").distinct()


class _Looked:
    """What was read once more: blocks in which a queue begins or ends differently, within the common ranges, and messages."""

    def __init__(self, spark: SparkSession, parts: DataFrame, tasks: list[DigestTask], progress: Progress, keep: Keep) -> None:
        self._spark, self._parts, self._tasks, self._progress, self._keep = spark, parts, tasks, progress, keep
        self._rows: DataFrame | None = None

    def look(self, borders: DataFrame, count: int, blocks: list[Row]) -> None:
        """count: of the borders; blocks (with low and high): whose messages are to be shown.

        A queue's borders are compared in one round, for its messages beyond are those of all of them.
        """
        from pyspark.sql import functions as F

        from rmq_spark.reading import worked

        rounds = max(-(-count // BORDERS_MAX), 1)
        for number in range(rounds):
            edges = borders.where(F.pmod(F.xxhash64(*QUEUE), F.lit(rounds)) == number).collect() if count else []
            if not edges and not blocks:
                continue
            found = self._keep(worked(self._spark, "looked", splits=self._again(edges, blocks)))
            with watched(self._spark, "look at ends of queues and into blocks", self._progress):
                found = _together(found)
            self._rows = found if self._rows is None else self._rows.unionByName(found)
            blocks = []

    def digests(self) -> DataFrame | None:
        """Of border blocks, and where the messages beyond lie."""
        return None if self._rows is None else self._rows.where("digest is null")

    def details(self) -> DataFrame | None:
        """Messages, with the columns `DETAILS`."""
        from rmq_columns.read.details import DETAILS

        return None if self._rows is None else self._rows.where("digest is not null").select(DETAILS.names)

    def _again(self, edges: list[Row], blocks: list[Row]) -> list[DigestTask]:
        """The tasks that meet these, each with those that it meets."""
        from pyspark.sql import functions as F

        wanted, shown = (
            {tuple(row[name] for name in BLOCK): (row["low"], row["high"]) for row in rows} for rows in (edges, blocks)
        )
        asked = local(self._spark, [*(wanted.keys() | shown.keys())], f"{_OF_QUEUE}, block long")
        with watched(self._spark, "find the blocks again", self._progress):
            met = self._parts.select("split", *BLOCK).join(F.broadcast(asked), list(BLOCK)).distinct().collect()
        of_task: dict[int, tuple[dict[Queue, Wanted], dict[Queue, Wanted]]] = {}
        for row in met:
            block = tuple(row[name] for name in BLOCK)
            for bounds, own in zip((wanted, shown), of_task.setdefault(row["split"], ({}, {})), strict=True):
                if block in bounds:
                    _add(own, block, *bounds[block])
        return [replace(self._tasks[number], wanted=own[0], looked=own[1]) for number, own in sorted(of_task.items())]


def _add(own: dict[Queue, Wanted], block: tuple[Any, ...], low: int, high: int) -> None:
    from rmq_columns.read.digests import Wanted

    _, *queue, number = block
    key: Queue = (queue[0], queue[1])
    own[key] = Wanted(low, high, (own[key].blocks if key in own else frozenset()) | {number})


# --- messages


def _messages(details: DataFrame, is_exact: bool) -> DataFrame:
    """The messages that differ, or that one side lacks."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from rmq_columns.read.details import DETAILS

    key = (*QUEUE, "queueOffset", "nth")
    # more than one message of an offset: a topic that was made again
    nth = F.row_number().over(Window.partitionBy("side", *QUEUE, "queueOffset").orderBy("physicalOffset"))
    details = details.withColumn("nth", nth)
    names = [one.name for one in DETAILS if one.name not in ("side", *QUEUE, "queueOffset")]
    one, other = (
        details.where(F.col("side") == side).select(*key, *(F.col(name).alias(f"{name}_{side}") for name in names))
        for side in (0, 1)
    )
    both = one.join(other, list(key), "full").where(~F.col("digest_0").eqNullSafe(F.col("digest_1")))
    fields = F.array_compact(
        F.array(
            *(
                F.when(~F.col(f"{name}_0").eqNullSafe(F.col(f"{name}_1")), F.lit(name))
                for name in (*FIELDS, *(EXACT_FIELDS if is_exact else ()))
            )
        )
    )
    outcome = F.when(F.col("digest_1").isNull(), ONLY_FIRST).when(F.col("digest_0").isNull(), ONLY_SECOND).otherwise(DIFFERS)
    return both.select(
        *QUEUE,
        "queueOffset",
        outcome.alias("outcome"),
        F.when(outcome == DIFFERS, F.concat_ws(", ", fields)).alias("fields"),
        F.col("physicalOffset_0").alias("physicalOffset"),
        F.col("physicalOffset_1").alias("otherPhysicalOffset"),
        F.col("properties_0").alias("properties"),
        F.col("properties_1").alias("otherProperties"),
    )


# --- the tables


def _digests_schema(given: Given) -> pa.Schema:
    from rmq_columns.read.digests import DIGESTS

    return DIGESTS


def _digests(given: Given, task: DigestTask) -> Iterator[pa.RecordBatch]:
    from rmq_columns.read.digests import digest_split

    return digest_split(task)


def _looked_schema(given: Given) -> pa.Schema:
    from rmq_columns.read.details import LOOKED

    return LOOKED


def _look(given: Given, task: DigestTask) -> Iterator[pa.RecordBatch]:
    from rmq_columns.read.details import look_split

    return look_split(task)


DIGESTED: Final = Work(_digests_schema, _digests)
LOOKED: Final = Work(_looked_schema, _look)
