"""The row before each row, within a key and in an order, also where half of all rows have one key.

Spark sorts all rows of a key in one task.  Keys that have many rows are found by counts of their hashes, as many as `BUCKETS`;
their rows are cut into stretches of the order, and the last row of each stretch goes into the next one, too.  All other keys
take the plain way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BUCKETS: Final = 4096
HOT_SHARE: Final = 1024
"""A bucket with more than one of so many rows is cut: four times as many as it would have by chance."""
STRETCHES: Final = 256
"""Of the whole order."""


def stretch_of(whole: int) -> int:
    """How long a stretch is, in the unit of what is ordered."""
    return max(whole // STRETCHES, 1)


def hot_buckets(rows: DataFrame, keys: Sequence[str]) -> list[int]:
    """Numbers of those whose rows are to be cut.  Looks at all rows; the driver gets a number for each of `BUCKETS`."""
    counts = {row["bucket"]: row["count"] for row in rows.groupBy(_bucket(keys).alias("bucket")).count().collect()}
    most = sum(counts.values()) / HOT_SHARE
    return sorted(bucket for bucket, count in counts.items() if count > most)


def _bucket(keys: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return F.pmod(F.xxhash64(*keys), F.lit(BUCKETS))


def with_previous(
    rows: DataFrame, keys: Sequence[str], order: Sequence[str], value: Column, hot: Sequence[int], stretch: Column
) -> DataFrame:
    """The rows, and `previous`: the value of the one before, null of the first.

    hot: of `hot_buckets`.  stretch: its number; it never falls where the order goes on.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    number = F.when(_bucket(keys).isin(list(hot)), stretch.cast("long")) if hot else F.lit(None).cast("long")
    cut = rows.withColumn("_stretch", number).withColumn("_isCarried", F.lit(False))
    if hot:
        last = F.max_by(F.struct(*rows.columns), F.struct(*order)).alias("last")
        lasts = cut.where("_stretch is not null").groupBy(*keys, "_stretch").agg(last)
        following = F.lead("_stretch").over(Window.partitionBy(*keys).orderBy("_stretch"))
        carried = lasts.withColumn("_next", following).where("_next is not null")
        carried = carried.select("last.*", F.col("_next").alias("_stretch"), F.lit(True).alias("_isCarried"))
        cut = cut.unionByName(carried)
    of_stretch = Window.partitionBy(*keys, "_stretch").orderBy(*order)
    found = cut.withColumn("previous", F.lag(value).over(of_stretch))
    return found.where("not _isCarried").drop("_stretch", "_isCarried")
