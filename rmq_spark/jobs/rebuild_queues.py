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
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import RANGE, Job, Source
from rmq_spark.jobs.rebuild_rounds import build
from rmq_spark.kept import Keep, keeps
from rmq_spark.local import local
from rmq_spark.measuring import WORST, source_of
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.session import Progress, silent, watched
from rmq_spark.tables import Rows, Shown, rows_of, tables_of
from rmq_spark.work import Given, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns.read.options import Options
    from rmq_columns.rebuild.compare import Comparison
    from rmq_columns.rebuild.entries import Key
    from rmq_columns.rebuild.runs import Settled
    from rmq_columns.rebuild.work import Made

MEANING: Final = {
    "equivalent": "equal but for the addresses of extensions",
    "deleted topic": "of topics that are not in topics.json any more: made, since their messages are in the log",
    "before the log": "of the store lead only to messages that retention took: not made",
}
QUEUES: Final = (
    "brokerName string, topic string, queueId int, kind string, units long, firstOffset long, lastOffset long, bytes long, "
    "bridged long, lives int, breaks int, dropped long"
)
_QUEUE: Final = ("brokerName", "topic", "queueId")
_LIVES: Final = ("bridged", "lives", "breaks", "dropped", "breakPhysicalOffset")
_DIFFERENCE: Final = ("differentUnits", "firstDifferentOffset", "field", "storePhysicalOffset", "rebuiltPhysicalOffset")
REPORT: Final = (
    Shown(
        "differences",
        "queues that differ, and where first",
        (*_QUEUE, "outcome", *_DIFFERENCE),
        ("differentUnits desc", "topic", "queueId"),
        is_finding=True,
    ),
    Shown("queues", "the largest queues", (*_QUEUE, "units", "firstOffset", "lastOffset", "bytes")),
    Shown(
        "broken",
        "queues with offsets that no message has, or that began anew",
        (*_QUEUE, *_LIVES, "firstOffset", "lastOffset"),
    ),
)
TOP: Final = 20
"""Bars of the plot."""


def rebuild_queues(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Makes the queues and says what they are: brokerName, topic, queueId, kind, units, firstOffset, lastOffset, bytes, bridged,
    lives, breaks, dropped.

    options: `to` and the other parameters of the job; the rest are the format's.  bytes: of the messages; bridged: units over
    offsets that no message has; lives: how often the queue began; breaks: of these, elsewhere than at offset 0; dropped: units of
    earlier lives.  Raises `BadOption`, `StoreError`.
    """
    given, rest = JOB.arguments(options)
    return frame_of(spark, build(spark, source_of(paths, rest), given, silent)[1])


def comparison(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """Makes the queues; a row for each of them and of the store's own: outcome, units, differentUnits, the first difference."""
    given, rest = JOB.arguments(options)
    check_comparable(given)
    return compared(spark, *build(spark, source_of(paths, rest), given, silent))


def check_comparable(given: Mapping[str, Any]) -> None:
    """Raises `BadOption`: what was made is read where queues of stores are."""
    from rmq_columns import BadOption
    from rmq_columns.files.filesystem import local_path

    if given["shuffle"] and local_path(given["to"]) is None:
        raise BadOption("compare: of queues on a disk only; make them in a directory")


def frame_of(spark: SparkSession, made: Iterable[Made]) -> DataFrame:
    """A row for each queue."""
    return local(spark, [_row(one, key, queue) for one in made for key, queue in sorted(one.queues.items())], QUEUES)


def _row(one: Made, key: Key, queue: Settled) -> tuple[Any, ...]:
    """As `QUEUES`."""
    places = (queue.units, queue.start, queue.end - 1, one.bytes[key])
    lives = (queue.bridged, queue.lives, queue.breaks, queue.dropped)
    return one.plan.store.broker_name, key.topic, key.queue_id, key.kind.value, *places, *lives


# --- comparing


def compared(spark: SparkSession, options: Options, made: Iterable[Made]) -> DataFrame:
    """A row of `COMPARED` for each queue that was made, and each of the store's."""
    from rmq_columns.rebuild.compare import plan_comparison
    from rmq_spark.reading import worked

    return worked(spark, "compared", splits=[task for one in made for task in plan_comparison(one.plan, options, one.queues)])


def _compared_schema(given: Given) -> pa.Schema:
    from rmq_columns.rebuild.compare import COMPARED

    return COMPARED


def _compared(given: Given, task: Comparison) -> Iterator[pa.RecordBatch]:
    from rmq_columns.rebuild.compare import compare_queues

    return compare_queues(task)


COMPARING: Final = Work(_compared_schema, _compared)


# --- reporting


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """For the command line."""
    if given["compare"]:
        check_comparable(given)
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
    special = _special(queues)
    outcome.tables = tables_of(REPORT, _shown(queues), queues=len(queues), broken=len(special))
    outcome.tables[-1].is_finding = any(row[2].bridged or row[2].breaks for row in special)
    outcome.plots = [_plot(queues)]
    outcome.notes = _notes(made, given)
    if given["compare"]:
        problems += _compare(spark, options, made, progress, outcome, keep)
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


def _compare(
    spark: SparkSession, options: Options, made: list[Made], progress: Progress, outcome: Outcome, keep: Keep
) -> list[str]:
    """Adds what the comparison found; what is wrong."""
    from pyspark.sql import functions as F

    from rmq_columns.rebuild.compare import SOUND

    rows = keep(compared(spark, options, made))
    with watched(spark, "compare with the store's queues", progress):
        counts = {row["outcome"]: row["count"] for row in rows.groupBy("outcome").count().collect()}
        bad = sum(count for name, count in counts.items() if name not in SOUND)
        [differences] = tables_of(REPORT, {"differences": rows.where(~F.col("outcome").isin(*SOUND))}, differences=bad)
    outcome.frames["comparison"] = rows
    outcome.figures += [Figure("comparedQueues", "queues compared", sum(counts.values()))]
    outcome.figures += [Figure("differentQueues", "of them different or missing", bad)]
    outcome.tables.insert(0, differences)
    for name, count in sorted(counts.items()):
        if name in SOUND and name != "equal":
            outcome.notes.append(f"{count} queue(s) {MEANING[name]}")
    outcome.is_clean = outcome.is_clean and not bad
    return [f"{bad} queues differ from the store's"] if bad else []


Queues = Sequence[tuple["Made", "Key", "Settled"]]


def _special(queues: Queues) -> Queues:
    """As a queue should not be."""
    return [row for row in queues if row[2].bridged or row[2].lives > 1]


def _shown(queues: Queues) -> dict[str, Rows]:
    """What the report shows of them."""
    largest = sorted(queues, key=lambda row: (-row[2].units, row[1]))[:WORST]
    broken = sorted(_special(queues), key=lambda row: (-row[2].breaks, -row[2].bridged, row[1]))[:WORST]
    return {
        "queues": rows_of([_row(*one) for one in largest], QUEUES),
        "broken": [
            {**row, "breakPhysicalOffset": one[2].break_physical if one[2].breaks else None}
            for one, row in zip(broken, rows_of([_row(*one) for one in broken], QUEUES), strict=True)
        ],
    }


def _plot(queues: Queues) -> Plot:
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


JOB: Final = Job(
    name="rebuild-queues",
    line="Make the consume queues anew from the log, byte for byte.",
    parameters=(
        Parameter(
            "to",
            "path",
            "Where to make them: a new or empty directory, or one of an earlier run.  Driver and executors must share it.",
            metavar="DIR",
            is_required=True,
        ),
        Parameter("compare", bool, "Hold the store's own queues against them: which differ, and where first."),
        Parameter(
            "delay_levels",
            str,
            "messageDelayLevel.  By default the store's own delayed messages say, else Java's default counts.",
            metavar="LEVELS",
        ),
        Parameter(
            "queue_file_bytes",
            int,
            "mappedFileSizeConsumeQueue.  By default the store's queue files say, else it is 6000000.",
            least=20,
        ),
        Parameter(
            "batch_topic",
            str,
            "A topic with queue.type=BatchCQ that topics.json does not name.  May be repeated.",
            metavar="NAME",
            is_many=True,
        ),
        Parameter(
            "shuffle", bool, "Bring the units of each file together and put it whole: then DIR may be a URI (s3://bucket/queues)."
        ),
        Parameter("extensions", bool, "enableConsumeQueueExt was on from the beginning, also where no extensions are left."),
    ),
    examples=("/data/broker-a/store --to /data/rebuilt", "/data/broker-a/store --to /data/rebuilt --compare"),
    found="the log has damage or gaps, or a queue of the store differs",
    run=run,
    function=rebuild_queues,
    left_out=RANGE,
)
