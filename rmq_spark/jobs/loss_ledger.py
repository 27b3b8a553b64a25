"""The rows of a ledger, kept while they are held against a store, and by which hashes they meet it.

A row is found by its unique key, else by its offsetMsgId, else by queue and queue offset.  Most rows are `isPlain`: they have the
identity that most of the ledger has, and say at which place on which broker they are; those can be summed up in blocks
(`loss_blocks`).
"""

from __future__ import annotations

import secrets
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption
from rmq_spark.jobs.loss_scan import IS_WAITING
from rmq_spark.kept import Keep
from rmq_spark.ledger import place_of, read_ledger
from rmq_spark.picking import TOPICS_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CLAIMED: Final = ("queueId", "queueOffset", "uniqKey", "offsetMsgId", "brokerName")
BLOCK_BITS: Final = 5
"""Queue offsets are summed up in blocks of 32: a fault makes so many rows candidates, and sound queues shuffle a row for each."""
BLOCK: Final = ("brokerName", "topic", "queueId", "block")
_HAS_PLACE: Final = "(queueId is not null and queueOffset is not null)"
USABLE: Final = f"topic is not null and (uniqKey is not null or offsetMsgId is not null or {_HAS_PLACE})"


@cache
def seeds() -> tuple[int, ...]:
    """Of the hashes of identities, blocks and places: who sends messages cannot choose which of them meet.  A process has its
    own, and all its runs the same: they stand in the code that Spark makes, which is made and compiled once then."""
    return tuple(secrets.randbits(62) for _ in range(3))


class Ledger:
    """What it is like: count, unusable, has_keys, has_ids, has_places, has_more (than plain rows); topics, sorted, None if they
    are more than `TOPICS_MAX`.

    only: topics that count, None: all.  own: the name of the broker, if there is but one.  Raises `BadOption`.
    """

    def __init__(self, spark: SparkSession, given: dict[str, Any], only: list[str] | None, own: str | None, keep: Keep) -> None:
        from pyspark.sql import functions as F

        rows = read_ledger(spark, given["ledger"], given["ledger_format"], given["column"])
        rows = rows if only is None else rows.where(F.col("topic").isin(only))
        self.seeds = seeds()
        self.every = keep(rows)
        usable = F.expr(USABLE)
        name, keyed = F.when(usable, F.col("topic")), F.col("uniqKey").isNotNull()
        placed = ~keyed & F.col("offsetMsgId").isNotNull()
        at_place = F.expr(_HAS_PLACE) & F.coalesce("brokerName", F.lit(own)).isNotNull()
        [found] = self.every.agg(
            F.count("*").alias("rows"),
            F.count_if(usable).alias("usable"),
            F.count_if(usable & keyed).alias("keyed"),
            F.count_if(usable & placed).alias("placed"),
            F.count_if(usable & at_place & keyed).alias("plainKeys"),
            F.count_if(usable & at_place & F.col("offsetMsgId").isNotNull()).alias("plainIds"),
            F.count_if(usable & at_place).alias("plain"),
            F.slice(F.sort_array(F.collect_set(name)), 1, TOPICS_MAX + 1).alias("topics"),
        ).collect()
        self.count, self.unusable = found["rows"], found["rows"] - found["usable"]
        if not self.count:
            raise BadOption("ledger: it has no row")
        if not found["usable"]:
            what = "a topic and a uniqKey, an offsetMsgId or a queue offset"
            raise BadOption(f"ledger: none of its {self.count} rows has {what} (see --column)")
        self.has_keys, self.has_ids = found["keyed"] > 0, found["placed"] > 0
        self.has_places = found["usable"] > found["keyed"] + found["placed"]
        self.has_more = found["usable"] > found["plainKeys" if self.has_keys else "plainIds" if self.has_ids else "plain"]
        self.topics: list[str] | None = found["topics"] if len(found["topics"]) <= TOPICS_MAX else None
        self._own = own

    def rows(self) -> DataFrame:
        """topic, claimed, match, isPlain, and for what is plain the columns of `BLOCK`."""
        from pyspark.sql import functions as F

        claimed = F.struct(*CLAIMED, "delayed", place_of("offsetMsgId").alias("idPlace"))
        way = F.col("uniqKey") if self.has_keys else F.col("offsetMsgId") if self.has_ids else F.lit("")
        broker = F.coalesce("brokerName", F.lit(self._own))
        is_plain = way.isNotNull() & broker.isNotNull() & F.expr(_HAS_PLACE)
        return self.every.where(USABLE).select(
            "topic",
            claimed.alias("claimed"),
            identity_of().alias("match"),
            is_plain.alias("isPlain"),
            F.when(is_plain, broker).alias("brokerName"),
            F.when(is_plain, F.col("queueId")).alias("queueId"),
            F.when(is_plain, block_of("queueOffset")).alias("block"),
        )

    def ways(self) -> list[Column]:
        """Of a row of the log (`loss_scan`), the identities by which the ledger may have it; null is none."""
        from pyspark.sql import functions as F

        is_alive = F.col("deadIn").isNull()
        ways = [F.col("uniqKey")] if self.has_keys else []
        ways += [F.when(is_alive, id_of("messageId"))] if self.has_ids else []
        ways += (
            [F.when(is_alive & F.expr(f"flags & {IS_WAITING} = 0"), at_of("queueId", "queueOffset"))] if self.has_places else []
        )
        return ways

    def match_hash(self, match: Column) -> Column:
        """Of a topic and an identity in it; null without one."""
        from pyspark.sql import functions as F

        return F.when(match.isNotNull(), F.xxhash64(F.lit(self.seeds[0]), F.col("topic"), match))

    def block_hash(self) -> Column:
        """Of the columns of `BLOCK`."""
        from pyspark.sql import functions as F

        return F.when(F.col("block").isNotNull(), F.xxhash64(F.lit(self.seeds[1]), *BLOCK))

    def place_hash(self, *columns: str | Column) -> Column:
        """Of whatever is said of one message."""
        from pyspark.sql import functions as F

        return F.xxhash64(F.lit(self.seeds[2]), *columns)


def block_of(queue_offset: str) -> Column:
    """The number of its block."""
    from pyspark.sql import functions as F

    return F.shiftright(queue_offset, BLOCK_BITS)


def at_of(queue_id: str, queue_offset: str) -> Column:
    """A queue and an offset as a text that is no unique key."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("@"), F.col(queue_id).cast("string"), F.lit(":"), F.col(queue_offset).cast("string"))


def id_of(message_id: str) -> Column:
    """An offsetMsgId as a text that is no unique key."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("#"), F.col(message_id))


def identity_of() -> Column:
    """By what a row of the ledger is found."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col("uniqKey"), id_of("offsetMsgId"), at_of("queueId", "queueOffset"))
