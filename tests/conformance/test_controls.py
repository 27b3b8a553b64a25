"""Negative controls: our broker with every quick defect is caught, a defect that does nothing is not, the tables are whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from conformance.controls.defect import Defect, Row
from conformance.controls.defects import by_name, load
from conformance.controls.proxy import unchanged
from conformance.controls.run import CAUGHT, NOT_CAUGHT, NOT_SHOWN, chosen, control, read, write
from conformance.controls.table import good_failures, lines
from conformance.subjects.base import Target
from conformance.subjects.ours import OursSubject
from conformance.suite.case import Case
from conformance.suite.case import load as load_cases
from conformance.suite.results import FAILED, PASSED, CaseResult
from conformance.suite.runner import result_of
from rmq_cli.conform import command
from rmq_cli.conform_controls import REPORTS
from tests.support.fake_remoting import FakeSubject

ROOT = Path(__file__).parents[2]
WAIT_IN_VAIN = frozenset(
    {
        "clients.notice-dropped",
        "delay.next-level",
        "frame.glued-dropped",
        "frame.length-too-large",
        "frame.opaque-narrowed",
        "frame.response-bit-missing",
        "hold.never-ends",
        "hold.not-woken",
        "hold.wakes-one",
        "names.goodbye-ignored",
        "names.heartbeat-ignored",
        "names.never-expires",
        "offsets.max-off-by-one",
        "offsets.one-way-commit-forgotten",
        "pull.commit-forgotten",
        "query.finds-nothing",
        "query.wrong-message",
        "retry.clients-limit-ignored",
        "retry.dead-letter-elsewhere",
        "retry.swallowed",
        "send.acknowledged-not-stored",
        "send.batch-as-one",
        "send.one-way-lost",
        "store.batch-one-entry",
        "store.entry-missing",
        "store.index-entry-missing",
        "store.index-place-off",
        "store.progress-missing",
        "store.topic-row-missing",
        "store.unit-flipped",
        "topics.not-registered",
    }
)
"""Defects that cases notice because something does not come: 5 to 20 s each."""
JOBS = 16
PATIENCE = 4.0


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with OursSubject(tmp_path_factory.mktemp("ours")) as target:
        yield target


async def test_every_quick_defect_is_caught(ours: Target) -> None:
    quick = [one for one in chosen(()) if one.name not in WAIT_IN_VAIN]
    results = await control(ours, quick, jobs=JOBS, patience=PATIENCE)
    assert not results.bad, lines(results.bad)
    assert {row.name for row in results.defects} == {one.name for one in quick}
    assert sum(row.outcome == CAUGHT for row in results.defects) > 100
    not_shown = {row.capability for row in results.defects if row.outcome == NOT_SHOWN}
    assert all(row.why for row in results.defects if row.outcome == NOT_SHOWN), not_shown


async def test_a_defect_that_does_nothing_is_not_caught(ours: Target) -> None:
    harmless = Defect("send.harmless", "does nothing wrong", ("send.v2",), mutate=unchanged)
    on_disk = Defect("store.harmless", "does nothing wrong", ("store.queue-entries", "store.marks"), spoil=lambda shadow: None)
    results = await control(ours, [harmless, on_disk])
    assert [row.outcome for row in results.defects] == [NOT_CAUGHT, NOT_CAUGHT]
    assert results.defects[0].overlooked_by == ["send.v2"]
    assert [row.name for row in results.bad] == ["send.harmless", "store.harmless"]
    assert "NOT CAUGHT by send.v2" in lines(results.defects)[0]


async def test_a_defect_whose_cases_cannot_run_is_not_shown(ours: Target) -> None:
    [unit] = chosen(["store.unit-flipped"])
    results = await control(replace(ours, store=None), [unit])
    assert [row.outcome for row in results.defects] == [NOT_SHOWN]
    assert results.bad, "nobody expected it"


async def test_a_case_that_fails_without_a_defect_makes_the_run_bad(ours: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not tried a second time, where it would pass."""
    tried: list[str] = []

    async def fails_at_first(case: Case, *_: object) -> CaseResult:
        tried.append(case.id)
        return result_of(case, FAILED if tried.count(case.id) == 1 else PASSED)

    monkeypatch.setattr("conformance.controls.run.run_case", fails_at_first)
    results = await control(ours, [Defect("send.harmless", "does nothing wrong", ("send.v2",), mutate=unchanged)])
    assert tried == ["send.v2"]
    assert [failed.case for failed in results.good_failures] == ["send.v2"]
    assert good_failures(results)[0].startswith("send.v2 failed without a defect")


def test_every_defect_names_cases_that_there_are() -> None:
    cases = load_cases().values()
    for one in load().values():
        for pattern in one.caught_by:
            assert one._replace(caught_by=(pattern,)).cases(cases), f"{one.name}: no case is called {pattern}"
        assert any(not case.slow for case in one.cases(cases)), one.name


def test_every_capability_has_a_defect() -> None:
    assert {case.capability for case in load_cases().values()} <= {one.capability for one in load().values()}


def test_quick_ones_are_named_right() -> None:
    assert set(load()) >= WAIT_IN_VAIN


def test_a_name_is_declared_once() -> None:
    row = Row("does nothing wrong", "send.v2 send.v1", unchanged)
    assert by_name([{"send.harmless": row}]) == {
        "send.harmless": Defect("send.harmless", "does nothing wrong", ("send.v2", "send.v1"), mutate=unchanged)
    }
    with pytest.raises(ValueError, match="declared twice"):
        by_name([{"send.harmless": row}, {"send.harmless": row}])
    for name, nobody in (("send.nobody-looks", row._replace(caught_by="")), ("harmless", row)):
        with pytest.raises(ValueError, match="the cases that catch it"):
            by_name([{name: nobody}])


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    results = read(ROOT / "conformance" / "reports" / REPORTS[1])
    write(tmp_path / "again.json", results)
    assert read(tmp_path / "again.json") == results


def test_command() -> None:
    run = CliRunner().invoke
    listed = run(command, ["controls", "--list", "--only", "locks"])
    assert listed.exit_code == 0
    assert "locks.granted-twice" in listed.output
    assert run(command, ["controls"]).exit_code == 2
    assert run(command, ["controls", "--only", "nonsense", "--ours"]).exit_code == 2
    assert run(command, ["controls", "--only", "locks", "--kept", "/nowhere"]).exit_code == 2


def test_a_server_that_dies_is_no_catch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = FakeSubject(living=lambda: False)
    monkeypatch.setattr("conformance.suite.run.subject_of", lambda word, directory, *, java=None: deaf)
    kept = tmp_path / "partial.json"
    found = CliRunner().invoke(command, ["controls", "--ours", "--only", "grid.missing-field-accepted", "--json", str(kept)])
    assert found.exit_code == 2
    assert "the server ended in the middle of the run" in found.output
    assert read(kept).defects
    assert deaf.left == 1
