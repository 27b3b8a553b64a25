"""Work that is sent into Spark's tasks: what comes back, in which order, and what becomes of an error."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from rmq_columns import CannotRead
from rmq_spark.reasons import reason_of


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

    yield pa.record_batch({"frozen": [gc.get_freeze_count()]})


ITEMS = [5, 1, 0, 3, 2]
WANTED = [{"item": item, "number": number} for item in ITEMS for number in range(item)]


def test_rows_come_in_the_order_of_the_items(spark: Any) -> None:
    from rmq_spark.tasks import gathered, spread

    assert gathered(spark, counted, ITEMS) == WANTED
    assert [row.asDict() for row in spread(spark, counted, ITEMS, rows_schema()).collect()] == WANTED


def test_no_item_is_no_task(spark: Any) -> None:
    from rmq_spark.tasks import gathered, spread

    assert gathered(spark, counted, []) == []
    assert spread(spark, counted, [], rows_schema()).collect() == []


@pytest.mark.parametrize("way", ["gathered", "spread"])
def test_an_error_says_what_and_where(spark: Any, way: str) -> None:
    from rmq_spark.tasks import gathered, spread

    with pytest.raises(Exception, match="planted") as met:
        gathered(spark, broken, [1, 2]) if way == "gathered" else spread(spark, broken, [1, 2], rows_schema()).collect()
    assert reason_of(met.value) == "/store/commitlog/0, byte 17: planted"


def test_what_a_worker_has_loaded_is_out_of_the_collectors_sight(spark: Any) -> None:
    """It collects after each task, and would look at all of pyarrow each time."""
    from rmq_spark.tasks import gathered

    assert min(row["frozen"] for row in gathered(spark, frozen, [1, 2])) > 10_000


def test_what_all_tasks_need_is_in_no_partition(spark: Any) -> None:
    """Ten thousand names, say: they go with the reader, to each executor once."""
    import pickle
    from functools import partial

    from rmq_spark.tasks import TaskReader, as_text, spread

    names = frozenset(f"a name of which no two are alike, {number**7 % 1_000_003}" for number in range(10_000))
    frame = spread(spark, partial(named, names), ITEMS, rows_schema())
    assert [row.asDict() for row in frame.collect()] == [{"item": item, "number": 10_000} for item in ITEMS]
    reader = TaskReader({"work": as_text(partial(named, names)), "items": as_text(tuple(ITEMS))})
    assert all(len(pickle.dumps(one)) < 1000 for one in reader.partitions())
    sent = pickle.loads(pickle.dumps(reader))
    assert not sent.items
    assert [row for batch in sent.read(reader.partitions()[0]) for row in batch.to_pylist()] == [{"item": 5, "number": 10_000}]


def named(names: frozenset[str], item: int) -> Iterator[Any]:
    import pyarrow as pa

    yield pa.record_batch({"item": [item], "number": [len(names)]}, schema=rows_schema())
