"""Two stores, or a store and its replica: the same messages in the same queues at the same offsets?

Each task sums the digests of its split by queue and block of 4096 offsets (`rmq_columns.read.digests`); blocks are joined by
queue and number, so physical offsets may differ.  Only where the digests differ are messages looked at one by one.  A queue that
ends earlier on one side is one range, not its messages: a replica that is still being copied is behind, and what it
has may be equal all the same.  Where both have their messages at the same physical offsets, a queue that ends early although
later messages are there has lost some.

Not clean: any message that differs or lacks, and any store that is behind the other or begins later (not with `--common`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.arguments import Parameter
from rmq_spark.jobs import RANGE, Job, Source
from rmq_spark.jobs.diff_passes import DIFFERS, ONLY_FIRST, ONLY_SECOND, Compared, compare
from rmq_spark.jobs.diff_ranges import BEHIND, LATER, LOST, NO_QUEUE, QUEUE
from rmq_spark.kept import Keep, keeping, keeps
from rmq_spark.measuring import WORST, source_of
from rmq_spark.outcome import Figure, Outcome, Plot, Unit
from rmq_spark.session import Progress, silent, watched
from rmq_spark.tables import Shown, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def diff(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """The messages that differ: brokerName, topic, queueId, queueOffset, outcome, fields, physicalOffset, otherPhysicalOffset.

    paths: two stores, or one and `other`.  options: the parameters of the job; the rest are the format's.
    """
    given, rest = JOB.arguments(options)
    with keeping() as keep:
        return compare(spark, source_of(paths, rest), given, silent, keep).messages


def ranges(spark: SparkSession, paths: Any, **options: Any) -> DataFrame:
    """What one side lacks at an end of a queue: brokerName, topic, queueId, side, outcome, firstOffset, endOffset, count."""
    given, rest = JOB.arguments(options)
    with keeping() as keep:
        return compare(spark, source_of(paths, rest), given, silent, keep).ranges


@keeps
def run(spark: SparkSession, source: Source, given: dict[str, Any], progress: Progress, keep: Keep) -> Outcome:
    """For the command line."""
    from pyspark.sql import functions as F

    found = compare(spark, source, given, progress, keep)
    with watched(spark, "count", progress):
        counts = {row["outcome"]: row["count"] for row in found.messages.groupBy("outcome").count().collect()}
        by_range = (
            found.ranges.groupBy("outcome", "side").agg(F.count("*").alias("queues"), F.sum("count").alias("count")).collect()
        )
        queues = found.queues.count()
        shown = {"messages": _messages(found), "ranges": found.ranges, "queues": found.queues}
        tables = tables_of(REPORT, shown, messages=sum(counts.values()))
    ends = [row for row in by_range if row["outcome"] in (BEHIND, LATER)]
    lost = [row for row in by_range if row["outcome"] not in (BEHIND, LATER)]
    is_clean = not found.different_blocks and not lost and (not ends or bool(given["common"]))
    problems = [f"{count} message(s) {'differ' if name == DIFFERS else name}" for name, count in sorted(counts.items())]
    problems += [PROBLEMS[row["outcome"]].format(row["side"], row["count"], row["queues"]) for row in [*lost, *ends]]
    rest = found.different_blocks - found.looked_into
    problems += [f"{rest} more blocks of 4096 offsets differ"] if rest > 0 else []
    equal = "what both hold is equal" if problems else "equal"
    verdict = "; ".join([*([equal] if not found.different_blocks else []), *problems])
    outcome = Outcome("diff", verdict, is_clean, tables=tables, plots=[_plot(by_range, counts)])
    outcome.messages = sum(found.messages_of.values())
    outcome.figures = [
        Figure("queues", "queues", queues),
        Figure("messages", "messages in the first", found.messages_of.get(0, 0)),
        Figure("otherMessages", "messages in the second", found.messages_of.get(1, 0)),
        Figure("differentBlocks", "blocks of 4096 offsets that differ", found.different_blocks),
        Figure("differingMessages", "messages that differ", counts.get(DIFFERS, 0)),
        Figure("onlyFirst", "messages only in the first", counts.get(ONLY_FIRST, 0)),
        Figure("onlySecond", "messages only in the second", counts.get(ONLY_SECOND, 0)),
        Figure("behind", "messages that one is behind", sum(row["count"] for row in ends if row["outcome"] == BEHIND)),
        Figure("samePlaces", "equal messages lie at equal physical offsets", found.same_places, Unit.TEXT),
    ]
    outcome.notes = [
        f"{'second' if side else 'first'}: {size} bytes of the log are no message" for side, size in sorted(found.damaged.items())
    ]
    if rest > 0:
        outcome.notes.append(f"looked into {found.looked_into} blocks, the lowest first (--max-blocks)")
    outcome.frames = {"messages": found.messages, "ranges": found.ranges, "queues": found.queues}
    return outcome


PROBLEMS: Final = {
    BEHIND: "the {0} is behind by {1} message(s) at the end of {2} queue(s)",
    LATER: "the {0} begins later: {1} message(s) at the beginning of {2} queue(s) are not there any more",
    LOST: "the {0} lacks {1} message(s) at an end of {2} queue(s) although its log goes on",
    NO_QUEUE: "the {0} has nothing of {1} message(s) in {2} queue(s)",
}


def _messages(found: Compared) -> list[dict[str, Any]]:
    """Those that are shown."""
    worst = [row.asDict() for row in found.messages.orderBy(*QUEUE, "queueOffset").limit(WORST).collect()]
    return [{**row, "propertyNames": different_properties(row["properties"], row["otherProperties"])} for row in worst]


def different_properties(one: bytes | None, other: bytes | None) -> str | None:
    """Names of properties that are not the same in both."""
    if one is None or other is None or one == other:
        return None
    pairs = [dict(pair.partition(b"\x01")[::2] for pair in text.split(b"\x02") if pair) for text in (bytes(one), bytes(other))]
    names = sorted(name for name in pairs[0].keys() | pairs[1].keys() if pairs[0].get(name) != pairs[1].get(name))
    return ", ".join(name.decode("utf-8", "replace") for name in names) or "their order"


REPORT: Final = (
    Shown(
        "messages",
        "messages that differ",
        (*QUEUE, "queueOffset", "outcome", "fields", "physicalOffset", "otherPhysicalOffset", "propertyNames"),
        is_finding=True,
    ),
    Shown(
        "ranges",
        "what one lacks at an end of a queue",
        (*QUEUE, "side", "outcome", "firstOffset", "endOffset", "count"),
        ("outcome", *QUEUE),
        is_finding=True,
    ),
    Shown(
        "queues",
        "queues that are not the same",
        (
            *QUEUE,
            "firstOffset_0 as firstOffset",
            "endOffset_0 as endOffset",
            "firstOffset_1 as otherFirstOffset",
            "endOffset_1 as otherEndOffset",
            "differentBlocks",
        ),
        ("differentBlocks desc",),
        where="differentBlocks > 0 or not isEven",
    ),
)


def _plot(by_range: Iterable[Any], counts: Mapping[str, int]) -> Plot:
    bars = [(name, float(count)) for name, count in sorted(counts.items())]
    bars += [(f"{row['outcome']}: {row['side']}", float(row["count"])) for row in by_range]
    return Plot("messages that are not the same in both", bars=bars)


JOB: Final = Job(
    name="diff",
    line="Compare two stores, or a store and its replica, message by message.",
    parameters=(
        Parameter(
            "other",
            "path",
            "The store to compare with, or a directory with brokers of the same names.  Or name exactly two PATHS.",
        ),
        Parameter("exact", bool, "Physical offset, store time and store host have to be equal, too, as in a replica."),
        Parameter("common", bool, "Only what both hold: that one ends earlier or begins later does not count."),
        Parameter(
            "ignore_property",
            str,
            "A property that does not count, such as CLUSTER.  May be repeated.",
            metavar="NAME",
            is_many=True,
        ),
        Parameter("max_blocks", int, "Look into at most so many differing blocks of 4096 offsets.", 256, least=1),
    ),
    examples=("/data/broker-a/store /backup/broker-a/store --exact", "/data/brokers --other /data/moved --common"),
    found="the stores are not the same",
    run=run,
    function=diff,
    left_out=RANGE,
)
