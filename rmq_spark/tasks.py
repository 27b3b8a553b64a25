"""Our own work in Spark's tasks: one function is called for each of many items.  All their batches are a DataFrame (`spread`),
or come to the driver as rows (`gathered`).

What is heavy ends in the task, and only what it found goes on to the JVM.  `spread` is a data source, not `mapInArrow`, which
would need pandas; `gathered` is an RDD, for which nothing has to be planned: 35 ms less in each job.  A task that fails is
repeated by Spark, an executor that dies is replaced, so the function must be one whose second call does no harm.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from rmq_spark.needs import need
from rmq_spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "rocketmq_store_tasks"
Item = TypeVar("Item")
Work = Callable[[Any], Iterator["pa.RecordBatch"]]


def spread(
    spark: SparkSession, work: Callable[[Item], Iterator[pa.RecordBatch]], items: Sequence[Item], schema: pa.Schema
) -> DataFrame:
    """A DataFrame of all batches of `work(item)`, one task for each item, in the order of the items.

    work: a function of a module (or `functools.partial` of one), since it is sent by its name; its batches have exactly `schema`,
    of the types in `rmq_spark.types.OF_ARROW` (structs and lists of them, too).  What it raises fails the query.
    Like any DataFrame it runs again with each action: `persist()` it where more than one follows.
    """
    need()
    from rmq_spark.types import spark_type_of_schema

    spark.dataSource.register(TaskSource)
    reader = spark.read.format(FORMAT).option("rows", spark_type_of_schema(schema).json())
    return reader.options(work=as_text(work), items=as_text(tuple(items))).load()


def gathered(
    spark: SparkSession, work: Callable[[Item], Iterator[pa.RecordBatch]], items: Sequence[Item]
) -> list[dict[str, Any]]:
    """All rows of `work(item)`, one task for each item, in the order of the items: for few rows, of which no DataFrame is made.

    work: as for `spread`; what it raises fails this call.
    """
    need()
    if not items:
        return []
    tasks = spark.sparkContext.parallelize([pickled(item) for item in items], len(items))
    return [row for rows in tasks.map(partial(_rows, work)).collect() for row in rows]


def as_text(value: Any) -> str:
    """For an option of a source."""
    return base64.b85encode(pickled(value)).decode()


def _of_text(text: str) -> Any:
    return unpickled(base64.b85decode(text))


def tabled(
    spark: SparkSession, work: Callable[[Item], Iterator[tuple[Any, ...]]], items: Sequence[Item], schema: str
) -> DataFrame:
    """A DataFrame of all rows of `work(item)`, one task for each item: for work that is sent what `shared` holds.

    schema: as Spark writes it.  Like any DataFrame it runs again with each action.
    """
    need()
    tasks = spark.sparkContext.parallelize([pickled(item) for item in items], max(len(items), 1))
    return spark.createDataFrame(tasks.flatMap(partial(_tuples, work)), schema, verifySchema=False)


def _tuples(work: Callable[[Any], Iterator[tuple[Any, ...]]], item: bytes) -> Iterator[tuple[Any, ...]]:
    settle()
    return work(unpickled(item))


@contextmanager
def shared(spark: SparkSession, value: Any) -> Iterator[Any]:
    """While the block runs, `.value` of what this gives is the same in all tasks: it goes to each executor once."""
    held = spark.sparkContext.broadcast(value)
    try:
        yield held
    except BaseException:
        with suppress(Exception):  # the JVM may be gone: that is what is to be said
            held.destroy()
        raise
    held.destroy()


def pickled(value: Any) -> bytes:
    """Small: of ten thousand names that are much alike a tenth."""
    return zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)


def unpickled(packed: bytes) -> Any:
    """As `pickled` was given it."""
    return pickle.loads(zlib.decompress(packed))


def _rows(work: Callable[[Any], Iterator[pa.RecordBatch]], item: bytes) -> list[dict[str, Any]]:
    settle()
    return [row for batch in work(unpickled(item)) for row in batch.to_pylist()]


class TaskSource(DataSource):
    """Made by `spread` alone."""

    @classmethod
    def name(cls) -> str:
        """Of the format; nobody else asks for it."""
        return FORMAT

    def schema(self) -> StructType:
        """As `spread` was given."""
        from pyspark.sql.types import StructType

        return StructType.fromJson(json.loads(self.options["rows"]))

    def reader(self, schema: StructType) -> TaskReader:
        """A reader of what `spread` packed."""
        return TaskReader(self.options)


class TaskReader(DataSourceReader):
    """A partition for each item."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.work, self.items = options["work"], options["items"]

    def partitions(self) -> list[InputPartition]:
        """One for each item."""
        settle()
        return [InputPartition(item) for item in _of_text(self.items)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Does the work of one."""
        if partition.value is None:
            return  # Spark makes one such partition where there is no item
        settle()
        yield from _of_text(self.work)(partition.value)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the work with the reader, which goes to an executor once, and their item with their partition."""
        return {"work": self.work, "items": ""}
