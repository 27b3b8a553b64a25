"""Ledgers of what producers say was acknowledged: JSON lines, CSV with a header, or Parquet; columns by the names that there are.

A row is one acknowledged send, as Java's `SendResult` has it: topic, queueId, queueOffset, msgId (the unique key),
offsetMsgId (store host and physical offset).  The unique keys and offsetMsgIds of a batch stand in one row with commas between
them; they become a row each, their offsets counted from the first.  delayed, which `SendResult` does not have: whether the
message was delayed, timed or half, so that its place was one in a topic of the system's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmq_columns.errors import BadOption
from rmq_spark.arguments import Parameter

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("topic",),
    "queueId": ("queueId",),
    "queueOffset": ("queueOffset",),
    "uniqKey": ("uniqKey", "msgId", "messageId"),
    "offsetMsgId": ("offsetMsgId",),
    "brokerName": ("brokerName",),
    "delayed": ("delayed",),
}
"""Our column -> names under which a ledger may have it; the first that is not null counts."""
TYPES: Final = {"queueId": "int", "queueOffset": "bigint", "delayed": "boolean"}
MESSAGE_ID: Final = "^([0-9A-F]{32}|[0-9A-F]{56})$"
"""Address, port and physical offset, with IPv4 or IPv6 (`MessageDecoder.createMessageId`), in capitals."""
OF_EACH: Final = ("uniqKey", "offsetMsgId")
"""Lists, of a batch."""
FORMATS: Final = ("json", "csv", "parquet")
SUFFIXES: Final = {".csv": "csv", ".parquet": "parquet", ".jsonl": "json", ".json": "json"}


LEDGER_PARAMETERS: Final = (
    Parameter(
        "ledger",
        "path",
        "File or directory with what was acknowledged (JSON lines, CSV, Parquet).  May be repeated.",
        is_many=True,
    ),
    Parameter("ledger_format", str, "Of the ledger.  Known by the names of its files by default.", choices=FORMATS),
    Parameter(
        "column",
        str,
        "What one of our columns (topic, queueId, uniqKey …) is called in the ledger.  May be repeated.",
        metavar="OURS=THEIRS",
        is_many=True,
    ),
)
"""Of the jobs that look into one."""


def format_of(paths: Sequence[str]) -> str:
    """By the names of the files; of a local directory by those in it; JSON where they do not show it."""
    for path in paths:
        names = [path]
        if "://" not in path and Path(path).is_dir():
            names = sorted(one.name for one in Path(path).iterdir())
        for name in names:
            for suffix, kind in SUFFIXES.items():
                if name.removesuffix(".gz").endswith(suffix):
                    return kind
    return "json"


def mapping_of(given: Sequence[str], more: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """`OURS=THEIRS`, each; what is not given keeps its usual names.  more: columns beyond ours.  Raises `BadOption`."""
    names = {**NAMES, **{name: (name,) for name in more}}
    for one in given:
        ours, equals, theirs = one.partition("=")
        if not equals or not theirs or ours not in names:
            raise BadOption(f"column: {one!r} is not OURS=THEIRS; ours are {', '.join(names)}")
        names[ours] = (theirs,)
    return names


def read_ledger(
    spark: SparkSession, paths: Sequence[str], kind: str | None = None, columns: Sequence[str] = (), more: Sequence[str] = ()
) -> DataFrame:
    """Rows of the columns of `NAMES` and `more`; what a ledger does not have is null.

    kind: of `FORMATS`.  Raises `BadOption` for a column that there is not.
    """
    from pyspark.sql import functions as F

    kind = kind or format_of(paths)
    names = mapping_of(columns, more)
    rows = _raw(spark, list(paths), kind, names)
    there = set(rows.columns)
    for ours, theirs in names.items():
        is_asked = theirs != NAMES.get(ours) or ours in more
        if is_asked and not there.intersection(theirs):
            raise BadOption(f"column: the ledger has no {theirs[0]}; it has {', '.join(rows.columns)}")
    chosen = rows.select([_column(ours, [one for one in theirs if one in there]) for ours, theirs in names.items()])
    others = [name for name in chosen.columns if name not in (*OF_EACH, "queueOffset")]
    # a list is taken apart where there is one: most rows are of one message
    is_list = F.lit(False)
    for name in OF_EACH:
        is_list = is_list | F.coalesce(F.contains(name, F.lit(",")), F.lit(False))
    lists = [F.coalesce(F.split(name, " *, *"), F.array().cast("array<string>")).alias(name) for name in OF_EACH]
    parts = F.posexplode_outer(F.when(is_list, F.arrays_zip(*lists)))
    each = chosen.select(*others, "queueOffset", is_list.alias("isList"), *OF_EACH, parts.alias("place", "one"))
    each = each.select(
        *others, "queueOffset", "place", *(F.expr(f"if(isList, one.{name}, {name})").alias(name) for name in OF_EACH)
    )
    counted = (F.col("queueOffset") + F.coalesce("place", F.lit(0))).alias("queueOffset")
    message_id = F.upper("offsetMsgId")
    return each.select(
        *others,
        counted,
        F.nullif("uniqKey", F.lit("")).alias("uniqKey"),
        F.when(message_id.rlike(MESSAGE_ID), message_id).alias("offsetMsgId"),
    )


def place_of(message_id: str) -> Column:
    """Physical offset that an offsetMsgId (a column) holds; null where it is none that a log can have."""
    from pyspark.sql import functions as F

    return F.conv(F.right(message_id, F.lit(16)), 16, 10).try_cast("bigint")


def _raw(spark: SparkSession, paths: list[str], kind: str, names: Mapping[str, tuple[str, ...]]) -> DataFrame:
    """As the file has them.  JSON gets a schema of texts: to find one out Spark would read everything twice."""
    from pyspark.sql import types as T

    if kind == "parquet":
        return spark.read.parquet(*paths)
    if kind == "csv":
        return spark.read.option("header", "true").csv(paths)
    every = dict.fromkeys(one for theirs in names.values() for one in theirs)
    return spark.read.schema(T.StructType([T.StructField(one, T.StringType()) for one in every])).json(paths)


def _column(ours: str, theirs: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    texts = [F.nullif(F.trim(F.col(f"`{one}`").cast("string")), F.lit("")) for one in theirs] or [F.lit(None).cast("string")]
    return F.coalesce(*texts).try_cast(TYPES.get(ours, "string")).alias(ours)
