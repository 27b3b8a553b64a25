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
    packed = base64.b85encode(zlib.compress(pickle.dumps((work, tuple(items)), pickle.HIGHEST_PROTOCOL), 1)).decode()
    reader = spark.read.format(FORMAT).option("rows", spark_type_of_schema(schema).json()).option("tasks", packed)
    return reader.load()


def gathered(
    spark: SparkSession, work: Callable[[Item], Iterator[pa.RecordBatch]], items: Sequence[Item]
) -> list[dict[str, Any]]:
    """All rows of `work(item)`, one task for each item, in the order of the items: for few rows, of which no DataFrame is made.

    work: as for `spread`; what it raises fails this call.
    """
    need()
    if not items:
        return []
    tasks = spark.sparkContext.parallelize(items, len(items))
    return [row for rows in tasks.map(partial(_rows, work)).collect() for row in rows]


def _rows(work: Callable[[Item], Iterator[pa.RecordBatch]], item: Item) -> list[dict[str, Any]]:
    settle()
    return [row for batch in work(item) for row in batch.to_pylist()]


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
        self.packed = options["tasks"]

    def partitions(self) -> list[InputPartition]:
        """(function, item) each."""
        settle()
        work, items = pickle.loads(zlib.decompress(base64.b85decode(self.packed)))
        return [InputPartition((work, item)) for item in items]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Does the work of one."""
        if partition.value is None:
            return  # Spark makes one such partition where there is no item
        settle()
        work, item = partition.value
        yield from work(item)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get their item with their partition, not all items with the reader."""
        return {"packed": ""}
