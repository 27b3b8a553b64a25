"""What of `rmq_spark.asking` runs in Spark: a reader that counts, and the sum on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam
from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmq_columns.files.counted import Asked, counting
from rmq_spark.work import of_text

if TYPE_CHECKING:
    import pyarrow as pa


class Sum(AccumulatorParam[Asked]):
    """Of what tasks asked for."""

    def zero(self, value: Asked) -> Asked:
        return Asked()

    def addInPlace(self, value1: Asked, value2: Asked) -> Asked:
        value1.add(value2)
        return value1


class CountedReader(DataSourceReader):
    """A reader that adds what it asks for to an accumulator."""

    def __init__(self, own: DataSourceReader, counter: str) -> None:
        self.own, self.counter = own, counter

    def partitions(self) -> list[InputPartition]:
        """Its own, the first with what planning asked for."""
        with counting(Asked()) as planned:
            found = self.own.partitions()
        return [InputPartition((one.value, Asked() if number else planned)) for number, one in enumerate(found)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Its own rows."""
        value, asked = partition.value or (None, Asked())
        with counting(asked):
            yield from self.own.read(InputPartition(value))
        of_text(self.counter).add(asked)
