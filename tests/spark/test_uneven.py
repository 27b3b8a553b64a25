"""With half of all messages under one key, in one topic and one queue no task gets three times as many records as the median."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, Final

import pytest

from tests.spark import traffic
from tests.spark.cluster import needs_spark
from tests.spark.uneven import EVEN, TIMES_MAX, busy, write_uneven

RECORDS_MIN: Final = 5000
"""Of a stage that says something."""
Cases = dict[str, tuple[str, dict[str, Any]]]
BY_DAY: Final[Cases] = {
    "duplicates": ("duplicates", {}),
    "duplicates by key": ("duplicates", {"by": "keys"}),
    "order": ("order", {"sequence": "property:n"}),
}
BY_NIGHT: Final[Cases] = {
    "audit": ("audit", {}),
    "loss": ("loss", {"ledger": ["sent.jsonl"]}),
    "loss, keys alone": ("loss", {"ledger": ["keys.jsonl"]}),
    "latency": ("latency", {}),
    "skew": ("skew", {}),
    "retries": ("retries", {}),
    "pending": ("pending", {}),
    "diff": ("diff", {"other": "store"}),
}
SHUFFLES_ALL: Final = {*BY_DAY, "loss, keys alone", "latency", "skew"}
"""Of the others no stage reads so many records: what is in one task is summed up there."""


def measured(root: Path, cases: Cases) -> dict[str, traffic.Traffic]:
    needs_spark()
    write_uneven(root)
    calls: list[traffic.Call] = []
    for job, given in cases.values():
        named = {name: _inside(root, value) for name, value in given.items()}
        calls.append((job, [str(root / "store")], {"splitBytes": "512k", **named}))
    return dict(zip(cases, traffic.run(root / "run", calls, EVEN), strict=True))


def _inside(root: Path, value: Any) -> Any:
    if isinstance(value, list):
        return [_inside(root, one) for one in value]
    return str(root / value) if value == "store" or value.endswith(".jsonl") else value


@pytest.fixture(scope="module")
def by_day(tmp_path_factory: pytest.TempPathFactory) -> dict[str, traffic.Traffic]:
    return measured(tmp_path_factory.mktemp("uneven"), BY_DAY)


@pytest.fixture(scope="module")
def by_night(tmp_path_factory: pytest.TempPathFactory) -> dict[str, traffic.Traffic]:
    return measured(tmp_path_factory.mktemp("uneven"), BY_NIGHT)


@pytest.mark.parametrize("case", BY_DAY)
def test_no_task_has_three_times_as_many_records_as_the_median(by_day: dict[str, traffic.Traffic], case: str) -> None:
    assert_even(by_day[case], case)


@pytest.mark.nightly
@pytest.mark.parametrize("case", BY_NIGHT)
def test_no_task_of_the_other_jobs_has(by_night: dict[str, traffic.Traffic], case: str) -> None:
    assert_even(by_night[case], case)


def assert_even(took: traffic.Traffic, case: str) -> None:
    judged = [counts for counts in map(busy, took.task_records) if sum(counts) > RECORDS_MIN]
    assert bool(judged) == (case in SHUFFLES_ALL)
    for counts in judged:
        assert max(counts) <= TIMES_MAX * median(counts), counts
