"""Which parts of the queues are as the ledger says: sums over blocks of queue offsets, of the ledger, the log and the queues.

In each block two sums must come to nothing: what the log has there less what the ledger says was stored there, and what the log
has less where the queue's units lead.  Then every row of the ledger that names a place in it is stored, and nobody has to shuffle
them; where a sum does not come to nothing, rows are looked at one by one (`loss_match`).  Sums are of 64 bits of a hash with a
secret, in two halves, beside the count.  What was delayed, timed or half first is added up by itself, where it waits, under the
place that its producer was answered, and where it was committed: the ledger may have the one, the other, or none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmq_spark.jobs.loss_ledger import BLOCK, BLOCK_BITS, Ledger, block_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HALF: Final = 0xFFFFFFFF
QUEUE: Final = ("brokerName", "topic", "queueId")
_SUMS: Final = ("Count", "Low", "High")
_NOTHING: Final = " and ".join(f"told{one} = 0" for one in _SUMS)
_OR_WAITING: Final = " and ".join(f"told{one} + waits{one} = 0" for one in _SUMS)
_OR_COMMITTED: Final = " and ".join(f"told{one} + committed{one} = 0" for one in _SUMS)
_LED_TO: Final = " and ".join(f"place{one} = 0" for one in _SUMS)
IS_SOUND: Final = f"(not hasPosition and ({_NOTHING} or {_OR_WAITING} or {_OR_COMMITTED}) and {_LED_TO})"


def blocks_of(ledger: Ledger, log: DataFrame, units: DataFrame, positions: DataFrame | None) -> DataFrame:
    """A row for each block: acknowledged (plain rows of the ledger), messages (in the log, in their own topic), sums, hasPosition
    (some group's position is in its midst), mayDetour (the topic has messages that were or are in the system's), first
    (offset of the queue that the log still has), end.

    log: of `loss_match`.  units: with `isThere`, whether the log still has what they lead to.
    """
    from pyspark.sql import functions as F

    own = F.expr("deadIn is null and not isWaiting")
    is_sound = F.expr("deadIn is null and not isCorrupt")
    by_place = not ledger.has_keys and not ledger.has_ids
    claim = ledger.place_hash(F.lit("told"), "queueOffset", F.lit("") if by_place else ledger.ways()[0])
    place = ledger.place_hash(F.lit("led to"), "queueOffset", "physicalOffset", "storeSize")
    of_log = log.where("own is not null and deadIn is null").select(
        *_block("queueOffset"),
        own.alias("isOwn"),
        F.when(own & is_sound & ~F.col("isMoved"), claim).alias("told"),
        F.when(own & is_sound & F.col("isCommitted"), claim).alias("committed"),
        F.when(is_sound & F.col("isWaiting") & F.lit(not by_place), claim).alias("waits"),
        F.when(own & is_sound, place).alias("place"),
        F.lit(1).alias("sign"),
        F.expr("isWaiting or isMoved").alias("mayDetour"),
        F.lit(False).alias("hasPosition"),
    )
    way = F.lit("") if by_place else F.col("match")
    of_ledger = (
        ledger.rows()
        .where("isPlain")
        .select(
            *BLOCK,
            F.lit(True).alias("isTold"),
            ledger.place_hash(F.lit("told"), F.col("claimed.queueOffset"), way).alias("told"),
            F.lit(-1).alias("sign"),
        )
    )
    led = ledger.place_hash(F.lit("led to"), "queueOffset", "physicalOffset", "size")
    of_units = units.select(
        *_block("queueOffset"),
        F.when(F.col("isThere"), led).alias("place"),
        F.lit(-1).alias("sign"),
        F.when(F.col("isThere"), F.col("queueOffset")).alias("first"),
        (F.col("queueOffset") + F.col("batchSize")).alias("end"),
    )
    every = of_log.unionByName(of_ledger, True).unionByName(of_units, True)
    if positions is not None:
        inside = F.expr(f"offset & {(1 << BLOCK_BITS) - 1} <> 0")
        every = every.unionByName(positions.where(inside).select(*_block("offset"), F.lit(True).alias("hasPosition")), True)
    return every.groupBy(*BLOCK).agg(
        F.count_if("isTold").alias("acknowledged"),
        F.count_if("isOwn").alias("messages"),
        *_summed("told"),
        *_summed("waits"),
        *_summed("committed"),
        *_summed("place"),
        F.coalesce(F.bool_or("hasPosition"), F.lit(False)).alias("hasPosition"),
        F.coalesce(F.bool_or("mayDetour"), F.lit(False)).alias("mayDetour"),
        F.min("first").alias("first"),
        F.max("end").alias("end"),
    )


def _block(queue_offset: str) -> list[str | Column]:
    return [*QUEUE, block_of(queue_offset).alias("block")]


def _summed(name: str) -> list[Column]:
    """Count and both halves, each with its sign."""
    from pyspark.sql import functions as F

    parts = (F.when(F.col(name).isNotNull(), 1), F.col(name).bitwiseAND(_HALF), F.shiftrightunsigned(name, 32))
    return [
        F.coalesce(F.sum(F.col("sign") * part), F.lit(0)).alias(f"{name}{one}") for one, part in zip(_SUMS, parts, strict=True)
    ]


def bounds_of(blocks: DataFrame) -> DataFrame:
    """Of every queue that has units: first offset that is still there, one past the last."""
    from pyspark.sql import functions as F

    sums = blocks.where("end is not null").groupBy(*QUEUE).agg(F.min("first").alias("first"), F.max("end").alias("end"))
    return sums.withColumn("first", F.coalesce("first", "end"))


def detours_of(blocks: DataFrame) -> DataFrame:
    """Topics whose messages were, or are, in a topic of the system's."""
    return blocks.where("mayDetour").select("topic").distinct()
