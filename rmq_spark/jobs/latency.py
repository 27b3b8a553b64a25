"""From born (the producer's clock) to stored (the broker's), and with message trace from stored to consumed.

One pass counts messages by queue, class, window of time and latency in ms; percentiles, distribution and course over time come
from these counts.  Up to 64 GiB of log they are exact.  Above, latencies from 256 ms on are counted in steps of less than 1/128
of themselves (`--approximate`), so the number of counts is bounded and a percentile at most 0.8 % too small.

Classes: what waited on purpose keeps its origin's born time, so delayed, timed, retried and dead messages and committed
transactions are classes of their own; `plain` is the rest, and only plain messages are judged.  A message that was stored before
it was born shows that the producer's clock is ahead; it is counted, by producer, and in no percentile.  What is in no queue
(rolled back, a filler of `rmq inspect repair`) reaches nobody and is not counted.

Not clean: only what `--max-latency` forbids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.shown import span_text
from rmq_spark import consumption
from rmq_spark.arguments import Parameter
from rmq_spark.jobs import Job, Source
from rmq_spark.kept import Keep, keeps
from rmq_spark.known import brokers_of
from rmq_spark.measuring import (
    APPROXIMATE,
    SUFFIX,
    WINDOW,
    WORST,
    collected,
    extent,
    has,
    has_property,
    is_approximate,
    property_value,
    source_of,
    window_ms,
    without,
)
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of
from rmq_wire import property_names as prop
from rmq_wire.implied.queue_entries import UNQUEUED
from rmq_wire.names import DLQ_PREFIX, RETRY_PREFIX, TRACE_TOPIC
from rmq_wire.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

PLAIN, DELAYED, TIMED, COMMITTED, RETRIED, DEAD, UNBORN = "plain", "delayed", "timed", "committed", "retried", "dead", "unborn"
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
STEP_BITS: Final = 7
"""A latency keeps so many bits behind its first one when it is approximated."""
NEVER_MS: Final = 1 << 62
"""No message is so late."""
KEY: Final = ("brokerName", "topic", "queueId", "class")
NO_TRACE: Final = "no message trace in {}: nothing is known of consumption"


def latency(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each queue and class: messages, minMs, meanMs, maxMs, p50 … p99.9 (ms), clockSkew (messages born after stored).

    options: max_latency, window, approximate; the rest are the format's.  Raises `BadOption`, `CannotRead`.
    """
    given, rest = JOB.arguments(options)
    return quantiles(counts(spark, source_of(paths, rest), given, 0), KEY)


def consumption_times(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each delivery that was traced: see `rmq_spark.consumption.consumed`."""
    given, rest = JOB.arguments(options)
    source = source_of(paths, rest)
    return consumption.consumed(spark, source, consumption.traces(spark, source, given["trace_topic"]))


def messages(spark: SparkSession, source: Source, more: str = "") -> DataFrame:
    """Messages with `class`, `latencyMs`, `propertyText`.  more: columns besides; what is no message has no topic."""
    from pyspark.sql import functions as F

    options = dict(without(source.options, ("columns", "includeProperties")))
    if not has(options, "mode"):
        options["mode"] = "PERMISSIVE"
    columns = f"brokerName,topic,queueId,sysFlag,bornTimestamp,storeTimestamp,properties{more}"
    read = Source(source.paths, options).read(spark, "messages", columns=columns, includeProperties="raw")
    text = F.concat(F.lit(SUFFIX), F.coalesce(F.col("properties").cast("string"), F.lit("")))
    born = F.unix_millis("bornTimestamp")
    read = read.where(F.col("topic").isNull() | (F.col("sysFlag").bitwiseAND(UNQUEUED) == 0))
    made = read.withColumn("propertyText", text).withColumn("latencyMs", F.unix_millis("storeTimestamp") - born)
    return made.withColumn("class", _class(born)).drop("properties")


def _class(born: SparkColumn) -> SparkColumn:
    from pyspark.sql import functions as F

    topic = F.col("topic")
    level = f"{has_property(prop.DELAY)} and coalesce(try_cast({property_value(prop.DELAY)} as int), 0) > 0"
    is_timed = " or ".join(
        map(has_property, (prop.TIMER_OUT_MS, prop.TIMER_DELIVER_MS, prop.TIMER_DELAY_MS, prop.TIMER_DELAY_SEC))
    )
    return (
        F.when(topic.startswith(DLQ_PREFIX), DEAD)
        .when(topic.startswith(RETRY_PREFIX), RETRIED)
        .when(F.expr(is_timed), TIMED)
        .when(F.expr(level), DELAYED)
        .when(F.col("sysFlag").bitwiseAND(TRANSACTION_MASK) == TRANSACTION_COMMIT, COMMITTED)
        .when(born <= 0, UNBORN)
        .otherwise(PLAIN)
    )


def counts(spark: SparkSession, source: Source, given: dict[str, Any], late_ms: int) -> DataFrame:
    """brokerName, topic, queueId, class, windowMs, latencyMs -> messages, late (longer than late_ms).  Topic null: no message."""
    from pyspark.sql import functions as F

    log_bytes, span = extent(source)
    window = window_ms(given["window"], span)
    found = messages(spark, source)
    exact = F.col("latencyMs")
    if is_approximate(given["approximate"], log_bytes):
        bits = f"greatest(cast(floor(log2(latencyMs)) as int) - {STEP_BITS}, 0)"
        step = F.when(exact < 2 << STEP_BITS, exact).otherwise(F.expr(f"shiftleft(shiftright(latencyMs, {bits}), {bits})"))
    else:
        step = exact
    start = F.floor(F.unix_millis("storeTimestamp") / window) * window
    late = F.sum((exact > late_ms).cast("long")).alias("late")
    keyed = found.select("brokerName", "topic", "queueId", "class", start.alias("windowMs"), step.alias("step"), "latencyMs")
    return (
        keyed.groupBy(*KEY, "windowMs", "step").agg(F.count("*").alias("messages"), late).withColumnRenamed("step", "latencyMs")
    )


def quantiles(found: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """Of counts, by some of their columns."""
    from pyspark.sql import functions as F

    is_skewed = F.col("latencyMs") < 0
    value = F.when(~is_skewed, F.col("latencyMs"))
    count = F.col("messages")
    return (
        found.where("topic is not null")
        .groupBy(*key)
        .agg(
            F.sum(count).alias("messages"),
            F.min(value).alias("minMs"),
            (F.sum(value * count) / F.sum(F.when(~is_skewed, count))).alias("meanMs"),
            F.max(value).alias("maxMs"),
            *[F.percentile(value, F.lit(q), count).alias(quantile_name(q)) for q in QUANTILES],
            F.sum(F.when(is_skewed, count).otherwise(0)).alias("clockSkew"),
        )
    )


def quantile_name(quantile: float) -> str:
    """p50, p99_9: without a dot, which SQL would take for a field."""
    return f"p{quantile * 100:g}".replace(".", "_")


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """Counts once, the worst messages once; trace and join where there is one."""
    from pyspark.sql import functions as F

    limit = None if given["max_latency"] is None else span_text(given["max_latency"])
    late_ms = NEVER_MS if limit is None else given["max_latency"]
    found = keep(counts(spark, source, given, late_ms))
    with watched(spark, "latencies", progress):
        total = found.agg(
            F.sum(F.when(F.col("topic").isNotNull(), F.col("messages"))).alias("messages"),
            F.sum(F.when(F.col("topic").isNull(), F.col("messages"))).alias("unreadable"),
            F.sum(F.when(F.col("class") == PLAIN, F.col("late"))).alias("late"),
            F.sum(F.when((F.col("latencyMs") < 0) & (F.col("class") == PLAIN), F.col("messages"))).alias("skewed"),
        ).first()
    assert total is not None
    late, skewed = (int(total["late"] or 0) if limit is not None else 0), int(total["skewed"] or 0)
    looked_at = keep(_looked_at(spark, source, _least_of_worst(found)))
    worst = looked_at.where("latencyMs >= 0")
    with watched(spark, "worst messages", progress):
        rows = collected(worst.orderBy(F.desc("latencyMs"), "brokerName", "physicalOffset"))
    classes = collected(quantiles(found, ("class",)).orderBy(F.desc("messages")))
    plain = next((row for row in classes if row["class"] == PLAIN), {})
    queues = quantiles(found, KEY)
    longest = [row for row in rows if row["latencyMs"] > late_ms] if late else rows
    tables = tables_of(REPORT, {"classes": classes, "queues": queues, "worst": longest}, worst=late or len(rows))
    tables[2].is_finding = bool(late)
    verdict = f"{late or 'no'} plain messages took longer than {limit}" if limit is not None else "measured"
    outcome = Outcome(
        "latency",
        verdict,
        not late,
        figures=[
            Figure("messages", "messages", total["messages"] or 0),
            Figure("plain", "of them plain", plain.get("messages", 0)),
            *[Figure(quantile_name(q), f"plain, {q * 100:g} %", plain.get(quantile_name(q)), Unit.MS) for q in QUANTILES],
            Figure("maxMs", "plain, longest", plain.get("maxMs"), Unit.MS),
            Figure("clockSkew", "stored before they were born", skewed),
            *([Figure("late", f"longer than {limit}", late)] if limit is not None else []),
        ],
        tables=tables,
        plots=_plots(found, window_ms(given["window"], extent(source)[1])),
        notes=_notes(source, given, total),
        frames={
            "latency": queues,
            "worst": _worst(spark, source).where(F.col("latencyMs") > late_ms)
            if limit is not None
            else worst.orderBy(F.desc("latencyMs")).limit(WORST),
        },
        messages=(total["messages"] or 0) + (total["unreadable"] or 0),
    )
    if skewed:
        _report_clocks(looked_at, outcome)
    _report_consumption(spark, source, given, outcome, progress, keep)
    return outcome


def _worst(spark: SparkSession, source: Source) -> DataFrame:
    from pyspark.sql import functions as F

    found = messages(spark, source, ",queueOffset,physicalOffset,uniqKey,bornHost").where(F.col("class") == PLAIN)
    return found.where("topic is not null").select(*_WORST)


def _least_of_worst(found: DataFrame) -> int:
    """The latency (ms) that at least `WORST` plain messages have or exceed, by counts; 0 where there are fewer."""
    from pyspark.sql import functions as F

    plain = found.where((F.col("class") == PLAIN) & F.col("topic").isNotNull() & (F.col("latencyMs") >= 0))
    counted, least = 0, 0
    for row in plain.groupBy("latencyMs").agg(F.sum("messages").alias("messages")).orderBy(F.desc("latencyMs")).head(WORST):
        counted, least = counted + row["messages"], row["latencyMs"]
        if counted >= WORST:
            return int(least)
    return 0


def _looked_at(spark: SparkSession, source: Source, least_ms: int) -> DataFrame:
    """Plain messages of a latency from least_ms on, and those that were stored before they were born."""
    from pyspark.sql import functions as F

    return _worst(spark, source).where((F.col("latencyMs") >= least_ms) | (F.col("latencyMs") < 0))


def _report_clocks(looked_at: DataFrame, outcome: Outcome) -> None:
    """Which producers' clocks are ahead."""
    from pyspark.sql import functions as F

    address = F.regexp_replace("bornHost", ":[0-9]+$", "").alias("bornHost")
    ahead = looked_at.where("latencyMs < 0").groupBy(address)
    by_host = ahead.agg(F.count("*").alias("messages"), (-F.min("latencyMs")).alias("maxAheadMs"))
    outcome.tables += tables_of(REPORT, {"clockSkew": by_host})
    outcome.frames["clockSkew"] = by_host


def _report_consumption(
    spark: SparkSession, source: Source, given: dict[str, Any], outcome: Outcome, progress: Progress, keep: Keep
) -> None:
    from pyspark.sql import functions as F

    topic = given["trace_topic"]
    if all(broker.isConfigured and not broker.may_have(topic) for broker in brokers_of(source)):  # spares a pass over the log
        outcome.notes.append(NO_TRACE.format(topic))
        return
    traced = keep(consumption.traces(spark, source, topic))
    with watched(spark, "trace", progress):
        kinds = {row["traceType"]: row["count"] for row in traced.groupBy("traceType").count().collect()}
    if not kinds:
        outcome.notes.append(NO_TRACE.format(topic))
        return
    deliveries = keep(consumption.consumed(spark, source, traced))
    groups = consumption.by_group(deliveries)
    with watched(spark, "consumption", progress):
        rows = collected(groups.orderBy("successRate", F.desc("deliveries"), "group", "topic"))
    succeeded = sum(row["succeeded"] for row in rows)
    ended = succeeded + sum(row["failed"] for row in rows)
    outcome.figures += [
        Figure("deliveries", "deliveries traced", sum(row["deliveries"] for row in rows)),
        Figure(
            "successRate",
            "of the ended ones succeeded",
            sum(row["succeeded"] for row in rows) / ended if ended else None,
            Unit.RATIO,
        ),
    ]
    outcome.tables += tables_of(REPORT, {"consumption": rows})
    outcome.frames.update({"consumption": deliveries, "consumptionByGroup": groups})
    kinds_text = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    outcome.notes.append(f"message trace: {kinds_text}; waitMs is of first deliveries, by the consumers' clocks")


def _notes(source: Source, given: dict[str, Any], total: Any) -> list[str]:
    approximate = is_approximate(given["approximate"], extent(source)[0])
    notes = ["percentiles are up to 0.8 % too small above 256 ms" if approximate else "percentiles are exact"]
    if total["unreadable"]:
        notes.append(f"{total['unreadable']} places of the log hold no message that can be read; they are left out")
    return notes


def _plots(found: DataFrame, window: int) -> list[Plot]:
    from pyspark.sql import functions as F

    plain = found.where((F.col("class") == PLAIN) & (F.col("latencyMs") >= 0))
    steps = plain.groupBy(F.when(F.col("latencyMs") < 1, -1).otherwise(F.floor(F.log2("latencyMs"))).alias("bits"))
    bars = [
        (int(row["bits"]), float(row["messages"]))
        for row in steps.agg(F.sum("messages").alias("messages")).orderBy("bits").collect()
    ]
    course = quantiles(plain, ("windowMs",)).orderBy("windowMs").limit(10 * WORST).collect()
    lines = {
        name: [(float(row["windowMs"]), float(row[name])) for row in course]
        for name in (quantile_name(0.5), quantile_name(0.99), "maxMs")
    }
    labels = [("below 1 ms" if bits < 0 else f"{1 << bits}–{(2 << bits) - 1} ms", count) for bits, count in bars]
    return [
        Plot("Born to stored, plain messages", bars=labels),
        Plot("Born to stored over time", series=lines, x_unit=Unit.TIME, y_unit=Unit.MS, step=window),
    ]


_MEASURES: Final = ("messages", "minMs", "meanMs", *map(quantile_name, QUANTILES), "maxMs", "clockSkew")
_WORST: Final = (
    "brokerName",
    "topic",
    "queueId",
    "queueOffset",
    "physicalOffset",
    "uniqKey",
    "bornHost",
    "storeTimestamp",
    "latencyMs",
)
_CONSUMPTION: Final = (
    "group",
    "topic",
    "deliveries",
    "succeeded",
    "failed",
    "noEnd",
    "retries",
    "successRate",
    "waitMsP50",
    "waitMsP99",
    "waitMsMax",
    "costMsP50",
    "costMsP99",
    "costMsMax",
)
REPORT: Final = (
    Shown("classes", "Born to stored, by class", ("class", *_MEASURES)),
    Shown(
        "queues",
        "Plain messages, by queue",
        (*KEY[:3], *_MEASURES),
        (f"{quantile_name(0.99)} desc", *KEY),
        where=f"class = '{PLAIN}'",
    ),
    Shown("worst", "The longest", _WORST),
    Shown(
        "clockSkew",
        "Producers whose clock is ahead of the broker's",
        ("bornHost", "messages", "maxAheadMs"),
        ("maxAheadMs desc", "bornHost"),
    ),
    Shown("consumption", "Stored to consumed, by group", _CONSUMPTION),
)


JOB: Final = Job(
    name="latency",
    line="Measure from born to stored, and from stored to consumed where there is a trace.",
    parameters=(
        Parameter(
            "max_latency", "duration", "Plain messages that were stored later than this after birth are findings: 500ms, 2s."
        ),
        WINDOW,
        replace(
            APPROXIMATE,
            help="Count latencies from 256 ms on in steps: percentiles are up to 0.8 % too small.  auto: above 64 GiB of log.",
        ),
        Parameter("trace_topic", str, "Where clients sent their message trace.", TRACE_TOPIC, "NAME"),
    ),
    examples=("/data/broker-a/store --max-latency 500ms", "/data/brokers --since -1d --html latency.html"),
    found="a plain message took longer than --max-latency",
    run=run,
    function=latency,
)
