"""What is still to come: delayed, timed and half messages and messages that somebody popped, by when they are due; and how late
those came that have come.

A message is waiting while nothing in the store keeps its promise (`pending_rows` says what does).  It is overdue when `--now` is
more than a threshold behind its due time: `--max-lateness` for delayed and timed ones, `--max-half-age` for half messages (whose
due time is that of the first check, six seconds after birth), `--max-revive-lateness` for popped ones (whose due time is the end
of their invisible time).  Of a store that nobody runs any more, give `--now` as the time when it stopped.

State in POP's RocksDB (`popConsumerKVServiceEnable`) and in the RocksDB timer is not looked at, nor are messages of `popOrderly`
consumers, which have no check points; a check point and its acks that meet in the broker's memory never come into the store.

`is_clean`: nothing overdue; no delayed message that its level has passed without a copy (undelivered); none delivered later
than `--max-lateness`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.errors import BadOption
from rmq_spark.jobs import Parameter, Source
from rmq_spark.measuring import WORST, collected, duration_ms, small_table, source_of
from rmq_spark.outcome import Cell, Column, Figure, Outcome, Plot, Table, Unit
from rmq_spark.picking import given_of, options_of, refuse_ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rmq_spark.session import Progress

KINDS: Final = ("delayed", "timed", "half", "pop")
OPEN: Final = ("waiting", "committed", "undelivered")
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

PARAMETERS: Final = (
    Parameter("now", "time", "the time that counts as now; default: this machine's"),
    Parameter("max-lateness", str, "after which a delayed or timed message is late: 500ms, 3s, 1m", "3s", "TIME"),
    Parameter("max-half-age", str, "after which a half message that nobody ended is overdue", "10m", "TIME"),
    Parameter("max-revive-lateness", str, "after which a popped message should have been revived", "1m", "TIME"),
)


def pending(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """A row for each message that is still to come.

    kind (delayed, timed, half, pop); brokerName; topic, queueId where it will come to; queueOffset of a popped message; group (of
    the consumer, or of the producer of a half message); level; uniqKey; systemTopic, systemQueueId, systemQueueOffset,
    physicalOffset where it stands; bornTimestamp, storeTimestamp, dueTimestamp; state (waiting; committed: a half message without
    op; undelivered); overdueMs (negative before it is due); isOverdue.  options: the parameters, those of the format.
    """
    given, format_options = given_of(PARAMETERS, options)
    source = source_of(paths, format_options)
    refuse_ranges(source, "pending")
    return open_ones(promises(spark, source)[0], given)


def promises(spark: SparkSession, source: Source) -> tuple[DataFrame, DataFrame]:
    """(every promise of the log, with its state; the rows of the log that were looked at)."""
    from pyspark.sql import functions as F

    from rmq_spark.jobs import pending_rows as of

    rows = of.log_rows(spark, source).persist()
    options = options_of(source, ("topics", "queueIds"), mode="DROPMALFORMED", includeSystemTopics="true")
    held = small_table(Source(source.paths, options), "consumerOffsets")
    names = ("brokerName", "group", "topic", "queueId", "offset")
    own = [tuple(row[name] for name in names) for row in held if row["group"] in (of.TRANSACTIONS, of.REVIVER)]
    positions = spark.createDataFrame(own, "brokerName string, `group` string, topic string, queueId int, offset bigint")
    positions = positions.where("offset is not null")
    copied = [of.delayed(spark, source, rows), of.timed(rows)]
    bare = [of.half(rows, positions), of.pop(rows, positions)]
    nothing = (F.lit(None).cast("timestamp").alias("deliveredTimestamp"), F.lit(None).cast("bigint").alias("cameAt"))
    found = [*copied, *(one.select(*of.FOUND, *nothing) for one in bare)]
    every = found[0].unionByName(found[1]).unionByName(found[2]).unionByName(found[3])
    topics = next((value for name, value in source.options.items() if name.lower() == "topics"), None)
    if topics is not None:
        from rmq_columns.options import parse_options

        every = every.where(F.col("topic").isin(sorted(parse_options({"path": "x", "topics": topics}).topics or ())))
    return every.withColumn("latenessMs", F.expr("unix_millis(deliveredTimestamp) - unix_millis(dueTimestamp)")), rows


def open_ones(every: DataFrame, given: dict[str, Any]) -> DataFrame:
    """As `pending` says."""
    from pyspark.sql import functions as F

    limit = F.when(F.col("kind") == "half", F.lit(_ms(given, "max-half-age")))
    limit = limit.when(F.col("kind") == "pop", F.lit(_ms(given, "max-revive-lateness"))).otherwise(
        F.lit(_ms(given, "max-lateness"))
    )
    rows = every.where(F.col("state").isin(list(OPEN))).drop("deliveredTimestamp", "latenessMs", "cameAt")
    rows = rows.withColumn("overdueMs", F.lit(now_ms(given)) - F.unix_millis("dueTimestamp"))
    return rows.withColumn("isOverdue", (F.col("overdueMs") > limit) | (F.col("state") == "undelivered"))


def _ms(given: dict[str, Any], name: str) -> int:
    value = given.get(name)
    try:
        return duration_ms(next(one.default for one in PARAMETERS if one.name == name) if value is None else value)
    except ValueError as reason:
        raise BadOption(f"{name}: {reason}") from reason


def now_ms(given: dict[str, Any]) -> int:
    """ms since 1970."""
    now = given.get("now")
    if isinstance(now, datetime):
        return round(now.timestamp() * 1000)
    return round(time.time() * 1000) if now is None else int(now)


def run(spark: SparkSession, source: Source, given: dict[str, Any], tell: Progress) -> Outcome:
    """One pass over the log; everything else is joins of what waits."""
    from pyspark.sql import functions as F

    from rmq_spark.session import watched

    refuse_ranges(source, "pending")
    given = {**given, "now": now_ms(given)}
    every, rows = promises(spark, source)
    every = every.persist()
    with watched(spark, "reading the log", tell):
        states = {
            (row["kind"], row["state"]): row["n"] for row in every.groupBy("kind", "state").agg(F.count("*").alias("n")).collect()
        }
        damaged = rows.where("topic is null").count()
    waiting = open_ones(every, given)
    late = every.where(F.col("latenessMs") > _ms(given, "max-lateness"))
    due = "; ".join(f"count_if(overdueMs > {-ms}) as `{name}`" for name, ms in STEPS.items())
    with watched(spark, "summing up", tell):
        by_topic = waiting.groupBy("kind", "topic").agg(
            F.count("*").alias("waiting"), F.expr("count_if(isOverdue)").alias("overdue"),
            F.unix_millis(F.min("dueTimestamp")).alias("firstDue"), F.unix_millis(F.max("dueTimestamp")).alias("lastDue"),
        ).persist()  # fmt: skip
        kinds = {
            row["kind"]: row
            for row in by_topic.groupBy("kind").agg(F.sum("waiting").alias("n"), F.sum("overdue").alias("late")).collect()
        }
        topics = collected(by_topic.orderBy(F.desc("overdue"), F.desc("waiting"), "kind", "topic"))
        topic_count = by_topic.count()
        steps = waiting.selectExpr(*due.split("; ")).first()
        worst = collected(waiting.where("isOverdue").orderBy(F.desc("overdueMs")))
        lateness = {row["kind"]: row for row in _lateness(every, _ms(given, "max-lateness")).collect()}
        latest = collected(late.orderBy(F.desc("latenessMs")))
    overdue, late_count = sum(row["late"] for row in kinds.values()), sum(row["late"] for row in lateness.values())
    undelivered = states.get(("delayed", "undelivered"), 0)
    figures = [Figure("now", "now", given["now"], Unit.TIME)]
    for kind in KINDS:
        figures.append(Figure(f"{kind}Pending", f"{kind}, still to come", kinds[kind]["n"] if kind in kinds else 0))
    figures += [
        Figure("overdue", "overdue", overdue), Figure("undelivered", "delayed, passed without a copy", undelivered),
        Figure("delivered", "delayed and timed, delivered", sum(row["n"] for row in lateness.values())),
        Figure("late", "delivered too late", late_count),
        Figure("latenessMax", "latest", max((row["most"] for row in lateness.values()), default=None), Unit.MS),
        *(Figure(name, label, states.get(state, 0)) for name, label, state in ENDS),
    ]  # fmt: skip
    tables = [_topics(topics, topic_count), _overdue(worst, overdue), _lateness_table(lateness), _late(latest, late_count)]
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
        F.count("*").alias("n"), F.expr(f"count_if(latenessMs > {limit_ms})").alias("late"), quantiles,
        F.min("latenessMs").alias("least"), F.max("latenessMs").alias("most"),
    )  # fmt: skip


def _plot(steps: Any, total: int) -> Plot:
    """How many are due within which time; each step has what the one before has not."""
    bars, before = [], 0
    for name in STEPS:
        within = int(steps[name] or 0) if steps is not None else 0
        bars.append((name, float(within - before)))
        before = within
    return Plot("Messages to come, by when they are due", [*bars, (LATER, float(total - before))])


def _rows(found: list[dict[str, Any]], columns: tuple[Column, ...]) -> list[tuple[Cell, ...]]:
    return [tuple(one[column.name] for column in columns) for one in found]


def _topics(found: list[dict[str, Any]], total: int) -> Table:
    columns = (
        Column("kind"), Column("topic"), Column("waiting", Unit.COUNT), Column("overdue", Unit.COUNT),
        Column("firstDue", Unit.TIME), Column("lastDue", Unit.TIME),
    )  # fmt: skip
    return Table("topics", "Still to come, by topic", columns, _rows(found, columns), total)


def _overdue(found: list[dict[str, Any]], total: int) -> Table:
    names = (
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
    )
    columns = (*map(Column, names), Column("dueTimestamp", Unit.TIME), Column("overdueMs", Unit.MS))
    return Table("overdue", "Overdue", columns, _rows(found, columns), total, is_finding=True)


def _late(found: list[dict[str, Any]], total: int) -> Table:
    names = ("kind", "brokerName", "topic", "level", "uniqKey", "physicalOffset")
    columns = (*map(Column, names), Column("dueTimestamp", Unit.TIME), Column("latenessMs", Unit.MS))
    return Table("late", "Delivered too late", columns, _rows(found, columns), total, is_finding=True)


def _lateness_table(found: dict[str, Any]) -> Table:
    columns = (Column("kind"), Column("delivered", Unit.COUNT), *(Column(one, Unit.MS) for one in ("median", "p99", "most")))
    rows: list[tuple[Cell, ...]] = [(kind, row["n"], *row["quantiles"], row["most"]) for kind, row in sorted(found.items())]
    return Table("lateness", "How late the delivered ones came", columns, rows[:WORST], len(rows))
