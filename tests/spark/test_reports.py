"""Tables of a report, as a job declares them, made of its frames."""

from __future__ import annotations

from typing import Any

from rmq_spark.outcome import Unit
from rmq_spark.tables import WORST, Shown, tables_of


def test_what_a_report_declares(spark: Any) -> None:
    """Order, columns, conditions; how many there are in all is counted only where nobody knows and the table is full."""
    report = (
        Shown("all", "All", ("n", "n % 7 as rest"), ("n % 7 desc", "n"), "numbers", units={"n": Unit.PLACE}),
        Shown("few", "Few", ("n",), ("n desc",), "numbers", "n < 3", is_finding=True),
        Shown("none", "None", ("missing",), ("missing",)),
        Shown("known", "Known", ("n",), ("n",), "numbers"),
    )
    frames = {"numbers": spark.range(100).selectExpr("id as n")}
    every, few, none, known = tables_of(report, frames, none=0, known=1234)
    assert (every.total, every.names, every.columns[0].unit) == (100, ["n", "rest"], Unit.PLACE)
    assert every.rows[:2] == [(6, 6), (13, 6)]
    assert len(every.rows) == WORST
    assert (few.total, few.rows, few.is_finding) == (3, [(2,), (1,), (0,)], True)
    assert (none.total, none.rows) == (0, [])
    assert known.total == 1234
    assert few.bars("n", "n") == [("2", 2.0), ("1", 1.0), ("0", 0.0)]
