"""Rows that may be among some others, by their hashes: none that is looked for is missed, and few others stay."""

from __future__ import annotations

from typing import Any

from rmq_spark.kept import Kept, keeping


def test_none_is_missed_and_few_others_stay(spark: Any) -> None:
    from pyspark.sql import functions as F

    from rmq_spark.candidates import marked, perhaps

    wanted = spark.range(0, 100_000, 100).select(F.concat(F.lit("@"), F.col("id").cast("string")).alias("at"))
    rows = spark.range(100_000).select("id", F.concat(F.lit("@"), F.col("id").cast("string")).alias("place"))
    found = {row["id"] for row in perhaps(rows, marked(wanted, F.col("at")), F.col("place")).collect()}
    assert found >= set(range(0, 100_000, 100))
    assert len(found) < 1000 + 100, "of 99,000 others three are expected"


def test_each_of_several_keys_may_be_the_one(spark: Any) -> None:
    from pyspark.sql import functions as F

    from rmq_spark.candidates import marked, perhaps

    wanted = spark.createDataFrame([("@1",), ("#k",), (None,)], "at string")
    both = [(1, "@1", None), (2, "@2", "#k"), (3, "@3", None), (4, None, None)]
    rows = spark.createDataFrame(both, "n int, place string, own string")
    found = perhaps(rows, marked(wanted, F.col("at")), F.col("place"), F.col("own"))
    assert found.columns == ["n", "place", "own"]
    assert sorted(row["n"] for row in found.collect()) == [1, 2]


def test_nothing_looked_for_is_nothing_found(spark: Any) -> None:
    from pyspark.sql import functions as F

    from rmq_spark.candidates import marked, perhaps

    nobody = spark.createDataFrame([], "at string")
    assert not perhaps(spark.range(10).selectExpr("string(id) as at"), marked(nobody, F.col("at")), F.col("at")).collect()


def test_what_is_kept_is_let_go(spark: Any) -> None:
    persisted = spark.sparkContext._jsc.getPersistentRDDs
    before = persisted().size()
    kept = Kept()
    frame = kept(spark.range(10))
    assert frame.count() == 10
    assert persisted().size() == before + 1
    kept.release()
    kept.release()
    assert persisted().size() == before
    with keeping() as keep:
        keep(spark.range(11)).count()
    assert persisted().size() == before
