"""The job `audit`: each planted fault that it can see is found exactly once, at its place, and nothing else is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rmq_columns import BadOption
from rmq_spark.jobs import JOBS
from rmq_spark.outcome import Outcome
from tests.spark.kit import outcome_of
from tests.support import plants_log, plants_queues
from tests.support.damaged_store import Subject, add_config, fill
from tests.support.generated import BIG, make
from tests.support.logs import forged, write_log
from tests.support.planted_kinds import SEEN_AS
from tests.support.stores import golden_of, golden_store

NEAR_BYTES = 700
SPLIT = "300k"
"""Cuts the files of the generated stores, which have 1 MiB, in four."""


def run(spark: Any, *paths: Path | str, options: dict[str, str] | None = None, **given: Any) -> Outcome:
    return outcome_of(spark, "audit", paths, **{"splitBytes": SPLIT, **(options or {}), **given})


def rows(outcome: Outcome, frame: str = "findings") -> list[dict[str, Any]]:
    return [row.asDict() for row in outcome.frames[frame].collect()]


@pytest.fixture(params=["few", "many"])
def queues(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where queue units and messages meet: where the log is read, or by a shuffle."""
    if request.param == "many":
        monkeypatch.setattr("rmq_columns.checks.audit.MANY_QUEUES", 0)


@pytest.mark.usefixtures("queues")
def test_each_planted_fault_is_found_once_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    store, faults = make(tmp_path, dict.fromkeys(SEEN_AS, 1), BIG)
    outcome = run(spark, store)
    found = rows(outcome)
    assert sorted(row["code"] for row in found) == sorted(code for codes in SEEN_AS.values() for code in codes)
    assert not outcome.is_clean
    assert {row["brokerName"] for row in found} == {tmp_path.name}
    assert all(row["what"] and row["consequence"] and row["remedy"] for row in found)
    for fault in faults:
        near = range(fault["fileOffset"], fault["fileOffset"] + NEAR_BYTES)
        there = {row["code"] for row in found if row["file"] == fault["file"] and row["byte"] in near}
        assert there & SEEN_AS[fault["kind"]] or fault["kind"].startswith("index-"), fault


def test_nothing_in_a_clean_store(spark: Any, tmp_path: Path) -> None:
    store, _ = make(tmp_path, {})
    outcome = run(spark, store)
    assert outcome.is_clean
    assert rows(outcome) == []
    assert outcome.notes == []
    assert outcome.verdict.startswith("clean")
    figures = {one.name: one.value for one in outcome.figures}
    queues, files = rows(outcome, "queues"), rows(outcome, "files")
    assert figures["messages"] == sum(row["messages"] for row in files) > 1000
    assert figures["logFiles"] == len(files) == 3
    assert all(row["withoutMessage"] == 0 for row in queues)
    assert all(row["consumeQueueEndOffset"] == row["endOffset"] for row in queues)
    assert figures["indexEntries"] > figures["messages"]
    [plot] = outcome.plots
    assert len(plot.series[tmp_path.name]) > 4


@pytest.mark.usefixtures("queues")
@pytest.mark.parametrize("kind", ["mix", "batch"])
def test_nothing_in_a_store_that_java_wrote(spark: Any, tmp_path: Path, kind: str) -> None:
    outcome = run(spark, golden_of(kind, tmp_path / "store"), options={"splitBytes": "2k"})
    assert rows(outcome) == []
    assert outcome.is_clean


@pytest.mark.usefixtures("queues")
def test_several_brokers_at_once(spark: Any, tmp_path: Path) -> None:
    golden_store(tmp_path / "broker-a")
    for name in ("broker-b", "broker-c"):
        fill(tmp_path / name)
        add_config(tmp_path / name)
    plants_log.flip_in_a_body(Subject(tmp_path / "broker-b"))
    plants_queues.wrong_tags_code(Subject(tmp_path / "broker-c"))
    outcome = run(spark, tmp_path, options={"splitBytes": "1500"})
    assert {(row["brokerName"], row["code"]) for row in rows(outcome)} == {
        ("broker-b", "log-body-crc"),
        ("broker-c", "queue-tags-code"),
    }
    assert {row["brokerName"] for row in rows(outcome, "queues")} == {"broker-a", "broker-b", "broker-c"}
    assert {one.name: one.value for one in outcome.figures}["stores"] == 3
    named = next(table for table in outcome.tables if table.name == "findings")
    assert named.total == 2
    assert named.is_finding


def test_parts_left_out_and_the_function(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    add_config(tmp_path / "store")
    subject = Subject(tmp_path / "store")
    plants_log.flip_in_a_body(subject)
    plants_queues.wrong_tags_code(subject)
    assert {row["code"] for row in rows(run(spark, subject.root))} == {"log-body-crc", "queue-tags-code"}
    log_only = run(spark, subject.root, no_queues=True, no_index=True)
    assert {row["code"] for row in rows(log_only)} == {"log-body-crc"}
    found = JOBS["audit"].function(spark, subject.root, no_crc=True, splitBytes=1500)
    assert [row.code for row in found.collect()] == ["queue-tags-code"]
    assert found.columns[:6] == ["brokerName", "file", "byte", "severity", "code", "what"]


@pytest.mark.usefixtures("queues")
def test_queues_of_a_file_that_was_cut_falsely(spark: Any, tmp_path: Path) -> None:
    """What was said of its messages at the first look does not count."""
    write_log(tmp_path, [forged(20)] * 3, file_bytes=1 << 14)
    outcome = run(spark, tmp_path, options={"splitBytes": "1200", "splitStrategy": "magic"}, no_index=True)
    assert any("look like messages" in note for note in outcome.notes)
    assert rows(outcome) == rows(run(spark, tmp_path, options={"splitStrategy": "file"}, no_index=True))
    assert [(row["messages"], row["consumeQueueEndOffset"]) for row in rows(outcome, "queues")] == [(3, 3)]


def test_forged_cuts_cost_a_second_look_and_nothing_else(spark: Any, tmp_path: Path) -> None:
    write_log(tmp_path, [forged(20)] * 3, file_bytes=1 << 14)
    options = {"splitBytes": "1200", "splitStrategy": "magic"}
    outcome = run(spark, tmp_path, options=options, no_queues=True, no_index=True)
    assert outcome.is_clean
    assert any("look like messages" in note for note in outcome.notes)
    assert [row["messages"] for row in rows(outcome, "queues")] == [3]


def test_ruined_files_crash_no_worker(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    for number, path in enumerate(sorted((tmp_path / "store" / "commitlog").iterdir())):
        raw = path.read_bytes()
        path.write_bytes([raw[: number * 100], b"\xff" * len(raw), bytes(len(raw)), raw[::-1]][number % 4])
    for path in (tmp_path / "store" / "index").iterdir():
        path.write_bytes(path.read_bytes()[::-1])
    outcome = run(spark, tmp_path / "store", options={"splitBytes": "1500"})
    assert not outcome.is_clean
    assert len(outcome.tables[0].rows) <= 50


def test_a_log_alone_is_checked_and_the_rest_reported(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    plants_log.flip_in_a_body(Subject(tmp_path / "store"))
    log = tmp_path / "alone"
    shutil.copytree(tmp_path / "store" / "commitlog", log)
    outcome = run(spark, log, options={"splitBytes": "1500"})
    assert [row["code"] for row in rows(outcome)] == ["log-body-crc"]
    assert any("only a log" in note for note in outcome.notes)


def test_options_that_choose_rows_are_refused(spark: Any, tmp_path: Path) -> None:
    fill(tmp_path / "store")
    with pytest.raises(BadOption, match="looks at everything"):
        run(spark, tmp_path / "store", options={"topics": "TopicA"})
