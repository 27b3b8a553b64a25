"""Which parts of the queues are as the ledger says: sums over blocks of queue offsets, of the ledger, the log and the queues.

In each block two sums must come to nothing: what the log has there less what the ledger says was stored there, and what the log
has less where the queue's units lead.  Then every row of the ledger that names a place in it is stored, and nobody has to shuffle
them; where a sum does not come to nothing, rows are looked at one by one (`loss_match`).  Sums are of 64 bits of a hash with a
secret, in two halves, beside the count.  What was delayed, timed or half first is added up by itself, where it waits, under the
place that its producer was answered, and where it was committed: the ledger may have the one, the other, or none of it.

What has to be looked at anyway comes with the blocks, each row by itself: `place` is null in a block, and says what else it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmq_spark.jobs.loss_ledger import BLOCK, BLOCK_BITS, Ledger, block_of
from rmq_spark.jobs.loss_scan import IS_COMMITTED, IS_CORRUPT, IS_MOVED, IS_WAITING, ROW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HALF: Final = 0xFFFFFFFF
QUEUE: Final = ("brokerName", "topic", "queueId")
_SUMS: Final = ("Count", "Low", "High")
_NOTHING: Final = " and ".join(f"told{one} = 0" for one in _SUMS)
_OR_WAITING: Final = " and ".join(f"told{one} + waits{one} = 0" for one in _SUMS)
_OR_COMMITTED: Final = " and ".join(f"told{one} + committed{one} = 0" for one in _SUMS)
_LED_TO: Final = " and ".join(f"led{one} = 0" for one in _SUMS)
IS_SOUND: Final = f"(({_NOTHING} or {_OR_WAITING} or {_OR_COMMITTED}) and {_LED_TO})"
IS_UNEVEN: Final = f"(place is null and not {IS_SOUND} and (acknowledged > 0 or messages > 0))"
IS_SHORT: Final = f"({IS_UNEVEN} and toldCount + waitsCount + committedCount < 0)"
"""Whether the log has fewer there than the ledger: something is at another place, or nowhere."""
IS_MISLED: Final = f"({IS_UNEVEN} and not ({_LED_TO}))"
"""Whether its queue does not lead to each of its messages, and nowhere else."""
IS_EXACT: Final = "bit_count(offsets) = acknowledged"
"""Whether the bits say of each row of the ledger where in the block it is: two rows may name one place."""
OF_PLACE: Final = (
    "kind",
    "own",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "storeSize",
    "uniqKey",
    "messageId",
    "deadIn",
    "flags",
)
"""Of a row that is by itself."""


def blocks_of(ledger: Ledger, log: DataFrame, units: DataFrame) -> DataFrame:
    """A row for each block: acknowledged (plain rows of the ledger), offsets (a bit for each of their queue offsets), messages
    (in the log, in their own topic), logFrom, logTo (where these lie), sums, mayDetour (the topic has messages that were or are
    in the system's), first (offset of the queue that the log still has), end.  And a row for each of the log that is by itself:
    brokerName, topic, place.

    log: of `loss_scan`.  units: with `isThere`, whether the log still has what they lead to.
    """
    from pyspark.sql import functions as F

    every = _of_log(ledger, log).unionByName(_of_ledger(ledger), True).unionByName(_of_units(ledger, units), True)
    return every.groupBy(*BLOCK, "place").agg(
        F.count_if("isTold").alias("acknowledged"),
        F.bit_or("offset").alias("offsets"),
        F.count_if("isOwn").alias("messages"),
        F.min("logFrom").alias("logFrom"),
        F.max("logTo").alias("logTo"),
        *_summed("told"),
        *_summed("waits"),
        *_summed("committed"),
        *_summed("led"),
        F.coalesce(F.bool_or("mayDetour"), F.lit(False)).alias("mayDetour"),
        F.min("first").alias("first"),
        F.max("end").alias("end"),
    )


def _of_log(ledger: Ledger, log: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    is_row = F.col("kind") == ROW
    own, is_sound = is_row & ~_has(IS_WAITING), ~_has(IS_CORRUPT)
    by_place = not ledger.has_keys and not ledger.has_ids
    claim = ledger.place_hash(F.lit("told"), "queueOffset", F.lit("") if by_place else ledger.ways()[0])
    place = ledger.place_hash(F.lit("led to"), "queueOffset", "physicalOffset", "storeSize")
    return log.select(
        "brokerName",
        "topic",
        F.when(is_row, F.col("queueId")).alias("queueId"),
        F.when(is_row, block_of("queueOffset")).alias("block"),
        F.when(~is_row, F.struct(*OF_PLACE)).alias("place"),
        own.alias("isOwn"),
        F.when(own, F.col("physicalOffset")).alias("logFrom"),
        F.when(own, F.col("physicalOffset") + F.col("storeSize")).alias("logTo"),
        F.when(own & is_sound & ~_has(IS_MOVED), claim).alias("told"),
        F.when(own & is_sound & _has(IS_COMMITTED), claim).alias("committed"),
        F.when(is_row & is_sound & _has(IS_WAITING) & F.lit(not by_place), claim).alias("waits"),
        F.when(own & is_sound, place).alias("led"),
        F.lit(1).alias("sign"),
        (is_row & _has(IS_WAITING | IS_MOVED)).alias("mayDetour"),
    )


def _of_ledger(ledger: Ledger) -> DataFrame:
    from pyspark.sql import functions as F

    at = F.col("claimed.queueOffset")
    way = F.col("match") if ledger.has_keys or ledger.has_ids else F.lit("")
    return (
        ledger.rows()
        .where("isPlain")
        .select(
            *BLOCK,
            F.lit(True).alias("isTold"),
            F.expr(f"shiftleft(1L, int(claimed.queueOffset & {(1 << BLOCK_BITS) - 1}))").alias("offset"),
            ledger.place_hash(F.lit("told"), at, way).alias("told"),
            F.lit(-1).alias("sign"),
        )
    )


def _of_units(ledger: Ledger, units: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    led = ledger.place_hash(F.lit("led to"), "queueOffset", "physicalOffset", "size")
    return units.select(
        *QUEUE,
        block_of("queueOffset").alias("block"),
        F.when(F.col("isThere"), led).alias("led"),
        F.lit(-1).alias("sign"),
        F.when(F.col("isThere"), F.col("queueOffset")).alias("first"),
        (F.col("queueOffset") + F.col("batchSize")).alias("end"),
    )


def _has(bits: int) -> Column:
    from pyspark.sql import functions as F

    return F.col("flags").bitwiseAND(bits) != 0


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
