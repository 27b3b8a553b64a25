"""`rebuild-queues` by a shuffle: pieces of queue files meet by file, and each file is put once, whole, to any file system.

The log is read once; units stay with Spark until the queues are put together, and only a queue that began anew in the log, one
with extensions or of batches is read for once more.  Nothing is removed before all files are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from rmq_spark.grouped import grouped
from rmq_spark.jobs.audit_work import batches
from rmq_spark.kept import Kept, keeping
from rmq_spark.session import Progress, watched
from rmq_spark.work import Given, Work

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

    from rmq_columns.rebuild.plan import Task
    from rmq_columns.rebuild.work import Made

PIECE: Final = "store int, topic string, queueId int, file string, fileBytes long, at long, data binary"
WRITTEN: Final = "file string, bytes long"
QUEUE: Final = ("store", "topic", "queueId")


def _schema(given: Given) -> pa.Schema:
    """Of `RUNS`; rows that are pieces have their last columns, and no kind."""
    import pyarrow as pa

    from rmq_columns.rebuild.runs import RUNS

    more = [("file", pa.string()), ("fileBytes", pa.int64()), ("at", pa.int64()), ("data", pa.binary())]
    return pa.schema([*RUNS, *more])


def _gathered(given: Given, task: Task) -> Iterator[pa.RecordBatch]:
    """The runs of one task, and the pieces that it would write."""
    from rmq_columns.rebuild.pieces import Gathering
    from rmq_columns.rebuild.work import build_split

    target = task.plan.target
    assert isinstance(target, Gathering)
    rows = (row for batch in build_split(task) for row in batch.to_pylist())
    yield from batches(rows, _schema(given))
    pieces = (
        {
            "store": task.plan.number,
            "topic": topic,
            "queueId": int(queue),
            "file": one.file,
            "fileBytes": one.size,
            "at": one.at,
            "data": one.data,
        }
        for one in target.taken()
        for topic, queue in [one.file.split("/")[-3:-1]]
    )
    yield from batches(pieces, _schema(given), "data")


GATHERED: Final = Work(_schema, _gathered)
"""The table of runs and pieces."""


class Writing:
    """A `Reduction`: one file."""

    def __init__(self, shared: tuple[str, str, bool]) -> None:
        """shared: where to, by which start, and whether files may be there: those that are as they should be stay."""
        self._to, self._run, self._may_be_there = shared
        self._file, self._size = "", 0
        self._pieces: list[tuple[int, bytes]] = []

    def take(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Some pieces, in the order of their places."""
        self._file, self._size = batch.column("file")[0].as_py(), batch.column("fileBytes")[0].as_py()
        self._pieces += zip(batch.column("at").to_pylist(), batch.column("data").to_pylist(), strict=True)
        return ()

    def end(self) -> Iterator[pa.RecordBatch]:
        """Put it."""
        import pyarrow as pa

        from rmq_columns.export.destination import destination
        from rmq_columns.rebuild.pieces import whole_file
        from rmq_spark.jobs.rebuild_directory import checked

        there = destination(self._to)
        check = partial(checked, there, self._to, self._run)
        check()
        data = whole_file(self._file, self._size, self._pieces)
        if not self._may_be_there or there.size(self._file) != self._size or there.read(self._file) != data:
            there.put(self._file, data, check)
        yield pa.record_batch({"file": pa.array([self._file]), "bytes": pa.array([self._size], pa.int64())})


def build_by_shuffle(spark: SparkSession, made: Sequence[Made], tasks: Sequence[Task], progress: Progress, few: int) -> None:
    """Put the queues together and write them.  few: runs that the driver takes as they are.

    Raises `CannotRead`, `CannotWrite`, and what tasks raise.
    """
    from rmq_spark.jobs.rebuild_directory import begin, end

    to, run = made[0].plan.to, made[0].plan.run
    may_be_there = begin(to, run, [getattr(one.plan.target, "inside", "") for one in made])
    with keeping() as keep:
        pieces = _pieces(spark, made, tasks, progress, few, keep)
        home = f"{Writing.__module__}:{Writing.__name__}"
        written = grouped(pieces, ["file"], ["at"], home, WRITTEN, (to, run, may_be_there))
        with watched(spark, "write files of queues", progress):
            names = [row["file"] for row in written.collect()]
    end(to, run, names)


def _pieces(
    spark: SparkSession, made: Sequence[Made], tasks: Sequence[Task], progress: Progress, few: int, keep: Kept
) -> DataFrame:
    """Of all files; the queues are put together."""
    from pyspark.sql import functions as F

    from rmq_columns.rebuild.pieces import bridges
    from rmq_columns.rebuild.work import take_rows, to_write_again
    from rmq_spark.jobs.rebuild_runs import collected
    from rmq_spark.reading import worked

    columns = [one.split()[0] for one in PIECE.split(", ")]
    said = keep(worked(spark, "queuePieces", splits=tasks))
    runs = said.where(F.col("kind").isNotNull())
    with watched(spark, "make queue units", progress):
        count = runs.count()

    def looked_closer(asked: Sequence[Task]) -> list[Row]:
        with watched(spark, "look where queues of batches go back", progress):
            return worked(spark, "queueRuns", splits=asked).collect()

    again = take_rows(made, collected(spark, runs, made, progress, is_small=count <= few), tasks, looked_closer)
    pieces = said.where(F.col("kind").isNull()).select(columns)
    other = [(one.plan.number, key.topic, key.queue_id) for one in made for key in to_write_again(one)]
    if other:
        left_out = spark.createDataFrame(other, "store int, topic string, queueId int")
        pieces = pieces.join(F.broadcast(left_out), list(QUEUE), "left_anti").select(columns)
    if again:
        pieces = pieces.unionByName(worked(spark, "queuePieces", splits=again).where("file is not null").select(columns))
    over = [
        (one.plan.number, *_queue(piece.file), piece.file, piece.size, piece.at, bytearray(piece.data))
        for one in made
        for piece in bridges(one.plan.target, one.queues)
    ]
    return pieces.unionByName(spark.createDataFrame(over, PIECE)) if over else pieces


def _queue(file: str) -> tuple[str, int]:
    *_, topic, queue, _ = file.split("/")
    return topic, int(queue)
