"""Consume queues made anew from the log, byte for byte as a broker's, in a directory of their own; never in the store.

Each task writes the units of its split at their places of sparse files (`rmq_columns.rebuild.work`), so the directory must
be one that the driver and all executors share; only the runs of offsets go on to Spark, which finds the queues whose runs do not
follow one another.  Those alone come to the driver and are written in a second round, as are batch queues.  With `--compare` the
store's own queues are held against them.

Not clean: bytes of the log that are no message, offsets that no message has, a queue that begins anew elsewhere than at offset 0
(where a topic that was made again begins: an offset in the log is wrong), messages that no queue can have, a queue of the store
that differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter, arguments_of
from rmq_spark.jobs import RANGE, Source
from rmq_spark.measuring import WORST, lenient, source_of
from rmq_spark.outcome import Column, Figure, Outcome, Plot, Table, Unit
from rmq_spark.session import Progress, silent, watched

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from rmq_columns.read.options import Options
    from rmq_columns.rebuild.entries import Key
    from rmq_columns.rebuild.plan import Task
    from rmq_columns.rebuild.runs import Run, Settled
    from rmq_columns.rebuild.work import Made

PARAMETERS: Final = (
    Parameter(
        "to",
        "path",
        "Where to make them: a new directory or one of an earlier run, shared by executors.",
        metavar="DIR",
        is_required=True,
    ),
    Parameter("compare", bool, "Hold the store's own queues against them."),
    Parameter("delay_levels", str, "messageDelayLevel, where no delayed message says it.", metavar="LEVELS"),
    Parameter("queue_file_bytes", int, "mappedFileSizeConsumeQueue, where no queue file says.", least=20),
    Parameter(
        "batch_topic",
        str,
        "A topic with queue.type=BatchCQ that topics.json does not name.  May be repeated.",
        metavar="NAME",
        is_many=True,
    ),
    Parameter("extensions", bool, "enableConsumeQueueExt was on from the beginning, also where no extensions are left."),
)
EXAMPLES: Final = ("/data/broker-a/store --to /data/rebuilt", "/data/broker-a/store --to /data/rebuilt --compare")
LEFT_OUT: Final = RANGE
FOUND: Final = "the log has damage or gaps, or a queue of the store differs"
RUNS_TAKEN_MAX: Final = 200_000
"""Up to so many runs the driver puts all queues together: no shuffle, which costs as much as a gigabyte of log."""
TASKS_TAKEN_MAX: Final = 64
"""Up to so many tasks give it their runs without a count before, which costs 0.1 s."""
TOO_MANY: Final = "too many"
"""In place of a kind of queue."""
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
    lives, breaks, dropped.

    options: `to` and the other parameters of the job; the rest are the format's.  bytes: of the messages; bridged: units over
    offsets that no message has; lives: how often the queue began; breaks: of these, elsewhere than at offset 0; dropped: units of
    earlier lives.  Raises `BadOption`, `StoreError`.
    """
    given, rest = arguments_of(PARAMETERS, options)
    return frame_of(spark, build(spark, source_of(paths, rest), given, silent)[1])


def comparison(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Makes the queues; a row for each of them and of the store's own: outcome, units, differentUnits, the first difference."""
    given, rest = arguments_of(PARAMETERS, options)
    return compared(spark, *build(spark, source_of(paths, rest), given, silent))


# --- making


def build(spark: SparkSession, source: Source, given: Mapping[str, Any], progress: Progress) -> tuple[Options, list[Made]]:
    """Make the queues of all stores.  Raises `BadOption`, `StoreError`."""
    from rmq_columns import BadOption
    from rmq_columns.rebuild.plan import plan_build
    from rmq_columns.rebuild.runs import RUNS
    from rmq_columns.rebuild.work import Made, build_split, finish_all, making_all, second_round, to_write_again
    from rmq_spark.options import located
    from rmq_spark.tasks import gathered, spread

    options = located({**lenient(source.options), "paths": list(source.paths)})
    try:
        plans, tasks = plan_build(
            options,
            given["to"],
            levels=given["delay_levels"],
            queue_file_bytes=given["queue_file_bytes"],
            batch_topics=given["batch_topic"],
            extensions=given["extensions"],
        )
    except ValueError as reason:
        raise reason if isinstance(reason, BadOption) else BadOption(f"delay_levels: {reason}") from reason
    made = [Made(plan) for plan in plans]
    with making_all(plans):
        if (rows := _few(spark, tasks, progress)) is not None:
            _take(made, rows)
        else:
            runs = spread(spark, build_split, tasks, RUNS).persist()
            try:
                with watched(spark, "write queue units", progress):
                    count = runs.count()
                _take(made, _collected(spark, runs, made, progress, is_small=count <= RUNS_TAKEN_MAX))
            finally:
                runs.unpersist()
        if again := second_round(tasks, {one.plan.number: to_write_again(one) for one in made}):
            with watched(spark, "write queues that began anew", progress):
                gathered(spark, build_split, again)  # there are no rows
        finish_all(made)
    return options, made


def _few(spark: SparkSession, tasks: Sequence[Task], progress: Progress) -> list[dict[str, Any]] | None:
    """All runs, straight from the tasks; None where there may be too many of them for that."""
    from rmq_spark.tasks import gathered

    if len(tasks) > TASKS_TAKEN_MAX:
        return None
    with watched(spark, "write queue units", progress):
        rows = gathered(spark, partial(bounded, RUNS_TAKEN_MAX // max(len(tasks), 1)), tasks)
    return None if any(row["kind"] == TOO_MANY for row in rows) else rows


def bounded(runs_max: int, task: Task) -> Iterator[pa.RecordBatch]:
    """The work and the runs of one task; where it has more than `runs_max` of them, one row of the kind `TOO_MANY`."""
    import pyarrow as pa

    from rmq_columns.rebuild.runs import RUNS
    from rmq_columns.rebuild.work import build_split

    held, count = [], 0
    for batch in build_split(task):
        count += len(batch)
        if count <= runs_max:
            held.append(batch)
    yield from held if count <= runs_max else [pa.RecordBatch.from_pylist([{"kind": TOO_MANY}], RUNS)]


def _collected(
    spark: SparkSession, runs: DataFrame, made: Sequence[Made], progress: Progress, *, is_small: bool
) -> Iterable[Row]:
    """As few of the persisted runs as say everything.  Raises `CannotRead`."""
    from rmq_columns.errors import CannotRead

    with watched(spark, "put the queues together", progress):
        parts = [runs] if is_small else _aggregated(runs)
        collected = [part.collect() for part in parts]
    if len(collected[-1]) > RUNS_MAX and not is_small:
        raise CannotRead(made[0].plan.target.root, -1, f"more than {RUNS_MAX} breaks of order in the queues of the log")
    return chain.from_iterable(collected)


def _take(made: Sequence[Made], rows: Iterable[Row]) -> None:
    """What the first round met."""
    from rmq_columns.rebuild.work import put_together, take_row

    found: list[dict[Key, list[Run]]] = [{} for _ in made]
    for row in rows:
        take_row(made[row["store"]], found[row["store"]], row)
    for one, of_store in zip(made, found, strict=True):
        put_together(one, of_store)


def _aggregated(runs: DataFrame) -> list[DataFrame]:
    """Few rows for many: a queue whose runs follow one another comes as one run, of any other come all; damage is summed up."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from rmq_columns.rebuild.entries import Kind
    from rmq_columns.rebuild.runs import DAMAGE, IN_NO_QUEUE

    is_other = F.col("kind").isin(DAMAGE, IN_NO_QUEUE)
    before = F.lag("endOffset").over(Window.partitionBy(*KEY).orderBy("firstPhysicalOffset"))
    queues = runs.where(~is_other).withColumn("before", before)
    is_simple = F.col("kind").isin(Kind.PLAIN.value, Kind.LIGHT.value)
    breaks = ~is_simple | (F.col("before").isNotNull() & (F.col("before") != F.col("firstOffset")))
    marked = queues.withColumn("isBroken", F.max(breaks).over(Window.partitionBy(*KEY)))
    whole = (
        marked.where("not isBroken")
        .groupBy(*KEY)
        .agg(
            F.min("firstOffset").alias("firstOffset"),
            F.max("endOffset").alias("endOffset"),
            F.sum("units").alias("units"),
            F.min("firstPhysicalOffset").alias("firstPhysicalOffset"),
            F.max("lastPhysicalOffset").alias("lastPhysicalOffset"),
            F.min_by("firstSize", "firstPhysicalOffset").alias("firstSize"),
            F.sum("bytes").alias("bytes"),
            F.min("split").alias("split"),
        )
    )
    other = runs.where(is_other).groupBy("store", "kind").agg(F.sum("units").alias("units"), F.sum("bytes").alias("bytes"))
    return [whole, other, marked.where("isBroken").select(whole.columns).limit(RUNS_MAX + 1)]


def frame_of(spark: SparkSession, made: Iterable[Made]) -> DataFrame:
    """A row for each queue."""
    import pyarrow as pa

    from rmq_spark.types import spark_type_of_schema

    schema = pa.schema(
        [
            ("brokerName", pa.string()),
            ("topic", pa.string()),
            ("queueId", pa.int32()),
            ("kind", pa.string()),
            ("units", pa.int64()),
            ("firstOffset", pa.int64()),
            ("lastOffset", pa.int64()),
            ("bytes", pa.int64()),
            ("bridged", pa.int64()),
            ("lives", pa.int32()),
            ("breaks", pa.int32()),
            ("dropped", pa.int64()),
        ]
    )
    rows = [
        (
            one.plan.store.broker_name,
            key.topic,
            key.queue_id,
            key.kind.value,
            queue.units,
            queue.start,
            queue.end - 1,
            one.bytes[key],
            queue.bridged,
            queue.lives,
            queue.breaks,
            queue.dropped,
        )
        for one in made
        for key, queue in sorted(one.queues.items())
    ]
    return spark.createDataFrame(rows, spark_type_of_schema(schema))


# --- comparing


def compared(spark: SparkSession, options: Options, made: Iterable[Made]) -> DataFrame:
    """A row of `COMPARED` for each queue that was made, and each of the store's."""
    from rmq_columns.rebuild.compare import COMPARED, compare_queues, plan_comparison
    from rmq_spark.tasks import spread

    tasks = [task for one in made for task in plan_comparison(one.plan, options, one.queues)]
    return spread(spark, compare_queues, tasks, COMPARED)


# --- reporting


def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress) -> Outcome:
    """For the command line."""
    options, made = build(spark, source, given, progress)
    queues = [(one, key, queue) for one in made for key, queue in one.queues.items()]
    damaged = sum(one.damaged_bytes for one in made)
    bridged = sum(queue.bridged for _, _, queue in queues)
    units = sum(queue.units for _, _, queue in queues)
    problems = problems_of(made)
    outcome = Outcome("rebuild-queues", "", not problems)
    outcome.figures = [
        Figure("queues", "queues made", len(queues)),
        Figure("units", "units in them", units),
        Figure("bytes", "bytes of their messages", sum(sum(one.bytes.values()) for one in made), Unit.BYTES),
        Figure("bridgedUnits", "units over offsets that no message has", bridged),
        Figure(
            "brokenQueues", "queues that begin anew elsewhere than at offset 0", sum(queue.breaks > 0 for _, _, queue in queues)
        ),
        Figure("strangeMessages", "messages whose topic, queue or offset cannot be", sum(one.in_no_queue for one in made)),
        Figure("damagedBytes", "bytes of the log that are no message", damaged, Unit.BYTES),
    ]
    outcome.frames["queues"] = partial(frame_of, spark, made)
    outcome.tables = [_largest(queues), _special(queues)]
    outcome.plots = [_plot(queues)]
    outcome.notes = _notes(made, given)
    if given["compare"]:
        problems += _compare(spark, options, made, progress, outcome)
    verdict = f"{len(queues)} queues with {units} units"
    verdict += ", equal to the store's" if given["compare"] and outcome.is_clean else ""
    outcome.verdict = f"{verdict}; {', '.join(problems)}" if problems else verdict
    return outcome


def problems_of(made: Sequence[Made]) -> list[str]:
    """What is wrong with the log, as far as its queues show it."""
    queues = [queue for one in made for queue in one.queues.values()]
    counts = {
        "offsets have no message": sum(queue.bridged for queue in queues),
        "queue(s) begin anew elsewhere than at offset 0": sum(queue.breaks > 0 for queue in queues),
        "message(s) can be in no queue": sum(one.in_no_queue for one in made),
        "bytes of the log are no message": sum(one.damaged_bytes for one in made),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def _compare(spark: SparkSession, options: Options, made: list[Made], progress: Progress, outcome: Outcome) -> list[str]:
    """Adds what the comparison found; what is wrong."""
    from pyspark.sql import functions as F

    from rmq_columns.rebuild.compare import SOUND

    rows = compared(spark, options, made).persist()
    with watched(spark, "compare with the store's queues", progress):
        counts = {row["outcome"]: row["count"] for row in rows.groupBy("outcome").count().collect()}
        worst = rows.where(~F.col("outcome").isin(*SOUND)).orderBy(F.desc("differentUnits"), "topic", "queueId").limit(WORST)
        wrong = worst.collect()
    bad = sum(count for name, count in counts.items() if name not in SOUND)
    outcome.frames["comparison"] = rows
    outcome.figures += [Figure("comparedQueues", "queues compared", sum(counts.values()))]
    outcome.figures += [Figure("differentQueues", "of them different or missing", bad)]
    columns = (
        Column("brokerName"),
        Column("topic"),
        Column("queueId", Unit.PLACE),
        Column("outcome"),
        Column("differentUnits", Unit.COUNT),
        Column("firstDifferentOffset", Unit.PLACE),
        Column("field"),
        Column("storePhysicalOffset", Unit.PLACE),
        Column("rebuiltPhysicalOffset", Unit.PLACE),
    )
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
        Column("brokerName"),
        Column("topic"),
        Column("queueId", Unit.PLACE),
        Column("units", Unit.COUNT),
        Column("firstOffset", Unit.PLACE),
        Column("lastOffset", Unit.PLACE),
        Column("bytes", Unit.BYTES),
    )
    most = sorted(queues, key=lambda row: (-row[2].units, row[1]))[:WORST]
    rows = [
        (one.plan.store.broker_name, key.topic, key.queue_id, queue.units, queue.start, queue.end - 1, one.bytes[key])
        for one, key, queue in most
    ]
    return Table("queues", "the largest queues", columns, [*rows], len(queues))


def _special(queues: Rows) -> Table:
    columns = (
        Column("brokerName"),
        Column("topic"),
        Column("queueId", Unit.PLACE),
        Column("bridged", Unit.COUNT),
        Column("lives", Unit.COUNT),
        Column("breaks", Unit.COUNT),
        Column("dropped", Unit.COUNT),
        Column("breakPhysicalOffset", Unit.PLACE),
        Column("firstOffset", Unit.PLACE),
        Column("lastOffset", Unit.PLACE),
    )
    special = [row for row in queues if row[2].bridged or row[2].lives > 1]
    rows = [
        (
            one.plan.store.broker_name,
            key.topic,
            key.queue_id,
            queue.bridged,
            queue.lives,
            queue.breaks,
            queue.dropped,
            queue.break_physical if queue.breaks else None,
            queue.start,
            queue.end - 1,
        )
        for one, key, queue in sorted(special, key=lambda row: (-row[2].breaks, -row[2].bridged, row[1]))[:WORST]
    ]
    title = "queues with offsets that no message has, or that began anew"
    is_finding = any(row[2].bridged or row[2].breaks for row in special)
    return Table("broken", title, columns, [*rows], len(special), is_finding=is_finding)


def _plot(queues: Rows) -> Plot:
    by_topic: Counter[str] = Counter()
    for _, key, queue in queues:
        by_topic[key.topic] += queue.units
    return Plot("units by topic", bars=[(topic, float(count)) for topic, count in by_topic.most_common(TOP)])


def _notes(made: Sequence[Made], given: Mapping[str, Any]) -> list[str]:
    notes = [f"the queues are in {one.plan.target.root}" for one in made]
    for one in made:
        if one.in_no_queue:
            notes.append(
                f"{one.plan.store.broker_name}: {one.in_no_queue} message(s) say a topic, queue or offset that cannot be"
            )
        if again := sum(queue.lives > 1 for queue in one.queues.values()):
            notes.append(f"{one.plan.store.broker_name}: {again} queue(s) begin anew in the log: their last life was made")
        if dropped := sum(queue.dropped for queue in one.queues.values() if queue.breaks):
            notes.append(
                f"{one.plan.store.broker_name}: a queue that begins anew elsewhere than at offset 0 means an offset in the log"
                f" that is wrong; as in a broker's own rebuild, {dropped} unit(s) of what stood before were left out"
            )
    return notes
