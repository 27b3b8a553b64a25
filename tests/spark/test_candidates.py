"""Rows that may be among some others, by their hashes: none that is looked for is missed, and few others stay."""

from __future__ import annotations

from typing import Any

from rmq_spark.kept import Kept, Short, keeping


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


def test_a_shortened_frame_has_the_same_rows_also_when_it_is_not_kept_any_more(spark: Any) -> None:
    from pyspark.sql import functions as F

    frame = spark.range(100).groupBy((F.col("id") % 7).alias("rest")).agg(F.count("*").alias("n"))
    wanted = sorted(tuple(row) for row in frame.collect())
    with keeping() as keep:
        held = Short(keep)(frame)
        assert held.schema == frame.schema
        assert sorted(tuple(row) for row in held.collect()) == wanted
        assert len(held._jdf.queryExecution().analyzed().toString().splitlines()) == 1
    assert sorted(tuple(row) for row in held.where("rest > 0").collect()) == wanted[1:]


def test_rows_are_marked_by_a_table_of_bits(spark: Any) -> None:
    from pyspark.sql import functions as F

    from rmq_spark.candidates import marked, perhaps, perhaps_as

    wanted = spark.createDataFrame([("@1",), ("#k",), (None,)], "at string")
    marks = marked(wanted, F.col("at"))
    rows = spark.createDataFrame([(1, "@1"), (2, "@2"), (3, None)], "n int, place string")
    assert [row["n"] for row in perhaps(rows, marks, F.col("place")).collect()] == [1]
    found = perhaps_as("isOne", rows, marks, F.col("place"))
    assert found.columns == ["n", "place", "isOne"]
    assert sorted((row["n"], row["isOne"]) for row in found.collect()) == [(1, True), (2, False), (3, False)]
    nobody = marked(wanted.where("at = 'x'"), F.col("at"))
    assert not perhaps(rows, nobody, F.col("place")).collect()


def test_rows_of_the_driver(spark: Any) -> None:
    from rmq_spark.local import local

    rows = [("a", {1: 2}, None), ("b", None, 4)]
    frame = local(spark, rows, "name string, offsets map<int, bigint>, at bigint")
    assert [tuple(row) for row in frame.collect()] == rows
    assert local(spark, [], "`group` string, n int").columns == ["group", "n"]
