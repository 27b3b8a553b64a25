"""kafkaCompatible through Spark: a job for Spark's Kafka source runs on a store when its format is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmq_columns import read_store
from tests.support.stores import golden_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_of("mix", tmp_path_factory.mktemp("kafka") / "broker-a")


def load(spark: Any, store: Path, **options: str) -> Any:
    return spark.read.format("rocketmq_store").options(kafkaCompatible="true", **options).load(str(store))


def test_schema(spark: Any, store: Path) -> None:
    """That of Spark's Kafka source with includeHeaders."""
    assert load(spark, store).dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_rows(spark: Any, store: Path) -> None:
    found = load(spark, store, splitBytes="8k").toArrow().to_pylist()
    wanted = read_store(store, kafkaCompatible=True).read_all().to_pylist()
    assert wanted
    assert sorted(map(repr, map(plain, found))) == sorted(map(repr, map(plain, wanted)))


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "timestamp": row["timestamp"].timestamp()}


def test_a_job_for_kafka(spark: Any, store: Path) -> None:
    """As its users write it."""
    frame = load(spark, store).selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "map_from_entries(headers) AS headers")
    tags = frame.selectExpr("CAST(headers['TAGS'] AS STRING) AS tag").groupBy("tag").count().collect()
    wanted = read_store(store, columns="tags").read_all().column("tags").to_pylist()
    assert {row.tag: row["count"] for row in tags} == {tag: wanted.count(tag) for tag in set(wanted)}


def test_columns_by_schema_and_by_name(spark: Any, store: Path) -> None:
    frame = spark.read.format("rocketmq_store").schema("offset bigint, brokerName string").option("kafkaCompatible", "true")
    assert frame.load(str(store)).select("brokerName").distinct().first()[0] == "broker-a"
    assert load(spark, store, columns="value,bornTimestamp").columns == ["value", "bornTimestamp"]
