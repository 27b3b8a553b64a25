"""What the parts of a log say of their queues, put together by Spark: for `audit`, of which nothing on the driver is to grow with
queues x files.

A task says, of each queue that it met, where it began and ended there, and for how many units of each queue file it found the
message.  These rows stay where they were said, and are shuffled by queue; the driver gets one for each queue and queue file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.kept import Kept
from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rmq_columns.checks.audit import LogPiece, Sharing
    from rmq_columns.checks.report import LogReport, Sums

SAID: Final = (
    "store int, part long, begin long, topic string, queueId int, queueFile long, first long, firstAt long, next long, "
    "lastAt long, units long, piece int, answer binary"
)
"""part, begin: where the file begins in the log, and the part in the file.  A queue in a part: queueFile null, offsets and places
in the log of its first and last message there.  A queue file: its units whose message is in the part.  A piece: its answer
alone."""
_EDGE: Final = ("part", "begin", "first", "firstAt", "next", "lastAt", "units")
_QUEUE: Final = ("store", "topic", "queueId", "queueFile")
_STEPS: Final = """transform(
    filter(sequence(1, greatest(size(edges) - 1, 1)),
        at -> get(edges, at).first <> get(edges, at - 1).next and get(edges, at).first <> 0),
    at -> named_struct('part', get(edges, at).part, 'begin', get(edges, at).begin, 'expected', get(edges, at - 1).next,
        'found', get(edges, at).first, 'fromAt', get(edges, at - 1).lastAt, 'at', get(edges, at).firstAt))"""
"""Of queues that do not begin in a part where they ended in the one before; a queue that begins at 0 was made again."""


class QueueSums:
    """A `Reducer`; a context manager, behind which nothing is kept."""

    def __init__(self, spark: SparkSession, progress: Progress) -> None:
        self._spark, self._progress = spark, progress
        self._kept, self._held = Kept(), ExitStack()
        self._said: list[DataFrame] = []

    def __enter__(self) -> QueueSums:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(Exception) if kind else nullcontext():  # the JVM may be gone: that is what is to be said
            self._kept.release()
            self._held.close()

    def check(self, work: Sharing, pieces: Sequence[LogPiece]) -> list[list[LogReport]]:
        """As `Reducer`."""
        from pyspark.sql import functions as F

        from rmq_spark import tasks

        shared = self._held.enter_context(tasks.shared(self._spark, work.shared))
        said = tasks.tabled(self._spark, partial(say, work.work, shared), list(enumerate(pieces)), SAID)
        edges = F.array_sort(F.collect_list(F.struct(*_EDGE))).alias("edges")
        grouped = said.groupBy(*_QUEUE, "piece").agg(edges, F.any_value("answer").alias("answer"))
        self._said.append(self._kept(grouped))
        with watched(self._spark, "log", self._progress):
            rows = grouped.where("answer is not null").select("piece", "answer").collect()
        answers = {row["piece"]: tasks.unpickled(row["answer"]) for row in rows}
        return [answers[number] for number in range(len(pieces))]

    def sums(self, number: int, recut: Collection[int], first: int) -> Sums:
        """As `Reducer`."""
        from pyspark.sql import functions as F

        from rmq_columns.checks.report import QueueSummary, Step, Sums

        again = F.array(*(F.lit(part).cast("long") for part in sorted(recut))).cast("array<bigint>")
        queues, *more = (one.where(F.col("answer").isNull()).select(*_QUEUE, "edges") for one in self._said)
        if more:  # of a file that was looked at twice the second look counts
            queues = queues.withColumn("edges", F.filter("edges", lambda one: ~F.array_contains(again, one["part"])))
            for one in more:
                own = F.filter("edges", lambda one: F.array_contains(again, one["part"]))
                queues = queues.unionByName(one.withColumn("edges", own))
            queues = queues.groupBy(*_QUEUE).agg(F.array_sort(F.flatten(F.collect_list("edges"))).alias("edges"))
        queues = queues.where(F.col("store") == number).withColumn("edges", F.expr(f"filter(edges, one -> one.part >= {first})"))
        ends = {"first": "get(edges, 0).first", "next": "get(edges, size(edges) - 1).next"}
        ends |= {"firstAt": "get(edges, 0).firstAt", "lastAt": "get(edges, size(edges) - 1).lastAt", "steps": _STEPS}
        columns = [F.when(F.col("queueFile").isNull(), F.expr(text)).alias(name) for name, text in ends.items()]
        units = F.expr("aggregate(edges, 0L, (sum, one) -> sum + one.units)").alias("units")
        with watched(self._spark, "queues from part to part", self._progress):
            rows = queues.where("size(edges) > 0").select("topic", "queueId", "queueFile", units, *columns).collect()
        found = Sums()
        for row in rows:
            key = (row["topic"], row["queueId"])
            if row["queueFile"] is not None:
                found.matched[*key, row["queueFile"]] = row["units"]
                continue
            found.queues[key] = QueueSummary(row["units"], row["first"], row["next"], row["firstAt"], row["lastAt"])
            for one in row["steps"]:
                step = Step(key, one["expected"], one["found"], one["fromAt"], one["at"])
                found.steps.setdefault((one["part"], one["begin"]), []).append(step)
        for steps in found.steps.values():
            steps.sort(key=lambda step: step.at)
        return found


def say(work: Callable[[Any, Any], list[LogReport]], shared: Any, numbered: tuple[int, LogPiece]) -> Iterator[tuple[Any, ...]]:
    """In a task: rows of `SAID`."""
    from rmq_spark.tasks import pickled

    number, piece = numbered
    store, _ = piece
    reports = work(shared.value, piece)
    for one in reports:
        part = (store, one.start, one.begin)
        for key, edge in one.edges.items():
            places = (edge.first, one.start + edge.first_at, edge.next, one.start + edge.last_at)
            yield (*part, *key, None, *places, edge.units, None, None)
        for (topic, queue_id, file), units in one.matched.items():
            yield (*part, topic, queue_id, file, None, None, None, None, units, None, None)
        one.edges, one.matched = {}, {}
    yield (store, None, None, None, None, None, None, None, None, None, None, number, bytearray(pickled(reports)))
