"""Ledgers of what producers say was acknowledged: JSON lines, CSV with a header, or Parquet; columns by the names that there are.

A row is one acknowledged send, as Java's `SendResult` tells of it: topic, queueId, queueOffset, msgId (the unique key).  The
unique keys of a batch stand in one row with commas between them; they become a row each, their offsets counted from the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmq_columns.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "topic": ("topic",),
    "queueId": ("queueId",),
    "queueOffset": ("queueOffset",),
    "uniqKey": ("uniqKey", "msgId", "messageId"),
    "brokerName": ("brokerName",),
}
"""Our column -> names under which a ledger may have it; the first that is not null counts."""
TYPES: Final = {"queueId": "int", "queueOffset": "bigint"}
FORMATS: Final = ("json", "csv", "parquet")
SUFFIXES: Final = {".csv": "csv", ".parquet": "parquet", ".jsonl": "json", ".json": "json"}


def format_of(paths: Sequence[str]) -> str:
    """By the names of the files; of a local directory by those in it; JSON where they do not tell."""
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
    """Rows of topic, queueId, queueOffset, uniqKey, brokerName and `more`; what a ledger does not have is null.

    Raises `BadOption` for a format or a column that there is not.
    """
    from pyspark.sql import functions as F

    kind = kind or format_of(paths)
    if kind not in FORMATS:
        raise BadOption(f"ledger-format: {kind!r} is not one of {', '.join(FORMATS)}")
    names = mapping_of(columns, more)
    rows = _raw(spark, list(paths), kind, names)
    there = set(rows.columns)
    for ours, theirs in names.items():
        is_asked = theirs != NAMES.get(ours) or ours in more
        if is_asked and not there.intersection(theirs):
            raise BadOption(f"column: the ledger has no {theirs[0]}; it has {', '.join(rows.columns)}")
    chosen = rows.select([_column(ours, [one for one in theirs if one in there]) for ours, theirs in names.items()])
    others = [name for name in chosen.columns if name not in ("uniqKey", "queueOffset")]
    each = chosen.select(*others, "queueOffset", F.posexplode_outer(F.split("uniqKey", " *, *")).alias("place", "uniqKey"))
    counted = (F.col("queueOffset") + F.coalesce("place", F.lit(0))).alias("queueOffset")
    return each.select(*others, counted, F.when(F.col("uniqKey") != "", F.col("uniqKey")).alias("uniqKey"))


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
