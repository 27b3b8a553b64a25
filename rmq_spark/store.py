"""The batch source `rocketmq_store`: a table of one or more stores as a DataFrame.

The driver plans (`plan_splits`), each task reads its split as Arrow batches (`read_split`); rows never become Python objects.
Spark makes these classes anew in several processes, so no file is looked at before `partitions` and `read`, and what needs
pyarrow is imported where it is used.

There is no `pushFilters`: in Spark 4.3 a pushed filter stays on in the next query of the same DataFrame, and without the setting
for it a reader that has the method is refused.  Rows are chosen by options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from rmq_spark.asking import COUNTER, counter, without_counter
from rmq_spark.counted_reader import CountedReader
from rmq_spark.needs import need
from rmq_spark.options import located
from rmq_spark.work import pickled, unpickled, work_of
from rmq_spark.work_reader import WorkReader, work_schema
from rmq_spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.types import StructType


FORMAT: Final = "rocketmq_store"
BATCH_BYTES: Final = 1 << 20
"""In a batch of messages with bodies.  What the JVM gets should stay in a core's cache until rows were made of it (that saves a
seventh of its time), and each batch costs a hundred small writes; best of the sizes measured."""


class StoreDataSource(DataSource):
    """What `spark.read.format("rocketmq_store")` stands for.  Options: those of `rmq_columns.parse_options`."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns that the options ask for.  Raises `BadOption`, `MissingPackage`."""
        need()
        from rmq_spark.types import spark_schema

        if (work := work_of(self.options.get("table"))) is not None:
            return work_schema(work, self.options)

        return spark_schema(located(without_counter(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """schema: ours, or the user's own with some of our columns; of a table of work with all of them.  Raises `BadOption`."""
        options, counter = without_counter(self.options), self.options.get(COUNTER)
        reader: DataSourceReader = StoreReader(options, schema)
        if (table := options.get("table")) is not None and (work := work_of(table)) is not None:
            if schema != work_schema(work, options):
                raise _refused(f"schema: the table {table} has columns of its own")
            reader = WorkReader(table, options)
        return reader if counter is None else CountedReader(reader, counter)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Raises `BadOption`: a store is read as it stands."""
        raise _refused("readStream: a store is read as it stands, by spark.read; load it anew for what came since")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Raises `BadOption`: nothing is written into a store."""
        raise _refused("write: nothing is written into a store")

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Raises `BadOption`: nothing is written into a store."""
        raise _refused("writeStream: nothing is written into a store")


def _refused(why: str) -> Exception:
    from rmq_columns import BadOption

    return BadOption(f"{FORMAT}: {why}")


class StoreReader(DataSourceReader):
    """Plans on the driver, reads in the tasks.  A DataFrame is planned once: its splits stay those of its first use."""

    def __init__(self, options: Mapping[str, Any], schema: StructType) -> None:
        self.given = dict(options)
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """A partition for each split, packed: small tasks are sent fast.  Raises `BadOption`, `CannotRead`, `MissingPackage`."""
        need()
        from rmq_columns import plan_splits
        from rmq_spark.types import narrowed

        settle()
        options = narrowed(located({"pruning": "auto", **self.given}), self.schema)
        return [InputPartition(pickled(split)) for split in plan_splits(options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split.  Raises what `read_split` raises: each error of a store says file and byte."""
        if partition.value is None:
            return  # Spark makes one such partition of a table without any split
        need()
        from rmq_columns import read_split
        from rmq_spark.types import arrow_schema

        settle()
        split = unpickled(partition.value)
        yield from read_split(split, batch_bytes=BATCH_BYTES, schema=arrow_schema(self.schema, split.options))


def reader_of(spark: SparkSession, table: str, options: Mapping[str, Any]) -> DataFrameReader:
    """Of a table of stores, or of work, counted where somebody does (`asked`).  Raises `MissingPackage`."""
    register(spark)
    return spark.read.format(FORMAT).options(**{**options, "table": table, **counter()})


def register(spark: SparkSession) -> None:
    """Make the format known to this session, where Spark does not find it by itself.  Raises `MissingPackage`."""
    need()
    spark.dataSource.register(StoreDataSource)
