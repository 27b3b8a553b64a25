"""The tables of `make bench-spark`: what is reached, what is missed, what a GB costs.  No Spark."""

from __future__ import annotations

import pytest

from bench.spark_table import Figure, Round, costs, judged_size, line_of, missed, page, table

TINY = 0.01
SIZES = (1.0, 2.0, 8.0)


def figures(fixed: float, per_gb: float, growth: float = 0.0) -> dict[float, Figure]:
    """Three rounds each: one of them far off, which a median leaves out.  growth: of per_gb with each GB."""
    made = {}
    for size in (TINY, *SIZES):
        seconds = fixed + per_gb * (1 + growth * size) * size
        made[size] = Figure(size, tuple(Round(one, size / 5, 2 * one) for one in (seconds, seconds * 9, seconds)))
    return made


def test_a_target_is_held_at_the_middle_size() -> None:
    assert judged_size(SIZES) == 2.0
    line = line_of("rows", 0.8, figures(0.2, 1.1), SIZES, TINY)
    assert line["gbS"] == pytest.approx(2 / 2.4)
    assert line["isReached"]
    assert line["coreSecondsPerGb"] == pytest.approx(2.4)
    assert line_of("rows", 0.84, figures(0.2, 1.1), SIZES, TINY)["isReached"] is False
    assert line_of("rows", None, figures(0.2, 1.1), SIZES, TINY)["isReached"] is None


def test_the_cost_of_a_gb_is_held_without_what_is_fixed() -> None:
    near = line_of("near", None, figures(0.4, 1.0), SIZES, TINY)
    assert near["wholeCostSpread"] == pytest.approx(1.4 / 1.05 - 1)
    assert near["costSpread"] < 0.02
    assert near["isSpreadReached"]
    far = line_of("far", None, figures(0.4, 1.0, growth=0.05), SIZES, TINY)
    assert far["costSpread"] == pytest.approx(1.4 / 1.05 - 1, rel=0.05)
    assert far["isSpreadReached"] is False
    alone = line_of("alone", None, figures(0.4, 1.0), (2.0,), TINY)
    assert alone["costSpread"] is None
    assert alone["isSpreadReached"] is None
    assert list(costs([alone], (2.0,))) == []


def test_what_is_missed_is_reported() -> None:
    good = line_of("good", 0.8, figures(0.1, 1.0), SIZES, TINY)
    bad = line_of("bad", 1.5, figures(0.4, 1.0, growth=0.06), SIZES, TINY)
    assert missed([good]) == []
    assert missed([good, bad]) == [
        "bad: 0.76 GB/s, the target is 1.5",
        "bad: its cost per GB, without what is fixed, spreads by 41%, the target is 25%",
    ]


def test_the_page() -> None:
    bad = line_of("bad", 1.5, figures(0.4, 1.0, growth=0.06), SIZES, TINY)
    lines = [line_of("good", 0.8, figures(0.1, 1.0), SIZES, TINY), bad]
    first, second = list(table(lines, SIZES)), list(costs(lines, SIZES))
    assert {row.count("|") for row in first} == {7}
    assert {row.count("|") for row in second} == {8}
    assert "| good | 0.95 | reached: ≥ 0.8 |" in first[2]
    assert "| NOT reached: ≥ 1.5 |" in first[3]
    assert second[2].startswith("| good | 1.10 | 1.05 | 1.01 | 1% | reached: ≤ 25% | 9% |")
    assert "| NOT reached: ≤ 25% |" in second[3]
    result = {
        "rows": lines,
        "sizesGb": SIZES,
        "versions": {"java": "17"},
        "machine": "a machine",
        "master": "local[2]",
        "rounds": 3,
        "date": "2026-01-01",
        "sessionS": 4.0,
        "firstQueryS": 2.0,
        "tookS": 60.0,
        "load": 2.0,
        "missing": ["skew"],
    }
    reported = list(page(result))
    assert [row for row in reported if row.startswith("|")] == first + second
    assert "Not there: skew." in reported
    assert sum(row.startswith("MISSED: ") for row in reported) == 2
