"""What the stores have of a ledger's rows: those that blocks of the queues do not account for meet messages and queue units.

The log is read twice.  First it is summed up in blocks (`loss_blocks`).  Then candidates alone are shuffled: rows of the ledger
in blocks that do not come out even or that have no place, messages in such blocks or with the identity of such a row, messages
that were delayed, timed or half, dead letters, and damage; and the rows of the ledger that have the identity of one of these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.candidates import marked, perhaps, perhaps_as, settled
from rmq_spark.jobs import Source
from rmq_spark.jobs import loss_verdicts as sql
from rmq_spark.jobs.loss_blocks import IS_SOUND, blocks_of, bounds_of, detours_of
from rmq_spark.jobs.loss_ledger import CLAIMED, Ledger, block_of
from rmq_spark.kept import Keep
from rmq_spark.known import Broker, brokers_of
from rmq_spark.local import local
from rmq_spark.picking import CORRUPT, Picking, is_permissive, options_of, picked, refuse_ranges
from rmq_spark.progress import ends_of
from rmq_spark.session import Progress, watched
from rmq_wire import property_names as prop
from rmq_wire.names import DLQ_PREFIX, SCHEDULE_TOPIC, TRANS_HALF_TOPIC, WHEEL_TIMER_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

SYSTEM: Final = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC, TRANS_HALF_TOPIC)
"""Where messages wait before they come into their own topic."""
BUCKET_BITS: Final = 20
"""Of a place in the log: damaged ranges are found by such pieces of 1 MiB."""
OF_QUEUES: Final = ("queueIds", "topics", "verifyCrc", "decompress", "columns", "kafkaCompatible")
KNOWING_MAX: Final = 10_000
"""Topics of which no broker is named and no message is found: of more, every broker may have had it."""
PLACE: Final = (
    "brokerName",
    "own",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "storeSize",
    "isWaiting",
    "isMoved",
    "deadIn",
    "isCorrupt",
)
_BROKERS: Final = "array<struct<name: string, logStart: bigint, hasQueues: boolean>>"


class Matching:
    """The tables that are joined.  Raises `BadOption`."""

    def __init__(self, spark: SparkSession, source: Source, given: dict[str, Any], keep: Keep, progress: Progress) -> None:
        refuse_ranges(source, "loss")
        self.spark, self.source, self.given, self.keep = spark, source, given, keep
        self.brokers = brokers_of(source)
        self.own = self.brokers[0].name if len(self.brokers) == 1 else None
        with watched(spark, "reading the ledger", progress):
            self.ledger = Ledger(spark, given, source.topics(), self.own, keep)
            self.positions = self._positions()
        with watched(spark, "summing up ledger and log", progress):
            self.blocks = keep(self._blocks())
            self._look()

    def _look(self) -> None:
        """What the blocks say together."""
        from pyspark.sql import functions as F

        alone = F.sum(F.expr("if(acknowledged = 0, messages, 0)")).alias("alone")
        [found] = self.blocks.agg(F.sum("messages").alias("messages"), alone).collect()
        alone = found["alone"] or 0  # in blocks of which the ledger says nothing
        self.count: int = found["messages"] or 0
        """messages of the ledger's topics"""
        self.is_small = alone > self.ledger.count and not self.given["strict"]
        """whether it is cheaper to look each row of the ledger up: most messages are none of its"""

    def log(self) -> DataFrame:
        """Messages of the ledger's topics, dead letters, and what waits, each with the topic that it is for; and damage."""
        from pyspark.sql import functions as F

        columns = ["brokerName", "topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "uniqKey", "sysFlag"]
        columns += ["offsetMsgId"] if self.ledger.has_ids else []
        properties = {"realTopic": prop.REAL_TOPIC, "delay": prop.DELAY, "due": prop.TIMER_OUT_MS}
        properties |= {"retryTopic": prop.RETRY_TOPIC, "deadTopic": prop.DLQ_ORIGIN_TOPIC, "recalls": prop.TIMER_DEL_UNIQKEY}
        topics = tuple(self.ledger.topics or ())
        wanted = Picking(tuple(columns), tuple(properties.items()), f"{__name__}:{concerns.__name__}", topics)
        more = {"verifyCrc": str(not self.given["no_crc"]).lower()}
        rows = picked(self.spark, self.source, wanted, ("topics", "queueIds"), includeSystemTopics="true", **more)
        is_dead = F.col("topic").startswith(DLQ_PREFIX)
        is_waiting = F.col("topic").isin(*SYSTEM)
        origin = F.coalesce("retryTopic", "deadTopic")
        return rows.select(
            "brokerName",
            "queueId",
            "queueOffset",
            "physicalOffset",
            "storeSize",
            "uniqKey",
            F.upper("offsetMsgId" if self.ledger.has_ids else F.lit(None).cast("string")).alias("messageId"),
            F.col("topic").alias("own"),
            F.when(is_dead, origin).when(is_waiting, F.col("realTopic")).otherwise(F.col("topic")).alias("topic"),
            F.when(is_dead, F.expr(f"substring(topic, {len(DLQ_PREFIX) + 1})")).alias("deadIn"),
            is_waiting.alias("isWaiting"),
            F.expr("sysFlag & 12 = 8 or delay is not null or due is not null").alias("isMoved"),
            F.expr("sysFlag & 12 = 8").alias("isCommitted"),
            F.col(CORRUPT).isNotNull().alias("isCorrupt"),
        )

    def units(self) -> DataFrame:
        """Units of the ledger's queues, and of the system's; `isThere`: the log still has what they lead to."""
        from pyspark.sql import functions as F

        known = self.ledger.topics
        chosen = {"includeSystemTopics": "true"} if known is None else {"topics": json.dumps([*known, *SYSTEM])}
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED", **chosen)
        start = F.lit(None).cast("bigint")
        for one in self.brokers:
            start = F.when(F.col("brokerName") == one.name, one.logStart).otherwise(start)
        is_there = F.col("physicalOffset") >= F.coalesce(start, F.lit(0))
        return Source(self.source.paths, options).read(self.spark, "consumequeue").withColumn("isThere", is_there)

    def _of_ledger(self, rows: DataFrame, *others: str) -> DataFrame:
        """Those of its topics, or of others, exactly."""
        from pyspark.sql import functions as F

        if self.ledger.topics is not None:
            return rows.where(F.col("topic").isin(*self.ledger.topics, *others))
        topics = self.ledger.every.select("topic").where("topic is not null")
        for other in others:
            topics = topics.unionByName(self.spark.range(1).select(F.lit(other).alias("topic")))
        return rows.join(topics.distinct(), "topic", "left_semi")

    def _blocks(self) -> DataFrame:
        return self._of_ledger(
            blocks_of(self.ledger, self.log(), self.units(), self.positions if self.has_positions else None), *SYSTEM
        )

    def _positions(self) -> DataFrame:
        """Committed positions of the ledger's topics.  Kept before the queues are read: of a running broker
        they would be behind the end that was seen."""
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        found = Source(self.source.paths, options).read(self.spark, "consumerOffsets").where("offset is not null")
        held = self.keep(self._of_ledger(found).select("brokerName", "group", "topic", "queueId", "offset"))
        self.has_positions = held.count() > 0
        return held

    # --- candidates

    def met(self) -> DataFrame:
        """Rows of the ledger that blocks do not account for, each with all that `loss_verdicts` asks for."""
        from pyspark.sql import functions as F

        ledger, key = self.ledger, F.col("hash")
        rows = ledger.rows().withColumn("hash", ledger.match_hash(F.col("match")))
        if self.is_small:
            marks = marked(rows, key)
            rows = rows.withColumn("isUneven", F.lit(True))
        else:
            uneven = self.blocks.where(f"not {IS_SOUND} and (acknowledged > 0 or messages > 0)")
            uneven = uneven.select(ledger.block_hash().alias("hash"))
            rows = perhaps_as("isUneven", rows, settled(marked(uneven, key)), ledger.block_hash())
            marks = marked(rows.where("isUneven or not isPlain").select("hash").unionByName(uneven), key)
        self.messages = self.keep(self._of_log(settled(marks)))
        ways = F.explode(F.array_compact(F.array(*map(ledger.match_hash, ledger.ways()))))
        rows = perhaps_as("isMet", rows, settled(marked(self.messages.select(ways.alias("hash")), key)), key)
        is_candidate = "isUneven or not isPlain or isMet"
        self.others = rows.where(f"not ({is_candidate})")
        even = F.when(F.expr("isPlain and not isUneven"), F.col("brokerName")).alias("evenBroker")
        told = rows.where(is_candidate).select("topic", "claimed", "match", "isPlain", even)
        return self._judgeable(told.join(self._places(), ["topic", "match"], "left"))

    def _of_log(self, marks: DataFrame) -> DataFrame:
        """The candidates of the log, and its damage."""
        from pyspark.sql import functions as F

        ledger = self.ledger
        rows = self.log().withColumn("block", F.when(F.expr("deadIn is null and not isWaiting"), block_of("queueOffset")))
        keys = [*map(ledger.match_hash, ledger.ways()), *([] if self.is_small else [ledger.block_hash()])]
        names = [f"asked{number}" for number in range(len(keys))]
        for name, key in zip(names, keys, strict=True):
            rows = perhaps_as(name, rows, marks, key)
        always = "own is null or deadIn is not null or isWaiting or isMoved or isCorrupt"
        found = rows.where(" or ".join([*names, always])).drop(*names, "block")
        if ledger.topics is not None:
            return found
        return self._of_ledger(found.where("own is not null")).unionByName(found.where("own is null"))

    def _places(self) -> DataFrame:
        """(topic, match) -> all candidates of the log that may be the one."""
        from pyspark.sql import functions as F

        match = F.explode(F.array_compact(F.array(*self.ledger.ways())))
        rows = self._of_ledger(self.messages).select("topic", match.alias("match"), F.struct(*PLACE).alias("place"))
        return rows.groupBy("topic", "match").agg(F.collect_list("place").alias("places"))

    def _judgeable(self, matched: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        rows = matched.withColumn("places", F.expr(sql.WITH_EVEN)).withColumn("places", F.expr(sql.OF_BROKER))
        rows = rows.withColumn("best", F.expr(sql.BEST))
        rows = rows.select(
            "topic",
            "claimed",
            "match",
            "best",
            "places",
            "isPlain",
            F.expr(sql.DEAD_IN).alias("deadIn"),
            F.expr("if(best.isWaiting, best.own, topic)").alias("unitTopic"),
            F.expr("coalesce(best.queueId, claimed.queueId)").alias("queueId"),
            F.expr("coalesce(best.queueOffset, claimed.queueOffset)").alias("queueOffset"),
            F.expr("if(best is null, claimed.queueId, null)").alias("missedQueueId"),
            F.expr("coalesce(best.brokerName, claimed.brokerName)").alias("broker"),
        )
        self.told = rows = self.keep(rows)
        queue = F.struct("brokerName", "first", "end")
        bounds = self.bounds().withColumnRenamed("queueId", "missedQueueId")
        own = bounds.groupBy("topic", "missedQueueId").agg(F.collect_list(queue).alias("queues"))
        system = bounds.where(F.col("topic").isin(*SYSTEM)).groupBy("missedQueueId")
        made = self._with_units(rows).join(own, ["topic", "missedQueueId"], "left")
        made = made.join(F.broadcast(system.agg(F.collect_list(queue).alias("systemQueues"))), "missedQueueId", "left")
        for name in ("units", "queues"):
            made = made.withColumn(name, F.expr(f"filter({name}, one -> broker is null or one.brokerName = broker)"))
        made = made.withColumn("best", F.expr(sql.POINTED_AT)).withColumn("heldBy", F.expr(sql.HELD_BY))
        made = self._with_brokers(made, rows).withColumn("brokers", F.expr(sql.MAY_BE_ON))
        return self._with_detours(made).drop("unitTopic", "missedQueueId", "knowing", "places", "queueId", "queueOffset", "match")

    def _with_units(self, rows: DataFrame) -> DataFrame:
        """With the queue units at their places, of which only those are shuffled that may be asked for."""
        from pyspark.sql import functions as F

        at = ("unitTopic", "queueId", "queueOffset")
        hashed = F.when(F.col("queueOffset").isNotNull(), self.ledger.place_hash(*at))
        found = perhaps(self.units().withColumnRenamed("topic", "unitTopic"), settled(marked(rows, hashed)), hashed)
        unit = F.struct("brokerName", "physicalOffset", "size")
        return rows.join(found.groupBy(*at).agg(F.collect_list(unit).alias("units")), list(at), "left")

    def _with_brokers(self, made: DataFrame, rows: DataFrame) -> DataFrame:
        """`everyBroker`, and `knowing`: those that may have the topic, of a row that was not found and names none."""
        from pyspark.sql import functions as F

        every = _array(self.brokers)
        if len(self.brokers) == 1:
            return made.withColumn("everyBroker", every).withColumn("knowing", every)
        missed = rows.where("best is null and claimed.brokerName is null").select("topic").distinct()
        topics = [row["topic"] for row in missed.limit(KNOWING_MAX + 1).collect()]
        known = F.lit(None)
        if 0 < len(topics) <= KNOWING_MAX:
            of_topic = [(topic, [one.name for one in self.brokers if one.may_have(topic)]) for topic in topics]
            kind = "topic string, names array<string>"
            made = made.join(F.broadcast(local(self.spark, of_topic, kind)), "topic", "left")
            known = F.expr("filter(everyBroker, one -> array_contains(names, one.name))")
        made = made.withColumn("everyBroker", every).withColumn("knowing", known.cast(_BROKERS))
        return made.withColumn("knowing", F.expr("if(size(knowing) > 0, knowing, everyBroker)")).drop("names")

    def _with_detours(self, made: DataFrame) -> DataFrame:
        """`mayDetour`: as the ledger says, else whether messages of the topic are delayed, timed or half first."""
        from pyspark.sql import functions as F

        found = detours_of(self.blocks)
        known = {topic for broker in self.brokers for topic in broker.detours}
        known = known if self.ledger.topics is None else known.intersection(self.ledger.topics)
        if known:
            found = found.unionByName(local(self.spark, [(topic,) for topic in sorted(known)], "topic string"))
        joined = made.join(found.distinct().withColumn("isDetour", F.lit(True)), "topic", "left")
        may = F.coalesce("claimed.delayed", "isDetour", F.lit(False))
        return joined.withColumn("mayDetour", may).drop("isDetour")

    def bounds(self) -> DataFrame:
        """Of every queue: first offset that is still there, one past the last."""
        return bounds_of(self.blocks)

    # --- what comes of them

    def verdicts(self, met: DataFrame) -> DataFrame:
        """A row for each of the ledger's that was met, as `loss` says; `units` and `isPlain`."""
        from pyspark.sql import functions as F

        rows = met.withColumn("asClaimed", F.expr(sql.AS_CLAIMED))
        return rows.withColumn("verdict", F.expr(sql.VERDICT)).select(
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

    def sound(self) -> DataFrame:
        """The other rows of the ledger, which are stored where they say, as `loss` says.  Queue units are shuffled for that."""
        from pyspark.sql import functions as F

        rest = self.others.withColumn("queueOffset", F.col("claimed.queueOffset"))
        at = ["brokerName", "topic", "queueId", "queueOffset"]
        units = self.units().where("isThere").select(*at, "physicalOffset", "size").dropDuplicates(at)
        rows = rest.join(units, at, "left")
        return rows.select(
            "topic",
            *(F.col(f"claimed.{name}").alias(name) for name in CLAIMED),
            F.lit("stored").alias("verdict"),
            F.col("brokerName").alias("foundBrokerName"),
            F.col("topic").alias("foundTopic"),
            F.col("queueId").alias("foundQueueId"),
            F.col("queueOffset").alias("foundQueueOffset"),
            "physicalOffset",
            F.col("size").alias("storeSize"),
            F.array().cast("array<string>").alias("deadIn"),
        )

    def unreadable(self, rows: DataFrame) -> DataFrame:
        """Messages that were not found, but whose unit leads into damage, or to where nothing was written, are unreadable."""
        from pyspark.sql import functions as F

        buckets = f"explode(sequence(shiftright(startOffset, {BUCKET_BITS}), shiftright(endOffset - 1, {BUCKET_BITS})))"
        gap = F.struct("brokerName", "startOffset", "endOffset")
        damage = self._gaps().where("endOffset > startOffset").select(gap.alias("gap"), F.expr(buckets).alias("bucket"))
        damage = damage.groupBy("bucket").agg(F.collect_list("gap").alias("gaps"))
        is_missing = "foundTopic is null and verdict in ('lost', 'unknown')"
        where = f"if({is_missing}, shiftright(get(units, 0).physicalOffset, {BUCKET_BITS}), null)"
        joined = rows.withColumn("bucket", F.expr(where)).join(damage, "bucket", "left")
        held = F.exists("gaps", lambda gap: F.exists("units", lambda unit: _inside(unit, gap)))
        verdict = F.when(F.coalesce(held, F.lit(False)), F.lit("unreadable")).otherwise(F.col("verdict"))
        return joined.withColumn("verdict", verdict).drop("bucket", "gaps")

    def _gaps(self) -> DataFrame:
        """Damage and the unwritten end of each log: brokerName, startOffset, endOffset."""
        from pyspark.sql import functions as F

        names = ("brokerName", "startOffset", "endOffset")
        if not is_permissive(self.source):
            options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
            return Source(self.source.paths, options).read(self.spark, "gaps").select(*names)
        end = F.expr("physicalOffset + storeSize").alias("endOffset")
        damage = self.messages.where("own is null").select("brokerName", F.col("physicalOffset").alias("startOffset"), end)
        ends = ends_of(self.spark, self.source)
        tails = [(one.name, ends[one.name].offset, one.logEnd) for one in self.brokers if one.name in ends]
        return damage.unionByName(local(self.spark, tails, "brokerName string, startOffset bigint, endOffset bigint"))

    def unmatched(self) -> DataFrame:
        """Candidates of the log, in the ledger's topics, that no row of it names, in whatever way."""

        rows = self._of_ledger(self._in_own_topic())
        told = self.told.select("topic", "match").distinct()
        for way in self.ledger.ways():
            rows = rows.withColumn("match", way).join(told, ["topic", "match"], "left_anti")
        return rows.drop("own", "isWaiting", "isMoved", "deadIn", "isCorrupt", "isCommitted", "match", "messageId")

    def matched_count(self) -> int:
        """How many candidates of the log, in the ledger's topics, some row of it names."""
        return self._of_ledger(self._in_own_topic()).count() - self.unmatched().count()

    def _in_own_topic(self) -> DataFrame:
        return self.messages.where("own is not null and not isWaiting and deadIn is null")


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


def concerns(batch: pa.RecordBatch, topics: Sequence[str]) -> Any:
    """Rows of the log that can matter for a ledger of these topics; none: of any.

    What recalls a timed message has its unique key and waits behind it, but is not the message.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    topic, real = batch.column("topic"), batch.column("realTopic")
    waits = pc.and_(pc.is_in(topic, value_set=pa.array(SYSTEM)), pc.is_null(batch.column("recalls")))
    if not topics:
        return pc.or_(pc.invert(pc.is_in(topic, value_set=pa.array(SYSTEM))), waits)
    of_ledger = pa.array(topics, pa.string())
    own, waits = pc.is_in(topic, value_set=of_ledger), pc.and_(waits, pc.is_in(real, value_set=of_ledger))
    dies = pc.fill_null(pc.starts_with(topic, DLQ_PREFIX), False)
    return pc.or_(pc.or_(own, waits), dies)
