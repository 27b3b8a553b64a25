"""The row before each row, also where half of all rows have one key: as by a plain window, and no task has most of them."""

from __future__ import annotations

import random
from statistics import median
from typing import Any

from tests.spark.uneven import EVEN, TIMES_MAX


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


def test_a_hot_key_is_no_task_of_its_own(spark: Any) -> None:
    """And by a plain window it is, so this test can fail.  Spark leaves out a window whose column nobody uses."""
    from pyspark.sql import functions as F

    from rmq_spark.previous import hot_buckets, with_previous

    rows = spark.range(20_000).selectExpr("if(id % 2 = 0, 'hot', string(id % 3001)) as key", "id as at")
    before = {name: spark.conf.get(name) for name in EVEN}
    try:
        for name, value in EVEN.items():
            spark.conf.set(name, value)
        most = {}
        for buckets in (hot_buckets(rows, ("key",)), []):
            made = with_previous(rows, ("key",), ("at",), F.col("at"), buckets, F.expr("at div 100"))
            used = (F.count("*").alias("count"), F.max("previous"))
            counts = [row["count"] for row in made.groupBy(F.spark_partition_id()).agg(*used).collect()]
            most[bool(buckets)] = max(counts) / median(counts)
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert most[True] <= TIMES_MAX < most[False]
