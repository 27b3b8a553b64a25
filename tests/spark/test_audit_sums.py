"""What the parts of a log say of their queues, put together by Spark: as `Whole` puts it together by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planted_stores.faults import KINDS
from planted_stores.generate import Wanted, generate
from rmq_columns import parse_options
from rmq_columns.checks.audit import audit
from rmq_columns.checks.scope import Scope
from rmq_spark.jobs.audit import file_rows, finding_rows, look, queue_rows
from rmq_spark.measuring import source_of
from rmq_spark.session import silent
from tests.spark.kit import SMALL

FEW, MANY = 1000, 0
"""More queues than so many meet the messages elsewhere than where the log is read."""
EVERYTHING = {"no_queues": False, "no_index": False, "no_crc": False}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sums")
    generate(root, Wanted(13 << 20, 128, faults=dict.fromkeys(KINDS, 1), sizes=SMALL))
    return root / "store"


@pytest.mark.parametrize(
    ("split_bytes", "queues"), [(64 << 10, FEW), (1 << 20, FEW), (1 << 30, FEW), (1 << 20, MANY), (64 << 10, MANY)]
)
def test_as_without_spark(spark: Any, faulty: Path, split_bytes: int, queues: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All findings, queues and files, however the log is cut, and wherever messages and queue units meet."""
    monkeypatch.setattr("rmq_columns.checks.audit.MANY_QUEUES", queues)

    def in_turn(what: str, work: Any, pieces: Any) -> list[Any]:
        return [work(piece) for piece in pieces]

    wanted = audit(parse_options({"path": str(faulty), "splitBytes": split_bytes}), Scope(), in_turn)
    found = look(spark, source_of(faulty, {"splitBytes": split_bytes}), EVERYTHING, silent)
    assert sorted(finding_rows(found), key=repr) == sorted(finding_rows(wanted), key=repr) != []
    assert queue_rows(found) == queue_rows(wanted) != []
    assert file_rows(found) == file_rows(wanted)


def test_what_the_driver_gets_of_a_part_has_no_queues(spark: Any, faulty: Path) -> None:
    """There are queues x parts of them; nor is anything persisted afterwards."""
    [found] = look(spark, source_of(faulty, {"splitBytes": 64 << 10}), EVERYTHING, silent)
    assert len(found.reports) > 50
    assert all(not one.edges and not one.matched and not one.topics for one in found.reports)
    assert len(found.queues) > 10
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
