"""Reductions by key: all rows of one, in order, in batches; what is shared; an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
from rmq_columns import CannotRead
from rmq_spark.grouped import grouped
from rmq_spark.reasons import reason_of

FOUND = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
SCHEMA = "k long, n long, text string"


class Joined:
    """What is shared, and all texts of a key."""

    def __init__(self, shared: str) -> None:
        self._texts = [shared]
        self._key = -1

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self._key = batch.column("k")[0].as_py()
        if self._key == 13:
            raise CannotRead("/store/commitlog/0", 17, "planted")
        self._texts += batch.column("text").to_pylist()
        yield from (pa.record_batch([[self._key], [0], [one]], schema=FOUND) for one in self._texts if one.endswith("-7"))

    def end(self) -> Iterator[pa.RecordBatch]:
        for text in (" ".join(self._texts), "end"):
            yield pa.record_batch([[self._key], [len(self._texts) - 1], [text]], schema=FOUND)


def test_all_rows_of_a_key_in_order(spark: Any) -> None:
    """More rows than Spark puts into one batch; two batches come of each key."""
    rows = [(key, place, f"{key}-{place}") for place in reversed(range(30)) for key in range(3)]
    frame = spark.createDataFrame(rows, "k long, place long, text string").repartition(4)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        found = grouped(frame, ["k"], ["place"], f"{__name__}:Joined", SCHEMA, "shared").collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    wanted = [(key, 30, " ".join(["shared", *(f"{key}-{place}" for place in range(30))])) for key in range(3)]
    wanted += [(key, 0, f"{key}-7") for key in range(3)] * 4  # given by the way, in this batch and the three behind it
    assert sorted(map(tuple, found)) == sorted([*wanted, *((key, 30, "end") for key in range(3))])


def test_no_row_is_no_key(spark: Any) -> None:
    frame = spark.createDataFrame([], "k long, place long, text string")
    assert grouped(frame, ["k"], ["place"], f"{__name__}:Joined", SCHEMA, "shared").collect() == []


def test_an_error_says_what_and_where(spark: Any) -> None:
    frame = spark.createDataFrame([(13, 0, "unlucky")], "k long, place long, text string")
    with pytest.raises(Exception, match="planted") as met:
        grouped(frame, ["k"], ["place"], f"{__name__}:Joined", SCHEMA, "shared").collect()
    assert reason_of(met.value) == "/store/commitlog/0, byte 17: planted"
