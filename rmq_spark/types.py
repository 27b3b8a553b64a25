"""The columns of a table in Spark's types, and which of them a schema of the user asks for.

Spark compares the first batch of a task with the schema that it was given, field by field, and takes no other type instead: each
of our Arrow types has exactly one of Spark's.  What a sound message always has is declared not null, which spares the JVM a
look at every value; where a row may stand for damage (mode PERMISSIVE), and in every other table, any column may be null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql import types as spark

from rmq_columns import BadOption, Options, schema_of
from rmq_columns.read.options import Mode, Table
from rmq_columns.read.schema import CORRUPT, TEXTS, TIME

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
OPTIONAL: Final = frozenset({"tags", "keys", "uniqKey", "key", CORRUPT})
"""Columns that a sound message may lack."""
FULL_TEXTS: Final = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))
"""Properties none of which is null."""


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
    made = spark_type_of_schema(schema_of(options))
    if options.table is not Table.MESSAGES or options.mode is Mode.PERMISSIVE:
        return made
    return spark.StructType([field if field.name in OPTIONAL else _never_null(field) for field in made])


def _never_null(field: spark.StructField) -> spark.StructField:
    kind = field.dataType
    if isinstance(kind, spark.MapType):
        kind = spark.MapType(kind.keyType, kind.valueType, valueContainsNull=False)
    return spark.StructField(field.name, kind, nullable=False)


def arrow_schema(known: spark.StructType, options: Options) -> pa.Schema:
    """The columns of these options as Spark was given them: null or not null, as only Arrow's schema can say.

    known: what `spark_schema` gave, or a schema that `narrowed` took.
    """
    fields = []
    for field, own in zip(known.fields, schema_of(options), strict=True):
        is_full = isinstance(field.dataType, spark.MapType) and not field.dataType.valueContainsNull
        fields.append(pa.field(own.name, FULL_TEXTS if is_full else own.type, field.nullable))
    return pa.schema(fields)


def narrowed(options: Options, asked: spark.StructType) -> Options:
    """The options that read exactly the columns of this schema, in its order.

    Spark's readers hand over either the schema that we named or the user's own (`.schema("topic string, queueId int")`), which is
    the only way in which Spark 4 says that few columns are enough.  Raises `BadOption` for a column that there is not,
    that the option `columns` left out, that is of another type, or that may not be null.
    """
    if not asked.fields:
        raise BadOption("schema: at least one column")
    left_out = [name for name in asked.names if options.columns is not None and name not in options.columns]
    if left_out:
        raise BadOption(f"schema: {', '.join(left_out)}, which the option columns leaves out")
    chosen = replace(options, columns=tuple(asked.names))
    for field, own in zip(asked.fields, spark_schema(chosen).fields, strict=True):
        if not _takes(field.dataType, own.dataType) or own.nullable > field.nullable:
            null = "" if field.nullable else " not null"
            raise BadOption(f"schema: {field.name} is {own.dataType.simpleString()}, not {field.dataType.simpleString()}{null}")
    return chosen


def _takes(asked: spark.DataType, own: spark.DataType) -> bool:
    """Whether they are one type; what never has a null may be called one that might."""
    if isinstance(asked, spark.MapType) and isinstance(own, spark.MapType) and asked.valueContainsNull:
        own = spark.MapType(own.keyType, own.valueType, valueContainsNull=True)
    return asked == own
