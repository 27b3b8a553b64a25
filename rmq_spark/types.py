"""The columns of a table in Spark's types, and which of them a schema of the user asks for.

Spark compares the first batch of a task with the schema that it was told, field by field, and takes no other type instead: each
of our Arrow types has exactly one of Spark's.  Every column may be null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import types as spark

from rmq_columns import BadOption, Options, schema_of
from rmq_columns.schema import TEXTS, TIME

OF_ARROW: Final[dict[pa.DataType, spark.DataType]] = {
    pa.string(): spark.StringType(),
    pa.binary(): spark.BinaryType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.float64(): spark.DoubleType(),
    pa.bool_(): spark.BooleanType(),
    TIME: spark.TimestampType(),
    TEXTS: spark.MapType(spark.StringType(), spark.StringType(), valueContainsNull=True),
}


def spark_type(one: pa.DataType) -> spark.DataType:
    """Raises `KeyError` for a type of which Spark has none."""
    if pa.types.is_struct(one):
        return spark.StructType([spark.StructField(field.name, spark_type(field.type), nullable=True) for field in one])
    if pa.types.is_list(one):
        return spark.ArrayType(spark_type(one.value_type), containsNull=True)
    return OF_ARROW[one]


def spark_type_of_schema(schema: pa.Schema) -> spark.StructType:
    """The same columns, as Spark names them."""
    return spark.StructType([spark.StructField(one.name, spark_type(one.type), nullable=True) for one in schema])


def spark_schema(options: Options) -> spark.StructType:
    """The columns that will come, as Spark names them.  Raises `BadOption`."""
    return spark_type_of_schema(schema_of(options))


def narrowed(options: Options, asked: spark.StructType) -> Options:
    """The options that read exactly the columns of this schema, in its order.

    Spark's readers hand over either the schema that we named or the user's own (`.schema("topic string, queueId int")`), which is
    the only way in which Spark 4 tells a source that few columns are enough.  Raises `BadOption` for a column that there is not,
    that the option `columns` left out, that is of another type, or that may not be null.
    """
    if not asked.fields:
        raise BadOption("schema: at least one column")
    left_out = [name for name in asked.names if options.columns is not None and name not in options.columns]
    if left_out:
        raise BadOption(f"schema: {', '.join(left_out)}, which the option columns leaves out")
    chosen = replace(options, columns=tuple(asked.names))
    for field, own in zip(asked.fields, spark_schema(chosen).fields, strict=True):
        if field.dataType != own.dataType or not field.nullable:
            null = "" if field.nullable else " not null"
            raise BadOption(f"schema: {field.name} is {own.dataType.simpleString()}, not {field.dataType.simpleString()}{null}")
    return chosen
