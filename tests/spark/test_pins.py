"""Spark's own behaviour on which our source rests: a version in which one of these fails allows more than we do now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.stores import golden_store

NAMES = ("t1", "t2", "t3")


def pushing_source() -> Any:
    """A source that takes filters.  Made in a function: this module is imported without PySpark, too."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo

    class Reader(DataSourceReader):
        wanted: tuple[str, ...] = NAMES

        def pushFilters(self, filters: list[Any]) -> Iterator[Any]:
            for one in filters:
                if isinstance(one, EqualTo):
                    self.wanted = (one.value,)
                else:
                    yield one

        def read(self, partition: Any) -> Iterator[Any]:
            yield pa.record_batch([pa.array(list(self.wanted), pa.string())], names=["topic"])

    class Pushing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pushing"

        def schema(self) -> str:
            return "topic string"

        def reader(self, schema: Any) -> Any:
            return Reader()

    return Pushing


def test_a_pushed_filter_stays_on(spark: Any) -> None:
    """Why there is no `pushFilters`: the count behind the filtered query should be that before it."""
    session = spark.newSession()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    session.dataSource.register(pushing_source())
    frame = session.read.format("pushing").load()
    counts = [frame.count(), frame.where("topic = 't1'").count(), frame.count()]
    assert counts == [3, 1, 1]


def test_a_reader_that_takes_filters_is_refused_without_the_setting(spark: Any) -> None:
    session = spark.newSession()
    session.dataSource.register(pushing_source())
    with pytest.raises(Exception, match="pushFilters"):
        session.read.format("pushing").load().where("topic = 't1'").count()


def test_a_table_takes_no_options(spark: Any, tmp_path: Path) -> None:
    """Why docs say `create temporary view`: they come with a prefix when it is made, and not at all when it is read."""
    store = golden_store(tmp_path / "broker-a")
    statement = f"create table lost using rocketmq_store options (path '{store}', table 'topics')"
    with pytest.raises(Exception, match="BadOption: "):
        [spark.sql(one).collect() for one in (statement, "select * from lost")]


def test_columns_are_not_pruned(spark: Any, tmp_path: Path) -> None:
    """`select` chooses behind the reader: the plan reads all columns."""
    store = golden_store(tmp_path / "broker-a")
    frame = spark.read.format("rocketmq_store").load(str(store)).select("topic")
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    assert re.search(r"RelationV2\[brokerName#\d+, topic#\d+, .*storeSize#\d+\]", plan)
