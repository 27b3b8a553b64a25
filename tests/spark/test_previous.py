"""The row before each row, also where half of all rows have one key: as by a plain window."""

from __future__ import annotations

import random
from typing import Any


def test_as_a_plain_window(spark: Any) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    from rmq_spark.previous import hot_buckets, with_previous

    chance = random.Random(1)
    keys = ["hot" if chance.random() < 0.5 else f"k{chance.randrange(3000)}" for _ in range(6000)]
    rows = spark.createDataFrame([(key, at * 7, f"v{at}") for at, key in enumerate(keys)], "key string, at long, what string")
    hot = hot_buckets(rows, ("key",))
    assert 0 < len(hot) < 100
    for buckets in (hot, []):
        made = with_previous(rows, ("key",), ("at",), F.struct("at", "what"), buckets, F.expr("at div 500"))
        plain = rows.withColumn("previous", F.lag(F.struct("at", "what")).over(Window.partitionBy("key").orderBy("at")))
        assert made.columns == plain.columns
        assert sorted(made.collect(), key=lambda row: row["at"]) == sorted(plain.collect(), key=lambda row: row["at"])
