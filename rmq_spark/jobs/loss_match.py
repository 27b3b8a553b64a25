"""What the stores have of a ledger's rows: those that blocks of queues do not account for meet the messages that may be theirs.

The log is read once where all is as the ledger says: it is summed up in blocks (`loss_blocks`), and what has to be looked at
anyway comes with them.  Otherwise it is read once more, and candidates alone are shuffled: rows of the ledger
in blocks that do not come out even or that have no place, messages in such blocks or with the identity of such a row, messages
that were delayed, timed or half, dead letters, and damage; and the rows of the ledger that have the identity of one of these.

Where blocks do not come out even because the log has more than the ledger, and all in one part of it (the ledger begins later
than the log, or ends before), that part alone is read: a message of the ledger that is no candidate lies in a block that is even,
or in one of those.  Only if one is not found there, all of the log is read once more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rmq_spark.candidates import marked, perhaps_as
from rmq_spark.jobs import Source
from rmq_spark.jobs.loss_blocks import IS_EXACT, IS_MISLED, IS_SHORT, IS_UNEVEN, OF_PLACE, blocks_of, bounds_of
from rmq_spark.jobs.loss_ledger import CLAIMED, Ledger, block_of
from rmq_spark.jobs.loss_scan import CANDIDATE, DAMAGE, IS_CORRUPT, IS_MOVED, IS_WAITING, LAST, NO_TOPIC, SYSTEM, scanned
from rmq_spark.kept import Keep
from rmq_spark.known import brokers_of
from rmq_spark.picking import options_of, refuse_ranges
from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

OF_QUEUES: Final = ("queueIds", "topics", "verifyCrc", "decompress", "columns", "kafkaCompatible")
BROADCAST_MAX: Final = 100_000
"""Positions; a larger table would be longer on its way than the queues are."""
PART: Final = 4
"""A part that is no more than one in so many of the log is worth being read by itself."""
NOBODY: Final = "\x00?"
"""Before the place of a message without any identity: no unique key begins with it."""
OWN: Final = "not one.isWaiting and one.deadIn is null"
"""Of a place: it is in its own topic."""


class Sums(NamedTuple):
    """Of all blocks."""

    messages: int
    """in the log, of the ledger's topics"""
    alone: int
    """in blocks of which the ledger says nothing"""
    uneven: int
    """blocks"""
    inexact: int
    """blocks whose bits do not say where each row is"""
    candidates: int
    """messages that are looked at anyway"""
    corrupt: int
    """of those, with a damaged body"""
    short: int
    """blocks in which the log has fewer than the ledger"""
    misled: int
    """blocks whose queue does not lead to just their messages"""
    unevenFrom: int
    """where the first message of an uneven block begins"""
    unevenTo: int
    """where the last one ends"""
    logFrom: int
    """where the first message of any block begins"""
    logTo: int


class Found(NamedTuple):
    """Of what was met."""

    missing: int
    """rows of the ledger without any message"""
    waiting: int
    """rows of the ledger whose message may only wait"""
    told: int
    """candidates of the log that some row names"""
    untold: int
    """candidates of the log that no row names"""


class Matching:
    """The tables that are held against each other.  Raises `BadOption`."""

    def __init__(self, spark: SparkSession, source: Source, given: dict[str, Any], keep: Keep, progress: Progress) -> None:
        refuse_ranges(source, "loss")
        self.spark, self.source, self.given, self.keep = spark, source, given, keep
        self.brokers = brokers_of(source)
        self.own = self.brokers[0].name if len(self.brokers) == 1 else None
        with watched(spark, "reading the ledger", progress):
            self.ledger = Ledger(spark, given, source.topics(), self.own, keep)
            self.positions = self._positions()
        with watched(spark, "summing up ledger and log", progress):
            blocks = blocks_of(self.ledger, self._log(), self.units())
            self.blocks = keep(self._of_ledger(blocks, *SYSTEM, NO_TOPIC))
            self.sums = self._sums()
        self.is_small = self.sums.alone > self.ledger.count and not given["strict"]
        """whether it is cheaper to look each row of the ledger up: most messages are none of its"""
        with watched(spark, "looking at what does not come out even", progress):
            part = self._part()
            self._meet(part)
            self.found = self._found()
            if part is not None and (self.found.missing or self.found.waiting):
                self._meet(None)
                self.found = self._found()

    def _sums(self) -> Sums:
        from pyspark.sql import functions as F

        alone = F.sum(F.expr("if(acknowledged = 0, messages, 0)"))
        inexact = F.count_if(F.expr(f"place is null and acknowledged > 0 and not {IS_EXACT}"))
        is_candidate = f"place.kind = {CANDIDATE}"
        asked = (IS_UNEVEN, is_candidate, f"{is_candidate} and place.flags & {IS_CORRUPT} <> 0", IS_SHORT, IS_MISLED)
        uneven, *others = (F.count_if(F.expr(one)) for one in asked)
        ends = [F.min(F.expr(f"if({IS_UNEVEN}, logFrom, null)")), F.max(F.expr(f"if({IS_UNEVEN}, logTo, null)"))]
        ends += [F.min("logFrom"), F.max("logTo")]
        [found] = self.blocks.agg(F.sum("messages"), alone, uneven, inexact, *others, *ends).collect()
        return Sums(*(one or 0 for one in found))

    def _part(self) -> tuple[int, int] | None:
        """Of each log, in which all lies that is looked for; None: anywhere."""
        sums = self.sums
        is_part = 0 < (sums.unevenTo - sums.unevenFrom) * PART <= sums.logTo - sums.logFrom
        is_told = not (self.is_small or sums.short or self.ledger.has_more)
        return (sums.unevenFrom, sums.unevenTo) if is_part and is_told else None

    @property
    def is_led(self) -> bool:
        """Whether each message that was met has its own queue unit, as blocks say, and none needs to be looked for."""
        return not any((self.sums.misled, self.sums.corrupt, self.found.missing, self.found.waiting, self.ledger.has_more))

    def _log(self, rest: bool = False, part: tuple[int, int] | None = None) -> DataFrame:
        """Of `loss_scan`."""
        topics, with_crc = tuple(self.ledger.topics or ()), not self.given["no_crc"]
        return scanned(self.spark, self.source, topics, self.ledger.has_ids, with_crc, rest, part)

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

    def _positions(self) -> DataFrame:
        """Committed positions of the ledger's topics.  Kept before the queues are read: of a running broker
        they would be behind the end that was seen."""
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        found = Source(self.source.paths, options).read(self.spark, "consumerOffsets").where("offset is not null")
        held = self.keep(self._of_ledger(found).select("brokerName", "group", "topic", "queueId", "offset"))
        self.positions_count = held.count()
        return held

    def few_positions(self) -> DataFrame:
        """All of them, to be broadcast where they are few."""
        from pyspark.sql import functions as F

        return F.broadcast(self.positions) if self.positions_count <= BROADCAST_MAX else self.positions

    def bounds(self) -> DataFrame:
        """Of every queue: first offset that is still there, one past the last."""
        return bounds_of(self.blocks)

    # --- candidates

    def _meet(self, part: tuple[int, int] | None) -> None:
        """`candidates`: rows of the ledger that blocks do not account for; `others`; `messages` that may be theirs, in this part
        of each log; `groups` of both: topic, match, claims, places."""
        from pyspark.sql import functions as F

        ledger, key = self.ledger, F.col("hash")
        rows = ledger.rows().withColumn("hash", ledger.match_hash(F.col("match")))
        uneven = self.blocks.where(IS_UNEVEN).select(ledger.block_hash().alias("hash"))
        # tables of bits are kept: Spark begins all broadcasts of a query at once, and would make one for each
        bits = self.keep(marked(uneven, key)) if self.sums.uneven and not self.is_small else None
        if bits is None:
            rows = rows.withColumn("isUneven", F.lit(self.is_small))
        else:
            rows = perhaps_as("isUneven", rows, bits, ledger.block_hash())
        self.messages = self._alone(CANDIDATE)
        has_rest = self.is_small or self.sums.uneven or ledger.has_more
        if has_rest:
            if part is None or bits is None:
                marks = rows.where("isUneven or not isPlain").select("hash")
                bits = self.keep(marked(marks if self.is_small else marks.unionByName(uneven), key))
            self.messages = self.messages.unionByName(self.keep(self._rest(bits, part)))
        if has_rest or self.sums.candidates:
            ways = F.explode(F.array_compact(F.array(*map(ledger.match_hash, ledger.ways()))))
            rows = perhaps_as("isMet", rows, marked(self.messages.select(ways.alias("hash")), key), key)
        else:
            rows = rows.withColumn("isMet", F.lit(False))
        is_candidate = "isUneven or not isPlain or isMet"
        self.others = rows.where(f"not ({is_candidate})")
        self.groups = self.keep(self._grouped(rows.where(is_candidate)))

    def _alone(self, kind: int) -> DataFrame:
        """Rows of the log that came by themselves, of one kind."""
        rows = self.blocks.where(f"place.kind = {kind}")
        return rows.select("brokerName", "topic", *(f"place.{name}" for name in OF_PLACE))

    def _rest(self, marks: DataFrame, part: tuple[int, int] | None) -> DataFrame:
        """Other messages of this part of the log in uneven blocks; of all of it also those that have a wanted identity."""
        ledger = self.ledger
        rows = self._log(rest=True, part=part).withColumn("block", block_of("queueOffset"))
        keys = [] if self.is_small else [ledger.block_hash()]
        keys += map(ledger.match_hash, ledger.ways()) if part is None else []
        names = [f"asked{number}" for number in range(len(keys))]
        for name, key in zip(names, keys, strict=True):
            rows = perhaps_as(name, rows, marks, key)
        return self._of_ledger(rows.where(" or ".join(names)).select("brokerName", "topic", *OF_PLACE))

    def _grouped(self, told: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        even = F.when(F.expr("isPlain and not isUneven"), F.col("brokerName")).alias("evenBroker")
        claims = told.select("topic", "match", F.struct("claimed", "isPlain", even).alias("claim"))
        nobody = F.concat(F.lit(NOBODY), F.col("brokerName"), F.lit(":"), F.col("physicalOffset").cast("string"))
        ways = F.array_compact(F.array(*self.ledger.ways()))
        match = F.explode(F.when(F.size(ways) > 0, ways).otherwise(F.array(nobody)))
        places = self._of_ledger(self.messages).select("topic", match.alias("match"), _place().alias("place"))
        every = claims.unionByName(places, True)
        return every.groupBy("topic", "match").agg(
            F.collect_list("claim").alias("claims"), F.collect_list("place").alias("places")
        )

    def _found(self) -> Found:
        from pyspark.sql import functions as F

        of_row = "filter(places, one -> claim.claimed.brokerName is null or one.brokerName = claim.claimed.brokerName)"
        without = f"claim.evenBroker is null and not exists({of_row}, one -> one.deadIn is null"
        own = f"size(filter(places, one -> {OWN}))"
        sums = (
            f"size(filter(claims, claim -> {without})))",
            f"size(filter(claims, claim -> {without} and not one.isWaiting)))",
            f"if(size(claims) > 0, {own}, 0)",
            f"if(size(claims) = 0, {own}, 0)",
        )
        [found] = self.groups.agg(*(F.sum(F.expr(one)) for one in sums)).collect()
        missing, not_here, told, untold = (one or 0 for one in found)
        if len(self.ledger.ways()) > 1:
            told, untold = self._pairs().agg(F.count_if("isTold"), F.count_if(~F.col("isTold"))).collect()[0]
        return Found(missing, not_here - missing, told, untold)

    def told(self) -> DataFrame:
        """Rows of the ledger that were met: topic, claimed, isPlain, evenBroker, places."""
        return self.groups.selectExpr("topic", "places", "inline(claims)")

    def unmatched(self) -> DataFrame:
        """Candidates of the log, in the ledger's topics, that no row of it names, in whatever way."""
        from pyspark.sql import functions as F

        names = ("brokerName", "queueId", "queueOffset", "physicalOffset", "storeSize", "uniqKey")
        return self._pairs().where("not isTold").select("topic", *(F.col(f"one.{name}").alias(name) for name in names))

    def _pairs(self) -> DataFrame:
        """topic, one (a candidate of the log), isTold."""
        from pyspark.sql import functions as F

        one = F.expr(f"explode(filter(places, one -> {OWN}))").alias("one")
        rows = self.groups.select("topic", F.expr("size(claims) > 0").alias("isTold"), one)
        if len(self.ledger.ways()) > 1:
            at = (F.col("one.brokerName"), F.col("one.physicalOffset"))
            rows = rows.groupBy("topic", *at).agg(F.bool_or("isTold").alias("isTold"), F.first("one").alias("one"))
        return rows

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

    def damaged(self) -> DataFrame:
        """Damage of the log: brokerName, startOffset, endOffset."""
        from pyspark.sql import functions as F

        end = F.expr("physicalOffset + storeSize").alias("endOffset")
        return self._alone(DAMAGE).select("brokerName", F.col("physicalOffset").alias("startOffset"), end)

    def ends(self) -> dict[str, int]:
        """By broker name, where its log ends, behind the last message."""
        from pyspark.sql import functions as F

        end = F.max(F.expr("physicalOffset + storeSize")).alias("end")
        return {row["brokerName"]: row["end"] for row in self._alone(LAST).groupBy("brokerName").agg(end).collect()}


def _place() -> Column:
    """A message of the log, as `loss_verdicts` knows it."""
    from pyspark.sql import functions as F

    flags = (("isWaiting", IS_WAITING), ("isMoved", IS_MOVED), ("isCorrupt", IS_CORRUPT))
    return F.struct(
        "brokerName",
        F.coalesce("own", "topic").alias("own"),
        "queueId",
        "queueOffset",
        "physicalOffset",
        "storeSize",
        *(F.expr(f"flags & {bit} <> 0").alias(name) for name, bit in flags),
        "deadIn",
        "uniqKey",
    )
