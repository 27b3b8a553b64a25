"""Where the chains of `retries` came from: of the log only what may be one of their first messages is shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmq_spark.candidates import marked, perhaps
from rmq_spark.jobs import Source
from rmq_spark.measuring import lenient, without
from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CHAIN: Final = ("brokerName", "group", "chain")
"""What a chain is known by."""


def origins_of(spark: SparkSession, source: Source, wanted: DataFrame) -> DataFrame:
    """Of the chains whose origin is in the log: originTopicFound, originQueueId, originOffset, originStoreTimestamp.

    By its place, or by its unique key where that is all that is known.  Of the log only what may be one is shuffled.
    """
    from pyspark.sql import functions as F

    options = lenient(without(source.options, ("topics", "queueIds", "columns")))
    columns = "brokerName,topic,queueId,queueOffset,physicalOffset,uniqKey,storeTimestamp"
    read = Source(source.paths, options).read(spark, "messages", columns=columns).where("topic is not null")
    asked = wanted.withColumn("at", F.coalesce(_at("originPlace"), _by("uniqKey")))
    rows = perhaps(read, marked(asked, F.col("at")), _at("physicalOffset"), _by("uniqKey"))
    is_copy = F.col("topic").startswith(RETRY_PREFIX) | F.col("topic").startswith(DLQ_PREFIX)
    stored = rows.select(
        "brokerName",
        F.col("topic").alias("originTopicFound"),
        F.col("queueId").alias("originQueueId"),
        F.col("queueOffset").alias("originOffset"),
        "physicalOffset",
        F.col("uniqKey").alias("storedKey"),
        F.col("storeTimestamp").alias("originStoreTimestamp"),
        F.explode(F.array_compact(F.array(_at("physicalOffset"), F.when(~is_copy, _by("uniqKey"))))).alias("at"),
    )
    is_one = F.col("originPlace").isNull() | F.coalesce(F.col("uniqKey") == F.col("storedKey"), F.lit(True))
    first = F.min(F.struct("physicalOffset", "originTopicFound", "originQueueId", "originOffset", "originStoreTimestamp"))
    every = asked.join(stored, ["brokerName", "at"]).where(is_one).groupBy(*CHAIN).agg(first.alias("one"))
    parts = ("originTopicFound", "originQueueId", "originOffset", "originStoreTimestamp")
    return every.select(*CHAIN, *[F.col(f"one.{name}") for name in parts])


def _at(physical_offset: str) -> Column:
    """A place in a broker's log, as a text that is no unique key of its."""
    from pyspark.sql import functions as F

    return F.concat("brokerName", F.lit("@"), F.col(physical_offset).cast("string"))


def _by(key: str) -> Column:
    from pyspark.sql import functions as F

    return F.concat("brokerName", F.lit("#"), key)
