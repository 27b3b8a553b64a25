"""A store with damage, and what a repair made of it: damage is what a condition excludes, fillers are nobody's messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import rmq_spark
from rmq_inspect.decode.directory import list_store
from rmq_inspect.repair.repair import repair
from rmq_spark.jobs.latency import COMMITTED, PLAIN, latency
from rmq_store.disk.disk import RealDisk
from rmq_wire import sys_flag as flags
from tests.spark.kit import figures, outcome_of
from tests.support.store_rig import Rig, draft, small
from tests.support.stores import spoil, units_of

MESSAGES = 20
LOST = (4, 5, 11)
"""Two stretches, hence two fillers."""
COMMIT = (3, 8)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repaired") / "store"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(root), mapped_file_size_commit_log=65536))
    for number in range(MESSAGES):
        kind = flags.TRANSACTION_COMMIT if number in COMMIT else flags.TRANSACTION_NOT
        rig.put(draft(number, topic="TopicA" if number % 2 else "TopicB", sys_flag=kind))
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    units = units_of(root)
    for number in LOST:
        spoil(units[number].file.path, units[number].at, b"\xff" * 60)
    return root


@pytest.fixture(scope="module")
def mended(damaged: Path) -> Path:
    repair(list_store(damaged), damaged.parent / "new")
    assert len(units_of(damaged.parent / "new")) == MESSAGES - len(LOST) + 2
    return damaged.parent / "new"


def test_order_of_a_repaired_store(spark: Any, mended: Path) -> None:
    outcome = outcome_of(spark, "order", mended, by="queueId")
    assert outcome.frames["breaks"].collect() == []
    assert outcome.is_clean
    assert figures(outcome)["keyedMessages"] == MESSAGES - len(LOST)


def test_latency_of_a_repaired_store(spark: Any, mended: Path) -> None:
    classes = Counter[str]()
    for row in latency(spark, mended).collect():
        assert row["topic"] in ("TopicA", "TopicB")
        classes[row["class"]] += row["messages"]
    assert classes == {PLAIN: MESSAGES - len(LOST) - len(COMMIT), COMMITTED: len(COMMIT)}
    outcome = outcome_of(spark, "latency", mended)
    assert (figures(outcome)["messages"], outcome.messages) == (MESSAGES - len(LOST),) * 2


@pytest.mark.parametrize(
    "where",
    ["topic = 'TopicA'", "queueId = 0 and topic in ('TopicA', 'TopicB')", "physicalOffset >= 400 and physicalOffset < 2000"],
)
def test_a_condition_excludes_damage(spark: Any, damaged: Path, where: str) -> None:
    """As Spark itself does: of damage only its place is known, so no condition on a message is true."""
    columns = ["physicalOffset", "topic"]
    every = rmq_spark.read(spark, damaged, mode="PERMISSIVE")
    wanted = sorted(map(tuple, every.where(where).select(columns).collect()))
    assert wanted
    for mode in ("PERMISSIVE", "permissive"):
        assert sorted(map(tuple, rmq_spark.read(spark, damaged, columns, where, mode=mode).collect())) == wanted
        assert rmq_spark.count(spark, damaged, where, mode=mode) == len(wanted)
    unread = rmq_spark.read(spark, damaged, ["physicalOffset"], "_corrupt is not null", mode="PERMISSIVE")
    assert unread.count() == every.where("_corrupt is not null").count() == 2
