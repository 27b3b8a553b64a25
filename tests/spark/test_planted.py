"""Every kind of planted fault is found by the job that must find it, in the rows that the ledger names; and nothing else is.

One store has all kinds of faults in it, one all but those that move what follows them, another of the same size has none.  Each
judge (`planted_judges`) says for one job which kinds are its own, what rows it must have for each of them, and how they are read
from its outcome: the two sets must be equal, so that a fault which is not seen fails the test, and so does a row about one that
is another job's or that was never planted.

`make nightly` does it with stores of 1 GB (or RMQ_PLANTED_BYTES), too.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from planted_stores.faults import KINDS
from planted_stores.generate import Wanted, generate
from planted_stores.plan import Sizes
from rmq_spark.jobs import JOBS
from rmq_spark.outcome import Outcome
from tests.spark.kit import outcome_of
from tests.spark.planted_judges import JUDGES, MEASURING, Fault, Found, Judge, Place, ledger_of

EACH: Final = 2
MOVES: Final = ("gap",)
"""Behind these all messages of a queue have other offsets: two stores are not alike any more."""


@dataclass(frozen=True)
class Scale:
    """How large the stores are."""

    log_bytes: int
    body_bytes: int
    sizes: Sizes
    workers: int = 0


SMALL: Final = Scale(13 << 20, 128, Sizes(4 << 20, 20_000, 5000, 50_000))
"""Enough that timed messages are delivered: these come twenty rounds of a thousand messages later."""
LARGE_BYTES: Final = int(os.environ.get("RMQ_PLANTED_BYTES", "1000000000"))
LARGE: Final = Scale(LARGE_BYTES, 1024, Sizes(128 << 20, 20_000, 500_000, 2_000_000), os.cpu_count() or 1)
"""Queue files are as small as those: of several holes in one of them the audit reports where the first is."""


@dataclass(frozen=True)
class Stores:
    """Beneath root: directories named clean, faulty, changed, with store/ and sent/."""

    root: Path
    scale: Scale

    def run(self, spark: Any, judge: Judge, store: str) -> tuple[Found, list[Fault], Outcome]:
        """(what was found, what was planted, the outcome)."""
        where = Place(self.root / store, self.root / "clean", self.root / f"{name_of(judge)} {store}")
        split_bytes = self.scale.log_bytes // 12
        outcome = outcome_of(spark, judge.job, where.directory / "store", splitBytes=split_bytes, **judge.given(where))
        faults = ledger_of(where.directory)
        return judge.found(outcome, faults), faults, outcome


@pytest.fixture(
    scope="module",
    params=[pytest.param(SMALL, id="small"), pytest.param(LARGE, id="large", marks=pytest.mark.nightly)],
)
def stores(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Stores]:
    root, scale = tmp_path_factory.mktemp("planted"), request.param
    faults = {kind: 1 if kind == "torn-tail" else EACH for kind in KINDS}
    in_place = {kind: count for kind, count in faults.items() if kind not in MOVES}
    for name, planted in (("clean", {}), ("faulty", faults), ("changed", in_place)):
        wanted = Wanted(scale.log_bytes, scale.body_bytes, faults=planted, sizes=scale.sizes, workers=scale.workers)
        generate(root / name, wanted)
    assert {fault.kind for fault in ledger_of(root / "faulty")} == KINDS.keys()
    yield Stores(root, scale)
    shutil.rmtree(root)


def name_of(judge: Judge) -> str:
    return judge.name or judge.job


def test_every_kind_has_a_job_and_every_job_a_kind() -> None:
    """No kind that nobody has to find, no job that was forgotten."""
    assert {kind for judge in JUDGES for kind in judge.wanted} == KINDS.keys()
    assert {judge.job for judge in JUDGES} | MEASURING == JOBS.keys()


@pytest.mark.parametrize("judge", JUDGES, ids=name_of)
def test_planted_faults_are_found_and_nothing_else(spark: Any, stores: Stores, judge: Judge) -> None:
    found, faults, outcome = stores.run(spark, judge, judge.store)
    wanted = judge.rows(faults)
    assert wanted, "nothing of this job's was planted"
    assert found == wanted
    assert not outcome.is_clean


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("job", "given", "unseen"),
    [
        ("audit", {"no_crc": True}, ("corrupt-body",)),
        ("audit", {"no_index": True}, ("index-missing", "index-wrong")),
        ("loss", {"no_crc": True}, ("corrupt-body",)),
    ],
)
def test_a_check_that_is_left_out_is_missed(
    spark: Any, stores: Stores, job: str, given: dict[str, Any], unseen: tuple[str, ...]
) -> None:
    """So this test can fail: without a check its faults, and no others, are missing among the rows."""
    [judge] = [one for one in JUDGES if one.job == job]
    lax = replace(judge, given=lambda where: {**judge.given(where), **given})
    found, faults, _ = stores.run(spark, lax, judge.store)
    assert judge.rows(faults) - found == judge.rows(fault for fault in faults if fault.kind in unseen) != set()
    assert not found - judge.rows(faults)


@pytest.mark.nightly
@pytest.mark.parametrize("judge", [*JUDGES, *(Judge(job, {}, lambda *_: set()) for job in sorted(MEASURING))], ids=name_of)
def test_a_clean_store_is_clean(spark: Any, stores: Stores, judge: Judge) -> None:
    """By day the tests above say that nothing else is found, and each job has its own of stores where nothing is wrong."""
    found, _, outcome = stores.run(spark, judge, "clean")
    assert found == set()
    assert outcome.is_clean, outcome.verdict
