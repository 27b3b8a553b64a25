"""Rows that the driver has, as a DataFrame that is a part of the plan: no task makes it, and joins know how small it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def local(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str | StructType) -> DataFrame:
    """schema: also as Spark writes it."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    kind = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    fields = to_arrow_schema(kind)
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    table = pa.table([pa.array(list(values), field.type) for values, field in zip(columns, fields, strict=True)], schema=fields)
    return spark.createDataFrame(table, kind)
