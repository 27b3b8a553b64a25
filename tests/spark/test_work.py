"""Tables of work: which there are, what their tasks are sent, what comes back, and what becomes of an error."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from rmq_columns import BadOption, CannotRead
from rmq_spark.reading import worked
from rmq_spark.reasons import reason_of
from rmq_spark.work import WORKS, Work, given_of, work_of
from rmq_spark.work_reader import WorkReader
from tests.spark.cluster_probe import called
from tests.support.stores import golden_of

ITEMS = [5, 1, 0, 3, 2]
WANTED = [{"item": item, "number": number} for item in ITEMS for number in range(item)]


def counted(item: int) -> Iterator[Any]:
    """As many rows as the item says, in two batches."""
    import pyarrow as pa

    for numbers in (range(item // 2), range(item // 2, item)):
        yield pa.record_batch({"item": [item] * len(numbers), "number": list(numbers)}, schema=rows_schema())


def rows_schema() -> Any:
    import pyarrow as pa

    return pa.schema([("item", pa.int64()), ("number", pa.int64())])


def broken(item: int) -> Iterator[Any]:
    if item == 2:
        raise CannotRead("/store/commitlog/0", 17, "planted")
    yield from counted(item)


def frozen(_item: int) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.record_batch({"item": [gc.get_freeze_count()], "number": [0]}, schema=rows_schema())


def named(given: Any, item: int) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.record_batch({"item": [item], "number": [len(given["names"])]}, schema=rows_schema())


NAMED = Work(
    lambda given: rows_schema(),
    named,
    lambda given, options: ITEMS,
    {"names": str, "longer": str},
    for_plan=frozenset({"longer"}),
)


@pytest.mark.parametrize("table", WORKS)
def test_every_table_is_there(table: str) -> None:
    assert work_of(table.upper()) is work_of(table)
    assert isinstance(work_of(table), Work)


def test_rows_come_in_the_order_of_the_splits(spark: Any) -> None:
    assert [row.asDict() for row in called(spark, counted, ITEMS, rows_schema()).collect()] == WANTED


def test_no_split_is_no_task(spark: Any) -> None:
    assert called(spark, counted, [], rows_schema()).collect() == []


def test_an_error_says_what_and_where(spark: Any) -> None:
    with pytest.raises(Exception, match="planted") as met:
        called(spark, broken, [1, 2], rows_schema()).collect()
    assert reason_of(met.value) == "/store/commitlog/0, byte 17: planted"


def test_what_a_worker_has_loaded_is_out_of_the_collectors_sight(spark: Any) -> None:
    """It collects after each task, and would look at all of pyarrow each time."""
    assert min(row["item"] for row in called(spark, frozen, [1, 2], rows_schema()).collect()) > 10_000


def test_what_all_tasks_need_is_in_no_partition(spark: Any, tmp_path: Path) -> None:
    """Ten thousand names, say: they go with the reader, to each executor once; what is for the plan alone does not go at all."""
    names = " ".join(f"a-name-of-which-no-two-are-alike-{number**7 % 1_000_003}" for number in range(10_000))
    table, options = f"{__name__}:NAMED", {"path": str(tmp_path), "names": names, "longer": names}
    frame = worked(spark, table, {"paths": [str(tmp_path)]}, names=names, longer=names)
    assert [row.asDict() for row in frame.collect()] == [{"item": item, "number": len(names)} for item in ITEMS]
    reader = WorkReader(table, options)
    assert all(len(pickle.dumps(one)) < 1000 for one in reader.partitions())
    sent = pickle.dumps(reader)
    assert len(names) < len(sent) < 1.1 * len(names)
    read = pickle.loads(sent).read(reader.partitions()[0])
    assert [row for batch in read for row in batch.to_pylist()] == [{"item": 5, "number": len(names)}]


def test_tables_of_work_are_read_like_any_other(spark: Any, tmp_path: Path) -> None:
    """By name and options, in SQL too; Spark plans them."""
    store = golden_of("mix", tmp_path / "broker-a")
    read = spark.read.format("rocketmq_store")
    units = read.option("table", "consumequeue").option("includeSystemTopics", "true").load(str(store))
    ends = read.option("table", "positions").option("includeSystemTopics", "true").load(str(store))
    wanted = {
        (row.topic, row.queueId): row.end
        for row in units.selectExpr("*", "queueOffset + batchSize as end").orderBy("end").collect()
    }
    assert wanted == {(row.topic, row.queueId): row.endOffset for row in ends.orderBy("endOffset").collect()}
    options = f"path '{store}', includeSystemTopics 'true', table"
    for view, table in (("newest", "newest"), ("every", "messages")):
        spark.sql(f"create temporary view {view} using rocketmq_store options ({options} '{table}')")
    newest, every = (spark.sql(f"select max(storeTimestamp) from {view}").first()[0] for view in ("newest", "every"))
    assert newest == every


def test_what_cannot_be_is_said(spark: Any, tmp_path: Path) -> None:
    work = work_of("ordered")
    assert work is not None
    with pytest.raises(BadOption, match="tolerance: 'soon'"):
        given_of(work, {"TOLERANCE": "soon"})
    with pytest.raises(Exception, match="no option strange"):
        spark.read.format("rocketmq_store").options(table="traces", strange="1").load(str(tmp_path)).count()
    with pytest.raises(Exception, match="digests: the option splits"):
        spark.read.format("rocketmq_store").options(table="digests").load(str(tmp_path)).count()
    with pytest.raises(Exception, match="the table traces has columns of its own"):
        spark.read.format("rocketmq_store").options(table="traces").schema("topic string").load(str(tmp_path)).count()
