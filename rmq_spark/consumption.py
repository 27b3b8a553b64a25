"""When messages were consumed, how long it took and whether it went well, as traced by the clients that read them.

SubBefore and SubAfter of one delivery have the same requestId and msgId (which is the message's unique key).  The stored
message that was delivered is the one with that key and with as many retries: of a first delivery the message itself (or what the
delay, the timer or the commit made of it), of a later one the copy in the group's retry topic.  Where a group retries in the
client alone (consumption in order), the newest copy with fewer retries counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.candidates import marked, perhaps
from rmq_spark.jobs import Source
from rmq_spark.measuring import SUFFIX, has, lenient, property_value, without
from rmq_spark.picking import log_splits
from rmq_spark.work import Given, Work
from rmq_wire import property_names as prop
from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns import Split

DELIVERY: Final = ("requestId", "msgId")
OK, FAILED, NO_END, NO_START = "ok", "failed", "noEnd", "noStart"
QUANTILES: Final = (0.5, 0.9, 0.99)


def traces(spark: SparkSession, source: Source, trace_topic: str) -> DataFrame:
    """All trace records, with the columns of `rmq_columns.read.traces.TRACES`."""
    from rmq_spark.reading import worked

    kept = lenient(without(source.options, ("topics", "queueIds", "columns", "table", "verifyCrc")))
    return worked(spark, "traces", {**kept, "paths": source.paths}, traceTopic=trace_topic)


def _schema(given: Given) -> pa.Schema:
    from rmq_columns.read.traces import TRACES

    return TRACES


def _traces(given: Given, split: Split) -> Iterator[pa.RecordBatch]:
    from rmq_columns.read.traces import traces_in

    return traces_in(split, given.get("traceTopic", TRACE_TOPIC))


TRACED: Final = Work(_schema, _traces, log_splits, {"traceTopic": str})
"""The table of `traces`."""


def consumed(spark: SparkSession, source: Source, found: DataFrame) -> DataFrame:
    """A row for each delivery: group, topic, queueId, brokerName, msgId, requestId, retryTimes, storeTimestamp, startTimestamp,
    waitMs (stored until the listener was called), costMs, success, contextCode, state."""
    from pyspark.sql import functions as F

    first = found.where("traceType = 'SubBefore'").dropDuplicates(list(DELIVERY))
    last = found.where("traceType = 'SubAfter'").dropDuplicates(list(DELIVERY))
    before = first.select(*DELIVERY, "group", "retryTimes", F.col("timestamp").alias("startTimestamp"))
    after = last.select(
        *DELIVERY, F.col("group").alias("groupAfter"), F.col("costTime").alias("costMs"), "success", "contextCode"
    )
    state = (
        F.when(F.col("startTimestamp").isNull(), NO_START)
        .when(F.col("success").isNull(), NO_END)
        .when(F.col("success"), OK)
        .otherwise(FAILED)
    )
    deliveries = before.join(after, list(DELIVERY), "full").withColumn("group", F.coalesce("group", "groupAfter"))
    deliveries = deliveries.withColumn("state", state).drop("groupAfter")
    wait = F.unix_millis("startTimestamp") - F.unix_millis("storeTimestamp")
    joined = deliveries.join(_delivered(spark, source, deliveries), list(DELIVERY), "left").withColumn("waitMs", wait)
    if has(source.options, "topics"):
        joined = joined.where("topic is not null")
    return joined.select(
        "group",
        "topic",
        "queueId",
        "brokerName",
        *DELIVERY,
        "retryTimes",
        "storeTimestamp",
        "startTimestamp",
        "waitMs",
        "costMs",
        "success",
        "contextCode",
        "state",
    )


def _delivered(spark: SparkSession, source: Source, deliveries: DataFrame) -> DataFrame:
    """For each delivery the stored message that it was of."""
    from pyspark.sql import functions as F

    options = without(source.options, ("topics", "queueIds", "columns", "includeProperties", "verifyCrc"))
    columns = "brokerName,topic,queueId,uniqKey,reconsumeTimes,storeTimestamp,properties"
    stored = Source(source.paths, lenient(options)).read(spark, "messages", columns=columns, includeProperties="raw")
    stored = stored.where(F.col("uniqKey").isNotNull() & ~F.col("topic").startswith(DLQ_PREFIX)).select(
        "brokerName",
        "queueId",
        "reconsumeTimes",
        "storeTimestamp",
        F.col("uniqKey").alias("msgId"),
        F.col("topic").alias("stored"),
        F.concat(F.lit(SUFFIX), F.col("properties").cast("string")).alias("propertyText"),
    )
    stored = perhaps(stored, marked(deliveries, F.col("msgId")), F.col("msgId"))
    retry = F.concat(F.lit(RETRY_PREFIX), F.col("group"))
    is_copy = F.col("stored").startswith(RETRY_PREFIX)
    own = ~is_copy | (F.col("stored") == retry) | F.startswith("stored", F.concat(retry, F.lit("_")))
    own = own | F.startswith("stored", F.concat(retry, F.lit("+")))  # `KeyBuilder`: retry topics of POP
    asked = deliveries.select(*DELIVERY, "group", "retryTimes", "startTimestamp")
    pairs = asked.join(stored, "msgId").where(own & (F.col("reconsumeTimes") <= F.coalesce("retryTimes", F.lit(1 << 30))))
    is_before = F.coalesce(F.col("storeTimestamp") <= F.col("startTimestamp"), F.lit(False))
    near = F.unix_millis("storeTimestamp") * F.when(is_before, 1).otherwise(-1)
    topic = F.when(is_copy, F.expr(property_value(prop.RETRY_TOPIC))).otherwise(F.col("stored"))
    pairs = pairs.withColumn("topic", topic).withColumn("isBefore", is_before).withColumn("near", near)
    if (topics := source.topics()) is not None:
        pairs = pairs.where(F.col("topic").isin(topics))
    best = F.max(F.struct("reconsumeTimes", "isBefore", "near", "brokerName", "topic", "queueId", "storeTimestamp"))
    chosen = pairs.groupBy(*DELIVERY).agg(best.alias("best"))
    return chosen.select(*DELIVERY, *[F.col(f"best.{name}") for name in ("brokerName", "topic", "queueId", "storeTimestamp")])


def by_group(deliveries: DataFrame) -> DataFrame:
    """A row for each group and topic: deliveries, succeeded, failed, noEnd, successRate, waitMs and costMs as percentiles."""
    from pyspark.sql import functions as F

    def count(*states: str) -> Any:
        return F.sum(F.col("state").isin(*states).cast("int"))

    wait = F.when((F.col("waitMs") >= 0) & (F.col("retryTimes") == 0), F.col("waitMs"))
    summed = deliveries.groupBy("group", "topic").agg(
        F.count("*").alias("deliveries"),
        count(OK).alias("succeeded"),
        count(FAILED).alias("failed"),
        count(NO_END).alias("noEnd"),
        F.sum((F.col("retryTimes") > 0).cast("int")).alias("retries"),
        F.sum((F.col("waitMs") < 0).cast("int")).alias("clockSkew"),
        *[F.percentile(wait, F.lit(q)).alias(f"waitMsP{q * 100:g}") for q in QUANTILES],
        F.max(wait).alias("waitMsMax"),
        *[F.percentile("costMs", F.lit(q)).alias(f"costMsP{q * 100:g}") for q in QUANTILES],
        F.max("costMs").alias("costMsMax"),
    )
    ended = F.col("succeeded") + F.col("failed")
    return summed.withColumn("successRate", F.when(ended > 0, F.col("succeeded") / ended))
