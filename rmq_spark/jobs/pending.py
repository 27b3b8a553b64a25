"""What is still to come: delayed, timed and half messages and messages that somebody popped, by when they are due; and how late
those came that have come.

A message is waiting while nothing in the store keeps its promise (`pending_rows` says what does).  It is overdue when `--now` is
more than a threshold behind its due time: `--max-lateness` for delayed and timed ones, `--max-half-age` for half messages (whose
due time is that of the first check, six seconds after birth), `--max-revive-lateness` for popped ones (whose due time is the end
of their invisible time).  Of a store that nobody runs any more, give `--now` as the time when it stopped.

State in POP's RocksDB (`popConsumerKVServiceEnable`) and in the RocksDB timer is not looked at, nor are messages of `popOrderly`
consumers, which have no check points; a check point and its acks that meet in the broker's memory never come into the store.

`is_clean`: nothing overdue; no delayed message that its level has passed without a copy (undelivered; unknown where the copy may
be behind the end of this log: a replica that is behind, a tail that is gone); none delivered later than `--max-lateness`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import RANGE, Job, Source
from rmq_spark.kept import Keep, Short, keeps, nothing
from rmq_spark.local import local
from rmq_spark.measuring import small_table, source_of
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.picking import options_of, refuse_ranges
from rmq_spark.progress import progress_of
from rmq_spark.session import Progress, watched
from rmq_spark.tables import Shown, tables_of
from rmq_wire.names import TRANS_GROUP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: Final = ("delayed", "timed", "half", "pop")
PASSED: Final = ("undelivered", "unknown")
"""States of delayed messages without a copy that their level has passed."""
OPEN: Final = ("waiting", "committed", *PASSED)
"""States of promises that nothing has kept."""
ENDS: Final = (
    ("committedWithoutOp", "half messages committed, without op", ("half", "committed")),
    ("halfEnded", "half messages ended", ("half", "ended")),
    ("halfAgain", "half messages put back by a check", ("half", "again")),
    ("discarded", "half messages that the broker gave up", ("half", "discarded")),
    ("recalled", "timed messages recalled", ("timed", "recalled")),
    ("popAcked", "popped messages acknowledged", ("pop", "acked")),
    ("popSettled", "popped messages that revive has passed", ("pop", "settled")),
)
"""Figure, label, (kind, state)."""
STEPS: Final = {"already due": 0, "1 minute": 60_000, "10 minutes": 600_000, "1 hour": 3_600_000, "1 day": 86_400_000}
LATER: Final = "later"
BY_TOPIC: Final = ("kind", "topic", "waiting", "overdue", "firstDue", "lastDue")
OVERDUE: Final = (
    "kind",
    "state",
    "brokerName",
    "topic",
    "group",
    "level",
    "uniqKey",
    "systemTopic",
    "systemQueueOffset",
    "physicalOffset",
    "dueTimestamp",
    "overdueMs",
)
LATENESS: Final = ("kind", "delivered", "median", "p99", "most")
LATE: Final = ("kind", "brokerName", "topic", "level", "uniqKey", "physicalOffset", "dueTimestamp", "latenessMs")

REPORT: Final = (
    Shown("topics", "Still to come, by topic", BY_TOPIC, ("overdue desc", "waiting desc", "kind", "topic")),
    Shown("overdue", "Overdue", OVERDUE, ("overdueMs desc",), "pending", "isOverdue", is_finding=True),
    Shown("lateness", "How late the delivered ones came", LATENESS),
    Shown("late", "Delivered too late", LATE, ("latenessMs desc",), is_finding=True),
)


def pending(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each message that is still to come.

    kind (delayed, timed, half, pop); brokerName; topic, queueId where it will come to; queueOffset of a popped message; group (of
    the consumer, or of the producer of a half message); level; uniqKey; systemTopic, systemQueueId, systemQueueOffset,
    physicalOffset where it stands; bornTimestamp, storeTimestamp, dueTimestamp; state (waiting; committed: a half message without
    op; undelivered; unknown); overdueMs (negative before it is due); isOverdue.  options: the parameters, those of the format.
    """
    given, rest = JOB.arguments(options)
    source = source_of(paths, rest)
    refuse_ranges(source, "pending")
    return open_ones(promises(spark, source, progress_of(spark, source))[0], given)


def promises(spark: SparkSession, source: Source, progress: DataFrame, keep: Keep = nothing) -> tuple[DataFrame, DataFrame]:
    """(every promise of the log, with its state; the rows of the log that were looked at).  progress: of `progress_of`."""
    from pyspark.sql import functions as F

    from rmq_spark.jobs import pending_rows as of

    rows = keep(of.log_rows(spark, source))
    options = options_of(source, ("topics", "queueIds"), mode="DROPMALFORMED", includeSystemTopics="true")
    held = small_table(Source(source.paths, options), "consumerOffsets")
    names = ("brokerName", "group", "topic", "queueId", "offset")
    own = [tuple(row[name] for name in names) for row in held if row["group"] in (TRANS_GROUP, of.REVIVER)]
    positions = local(spark, own, "brokerName string, `group` string, topic string, queueId int, offset bigint")
    positions = positions.where("offset is not null")
    copied = [of.delayed(spark, source, rows, progress), of.timed(rows)]
    bare = [of.half(rows, positions), of.pop(rows, positions)]
    nothing = (F.lit(None).cast("timestamp").alias("deliveredTimestamp"), F.lit(None).cast("bigint").alias("cameAt"))
    found = [*copied, *(one.select(*of.FOUND, *nothing) for one in bare)]
    every = found[0].unionByName(found[1]).unionByName(found[2]).unionByName(found[3])
    if (topics := source.topics()) is not None:
        every = every.where(F.col("topic").isin(topics))
    return every.withColumn("latenessMs", F.expr("unix_millis(deliveredTimestamp) - unix_millis(dueTimestamp)")), rows


def open_ones(every: DataFrame, given: dict[str, Any]) -> DataFrame:
    """As `pending` says."""
    from pyspark.sql import functions as F

    limit = F.when(F.col("kind") == "half", F.lit(given["max_half_age"]))
    limit = limit.when(F.col("kind") == "pop", F.lit(given["max_revive_lateness"])).otherwise(F.lit(given["max_lateness"]))
    rows = every.where(F.col("state").isin(list(OPEN))).drop("deliveredTimestamp", "latenessMs", "cameAt")
    rows = rows.withColumn("overdueMs", F.lit(now_ms(given)) - F.unix_millis("dueTimestamp"))
    return rows.withColumn("isOverdue", (F.col("overdueMs") > limit) | F.col("state").isin(list(PASSED)))


def now_ms(given: dict[str, Any]) -> int:
    """ms since 1970."""
    return round(time.time() * 1000) if given["now"] is None else int(given["now"])


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """One pass over the log; everything else is joins of what waits."""
    from pyspark.sql import functions as F

    refuse_ranges(source, "pending")
    given = {**given, "now": now_ms(given)}
    keep = Short(keep)
    with watched(spark, "reading the log", progress):
        every, rows = promises(spark, source, progress_of(spark, source), keep)
        every = keep(every)
        states = {
            (row["kind"], row["state"]): row["n"] for row in every.groupBy("kind", "state").agg(F.count("*").alias("n")).collect()
        }
        damaged = rows.where("topic is null").count()
    waiting = open_ones(every, given)
    late = every.where(F.col("latenessMs") > given["max_lateness"])
    due = "; ".join(f"count_if(overdueMs > {-ms}) as `{name}`" for name, ms in STEPS.items())
    with watched(spark, "summing up", progress):
        by_topic = keep(
            waiting.groupBy("kind", "topic").agg(
                F.count("*").alias("waiting"),
                F.expr("count_if(isOverdue)").alias("overdue"),
                F.unix_millis(F.min("dueTimestamp")).alias("firstDue"),
                F.unix_millis(F.max("dueTimestamp")).alias("lastDue"),
            )
        )
        kinds = {
            row["kind"]: row
            for row in by_topic.groupBy("kind").agg(F.sum("waiting").alias("n"), F.sum("overdue").alias("late")).collect()
        }
        steps = waiting.selectExpr(*due.split("; ")).first()
        lateness = {row["kind"]: row for row in _lateness(every, given["max_lateness"]).collect()}
    overdue, late_count = sum(row["late"] for row in kinds.values()), sum(row["late"] for row in lateness.values())
    undelivered = sum(states.get(("delayed", state), 0) for state in PASSED)
    figures = [Figure("now", "now", given["now"], Unit.TIME)]
    for kind in KINDS:
        figures.append(Figure(f"{kind}Pending", f"{kind}, still to come", kinds[kind]["n"] if kind in kinds else 0))
    figures += [
        Figure("overdue", "overdue", overdue),
        Figure("undelivered", "delayed, passed without a copy", undelivered),
        Figure("delivered", "delayed and timed, delivered", sum(row["delivered"] for row in lateness.values())),
        Figure("late", "delivered too late", late_count),
        Figure("latenessMax", "latest", max((row["most"] for row in lateness.values()), default=None), Unit.MS),
        *(Figure(name, label, states.get(state, 0)) for name, label, state in ENDS),
    ]
    came = [{**row.asDict(), "median": row["quantiles"][0], "p99": row["quantiles"][1]} for _, row in sorted(lateness.items())]
    shown = {"topics": by_topic, "pending": waiting, "lateness": came, "late": late}
    tables = tables_of(REPORT, shown, overdue=overdue, late=late_count)
    notes = [f"{damaged} places of the log could not be read: promises and copies may be missing"] if damaged else []
    wrong = [f"{overdue} overdue"] if overdue else []
    wrong += [f"{late_count} delivered too late"] if late_count else []
    total = sum(row["n"] for row in kinds.values())
    at = datetime.fromtimestamp(given["now"] / 1000, UTC).isoformat(timespec="seconds")
    verdict = f"{', '.join(wrong) or 'clean: nothing is late'}; {total} messages are still to come at {at}"
    frames = {"pending": waiting, "late": late.drop("cameAt")}
    return Outcome("pending", verdict, not wrong, figures, tables, [_plot(steps, total)], notes, frames)


def _lateness(every: DataFrame, limit_ms: int) -> DataFrame:
    """Of delivered ones, by kind."""
    from pyspark.sql import functions as F

    delivered = every.where("latenessMs is not null")
    quantiles = F.percentile_approx("latenessMs", [0.5, 0.99]).alias("quantiles")
    return delivered.groupBy("kind").agg(
        F.count("*").alias("delivered"),
        F.expr(f"count_if(latenessMs > {limit_ms})").alias("late"),
        quantiles,
        F.min("latenessMs").alias("least"),
        F.max("latenessMs").alias("most"),
    )


def _plot(steps: Any, total: int) -> Plot:
    """How many are due within which time; each step has what the one before has not."""
    bars, before = [], 0
    for name in STEPS:
        within = int(steps[name] or 0) if steps is not None else 0
        bars.append((name, float(within - before)))
        before = within
    return Plot("Messages to come, by when they are due", [*bars, (LATER, float(total - before))])


JOB: Final = Job(
    name="pending",
    line="Find messages still to come: delayed, timed, half, popped; and those that came late.",
    parameters=(
        Parameter("now", "time", "What counts as now.  By default this machine's time; of a stopped store give when it stopped."),
        Parameter("max_lateness", "duration", "After which a delayed or timed message is late: 500ms, 3s, 1m.", "3s"),
        Parameter("max_half_age", "duration", "After which a half message that nobody ended is overdue.", "10m"),
        Parameter("max_revive_lateness", "duration", "After which a popped message should have been revived.", "1m"),
    ),
    examples=("/data/broker-a/store", "/data/stopped/store --now '2026-01-31 12:00' --topic Orders"),
    found="something is overdue, was never delivered, or was delivered late",
    run=run,
    function=pending,
    left_out=RANGE,
)
