"""How Spark reads a table of work: planned where it plans, worked out in its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rmq_spark.needs import need
from rmq_spark.options import located
from rmq_spark.work import SPLITS, Work, given_of, of_text, pickled, unpickled, work_of
from rmq_spark.worker import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


def work_schema(work: Work, options: Mapping[str, Any]) -> StructType:
    """Its columns, as Spark names them."""
    from rmq_spark.types import spark_type_of_schema

    return spark_type_of_schema(work.schema(given_of(work, options)))


class WorkReader(DataSourceReader):
    """Plans where Spark plans, does the work in the tasks."""

    def __init__(self, table: str, options: Mapping[str, Any]) -> None:
        self.table, self.options = table, dict(options)

    def partitions(self) -> list[InputPartition]:
        """A partition for each split, packed: small tasks are sent fast.  Raises `BadOption`, `CannotRead`, `MissingPackage`."""
        from rmq_columns import BadOption

        need()
        settle()
        work = self._work()
        given = given_of(work, self.options)
        if SPLITS in self.options:
            return [InputPartition(pickled(one)) for one in of_text(self.options[SPLITS])]
        if work.plan is None:
            raise BadOption(f"{self.table}: the option {SPLITS}")
        own = {name.lower() for name in work.parameters}
        rest = {name: value for name, value in self.options.items() if name.lower() not in own}
        return [InputPartition(pickled(one)) for one in work.plan(given, located({**rest, "table": work.of}))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one split."""
        if partition.value is None:
            return  # Spark makes one such partition of a table without any split
        need()
        settle()
        work = self._work()
        yield from work.read(given_of(work, self.options), unpickled(partition.value))

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get the parameters with the reader, which goes to an executor once, and their split with their partition."""
        dropped = {name.lower() for name in self._work().for_plan} | {SPLITS}
        return {"table": self.table, "options": {name: one for name, one in self.options.items() if name.lower() not in dropped}}

    def _work(self) -> Work:
        work = work_of(self.table)
        assert work is not None
        return work
