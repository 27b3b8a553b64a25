"""What tasks of `audit` say of queues, put together by Spark: nothing on the driver is to grow with queues x files.

A task says, of each queue that it met in the log, where it began and ended there, and for how many units of each queue file it
found the message.  These rows stay where they were said, and are shuffled by queue; the driver gets one for each queue and queue
file.  Where there are many queues, what is known of them stays with Spark, too: queue units and messages meet by queue and
file of that queue (`audit_work`), and the driver gets what was found.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rmq_columns.checks.meeting import take
from rmq_spark.grouped import grouped
from rmq_spark.jobs.audit_work import (
    ANSWER,
    DANGLING,
    EDGE,
    ENTRIES,
    FILE,
    INDEX,
    KEYS,
    LONE,
    MATCHED,
    MEETING,
    PART,
    QUEUE,
    STATE,
    STRETCH,
    WANTED,
    IndexMeeting,
    Meeting,
)
from rmq_spark.kept import Kept, shortened
from rmq_spark.session import Progress, watched
from rmq_spark.work import as_text, unpickled

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from rmq_columns.checks.audit import Answer, LogPiece, Sharing, SmallPiece
    from rmq_columns.checks.index import IndexState
    from rmq_columns.checks.meeting import Bounds, Elsewhere
    from rmq_columns.checks.queues import Key, QueueState
    from rmq_columns.checks.report import Known, LogReport, Sums

CALLS: Final = 32
"""For each task of a shuffle: so many even out what they get."""
_EDGE: Final = ("part", "begin", "first", "firstAt", "next", "lastAt", "units")
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
        self._kept = Kept()
        self._said: list[DataFrame] = []
        """of each look at the log: edges and matched units, put together by queue and queue file"""
        self._of_store: dict[int, list[tuple[Any, ...]]] = {}
        """of each store as the function `_summed`, where all of it came with the first look"""
        self._begins: dict[int, int] = {}
        """where the first file of each store begins"""
        self._wanted: list[DataFrame] = []
        self._states: DataFrame | None = None
        self._index: DataFrame | None = None

    def __enter__(self) -> QueueSums:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(Exception) if kind else nullcontext():  # the JVM may be gone: that is what is to be said
            self._kept.release()

    def gathered(self, what: str, how: str, pieces: Sequence[Any], shared: Any = None) -> list[Any]:
        """The answers to pieces of work, in order."""
        from rmq_spark.reading import worked

        if not pieces:
            return []
        return self._answers(
            what, worked(self._spark, "audited", splits=list(enumerate(pieces)), how=how, shared=as_text(shared))
        )

    def _answers(self, what: str, said: DataFrame) -> list[Any]:
        with watched(self._spark, what, self._progress):
            rows = said.where(said["kind"] == ANSWER).select("piece", "held").collect()
        return _in_order((row["piece"], row["held"]) for row in rows)

    def check(self, work: Sharing, pieces: Sequence[LogPiece]) -> list[list[LogReport]]:
        """As `Reducer`."""
        from pyspark.sql import functions as F

        from rmq_spark.reading import worked

        said = worked(self._spark, "audited", splits=list(enumerate(pieces)), how="log", shared=as_text(work.shared))
        is_far = any(known.queue_file_bytes for known in work.shared)
        if is_far:
            said = self._kept(said).coalesce(int(self._spark.conf.get("spark.sql.shuffle.partitions")))
            self._wanted.append(said.where(F.col("kind").isin(WANTED, KEYS)))
            said = said.where(~F.col("kind").isin(WANTED, KEYS))
        edges = F.array_sort(F.collect_list(F.struct(*_EDGE))).alias("edges")
        with watched(self._spark, "log", self._progress):
            together = shortened(said.groupBy("kind", *FILE, "piece").agg(edges, F.any_value("held").alias("held")))
        self._said.append(together)
        if is_far or len(self._said) > 1:
            return self._answers("log", together)
        # of few queues all comes at once: that may be all that is asked
        with watched(self._spark, "log", self._progress):
            rows = _rows(together.select("kind", "store", "piece", "held", *_summed()))
        for kind, store, _, _, *of_queue in rows:
            if kind != ANSWER:
                self._of_store.setdefault(store, []).append(tuple(of_queue))
        self._begins = {store: min(part.file.start for part in parts) for store, parts in reversed(pieces)}
        return _in_order((piece, held) for kind, _, piece, held, *_ in rows if kind == ANSWER)

    def sums(self, number: int, recut: Collection[int], first: int) -> Sums:
        """As `Reducer`."""
        from rmq_columns.checks.report import QueueSummary, Step, Sums

        summed = self._of_store.pop(number, None)
        if summed is None or len(self._said) > 1 or first > self._begins[number]:
            summed = self._looked_up(number, recut, first)
        found = Sums()
        for topic, queue_id, file, count, *ends_of, steps in summed:
            key = (topic, queue_id)
            if file is not None:
                found.matched[*key, file] = count
                continue
            found.queues[key] = QueueSummary(count, *ends_of)
            for one in json.loads(steps) if steps else ():
                step = Step(key, one["expected"], one["found"], one["fromAt"], one["at"])
                found.steps.setdefault((one["part"], one["begin"]), []).append(step)
        for broken in found.steps.values():
            broken.sort(key=lambda step: step.at)
        return found

    def _looked_up(self, number: int, recut: Collection[int], first: int) -> list[tuple[Any, ...]]:
        """As `_summed`: of one store, of parts from `first` on, of files that were looked at twice by the second look."""
        from pyspark.sql import functions as F

        again = _parts(recut)
        queues, *more = (one.where(F.col("kind").isin(EDGE, MATCHED)).select(*FILE, "edges") for one in self._said)
        if more:
            queues = queues.withColumn("edges", F.filter("edges", lambda one: ~F.array_contains(again, one["part"])))
            for one in more:
                own = F.filter("edges", lambda one: F.array_contains(again, one["part"]))
                queues = queues.unionByName(one.withColumn("edges", own))
            queues = queues.groupBy(*FILE).agg(F.array_sort(F.flatten(F.collect_list("edges"))).alias("edges"))
        queues = queues.where(F.col("store") == number).withColumn("edges", F.expr(f"filter(edges, one -> one.part >= {first})"))
        with watched(self._spark, "queues from part to part", self._progress):
            return _rows(queues.where("size(edges) > 0").select(*_summed()))

    # --- many queues

    def check_queues(self, pieces: Sequence[SmallPiece], known: Sequence[Known]) -> list[list[Answer]]:
        """As `Reducer`."""
        from rmq_spark.reading import worked

        said = worked(self._spark, "audited", splits=list(enumerate(pieces)), how="queues", shared=as_text(known))
        said = self._kept(said)
        self._states, self._index = said.where(said["kind"] == STATE), said.where(said["kind"].isin(ENTRIES, INDEX))
        return self._answers("queues and index", said)

    def meet(self, number: int, recut: Collection[int], known: Known) -> Elsewhere:
        """As `Reducer`."""
        from pyspark.sql import functions as F

        from rmq_columns.checks.meeting import Elsewhere

        again = _parts(recut)
        wanted = [
            one.where(F.array_contains(again, F.col("part")) == (look > 0) if recut or look else F.lit(True)).where(
                F.col("store") == number
            )
            for look, one in enumerate(self._wanted)
        ]
        rows: list[Row] = []
        if known.with_queues:
            with watched(self._spark, "queues against the log", self._progress):
                rows += self._met_queues(number, wanted, known)
        if known.with_index and known.index_told.compares(known.settled):
            with watched(self._spark, "index against the log", self._progress):
                rows += self._met_index(number, wanted, known)
        elsewhere = Elsewhere(partial(self._states_of, number), index_past=partial(self._index_past, number))
        for row in sorted(rows, key=lambda row: (row["part"] or 0, row["begin"] or 0)):
            held = unpickled(row["held"])
            if row["kind"] == DANGLING:
                elsewhere.dangling.append(held)
            elif (before := elsewhere.reports.get((row["part"], row["begin"]))) is not None:
                take(before, held)
            else:
                elsewhere.reports[row["part"], row["begin"]] = held
        return elsewhere

    def _met_queues(self, number: int, wanted: Sequence[DataFrame], known: Known) -> list[Row]:
        from pyspark.sql import functions as F

        assert self._states is not None
        columns = ("kind", *FILE, *PART, "held")
        states = self._states.where(F.col("store") == number).select(*columns)
        every = states.where("queueFile is not null")
        for one in wanted:
            every = every.unionByName(one.where(F.col("kind") == WANTED).select(*columns))
        met = self._kept(self._met(every, FILE, ({number: known}, True)))
        rows = met.where(F.col("kind") != LONE).select("kind", *PART, "held").collect()
        lone = met.where(F.col("kind") == LONE)
        if lone.head(1):
            whole = states.where("queueFile is null").join(lone.select(*QUEUE).distinct(), list(QUEUE), "left_semi")
            both = lone.select(*columns).withColumn("kind", F.lit(WANTED)).unionByName(whole)
            found = self._met(both, QUEUE, ({number: known}, False))
            rows += found.select("kind", *PART, "held").collect()
        return rows

    def _met(self, rows: DataFrame, keys: Sequence[str], shared: Any) -> DataFrame:
        """What states and messages of each key give.  Many keys are one call: there may be only a few messages of each."""
        from pyspark.sql import functions as F

        calls = CALLS * int(self._spark.conf.get("spark.sql.shuffle.partitions"))
        rows = rows.withColumn("call", F.pmod(F.xxhash64(*keys), F.lit(calls)))
        home = f"{Meeting.__module__}:{Meeting.__name__}"
        return grouped(rows, ("call",), (*keys, "kind", *PART), home, MEETING, shared)

    def _met_index(self, number: int, wanted: Sequence[DataFrame], known: Known) -> list[Row]:
        from pyspark.sql import functions as F

        assert self._index is not None
        columns = ("kind", *STRETCH, "topic", *PART, "first", "next", "firstAt", "lastAt", "held")
        every = self._index.where((F.col("store") == number) & (F.col("kind") == ENTRIES)).select(*columns)
        for one in wanted:
            every = every.unionByName(one.where(F.col("kind") == KEYS).select(*columns))
        order, home = ("kind", "topic", *PART, "first"), f"{IndexMeeting.__module__}:{IndexMeeting.__name__}"
        found = grouped(every, STRETCH, order, home, MEETING, {number: known})
        return found.select("kind", *PART, "held").collect()

    def _index_past(self, number: int, end: int) -> list[IndexState]:
        from pyspark.sql import functions as F

        assert self._index is not None
        own = self._index.where((F.col("store") == number) & (F.col("kind") == INDEX))
        rows = own.where((F.col("lastAt") >= end) | (F.col("units") > 0)).select("topic", "held").collect()
        return [unpickled(row["held"]) for row in sorted(rows, key=lambda row: str(row["topic"]))]

    def _states_of(self, number: int, topics: set[str]) -> dict[Key, QueueState]:
        held = self._whole_states(number)
        rows = held.where(held["topic"].isin(sorted(topics)) & (held["first"] == 0)).collect()
        return {(row["topic"], row["queueId"]): unpickled(row["held"]) for row in rows}

    def bounds(self, number: int) -> dict[Key, Bounds]:
        """As `Reducer`."""
        from rmq_columns.checks.meeting import Bounds

        rows = _rows(self._whole_states(number).select("topic", "queueId", "first", "next", "units"))
        return {(topic, queue_id): Bounds(first, end, bool(units)) for topic, queue_id, first, end, units in rows}

    def _whole_states(self, number: int) -> DataFrame:
        assert self._states is not None
        return self._states.where((self._states["store"] == number) & self._states["queueFile"].isNull())


def _summed() -> list[Column | str]:
    """Of a queue: topic, queueId, null, units, first, next, firstAt, lastAt, steps as JSON, null where there are none.  Of a
    queue file: topic, queueId, queueFile, units, and nothing else."""
    from pyspark.sql import functions as F

    ends = {"first": "get(edges, 0).first", "next": "get(edges, size(edges) - 1).next"}
    ends |= {"firstAt": "get(edges, 0).firstAt", "lastAt": "get(edges, size(edges) - 1).lastAt"}
    ends |= {"steps": f"if(size({_STEPS}) > 0, to_json({_STEPS}), null)"}
    units = F.expr("aggregate(edges, 0L, (sum, one) -> sum + one.units)").alias("units")
    of_queue = [F.when(F.col("queueFile").isNull(), F.expr(text)).alias(name) for name, text in ends.items()]
    return ["topic", "queueId", "queueFile", units, *of_queue]


def _in_order(answers: Iterable[tuple[int, bytes]]) -> list[Any]:
    """(number of the piece, what was answered)"""
    return [unpickled(held) for _, held in sorted(answers)]


def _rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Of many queues: Arrow's columns are made into values several times faster than `collect` makes rows."""
    return list(zip(*(column.to_pylist() for column in frame.toArrow().columns), strict=True))


def _parts(recut: Collection[int]) -> Column:
    from pyspark.sql import functions as F

    return F.array(*(F.lit(part).cast("long") for part in sorted(recut))).cast("array<bigint>")
