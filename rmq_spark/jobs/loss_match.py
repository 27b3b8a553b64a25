"""The rows of a ledger, and for each what the stores have of it: messages, queue units, bounds of queues.

A row is found by its unique key, else by its offsetMsgId, else by queue and queue offset; the log is read once for all three.
Whether a topic's messages are delayed, timed or half first shows in the same pass: each topic has one bit of a few numbers, which
only ever makes more topics of it, never less.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption
from rmq_spark.jobs import Source
from rmq_spark.jobs import loss_verdicts as sql
from rmq_spark.known import brokers_of
from rmq_spark.ledger import place_of, read_ledger
from rmq_spark.measuring import small_table
from rmq_spark.picking import CORRUPT, Picking, options_of, picked, refuse_ranges
from rmq_wire import property_names as prop
from rmq_wire.names import DLQ_PREFIX, SCHEDULE_TOPIC, TRANS_HALF_TOPIC, WHEEL_TIMER_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SYSTEM: Final = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC, TRANS_HALF_TOPIC)
"""Where messages wait before they come into their own topic."""
TOPICS_MAX: Final = 10_000
"""More topics in a ledger are no list that a driver should hold and every task get."""
BUCKET_BITS: Final = 20
"""Of a place in the log: damaged ranges are found by such pieces of 1 MiB."""
OF_QUEUES: Final = ("queueIds", "topics", "verifyCrc", "decompress", "columns", "kafkaCompatible")
CLAIMED: Final = ("queueId", "queueOffset", "uniqKey", "offsetMsgId", "brokerName")
_WORD_BITS, _WORDS = 64, 16
_BROKERS: Final = "array<struct<name: string, logStart: bigint, hasQueues: boolean>>"


class Matching:
    """The tables that are joined, each made when it is first asked for."""

    def __init__(self, spark: SparkSession, source: Source, given: dict[str, Any]) -> None:
        refuse_ranges(source, "loss")
        self.spark, self.source, self.given = spark, source, given
        self.rows = read_ledger(spark, given["ledger"], given["ledger_format"], given["column"])
        has_place = "(queueId is not null and queueOffset is not null)"
        self.usable = f"topic is not null and (uniqKey is not null or offsetMsgId is not null or {has_place})"
        if (only := source.topics()) is not None:
            self.rows = self.rows.where(_among("topic", only))
        self._look()
        self.brokers = brokers_of(source)
        self.positions = self._positions()

    def _look(self) -> None:
        """What the ledger is like: one pass, a row for each of its topics."""
        from pyspark.sql import functions as F

        by_topic = self.rows.groupBy(F.when(F.expr(self.usable), F.col("topic")).alias("name")).agg(
            F.count("*").alias("rows"),
            F.count("uniqKey").alias("keyed"),
            F.expr("count_if(uniqKey is null and offsetMsgId is not null)").alias("placed"),
        )
        found = by_topic.limit(TOPICS_MAX + 1).collect()
        if len(found) > TOPICS_MAX:
            raise BadOption(f"ledger: more than {TOPICS_MAX} topics")
        self.topics = sorted(row["name"] for row in found if row["name"] is not None)
        self.unusable = sum(row["rows"] for row in found if row["name"] is None)
        self.count = sum(row["rows"] for row in found)
        judged = [row for row in found if row["name"] is not None]
        if not self.count:
            raise BadOption("ledger: it has no row")
        if not judged:
            what = "a topic and a uniqKey, an offsetMsgId or a queue offset"
            raise BadOption(f"ledger: none of its {self.count} rows has {what} (see --column)")
        self.has_keys = any(row["keyed"] for row in judged)
        self.has_ids = any(row["placed"] for row in judged)
        self.has_places = any(row["rows"] > row["keyed"] + row["placed"] for row in judged)

    @property
    def has_one_identity(self) -> bool:
        """Whether all rows are found in the same way."""
        return self.has_keys + self.has_ids + self.has_places == 1

    def log(self) -> DataFrame:
        """Messages of the ledger's topics, dead letters, and what waits, each with the topic that it is for."""
        from pyspark.sql import functions as F

        columns = ["brokerName", "topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "uniqKey", "sysFlag"]
        columns += ["offsetMsgId"] if self.has_ids else []
        properties = {"realTopic": prop.REAL_TOPIC, "delay": prop.DELAY, "due": prop.TIMER_OUT_MS}
        properties |= {"retryTopic": prop.RETRY_TOPIC, "deadTopic": prop.DLQ_ORIGIN_TOPIC, "recalls": prop.TIMER_DEL_UNIQKEY}
        wanted = Picking(tuple(columns), tuple(properties.items()), f"{__name__}:{concerns.__name__}", tuple(sorted(self.topics)))
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
            CORRUPT,
            F.upper("offsetMsgId").alias("messageId") if self.has_ids else F.lit(None).cast("string").alias("messageId"),
            F.col("topic").alias("own"),
            F.when(is_dead, origin).when(is_waiting, F.col("realTopic")).otherwise(F.col("topic")).alias("topic"),
            F.when(is_dead, F.expr(f"substring(topic, {len(DLQ_PREFIX) + 1})")).alias("deadIn"),
            is_waiting.alias("isWaiting"),
            F.expr("sysFlag & 12 = 8 or delay is not null or due is not null").alias("isMoved"),
        )

    def detour_bits(self) -> list[Any]:
        """Aggregates over `log`: which topics have messages that were, or are, in a system's topic."""
        from pyspark.sql import functions as F

        bucket, bits = f"pmod(crc32(topic), {_WORD_BITS * _WORDS})", []
        for word in range(_WORDS):
            is_here = f"deadIn is null and (isWaiting or isMoved) and {bucket} div {_WORD_BITS} = {word}"
            bits.append(F.expr(f"bit_or(if({is_here}, shiftleft(1L, int({bucket} % {_WORD_BITS})), 0L))").alias(f"bits{word}"))
        return bits

    def detours(self, bits: dict[str, Any]) -> list[str]:
        """The ledger's topics of which that is so, or of which topics.json says it."""
        found = {topic for broker in self.brokers for topic in broker.detours}
        for topic in self.topics:
            word, bit = divmod(zlib.crc32(topic.encode()) % (_WORD_BITS * _WORDS), _WORD_BITS)
            if (bits.get(f"bits{word}") or 0) >> bit & 1:
                found.add(topic)
        return sorted(found.intersection(self.topics))

    def units(self) -> DataFrame:
        """Units of the ledger's queues, and of the system's."""
        topics = json.dumps([*self.topics, *SYSTEM])
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED", topics=topics)
        return Source(self.source.paths, options).read(self.spark, "consumequeue")

    def bounds(self) -> DataFrame:
        """Of every queue: first offset that is still there, one past the last."""
        from pyspark.sql import functions as F

        starts = self.spark.createDataFrame(
            [(one.name, one.logStart) for one in self.brokers], "brokerName string, logStart bigint"
        )
        units = self.units().join(F.broadcast(starts), "brokerName", "left")
        sums = units.groupBy("brokerName", "topic", "queueId").agg(
            F.expr("min(queueOffset) filter (where physicalOffset >= coalesce(logStart, 0))").alias("first"),
            F.max(F.col("queueOffset") + F.col("batchSize")).alias("end"),
        )
        return sums.withColumn("first", F.coalesce("first", "end"))

    def candidates(self, log: DataFrame) -> DataFrame:
        """(topic, match) -> all messages of the log that may be the one."""
        from pyspark.sql import functions as F

        place = F.struct(
            "brokerName",
            "own",
            "queueId",
            "queueOffset",
            "physicalOffset",
            "storeSize",
            "isWaiting",
            "isMoved",
            "deadIn",
            F.col(CORRUPT).isNotNull().alias("isCorrupt"),
        )
        sound = log.where("own is not null").where(_among("topic", self.topics))  # the rest is damage, which has no topic
        ways = [F.col("uniqKey")] if self.has_keys else []
        ways += [F.when(F.col("deadIn").isNull(), _id("messageId"))] if self.has_ids else []
        ways += [F.when(F.expr("not isWaiting and deadIn is null"), _at("queueId", "queueOffset"))] if self.has_places else []
        alone = F.concat_ws(":", F.lit("?"), "brokerName", F.col("physicalOffset").cast("string"))  # not all in one group
        match = F.coalesce(ways[0], alone) if len(ways) == 1 else F.explode(F.array_compact(F.array(*ways)))
        rows = sound.select("topic", match.alias("match"), place.alias("place"))
        return rows.groupBy("topic", "match").agg(F.collect_list("place").alias("places"))

    def matched(self, log: DataFrame) -> DataFrame:
        """The ledger with its candidates; rows without `claimed` are messages that the ledger does not have."""
        from pyspark.sql import functions as F

        rows = self.rows.where(self.usable)
        rows = rows.select("topic", F.struct(*CLAIMED, "delayed", place_of("offsetMsgId").alias("idPlace")).alias("claimed"))
        rows = rows.withColumn("match", _identity("claimed."))
        return rows.join(self.candidates(log), ["topic", "match"], "full_outer")

    def met(self, matched: DataFrame) -> DataFrame:
        """Each row of the ledger with all that `loss_verdicts` asks for."""
        from pyspark.sql import functions as F

        rows = (
            matched.where("claimed is not null").withColumn("places", F.expr(sql.OF_BROKER)).withColumn("best", F.expr(sql.BEST))
        )
        rows = rows.select(
            "topic",
            "claimed",
            "best",
            "places",
            F.expr(sql.DEAD_IN).alias("deadIn"),
            F.expr("if(best.isWaiting, best.own, topic)").alias("unitTopic"),
            F.expr("coalesce(best.queueId, claimed.queueId)").alias("queueId"),
            F.expr("coalesce(best.queueOffset, claimed.queueOffset)").alias("queueOffset"),
            F.expr("if(best is null, claimed.queueId, null)").alias("missedQueueId"),
            F.expr("coalesce(best.brokerName, claimed.brokerName)").alias("broker"),
        )
        unit, queue = F.struct("brokerName", "physicalOffset", "size"), F.struct("brokerName", "first", "end")
        units = self.units().groupBy(F.col("topic").alias("unitTopic"), "queueId", "queueOffset")
        rows = rows.join(units.agg(F.collect_list(unit).alias("units")), ["unitTopic", "queueId", "queueOffset"], "left")
        bounds = self.bounds().withColumnRenamed("queueId", "missedQueueId")
        own = bounds.groupBy("topic", "missedQueueId").agg(F.collect_list(queue).alias("queues"))
        system = bounds.where(F.col("topic").isin(*SYSTEM)).groupBy("missedQueueId")
        rows = rows.join(F.broadcast(own), ["topic", "missedQueueId"], "left")
        rows = rows.join(F.broadcast(system.agg(F.collect_list(queue).alias("systemQueues"))), "missedQueueId", "left")
        for name in ("units", "queues"):
            rows = rows.withColumn(name, F.expr(f"filter({name}, one -> broker is null or one.brokerName = broker)"))
        rows = rows.withColumn("best", F.expr(sql.POINTED_AT)).withColumn("heldBy", F.expr(sql.HELD_BY))
        rows = rows.join(F.broadcast(self._knowing()), "topic", "left").withColumn("brokers", F.expr(sql.MAY_BE_ON))
        return rows.drop("unitTopic", "missedQueueId", "knowing", "places", "queueId", "queueOffset")

    def _knowing(self) -> DataFrame:
        """(topic, brokers that may have it, all brokers)."""
        every = [(one.name, one.logStart, one.hasQueues) for one in self.brokers]
        rows = []
        for topic in self.topics:
            knowing = [row for row, one in zip(every, self.brokers, strict=True) if one.may_have(topic)]
            rows.append((topic, knowing or every, every))
        return self.spark.createDataFrame(rows, f"topic string, knowing {_BROKERS}, everyBroker {_BROKERS}")

    def verdicts(self, met: DataFrame, detours: list[str]) -> DataFrame:
        """A row for each of the ledger's, as `loss` says, and `units`."""
        from pyspark.sql import functions as F

        rows = met.withColumn("mayDetour", F.coalesce("claimed.delayed", _among("topic", detours))).withColumn(
            "asClaimed", F.expr(sql.AS_CLAIMED)
        )
        return rows.withColumn("verdict", F.expr(sql.VERDICT)).select(
            "topic",
            *(F.col(f"claimed.{name}").alias(name) for name in CLAIMED),
            "verdict",
            F.expr(sql.FOUND_BROKER).alias("foundBrokerName"),
            F.col("best.own").alias("foundTopic"),
            F.col("best.queueId").alias("foundQueueId"),
            F.col("best.queueOffset").alias("foundQueueOffset"),
            F.expr("coalesce(best.physicalOffset, get(units, 0).physicalOffset)").alias("physicalOffset"),
            F.col("best.storeSize").alias("storeSize"),
            "deadIn",
            "units",
        )

    def unreadable(self, rows: DataFrame) -> DataFrame:
        """Messages that were not found, but whose unit leads into damaged bytes, are unreadable.  Costs a scan."""
        from pyspark.sql import functions as F

        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        gaps = Source(self.source.paths, options).read(self.spark, "gaps").select("brokerName", "startOffset", "endOffset")
        buckets = f"explode(sequence(shiftright(startOffset, {BUCKET_BITS}), shiftright(endOffset - 1, {BUCKET_BITS})))"
        gap = F.struct("brokerName", "startOffset", "endOffset")
        damage = gaps.where("endOffset > startOffset").select(gap.alias("gap"), F.expr(buckets).alias("bucket"))
        damage = damage.groupBy("bucket").agg(F.collect_list("gap").alias("gaps"))
        is_missing = "foundTopic is null and verdict in ('lost', 'unknown')"
        where = f"if({is_missing}, shiftright(get(units, 0).physicalOffset, {BUCKET_BITS}), null)"
        joined = rows.withColumn("bucket", F.expr(where)).join(F.broadcast(damage), "bucket", "left")
        held = F.exists("gaps", lambda gap: F.exists("units", lambda unit: _inside(unit, gap)))
        verdict = F.when(F.coalesce(held, F.lit(False)), F.lit("unreadable")).otherwise(F.col("verdict"))
        return joined.withColumn("verdict", verdict).drop("bucket", "gaps")

    def offsets(self) -> DataFrame:
        """Committed positions of the ledger's topics."""
        return self.spark.createDataFrame(
            self.positions, "brokerName string, `group` string, topic string, queueId int, offset bigint"
        )

    def _positions(self) -> list[tuple[Any, ...]]:
        """Read before the queues are: of a running broker they would be behind the end that was seen."""
        names, topics = ("brokerName", "group", "topic", "queueId", "offset"), frozenset(self.topics)
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        found = small_table(Source(self.source.paths, options), "consumerOffsets")
        kept = (row for row in found if row["offset"] is not None and row["topic"] in topics)
        return [tuple(row[name] for name in names) for row in kept]

    def not_in_ledger(self, log: DataFrame) -> DataFrame:
        """Messages of the ledger's topics that no row of it names, in whatever way."""
        from pyspark.sql import functions as F

        rows = log.where("own is not null and not isWaiting and deadIn is null").where(_among("topic", self.topics))
        usable = self.rows.where(self.usable)
        ways: list[tuple[bool, Any, Any]] = [
            (self.has_keys, F.col("uniqKey"), F.col("uniqKey")),
            (self.has_ids, _id("messageId"), _id("offsetMsgId")),
            (self.has_places, _at("queueId", "queueOffset"), _at("queueId", "queueOffset")),
        ]
        for is_used, of_log, of_ledger in ways:
            if is_used:
                named = usable.where(_identity().eqNullSafe(of_ledger)).select("topic", of_ledger.alias("match"))
                rows = rows.withColumn("match", of_log).join(named, ["topic", "match"], "left_anti")
        return rows.drop("own", "isWaiting", "isMoved", "deadIn", "match", "messageId", CORRUPT)


def _inside(unit: Any, gap: Any) -> Any:
    at = unit["physicalOffset"]
    return (unit["brokerName"] == gap["brokerName"]) & (at >= gap["startOffset"]) & (at < gap["endOffset"])


def _at(queue_id: str, queue_offset: str) -> Any:
    """A queue and an offset as a text that is no unique key."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("@"), F.col(queue_id).cast("string"), F.lit(":"), F.col(queue_offset).cast("string"))


def _id(message_id: str) -> Any:
    """An offsetMsgId as a text that is no unique key."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("#"), F.col(message_id))


def _identity(prefix: str = "") -> Any:
    """By what a row of the ledger is found."""
    from pyspark.sql import functions as F

    return F.coalesce(F.col(f"{prefix}uniqKey"), _id(f"{prefix}offsetMsgId"), _at(f"{prefix}queueId", f"{prefix}queueOffset"))


def _among(column: str, values: list[str]) -> Any:
    from pyspark.sql import functions as F

    return F.col(column).isin(values)


def concerns(batch: pa.RecordBatch, topics: Sequence[str]) -> Any:
    """Rows of the log that can matter for a ledger of these topics.

    What recalls a timed message has its unique key and waits behind it, but is not the message.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    of_ledger = pa.array(topics, pa.string())
    own = pc.is_in(batch.column("topic"), value_set=of_ledger)
    waits = pc.and_(
        pc.is_in(batch.column("topic"), value_set=pa.array(SYSTEM)),
        pc.and_(pc.is_in(batch.column("realTopic"), value_set=of_ledger), pc.is_null(batch.column("recalls"))),
    )
    dies = pc.fill_null(pc.starts_with(batch.column("topic"), DLQ_PREFIX), False)
    return pc.or_(pc.or_(own, waits), dies)
