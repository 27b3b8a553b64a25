"""Consume queues made anew from the log, byte for byte as a broker's, in a directory of their own; never in the store.

Each task writes the units of its split at their places of sparse files (`rmq_columns.queue_build_work`), so the directory must
be one that the driver and all executors share; only the runs of offsets go on to Spark, which finds the queues whose runs do not
follow one another.  Those alone come to the driver and are written in a second round, as are batch queues.  With `--compare` the
store's own queues are held against them.

Not clean: bytes of the log that are no message, offsets that no message has, a queue of the store that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.jobs import Parameter, Source
from rmq_spark.measuring import WORST, lenient, source_of, taken
from rmq_spark.outcome import Column, Figure, Outcome, Plot, Table, Unit
from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns.options import Options
    from rmq_columns.queue_build import Key
    from rmq_columns.queue_build_runs import Run, Settled
    from rmq_columns.queue_build_work import Made

PARAMETERS = (
    Parameter("to", "path", "make them in this directory: new, or of an earlier run; shared by executors", is_required=True),
    Parameter("compare", bool, "hold the store's own queues against them", False),
    Parameter("delay_levels", str, "messageDelayLevel, where no delayed message tells it", metavar="LEVELS"),
    Parameter("queue_file_bytes", int, "mappedFileSizeConsumeQueue, where no queue file tells it", metavar="BYTES"),
    Parameter("batch_topic", str, "a topic with queue.type=BatchCQ that topics.json does not name", metavar="NAME", is_many=True),
    Parameter("extensions", bool, "enableConsumeQueueExt was on from the beginning, also where no extensions are left", False),
)
OWN: Final = tuple(one.name for one in PARAMETERS)
RUNS_TAKEN_MAX: Final = 200_000
"""Up to so many runs the driver puts all queues together: no shuffle, which costs as much as a gigabyte of log."""
RUNS_MAX: Final = 1_000_000
"""Of queues whose runs do not follow one another: the driver puts them together."""
KEY: Final = ("store", "topic", "queueId", "kind")
MEANING: Final = {
    "equivalent": "equal but for the addresses of extensions",
    "deleted topic": "of topics that are not in topics.json any more: made, since their messages are in the log",
    "before the log": "of the store lead only to messages that retention took: not made",
}
TOP: Final = 20
"""Bars of the plot."""


def rebuild_queues(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Makes the queues and says what they are: brokerName, topic, queueId, kind, units, firstOffset, lastOffset, bytes, bridged,
    lives.

    options: `to` and the other parameters of the job; the rest are the format's.  bytes: of the messages; bridged: units over
    offsets that no message has; lives: how often the queue began.  Raises `BadOption`, `StoreError`.
    """
    given, rest = taken(options, OWN)
    return frame_of(spark, build(spark, source_of(paths, rest), given, _silent)[1])


def comparison(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Makes the queues; a row for each of them and of the store's own: outcome, units, differentUnits, the first difference."""
    given, rest = taken(options, OWN)
    return compared(spark, *build(spark, source_of(paths, rest), given, _silent))


def _silent(what: str, done: int, of: int) -> None:
    pass


# --- making


def build(spark: SparkSession, source: Source, given: Mapping[str, Any], tell: Progress) -> tuple[Options, list[Made]]:
    """Make the queues of all stores.  Raises `BadOption`, `StoreError`."""
    from rmq_columns import BadOption
    from rmq_columns.queue_build_files import begin
    from rmq_columns.queue_build_plan import plan_build
    from rmq_columns.queue_build_runs import RUNS
    from rmq_columns.queue_build_work import Made, build_split, finish_all, second_round, to_write_again
    from rmq_spark.store import located
    from rmq_spark.tasks import spread

    if not (to := given.get("to")):
        raise BadOption("to: a directory in which the queues are made")
    options = located({**lenient(source.options), "paths": list(source.paths)})
    try:
        plans, tasks = plan_build(
            options, str(to), levels=given.get("delay_levels"), queue_file_bytes=given.get("queue_file_bytes"),
            batch_topics=given.get("batch_topic") or (), extensions=bool(given.get("extensions")),
        )  # fmt: skip
    except ValueError as reason:
        raise reason if isinstance(reason, BadOption) else BadOption(f"delay_levels: {reason}") from reason
    begin(str(to), [plan.store.root or plan.store.uri for plan in plans])
    made = [Made(plan) for plan in plans]
    runs = spread(spark, build_split, tasks, RUNS).persist()
    try:
        with watched(spark, "write queue units", tell):
            count = runs.count()
        _take(spark, runs, made, tell, is_small=count <= RUNS_TAKEN_MAX)
    finally:
        runs.unpersist()
    if again := second_round(tasks, {one.plan.number: to_write_again(one) for one in made}):
        with watched(spark, "write queues that began anew", tell):
            spread(spark, build_split, again, RUNS).collect()  # there are no rows
    finish_all(str(to), made)
    return options, made


def _take(spark: SparkSession, runs: DataFrame, made: Sequence[Made], tell: Progress, *, is_small: bool) -> None:
    """What the first round met."""
    from rmq_columns.errors import CannotRead
    from rmq_columns.queue_build_work import put_together, take_row

    with watched(spark, "put the queues together", tell):
        parts = [runs] if is_small else _aggregated(runs)
        collected = [part.collect() for part in parts]
    if len(collected[-1]) > RUNS_MAX and not is_small:
        raise CannotRead(made[0].plan.target.root, -1, f"more than {RUNS_MAX} breaks of order in the queues of the log")
    found: list[dict[Key, list[Run]]] = [{} for _ in made]
    for row in (row for rows in collected for row in rows):
        take_row(made[row["store"]], found[row["store"]], row)
    for one, of_store in zip(made, found, strict=True):
        put_together(one, of_store)


def _aggregated(runs: DataFrame) -> list[DataFrame]:
    """Few rows for many: a queue whose runs follow one another comes as one run, of any other come all; damage is summed up."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from rmq_columns.queue_build import Kind
    from rmq_columns.queue_build_runs import DAMAGE, STRANGERS

    is_other = F.col("kind").isin(DAMAGE, STRANGERS)
    before = F.lag("endOffset").over(Window.partitionBy(*KEY).orderBy("firstPhysicalOffset"))
    queues = runs.where(~is_other).withColumn("before", before)
    is_simple = F.col("kind").isin(Kind.PLAIN.value, Kind.LIGHT.value)
    breaks = ~is_simple | (F.col("before").isNotNull() & (F.col("before") != F.col("firstOffset")))
    marked = queues.withColumn("isBroken", F.max(breaks).over(Window.partitionBy(*KEY)))
    whole = marked.where("not isBroken").groupBy(*KEY).agg(
        F.min("firstOffset").alias("firstOffset"), F.max("endOffset").alias("endOffset"), F.sum("units").alias("units"),
        F.min("firstPhysicalOffset").alias("firstPhysicalOffset"), F.max("lastPhysicalOffset").alias("lastPhysicalOffset"),
        F.min_by("firstSize", "firstPhysicalOffset").alias("firstSize"), F.sum("bytes").alias("bytes"),
        F.min("split").alias("split"),
    )  # fmt: skip
    other = runs.where(is_other).groupBy("store", "kind").agg(F.sum("units").alias("units"), F.sum("bytes").alias("bytes"))
    return [whole, other, marked.where("isBroken").select(whole.columns).limit(RUNS_MAX + 1)]


def frame_of(spark: SparkSession, made: Iterable[Made]) -> DataFrame:
    """A row for each queue."""
    import pyarrow as pa

    from rmq_spark.types import spark_type_of_schema

    schema = pa.schema(
        [
            ("brokerName", pa.string()), ("topic", pa.string()), ("queueId", pa.int32()), ("kind", pa.string()),
            ("units", pa.int64()), ("firstOffset", pa.int64()), ("lastOffset", pa.int64()), ("bytes", pa.int64()),
            ("bridged", pa.int64()), ("lives", pa.int32()),
        ]
    )  # fmt: skip
    rows = [
        (
            one.plan.store.broker_name, key.topic, key.queue_id, key.kind.value, queue.units, queue.start, queue.end - 1,
            one.bytes[key], queue.bridged, queue.lives,
        )
        for one in made
        for key, queue in sorted(one.queues.items())
    ]  # fmt: skip
    return spark.createDataFrame(rows, spark_type_of_schema(schema))


# --- comparing


def compared(spark: SparkSession, options: Options, made: Iterable[Made]) -> DataFrame:
    """A row of `COMPARED` for each queue that was made, and each of the store's."""
    from rmq_columns.queue_build_compare import COMPARED, compare_queues, plan_comparison
    from rmq_spark.tasks import spread

    tasks = [task for one in made for task in plan_comparison(one.plan, options, one.queues)]
    return spread(spark, compare_queues, tasks, COMPARED)


# --- telling


def run(spark: SparkSession, source: Source, given: dict[str, Any], tell: Progress) -> Outcome:
    """For the command line."""
    options, made = build(spark, source, given, tell)
    queues = [(one, key, queue) for one in made for key, queue in one.queues.items()]
    damaged = sum(one.damaged_bytes for one in made)
    bridged = sum(queue.bridged for _, _, queue in queues)
    units = sum(queue.units for _, _, queue in queues)
    outcome = Outcome("rebuild-queues", "", not damaged and not bridged)
    outcome.figures = [
        Figure("queues", "queues made", len(queues)),
        Figure("units", "units in them", units),
        Figure("bytes", "bytes of their messages", sum(sum(one.bytes.values()) for one in made), Unit.BYTES),
        Figure("bridgedUnits", "units over offsets that no message has", bridged),
        Figure("damagedBytes", "bytes of the log that are no message", damaged, Unit.BYTES),
    ]
    outcome.frames["queues"] = frame_of(spark, made)
    outcome.tables = [_largest(queues), _special(queues)]
    outcome.plots = [_plot(queues)]
    outcome.notes = _notes(made, given)
    problems = [f"{bridged} offsets have no message"] if bridged else []
    problems += [f"{damaged} bytes of the log are no message"] if damaged else []
    if given.get("compare"):
        problems += _compare(spark, options, made, tell, outcome)
    told = f"{len(queues)} queues with {units} units"
    told += ", equal to the store's" if given.get("compare") and outcome.is_clean else ""
    outcome.verdict = f"{told}; {', '.join(problems)}" if problems else told
    return outcome


def _compare(spark: SparkSession, options: Options, made: list[Made], tell: Progress, outcome: Outcome) -> list[str]:
    """Adds what the comparison found; what is wrong."""
    from pyspark.sql import functions as F

    from rmq_columns.queue_build_compare import SOUND

    rows = compared(spark, options, made).persist()
    with watched(spark, "compare with the store's queues", tell):
        counts = {row["outcome"]: row["count"] for row in rows.groupBy("outcome").count().collect()}
        worst = rows.where(~F.col("outcome").isin(*SOUND)).orderBy(F.desc("differentUnits"), "topic", "queueId").limit(WORST)
        wrong = worst.collect()
    bad = sum(count for name, count in counts.items() if name not in SOUND)
    outcome.frames["comparison"] = rows
    outcome.figures += [Figure("comparedQueues", "queues compared", sum(counts.values()))]
    outcome.figures += [Figure("differentQueues", "of them different or missing", bad)]
    columns = (
        Column("brokerName"), Column("topic"), Column("queueId", Unit.COUNT), Column("outcome"),
        Column("differentUnits", Unit.COUNT), Column("firstDifferentOffset", Unit.COUNT), Column("field"),
        Column("storePhysicalOffset", Unit.COUNT), Column("rebuiltPhysicalOffset", Unit.COUNT),
    )  # fmt: skip
    shown = [tuple(row[column.name] for column in columns) for row in wrong]
    outcome.tables.insert(0, Table("differences", "queues that differ, and where first", columns, shown, bad, is_finding=True))
    for name, count in sorted(counts.items()):
        if name in SOUND and name != "equal":
            outcome.notes.append(f"{count} queue(s) {MEANING[name]}")
    outcome.is_clean = outcome.is_clean and not bad
    return [f"{bad} queues differ from the store's"] if bad else []


Rows = Sequence[tuple["Made", "Key", "Settled"]]


def _largest(queues: Rows) -> Table:
    columns = (
        Column("brokerName"), Column("topic"), Column("queueId", Unit.COUNT), Column("units", Unit.COUNT),
        Column("firstOffset", Unit.COUNT), Column("lastOffset", Unit.COUNT), Column("bytes", Unit.BYTES),
    )  # fmt: skip
    most = sorted(queues, key=lambda row: (-row[2].units, row[1]))[:WORST]
    rows = [
        (one.plan.store.broker_name, key.topic, key.queue_id, queue.units, queue.start, queue.end - 1, one.bytes[key])
        for one, key, queue in most
    ]
    return Table("queues", "the largest queues", columns, [*rows], len(queues))


def _special(queues: Rows) -> Table:
    columns = (
        Column("brokerName"), Column("topic"), Column("queueId", Unit.COUNT), Column("bridged", Unit.COUNT),
        Column("lives", Unit.COUNT), Column("firstOffset", Unit.COUNT), Column("lastOffset", Unit.COUNT),
    )  # fmt: skip
    broken = [row for row in queues if row[2].bridged or row[2].lives > 1]
    rows = [
        (one.plan.store.broker_name, key.topic, key.queue_id, queue.bridged, queue.lives, queue.start, queue.end - 1)
        for one, key, queue in sorted(broken, key=lambda row: (-row[2].bridged, row[1]))[:WORST]
    ]
    title = "queues with offsets that no message has, or that began anew"
    return Table("broken", title, columns, [*rows], len(broken), is_finding=any(row[2].bridged for row in broken))


def _plot(queues: Rows) -> Plot:
    by_topic: Counter[str] = Counter()
    for _, key, queue in queues:
        by_topic[key.topic] += queue.units
    return Plot("units by topic", bars=[(topic, float(count)) for topic, count in by_topic.most_common(TOP)])


def _notes(made: Sequence[Made], given: Mapping[str, Any]) -> list[str]:
    notes = [f"the queues are in {one.plan.target.root}" for one in made]
    for one in made:
        if one.strangers:
            notes.append(f"{one.plan.store.broker_name}: {one.strangers} message(s) say a topic, queue or offset that cannot be")
        if again := sum(queue.lives > 1 for queue in one.queues.values()):
            notes.append(f"{one.plan.store.broker_name}: {again} queue(s) begin anew in the log: their last life was made")
    return notes
