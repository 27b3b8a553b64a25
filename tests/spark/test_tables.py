"""Tables of outcomes: a column of one name is shown in one way in all jobs.  Without Spark."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rmq_spark import tables
from rmq_spark.outcome import Column, Unit
from rmq_spark.tables import WORST, table_of, unit_of

JOBS = Path(tables.__file__).parent


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("topic", Unit.TEXT),
        ("queueId", Unit.PLACE),
        ("physicalOffset", Unit.PLACE),
        ("offset", Unit.PLACE),
        ("storeTimestamp", Unit.TIME),
        ("windowMs", Unit.TIME),
        ("lagMs", Unit.MS),
        ("waitMsP99", Unit.MS),
        ("bytesBehind", Unit.BYTES),
        ("gini", Unit.RATIO),
        ("messages", Unit.COUNT),
        ("p99_9", Unit.MS),
    ],
)
def test_units(column: str, unit: Unit) -> None:
    assert unit_of(column) is unit


def test_rows() -> None:
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    rows = [{"topic": "T", "keys": 3, "lastRetry": moment, "more": 1}] * (WORST + 1)
    made = table_of("few", "Few", ("topic", "keys", "lastRetry"), rows, 99, True, {"keys": Unit.COUNT})
    assert made.columns == (Column("topic"), Column("keys", Unit.COUNT), Column("lastRetry", Unit.TIME))
    assert made.rows == [("T", 3, 1_769_817_600_000)] * WORST
    assert (made.name, made.title, made.total, made.is_finding) == ("few", "Few", 99, True)


def test_every_column_that_is_told_apart_is_one_that_a_job_has() -> None:
    """A name that was misspelt here would be counted."""
    texts = " ".join(path.read_text() for path in sorted(JOBS.rglob("*.py")) if path != Path(tables.__file__))
    words = set(re.findall(r"\w+", texts)) | {"p50", "p90", "p99", "p99_9"}
    assert words >= {*tables.TEXTS, *tables.TIMES, *tables.BYTES, *tables.RATIOS, *tables.SPANS}
