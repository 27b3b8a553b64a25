"""The verdicts: what was met (`loss_match`) with queue units, and, where a message is missing, with what may have become of it.

What no row needs is not asked for: no queue units where the sums of blocks say that each message has its own, without a missing
message neither the bounds of queues nor what brokers may have, without one that waits no progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rmq_spark.candidates import marked, perhaps
from rmq_spark.jobs import Source, loss_waiting
from rmq_spark.jobs import loss_verdicts as sql
from rmq_spark.jobs.loss_blocks import detours_of
from rmq_spark.jobs.loss_ledger import CLAIMED
from rmq_spark.jobs.loss_match import OF_QUEUES, Matching
from rmq_spark.jobs.loss_scan import SYSTEM
from rmq_spark.known import Broker
from rmq_spark.local import local
from rmq_spark.picking import is_permissive, options_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKET_BITS: Final = 20
"""Of a place in the log: damaged ranges are found by such pieces of 1 MiB."""
KNOWING_MAX: Final = 10_000
"""Topics of which no broker is named and no message is found: of more, every broker may have had it."""
_BROKERS: Final = "array<struct<name: string, logStart: bigint, hasQueues: boolean>>"


def judged(job: Matching, with_places: bool = False) -> DataFrame:
    """A row for each of the ledger's that was met, as `loss` says; and isPlain.

    with_places: also of those that were not looked at one by one the place in the log.
    """
    from pyspark.sql import functions as F

    best = _with_best(job.told())
    rows = best.withColumn("units", F.expr(sql.OWN_UNIT)) if job.is_led and not with_places else _with_units(job, best)
    rows = _with_missing(job, rows, best) if job.found.missing else rows.withColumns(_of_places(job))
    found = _verdicts(job, rows)
    if job.found.missing:
        found = _unreadable(job, found)
    if job.found.waiting:
        found = loss_waiting.judged(job.spark, job.source, job.keep(found), job.keep)
    return found.drop("units")


def _with_best(told: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    rows = told.withColumn("places", F.expr(sql.WITH_EVEN)).withColumn("places", F.expr(sql.OF_BROKER))
    return rows.withColumn("best", F.expr(sql.BEST)).select(
        "topic",
        "claimed",
        "best",
        "places",
        "isPlain",
        F.expr(sql.DEAD_IN).alias("deadIn"),
        F.expr("if(best.isWaiting, best.own, topic)").alias("unitTopic"),
        F.expr("coalesce(best.queueId, claimed.queueId)").alias("queueId"),
        F.expr("coalesce(best.queueOffset, claimed.queueOffset)").alias("queueOffset"),
        F.expr("coalesce(best.brokerName, claimed.brokerName)").alias("broker"),
    )


def _with_units(job: Matching, rows: DataFrame) -> DataFrame:
    """With the queue units at their places, of which only those are shuffled that may be asked for."""
    from pyspark.sql import functions as F

    at = ("unitTopic", "queueId", "queueOffset")
    hashed = F.when(F.col("queueOffset").isNotNull(), job.ledger.place_hash(*at))
    found = perhaps(job.units().withColumnRenamed("topic", "unitTopic"), marked(rows, hashed), hashed)
    unit = F.struct("brokerName", "physicalOffset", "size")
    made = rows.join(found.groupBy(*at).agg(F.collect_list(unit).alias("units")), list(at), "left")
    return made.withColumn("units", F.expr("filter(units, one -> broker is null or one.brokerName = broker)"))


def _of_places(job: Matching) -> dict[str, Column]:
    """Columns that every verdict needs."""
    from pyspark.sql import functions as F

    every = _array(job.brokers)
    return {
        "everyBroker": every,
        "brokers": every,
        "best": F.expr(sql.POINTED_AT),
        "heldBy": F.expr(sql.HELD_BY),
    }


def _with_missing(job: Matching, rows: DataFrame, best: DataFrame) -> DataFrame:
    """With what may have become of what is not there."""
    from pyspark.sql import functions as F

    rows = rows.withColumn("missedQueueId", F.expr("if(best is null, claimed.queueId, null)"))
    queue = F.struct("brokerName", "first", "end")
    bounds = job.bounds().withColumnRenamed("queueId", "missedQueueId")
    own = bounds.groupBy("topic", "missedQueueId").agg(F.collect_list(queue).alias("queues"))
    system = bounds.where(F.col("topic").isin(*SYSTEM)).groupBy("missedQueueId").agg(F.collect_list(queue).alias("systemQueues"))
    made = rows.join(own, ["topic", "missedQueueId"], "left").join(F.broadcast(system), "missedQueueId", "left")
    made = made.withColumn("queues", F.expr("filter(queues, one -> broker is null or one.brokerName = broker)"))
    made = _with_detours(job, _with_knowing(job, made.withColumns(_of_places(job)), best))
    return made.withColumn("brokers", F.expr(sql.MAY_BE_ON)).withColumn("asClaimed", F.expr(sql.AS_CLAIMED))


def _with_knowing(job: Matching, made: DataFrame, best: DataFrame) -> DataFrame:
    """`knowing`: brokers that may have the topic, of a row that was not found and names none."""
    from pyspark.sql import functions as F

    if len(job.brokers) == 1:
        return made.withColumn("knowing", F.col("everyBroker"))
    missed = best.where("best is null and claimed.brokerName is null").select("topic").distinct()
    topics = [row["topic"] for row in missed.limit(KNOWING_MAX + 1).collect()]
    known = F.lit(None)
    if 0 < len(topics) <= KNOWING_MAX:
        of_topic = [(topic, [one.name for one in job.brokers if one.may_have(topic)]) for topic in topics]
        made = made.join(F.broadcast(local(job.spark, of_topic, "topic string, names array<string>")), "topic", "left")
        known = F.expr("filter(everyBroker, one -> array_contains(names, one.name))")
    made = made.withColumn("knowing", known.cast(_BROKERS))
    return made.withColumn("knowing", F.expr("if(size(knowing) > 0, knowing, everyBroker)")).drop("names")


def _with_detours(job: Matching, made: DataFrame) -> DataFrame:
    """`mayDetour`: as the ledger says, else whether messages of the topic are delayed, timed or half first."""
    from pyspark.sql import functions as F

    found = detours_of(job.blocks)
    known = {topic for broker in job.brokers for topic in broker.detours}
    known = known if job.ledger.topics is None else known.intersection(job.ledger.topics)
    if known:
        found = found.unionByName(local(job.spark, [(topic,) for topic in sorted(known)], "topic string"))
    joined = made.join(found.distinct().withColumn("isDetour", F.lit(True)), "topic", "left")
    return joined.withColumn("mayDetour", F.coalesce("claimed.delayed", "isDetour", F.lit(False)))


def _verdicts(job: Matching, rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    verdict = sql.VERDICT if job.found.missing else sql.OF_FOUND
    return rows.withColumn("verdict", F.expr(verdict)).select(
        "topic",
        *(F.col(f"claimed.{name}").alias(name) for name in CLAIMED),
        "verdict",
        F.expr(sql.FOUND_BROKER).alias("foundBrokerName"),
        F.col("best.own").alias("foundTopic"),
        F.col("best.queueId").alias("foundQueueId"),
        F.col("best.queueOffset").alias("foundQueueOffset"),
        F.expr("coalesce(best.physicalOffset, get(units, 0).physicalOffset)").alias("physicalOffset"),
        F.expr("coalesce(best.storeSize, if(best is null, null, get(units, 0).size))").alias("storeSize"),
        "deadIn",
        "units",
        "isPlain",
    )


def _unreadable(job: Matching, rows: DataFrame) -> DataFrame:
    """Messages that were not found, but whose unit leads into damage, or to where nothing was written, are unreadable."""
    from pyspark.sql import functions as F

    buckets = f"explode(sequence(shiftright(startOffset, {BUCKET_BITS}), shiftright(endOffset - 1, {BUCKET_BITS})))"
    gap = F.struct("brokerName", "startOffset", "endOffset")
    damage = _gaps(job).where("endOffset > startOffset").select(gap.alias("gap"), F.expr(buckets).alias("bucket"))
    damage = damage.groupBy("bucket").agg(F.collect_list("gap").alias("gaps"))
    is_missing = "foundTopic is null and verdict in ('lost', 'unknown')"
    where = f"if({is_missing}, shiftright(get(units, 0).physicalOffset, {BUCKET_BITS}), null)"
    joined = rows.withColumn("bucket", F.expr(where)).join(damage, "bucket", "left")
    held = F.exists("gaps", lambda gap: F.exists("units", lambda unit: _inside(unit, gap)))
    verdict = F.when(F.coalesce(held, F.lit(False)), F.lit("unreadable")).otherwise(F.col("verdict"))
    return joined.withColumn("verdict", verdict).drop("bucket", "gaps")


def _gaps(job: Matching) -> DataFrame:
    """Damage and the unwritten end of each log: brokerName, startOffset, endOffset."""
    names = ("brokerName", "startOffset", "endOffset")
    if not is_permissive(job.source):
        options = options_of(job.source, OF_QUEUES, mode="DROPMALFORMED")
        return Source(job.source.paths, options).read(job.spark, "gaps").select(*names)
    ends = job.ends()
    tails = [(one.name, ends[one.name], one.logEnd) for one in job.brokers if one.name in ends]
    return job.damaged().unionByName(local(job.spark, tails, "brokerName string, startOffset bigint, endOffset bigint"))


def _inside(unit: Column, gap: Column) -> Column:
    at = unit["physicalOffset"]
    return (unit["brokerName"] == gap["brokerName"]) & (at >= gap["startOffset"]) & (at < gap["endOffset"])


def _array(brokers: list[Broker]) -> Column:
    from pyspark.sql import functions as F

    each = [
        F.struct(
            F.lit(one.name).alias("name"),
            F.lit(one.logStart).cast("bigint").alias("logStart"),
            F.lit(one.hasQueues).alias("hasQueues"),
        )
        for one in brokers
    ]
    return F.array(*each).cast(_BROKERS)
