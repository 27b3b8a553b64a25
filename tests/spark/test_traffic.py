"""Passes over the log, records shuffled, bytes to and from the driver, and what is kept: of every job, by Spark's metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from planted_stores.faults import KINDS
from planted_stores.generate import Wanted, generate
from rmq_columns.checks.audit import MANY_INDEX_FILES
from rmq_spark.jobs import JOBS
from tests.spark import traffic
from tests.spark.cluster import needs_spark
from tests.spark.many_queues import write_many
from tests.support.spark_traffic import BODY_BYTES, BOUNDS, LARGEST_TASK, LOG_BYTES, SPLIT_BYTES, STORE, Bound

QUEUES, SPLITS = 100_000, 2000
DRIVER_BYTES = 64 << 20
PARTITIONS = "100"
"""As a cluster has them, half of Spark's own number: a task that puts five hundred others together would name each of them."""
MANY_S_MAX = 3600
"""Thousands of tasks, on a machine that is busy."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, traffic.Traffic]]:
    """(messages of the log, what each job took)"""
    needs_spark()
    root = tmp_path_factory.mktemp("traffic")
    planted = {kind: 1 if kind == "torn-tail" else 2 for kind in KINDS}
    for name, faults in (("clean", {}), ("faulty", planted)):
        generate(root / name, Wanted(LOG_BYTES, BODY_BYTES, faults=faults, sizes=STORE))
    (root / "made").mkdir()
    calls: list[traffic.Call] = []
    for one in BOUNDS:
        store = root / ("clean" if one.job == "diff" else "faulty") / "store"
        calls.append((one.job, [str(store)], one.given(root)))
    messages = int(json.loads((root / "faulty" / "summary.json").read_text())["made"]["messages"])
    found = traffic.run(root / "run", calls)
    return messages, {one.job: took for one, took in zip(BOUNDS, found, strict=True)}


def test_every_job_has_its_bounds() -> None:
    assert [one.job for one in BOUNDS] == list(JOBS)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda one: one.job)
def test_a_job_takes_no_more(measured: tuple[int, dict[str, traffic.Traffic]], bound: Bound) -> None:
    messages, found = measured
    took = found[bound.job]
    assert took.passes <= bound.passes
    assert took.shuffled / messages <= bound.shuffled
    assert took.sent <= bound.sent << 10
    assert took.taken <= bound.taken << 10
    assert 0 < took.largest_task <= bound.task << 10
    assert took.kept == 0


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda one: one.job)
def test_a_bound_says_something(measured: tuple[int, dict[str, traffic.Traffic]], bound: Bound) -> None:
    """It is no more than half above what is needed: a second look at the log, or at all messages, is seen."""
    messages, found = measured
    took = found[bound.job]
    assert bound.passes <= took.passes * 1.5
    assert bound.shuffled <= max(took.shuffled / messages * 1.5, 0.01)


@pytest.mark.nightly
def test_the_driver_does_not_grow_with_queues_times_files(tmp_path: Path) -> None:
    """A hundred thousand queues in two thousand splits, each of which meets a hundred of them."""
    needs_spark()
    size = write_many(tmp_path / "store", QUEUES, 2)
    calls: list[traffic.Call] = [("audit", [str(tmp_path / "store")], {"splitBytes": str(size // SPLITS)})]
    [took] = traffic.run(tmp_path / "run", calls, {"spark.sql.shuffle.partitions": PARTITIONS}, MANY_S_MAX)
    assert took.tasks > SPLITS
    assert took.sent + took.taken < DRIVER_BYTES
    assert took.largest_task <= LARGEST_TASK
    assert took.kept == 0


@pytest.mark.nightly
def test_the_driver_does_not_grow_with_index_files(tmp_path: Path) -> None:
    """Ten times as many of them: but for some more tasks, which name them, nothing more goes to the driver or comes from it."""
    needs_spark()
    calls: list[traffic.Call] = []
    for name, entries in (("few", 1000), ("many", 100)):
        generate(tmp_path / name, Wanted(LOG_BYTES, BODY_BYTES, sizes=replace(STORE, index_entries=entries)))
        calls.append(("audit", [str(tmp_path / name / "store")], {"splitBytes": str(SPLIT_BYTES)}))
    few, many = (len(list((tmp_path / name / "store" / "index").iterdir())) for name in ("few", "many"))
    assert MANY_INDEX_FILES < few < many / 8
    less, more = traffic.run(tmp_path / "run", calls)
    assert more.taken / more.tasks < less.taken / less.tasks * 1.05
    assert more.sent < less.sent + (many - few) * 200


def test_what_spark_says_of_sizes_is_understood() -> None:
    said = list(
        traffic.sizes_said(
            "17 Starting task 0.0 in stage 0.0 (TID 0) (localhost,executor driver, partition 0, PROCESS_LOCAL, 9766 bytes) \n"
            "18 Block broadcast_0_piece0 stored as bytes in memory (estimated size 6.1 KiB, free 434.4 MiB)\n"
            "19 Block rdd_1_0 stored as values in memory (estimated size 6.1 KiB, free 434.4 MiB)\n"
        )
    )
    assert said == [(17, "task", 9766), (18, "broadcast", 6246)]
