"""Was everything that was acknowledged also kept?  A ledger of sends against log, queues, committed positions and dead letters.

Each row of the ledger gets one verdict:

    stored      in the log where its producer was told, and its queue's unit points to it
    waiting     kept, but not in its topic yet: delayed, timed, or a half message
    expired     its queue offset lies below the first that its queue still has: gone by retention, not lost
    elsewhere   in the log, at another queue or queue offset than its producer was told
    unindexed   in the log, but its queue has no unit for it, or one that points to something else: nobody gets it
    unreadable  it has its place, but its bytes there are damaged (what is no message, or a body with another CRC)
    lost        nowhere

A message is found by its topic and unique key, or, where the ledger has none, by topic, queue and queue offset.  The place that
a producer of delayed, timed or half messages was told is that in the system's topic, so for those any place is right.
The ledger is never brought to the driver: it is joined with narrow columns of the log and of the queues.  A message of the
ledger's topics that the ledger does not have is counted, and a finding with `--strict` only.

`is_clean`: nothing elsewhere, unindexed, unreadable or lost; no group's position behind the end of its queue; no row of the
ledger that could not be judged.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption
from rmq_spark.jobs import Parameter, Source
from rmq_spark.jobs.loss_tables import VERDICTS, WRONG, of_findings, of_groups, of_positions, of_topics
from rmq_spark.ledger import FORMATS, read_ledger
from rmq_spark.measuring import collected, source_of
from rmq_spark.outcome import Figure, Outcome, Plot
from rmq_spark.picking import CORRUPT, Picking, given_of, options_of, picked, refuse_ranges

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmq_spark.session import Progress

SCHEDULE, WHEEL, HALF = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC"
DEAD_PREFIX: Final = "%DLQ%"
TOPICS_MAX: Final = 10_000
"""More topics in a ledger are no list that a driver should hold and every task get."""
BUCKET_BITS: Final = 20
"""Of a place in the log: damaged ranges are found by such pieces of 1 MiB."""
OF_QUEUES: Final = ("queueIds", "topics", "verifyCrc", "decompress", "columns", "kafkaCompatible")

PARAMETERS: Final = (
    Parameter("ledger", "path", "files or directories with what was acknowledged", None, "PATH", is_many=True, is_required=True),
    Parameter("ledger-format", str, "of the ledger; told by the names of its files otherwise", choices=FORMATS),
    Parameter(
        "column", str, "what topic, queueId, queueOffset, uniqKey, brokerName are called in the ledger", None, "OURS=THEIRS",
        is_many=True,
    ),
    Parameter("strict", bool, "a message that the ledger does not have is a finding", False),
    Parameter("skip-crc", bool, "do not compare bodies with their check sums", False),
)  # fmt: skip


def loss(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each row of the ledger.

    topic, queueId, queueOffset, uniqKey, brokerName as the ledger has them; verdict; foundBrokerName, foundQueueId,
    foundQueueOffset, physicalOffset, storeSize of the message; deadIn: groups whose dead letter it is.  options: `ledger` (a path
    or several), `ledger_format`, `column`, `skip_crc`, those of the format.  Raises `BadOption`.
    """
    given, format_options = given_of(PARAMETERS, options)
    return _Loss(spark, source_of(paths, format_options), given).verdicts().drop("units")


class _Loss:
    """The tables that are joined, each made when it is first asked for."""

    def __init__(self, spark: SparkSession, source: Source, given: dict[str, Any]) -> None:
        refuse_ranges(source, "loss")
        ledger = given["ledger"]
        files = [str(ledger)] if isinstance(ledger, str) or not hasattr(ledger, "__iter__") else [str(one) for one in ledger]
        columns = given.get("column") or ()
        columns = [columns] if isinstance(columns, str) else list(columns)
        self.spark, self.source, self.given = spark, source, given
        self.rows = read_ledger(spark, files, given.get("ledger-format"), columns)
        self.usable = "topic is not null and (uniqKey is not null or (queueId is not null and queueOffset is not null))"
        only = next((value for name, value in source.options.items() if name.lower() == "topics"), None)
        if only is not None:
            from rmq_columns.options import parse_options

            self.rows = self.rows.where(_among("topic", sorted(parse_options({"path": "x", "topics": only}).topics or ())))
        self._look()

    def _look(self) -> None:
        """What the ledger is like: one pass, a row for each of its topics."""
        from pyspark.sql import functions as F

        by_topic = self.rows.groupBy(F.when(F.expr(self.usable), F.col("topic")).alias("name")).agg(
            F.count("*").alias("rows"), F.count("uniqKey").alias("keyed")
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
            raise BadOption(f"ledger: none of its {self.count} rows has a topic and a uniqKey or a queue offset (see --column)")
        keyed = sum(row["keyed"] for row in judged)
        self.has_keys = keyed > 0
        self.has_places = keyed < sum(row["rows"] for row in judged)

    def log(self) -> DataFrame:
        """Messages of the ledger's topics, dead letters, and what waits, each with the topic that it is for."""
        from pyspark.sql import functions as F

        columns = ("brokerName", "topic", "queueId", "queueOffset", "physicalOffset", "storeSize", "uniqKey", "sysFlag")
        names = {"realTopic": "REAL_TOPIC", "delay": "DELAY", "due": "TIMER_OUT_MS"}
        names |= {"retryTopic": "RETRY_TOPIC", "deadTopic": "DLQ_ORIGIN_TOPIC"}
        wanted = Picking(columns, tuple(names.items()), partial(concerns, frozenset(self.topics)))
        more = {"verifyCrc": str(not self.given.get("skip-crc")).lower()}
        rows = picked(self.spark, self.source, wanted, ("topics", "queueIds"), includeSystemTopics="true", **more)
        is_dead = F.col("topic").startswith(DEAD_PREFIX)
        is_waiting = F.col("topic").isin(SCHEDULE, WHEEL, HALF)
        origin = F.coalesce("retryTopic", "deadTopic")
        return rows.select(
            "brokerName", "queueId", "queueOffset", "physicalOffset", "storeSize", "uniqKey", CORRUPT,
            F.col("topic").alias("own"),
            F.when(is_dead, origin).when(is_waiting, F.col("realTopic")).otherwise(F.col("topic")).alias("topic"),
            F.when(is_dead, F.expr(f"substring(topic, {len(DEAD_PREFIX) + 1})")).alias("deadIn"), is_waiting.alias("isWaiting"),
            F.expr("sysFlag & 12 = 8 or delay is not null or due is not null").alias("isMoved"),
        )  # fmt: skip

    def units(self) -> DataFrame:
        """Units of the ledger's queues."""
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED", topics=json.dumps(self.topics))
        return Source(self.source.paths, options).read(self.spark, "consumequeue")

    def log_starts(self) -> DataFrame:
        """(brokerName, logStart): before it units lead nowhere."""
        from pyspark.sql import functions as F

        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        files = Source(self.source.paths, options).read(self.spark, "files").where("kind = 'commitlog'")
        return files.groupBy("brokerName").agg(F.min("startOffset").alias("logStart"))

    def bounds(self) -> DataFrame:
        """Of every queue: first offset that is still there, one past the last."""
        from pyspark.sql import functions as F

        units = self.units().join(F.broadcast(self.log_starts()), "brokerName", "left")
        sums = units.groupBy("brokerName", "topic", "queueId").agg(
            F.expr("min(queueOffset) filter (where physicalOffset >= coalesce(logStart, 0))").alias("first"),
            F.max(F.col("queueOffset") + F.col("batchSize")).alias("end"),
        )
        return sums.withColumn("first", F.coalesce("first", "end"))

    def candidates(self, log: DataFrame) -> DataFrame:
        """(topic, match) -> all messages of the log that may be the one; match: unique key, or queue and offset."""
        from pyspark.sql import functions as F

        place = F.struct(
            "brokerName", "queueId", "queueOffset", "physicalOffset", "storeSize", "isWaiting", "isMoved", "deadIn",
            F.col(CORRUPT).isNotNull().alias("isCorrupt"),
        )  # fmt: skip
        sound = log.where("own is not null").withColumn("place", place)  # the rest is damage, which has no topic
        here = sound.where("not isWaiting and deadIn is null")
        by_place = here.select("topic", _at("queueId", "queueOffset").alias("match"), "place")
        by_key = sound.select("topic", F.col("uniqKey").alias("match"), "place")
        rows = by_key.unionAll(by_place) if self.has_keys and self.has_places else by_key if self.has_keys else by_place
        return rows.where(_among("topic", self.topics)).groupBy("topic", "match").agg(F.collect_list("place").alias("places"))

    def matched(self, log: DataFrame) -> DataFrame:
        """The ledger with its candidates; rows without `told` are messages that the ledger does not have."""
        from pyspark.sql import functions as F

        told = F.struct("queueId", "queueOffset", "uniqKey", "brokerName").alias("told")
        rows = self.rows.where(self.usable)
        match = F.coalesce("uniqKey", _at("queueId", "queueOffset")) if self.has_places else F.col("uniqKey")
        return rows.select("topic", match.alias("match"), told).join(self.candidates(log), ["topic", "match"], "full_outer")

    def verdicts(self, matched: DataFrame | None = None, with_damage: bool = True) -> DataFrame:
        """As `loss` says, and `units`.  with_damage: tell unreadable messages from lost ones, which costs a scan."""
        from pyspark.sql import functions as F

        rows = (self.matched(self.log()) if matched is None else matched).where("told is not null")
        rows = rows.withColumn("places", F.expr(_OF_BROKER)).withColumn("best", F.expr(_BEST))
        rows = rows.select(
            "topic", "told", "best", "places", F.expr(_DEAD_IN).alias("deadIn"),
            F.expr("if(best.isWaiting, null, coalesce(best.queueId, told.queueId))").alias("queueId"),
            F.expr("coalesce(best.queueOffset, told.queueOffset)").alias("queueOffset"),
        )  # fmt: skip
        unit, queue = F.struct("brokerName", "physicalOffset", "size"), F.struct("brokerName", "first", "end")
        units = self.units().groupBy("topic", "queueId", "queueOffset")
        rows = rows.join(units.agg(F.collect_list(unit).alias("units")), ["topic", "queueId", "queueOffset"], "left")
        bounds = self.bounds().groupBy("topic", "queueId")
        rows = rows.join(F.broadcast(bounds.agg(F.collect_list(queue).alias("queues"))), ["topic", "queueId"], "left")
        rows = rows.withColumn("broker", F.expr("coalesce(best.brokerName, told.brokerName)"))
        for name in ("units", "queues"):
            rows = rows.withColumn(name, F.expr(f"filter({name}, one -> broker is null or one.brokerName = broker)"))
        rows = rows.withColumn("best", F.expr(_POINTED_AT))
        told = [F.col(f"told.{name}").alias(name) for name in ("queueId", "queueOffset", "uniqKey", "brokerName")]
        made = rows.withColumn("verdict", F.expr(_VERDICT)).select(
            "topic", *told, "verdict", F.expr(_FOUND_BROKER).alias("foundBrokerName"),
            F.col("best.queueId").alias("foundQueueId"), F.col("best.queueOffset").alias("foundQueueOffset"),
            F.expr("coalesce(best.physicalOffset, get(units, 0).physicalOffset)").alias("physicalOffset"),
            F.col("best.storeSize").alias("storeSize"), "deadIn", "units",
        )  # fmt: skip
        return self.unreadable(made) if with_damage else made

    def unreadable(self, rows: DataFrame) -> DataFrame:
        """Lost ones whose unit leads into damaged bytes are unreadable."""
        from pyspark.sql import functions as F

        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        gaps = Source(self.source.paths, options).read(self.spark, "gaps").select("brokerName", "startOffset", "endOffset")
        buckets = f"explode(sequence(shiftright(startOffset, {BUCKET_BITS}), shiftright(endOffset - 1, {BUCKET_BITS})))"
        gap = F.struct("brokerName", "startOffset", "endOffset")
        damage = gaps.where("endOffset > startOffset").select(gap.alias("gap"), F.expr(buckets).alias("bucket"))
        damage = damage.groupBy("bucket").agg(F.collect_list("gap").alias("gaps"))
        where = f"if(verdict = 'lost', shiftright(get(units, 0).physicalOffset, {BUCKET_BITS}), null)"
        joined = rows.withColumn("bucket", F.expr(where)).join(F.broadcast(damage), "bucket", "left")
        held = F.exists("gaps", lambda gap: F.exists("units", lambda unit: _inside(unit, gap)))
        verdict = F.when(F.coalesce(held, F.lit(False)), F.lit("unreadable")).otherwise(F.col("verdict"))
        return joined.withColumn("verdict", verdict).drop("bucket", "gaps")

    def offsets(self) -> DataFrame:
        """Committed positions of the ledger's topics."""
        options = options_of(self.source, OF_QUEUES, mode="DROPMALFORMED")
        rows = Source(self.source.paths, options).read(self.spark, "consumerOffsets").where("offset is not null")
        return rows.where(_among("topic", self.topics)).select("brokerName", "group", "topic", "queueId", "offset")

    def ahead(self) -> DataFrame:
        """Positions behind the end of their queue: what comes until there will never be read."""
        from pyspark.sql import functions as F

        rows = self.offsets().join(F.broadcast(self.bounds()), ["brokerName", "topic", "queueId"])
        found = rows.where("offset > end").withColumn("ahead", F.expr("offset - end"))
        return found.select("brokerName", "group", "topic", "queueId", "offset", "end", "ahead")

    def groups(self, verdicts: DataFrame) -> DataFrame:
        """By group and topic, how many were passed, not yet, passed though nobody could have got them, and how many died."""
        from pyspark.sql import functions as F

        rows = verdicts.where("verdict <> 'waiting'").select(
            "topic", "verdict", "deadIn", F.col("foundBrokerName").alias("brokerName"),
            F.coalesce("foundQueueId", "queueId").alias("queueId"), F.coalesce("foundQueueOffset", "queueOffset").alias("at"),
        )  # fmt: skip
        rows = rows.join(F.broadcast(self.offsets()), ["brokerName", "topic", "queueId"])
        wrong = ", ".join(f"'{one}'" for one in WRONG)
        return rows.groupBy("group", "topic").agg(
            F.expr("count_if(at < offset)").alias("passed"),
            F.expr("count_if(at >= offset)").alias("notYet"),
            F.expr(f"count_if(at < offset and verdict in ({wrong}))").alias("passedWrong"),
            F.expr("count_if(array_contains(deadIn, group))").alias("dead"),
        )


_OF_BROKER: Final = "filter(places, one -> told.brokerName is null or one.brokerName = told.brokerName)"
_HERE: Final = "filter(places, one -> one.deadIn is null and not one.isWaiting"
_BEST: Final = f"""coalesce(
    get({_HERE} and one.queueId = told.queueId and one.queueOffset = told.queueOffset), 0),
    get({_HERE} and one.isMoved), 0),
    get({_HERE}), 0),
    get(filter(places, one -> one.deadIn is null), 0))"""
_POINTED_AT: Final = """coalesce(
    get(filter(places, one -> one.deadIn is null and one.queueId = best.queueId and one.queueOffset = best.queueOffset
        and exists(units, unit -> unit.physicalOffset = one.physicalOffset and unit.brokerName = one.brokerName)), 0),
    best)"""
"""Of several messages that claim one place, the one that its queue unit points to."""
_DEAD_IN: Final = "array_distinct(filter(transform(places, one -> one.deadIn), one -> one is not null))"
_VERDICT: Final = """case
    when best.isCorrupt then 'unreadable'
    when best.isWaiting then 'waiting'
    when best is not null and not best.isMoved
        and (told.queueId <> best.queueId or told.queueOffset <> best.queueOffset) then 'elsewhere'
    when best is not null and not coalesce(
        exists(units, one -> one.physicalOffset = best.physicalOffset and one.size = best.storeSize), false) then 'unindexed'
    when best is not null then 'stored'
    when exists(queues, one -> told.queueOffset < one.first) then 'expired'
    else 'lost' end"""
_FOUND_BROKER: Final = "coalesce(broker, get(units, 0).brokerName, if(size(queues) = 1, get(queues, 0).brokerName, null))"


def _inside(unit: Any, gap: Any) -> Any:
    at = unit["physicalOffset"]
    return (unit["brokerName"] == gap["brokerName"]) & (at >= gap["startOffset"]) & (at < gap["endOffset"])


def _at(queue_id: str, queue_offset: str) -> Any:
    """A queue and an offset as a text that is no unique key."""
    from pyspark.sql import functions as F

    return F.concat(F.lit("@"), F.col(queue_id).cast("string"), F.lit(":"), F.col(queue_offset).cast("string"))


def _among(column: str, values: list[str]) -> Any:
    from pyspark.sql import functions as F

    return F.col(column).isin(values)


def concerns(topics: frozenset[str], batch: pa.RecordBatch) -> Any:
    """Rows of the log that can matter for a ledger of these topics."""
    import pyarrow as pa
    import pyarrow.compute as pc

    of_ledger = pa.array(sorted(topics), pa.string())
    own = pc.is_in(batch.column("topic"), value_set=of_ledger)
    waits = pc.and_(
        pc.is_in(batch.column("topic"), value_set=pa.array([SCHEDULE, WHEEL, HALF])),
        pc.is_in(batch.column("realTopic"), value_set=of_ledger),
    )
    dies = pc.fill_null(pc.starts_with(batch.column("topic"), DEAD_PREFIX), False)
    return pc.or_(pc.or_(own, waits), dies)


def run(spark: SparkSession, source: Source, given: dict[str, Any], tell: Progress) -> Outcome:
    """Join once, keep the verdicts, and sum them up."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    from rmq_spark.session import watched

    with watched(spark, "reading the ledger", tell):
        job = _Loss(spark, source, given)
    seen = Observation()
    own = f"size({_HERE}))"
    log = job.log()
    matched = job.matched(log).observe(seen, F.expr(f"sum(if(told is null, {own}, 0))").alias("unknown"))
    verdicts = job.verdicts(matched, with_damage=False).persist()
    with watched(spark, "matching ledger and log", tell):
        lost = verdicts.where("verdict = 'lost'").count()
    if lost:
        verdicts = job.unreadable(verdicts)
    with watched(spark, "summing up", tell):
        sums = verdicts.groupBy("topic", "verdict").agg(
            F.count("*").alias("n"), F.expr("count_if(size(deadIn) > 0)").alias("dead")
        )
        by_topic = sums.collect()
        groups = job.groups(verdicts).persist()
        passed = collected(groups.orderBy(F.desc("passedWrong"), F.desc("notYet"), "group", "topic"))
        ahead = job.ahead().persist()
        of_ahead, ahead_count = collected(ahead.orderBy(F.desc("ahead"))), ahead.count()
        verdicts = verdicts.drop("units")
        findings = verdicts.where(F.col("verdict").isin(list(WRONG)))
        worst = collected(findings.orderBy("verdict", "topic", "queueId", "queueOffset"))
    counts = {one: sum(row["n"] for row in by_topic if row["verdict"] == one) for one in VERDICTS}
    dead, unknown = sum(row["dead"] for row in by_topic), int(seen.get["unknown"] or 0)
    frames = {"findings": findings, "expired": verdicts.where("verdict = 'expired'"), "groups": groups, "positionsAhead": ahead}
    is_strict = bool(given.get("strict"))
    if is_strict:
        frames["notInLedger"] = _not_in_ledger(job, log)
    wrong = [f"{counts[one]} {one}" for one in WRONG if counts[one]]
    wrong += [f"{ahead_count} positions behind the end of their queue"] if ahead_count else []
    wrong += [f"{job.unusable} rows of the ledger could not be judged"] if job.unusable else []
    wrong += [f"{unknown} messages that the ledger does not have"] if is_strict and unknown else []
    labels = [Figure(one, f"{one}", counts[one]) for one in VERDICTS]
    figures = [
        Figure("acknowledged", "rows of the ledger", job.count), *labels, Figure("dead", "became dead letters", dead),
        Figure("notInLedger", "messages of these topics that the ledger does not have", unknown),
        Figure("unusable", "rows of the ledger without topic or any identity", job.unusable),
    ]  # fmt: skip
    tables = [of_topics(by_topic), of_findings(worst, sum(counts[one] for one in WRONG))]
    tables += [of_groups(passed), of_positions(of_ahead, ahead_count)]
    verdict = ", ".join(wrong) if wrong else f"clean: all {job.count} acknowledged messages are accounted for"
    bars = [(one, float(counts[one])) for one in VERDICTS if counts[one]]
    return Outcome("loss", verdict, not wrong, figures, tables, [Plot("What became of acknowledged messages", bars)], [], frames)


def _not_in_ledger(job: _Loss, log: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    rows = log.where("own is not null and not isWaiting and deadIn is null")
    match = _at("queueId", "queueOffset")
    if job.has_keys:
        match = F.coalesce("uniqKey", match) if job.has_places else F.col("uniqKey")
    told = job.rows.where(job.usable).select(
        "topic", F.explode(F.array("uniqKey", _at("queueId", "queueOffset"))).alias("match")
    )  # fmt: skip
    return rows.withColumn("match", match).join(told.where("match is not null"), ["topic", "match"], "left_anti").drop(
        "own", "isWaiting", "isMoved", "deadIn", "match", CORRUPT
    )  # fmt: skip
