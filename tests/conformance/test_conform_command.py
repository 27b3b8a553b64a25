"""`rmq conform`: selection, outputs and exit status, against a fake server with planted cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from conformance.subjects.base import Subject, SubjectFailed
from conformance.suite import expected, results
from conformance.suite.case import Case, Level
from conformance.suite.expected import Expectation
from conformance.suite.trial import Trial
from rmq_cli.main import rmq
from tests.support.fake_remoting import FakeSubject
from tests.support.planted import breaks, fails, passes, planted, skips

Run = Callable[..., Result]


@pytest.fixture
def subjects() -> dict[str, FakeSubject]:
    return {"ours": FakeSubject("ours"), "addr:here": FakeSubject("address"), "addr:there": FakeSubject("address")}


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> dict[str, Case]:
    """What `load` finds; the tests put cases in."""
    found: dict[str, Case] = {}
    monkeypatch.setattr("conformance.suite.case.load", lambda broken=None: found)
    return found


@pytest.fixture
def expectations(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Expectation]]:
    """Expectations by label."""
    found: dict[str, list[Expectation]] = {}
    monkeypatch.setattr(expected, "load", lambda label, directory=None: found.get(label, []))
    return found


@pytest.fixture
def conform(
    subjects: Mapping[str, Subject], cases: dict[str, Case], expectations: object, monkeypatch: pytest.MonkeyPatch
) -> Run:
    def subject_of(word: str, directory: Path, *, java: str | None = None) -> Subject:
        if word not in subjects:
            raise SubjectFailed(f"no subject {word}")
        return subjects[word]

    monkeypatch.setattr("conformance.suite.run.subject_of", subject_of)

    def run(*arguments: str | Path, **planted_ones: tuple[Callable[[Trial], object], Level]) -> Result:
        return CliRunner().invoke(rmq, ["conform", *map(str, arguments)])

    return run


def plant(cases: dict[str, Case], **bodies: object) -> None:
    """Cases by name: a body, or a body and its level."""
    for name, what in bodies.items():
        body, level = what if isinstance(what, tuple) else (what, Level.MUST)
        id = f"planted.{name}"
        cases[id] = planted(id, body, level)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "level", "status"),
    [
        (passes, Level.MUST, 0),
        (fails, Level.MUST, 1),
        (fails, Level.SHOULD, 0),
        (fails, Level.QUIRK, 0),
        (fails, Level.INFO, 0),
        (skips, Level.MUST, 0),
        (breaks, Level.INFO, 1),
    ],
)
def test_status_by_level(conform: Run, cases: dict[str, Case], body: object, level: Level, status: int) -> None:
    """As it is of a server of which nothing is expected, and of any with --strict."""
    plant(cases, one=(body, level))
    for words in (("--addr", "here"), ("--ours", "--strict")):
        done = conform(*words)
        assert done.exit_code == status, done.output


@pytest.mark.parametrize(
    ("body", "level", "known", "status"),
    [
        (fails, Level.MUST, True, 0),
        (fails, Level.SHOULD, True, 0),
        (fails, Level.SHOULD, False, 1),
        (passes, Level.MUST, True, 1),
        (passes, Level.MUST, False, 0),
        (fails, Level.INFO, False, 0),
        (breaks, Level.MUST, True, 1),
        (skips, Level.MUST, True, 0),
    ],
)
def test_status_by_expectation(
    conform: Run,
    cases: dict[str, Case],
    expectations: dict[str, list[Expectation]],
    body: object,
    level: Level,
    known: bool,
    status: int,
) -> None:
    plant(cases, one=(body, level))
    expectations["ours"] = [Expectation(("planted.*",), "it is Monday", "")] if known else []
    assert conform("--ours", "--expected").exit_code == status
    assert conform("--ours").exit_code == status, "what is expected of it is the rule unless something else is said"


def test_an_expected_failure_is_still_shown_as_one(
    conform: Run, cases: dict[str, Case], expectations: dict[str, list[Expectation]], tmp_path: Path
) -> None:
    plant(cases, one=fails)
    expectations["ours"] = [Expectation(("planted.one",), "it is Monday", "docs/differences.md#safety")]
    done = conform("--ours", "--strict", "--json", tmp_path / "r.json")
    assert done.exit_code == 1
    assert "FAILED must   planted.one  (expected: it is Monday)" in done.stdout
    assert "FAILED must   planted.one  (expected: it is Monday)" in conform("--ours", "--verbose").stdout
    [case] = results.read(tmp_path / "r.json").runs[0].cases
    assert (case.outcome, case.expected, case.see) == ("failed", "failed", "docs/differences.md#safety")


def test_a_run_that_came_as_expected_looks_so(
    conform: Run, cases: dict[str, Case], expectations: dict[str, list[Expectation]]
) -> None:
    plant(cases, one=fails, two=(fails, Level.SHOULD), three=fails, good=passes, left=skips, reported=(fails, Level.INFO))
    expectations["ours"] = [
        Expectation(("planted.three",), "no POP (answered 3)", ""),
        Expectation(("planted.one", "planted.two"), "it is Monday", ""),
    ]
    done = conform("--ours")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[-1] == "  as expected: 1 passed, 4 known, 1 skipped, 0 unexpected"
    assert lines[-5:-1] == [
        "  known, by cause:",
        "       2  it is Monday",
        "       1  no POP",
        "       1  only reported (level info)",
    ]
    assert "FAILED" not in done.stdout
    expectations["ours"].pop()
    done = conform("--ours")
    assert (done.exit_code, done.stdout.count("FAILED")) == (1, 2)
    assert done.stdout.endswith("  not as expected: 1 passed, 2 known, 1 skipped, 2 unexpected\n")


def test_expectations_of_another_label(conform: Run, cases: dict[str, Case], expectations: dict[str, list[Expectation]]) -> None:
    plant(cases, one=fails)
    expectations["java-5.5.0"] = [Expectation(("planted.one",), "x", "")]
    assert conform("--addr", "here", "--expected").exit_code == 1
    assert conform("--addr", "here", "--expected", "--expect", "java-5.5.0").exit_code == 0
    assert "--expect jaav-5.5.0: nothing is expected" in conform("--addr", "here", "--expect", "jaav-5.5.0").stderr


def test_everything_is_written(conform: Run, cases: dict[str, Case], tmp_path: Path) -> None:
    plant(cases, good=passes, bad=fails)
    files = [tmp_path / "new" / name for name in ("r.json", "r.xml", "r.html")]
    done = conform(
        "--ours", "--seed", "5", "--json", files[0], "--junit", files[1], "--html", files[2], "--logs", tmp_path / "logs"
    )
    assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.exception
    [run] = results.read(files[0]).runs
    assert (run.seed, run.target.label, [case.outcome for case in run.cases]) == (5, "ours", ["failed", "passed"])
    assert ElementTree.parse(files[1]).getroot().find("testsuite") is not None
    assert "<!doctype html>" in files[2].read_text().lower()[:100]
    assert (tmp_path / "logs" / "ours" / "server.log").exists()


def test_a_file_that_cannot_be_written_does_not_cost_the_others(conform: Run, cases: dict[str, Case], tmp_path: Path) -> None:
    plant(cases, first=passes)
    (tmp_path / "file").touch()
    page, xml = tmp_path / "x.html", tmp_path / "x.xml"
    result = conform("--ours", "--json", tmp_path / "file" / "x.json", "--html", page, "--junit", xml)
    assert result.exit_code == 2
    assert "/file" in result.stderr
    assert page.exists()
    assert xml.exists()


def test_several_subjects_one_after_the_other(
    conform: Run, cases: dict[str, Case], subjects: dict[str, FakeSubject], tmp_path: Path
) -> None:
    plant(cases, good=passes)
    done = conform("--addr", "here", "--addr", "there", "--ours", "--json", tmp_path / "r.json")
    assert done.exit_code == 0
    labels = [run.target.label for run in results.read(tmp_path / "r.json").runs]
    assert len(set(labels)) == 3, "two addresses are told apart"
    assert done.stdout.splitlines()[-1].split() == ["all", "1/1", "1/1", "1/1"]
    assert all(subject.left == subject.entered == 1 for subject in subjects.values())


def test_a_subject_that_cannot_be_had_is_one_line_and_the_others_are_run(
    conform: Run, cases: dict[str, Case], subjects: dict[str, FakeSubject], tmp_path: Path
) -> None:
    plant(cases, good=passes)
    subjects["addr:here"].hindered = "nobody listens at here"
    done = conform("--addr", "here", "--ours", "--json", tmp_path / "r.json")
    assert done.exit_code == 2
    assert [line for line in done.stderr.splitlines() if line.startswith("rmq:")] == ["rmq: nobody listens at here"]
    assert [run.target.label for run in results.read(tmp_path / "r.json").runs] == ["ours"]


def test_a_server_that_dies_in_the_middle(
    conform: Run, cases: dict[str, Case], subjects: dict[str, FakeSubject], tmp_path: Path
) -> None:
    async def kills(trial: Trial) -> None:
        await fails_after_death(trial)

    async def fails_after_death(trial: Trial) -> None:
        subjects["ours"].living = lambda: False
        await fails(trial)

    plant(cases, kills=kills, **{f"n{number}": passes for number in range(4)})
    done = conform("--ours", "--jobs", "1", "--seed", "1", "--json", tmp_path / "r.json")
    assert done.exit_code == 2
    assert "rmq: ours: the server ended in the middle of the run" in done.stderr
    [run] = results.read(tmp_path / "r.json").runs
    assert run.count("not run") == 4 - run.count("passed") > 0
    assert subjects["ours"].left == 1


def test_a_module_of_cases_that_cannot_be_imported(conform: Run, cases: dict[str, Case], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(cases, good=passes)

    def load(broken: dict[str, Exception]) -> dict[str, Case]:
        broken["conformance.suite.cases.bad"] = NameError("name 'x' is not defined")
        return cases

    monkeypatch.setattr("conformance.suite.case.load", load)
    done = conform("--ours")
    assert done.exit_code == 2
    assert "rmq: conformance.suite.cases.bad cannot be imported: NameError: name 'x' is not defined" in done.stderr
    assert "1 cases in" in done.stdout


def test_usage(conform: Run, cases: dict[str, Case]) -> None:
    plant(cases, good=passes)
    assert conform().exit_code == 2
    assert "name a server" in conform().stderr
    assert "no level harsh: there are must, should" in conform("--ours", "--level", "harsh").stderr
    assert "no case is selected" in conform("--ours", "--only", "nothing").stderr
    assert conform("--ours", "--only", "nothing").exit_code == 2
    assert "Exit status" in conform("--help").stdout


def test_listing(conform: Run, cases: dict[str, Case]) -> None:
    plant(cases, good=passes, other=(passes, Level.INFO))
    assert conform("--list").stdout.splitlines() == [
        "must    planted.good   planted.good holds",
        "info    planted.other  planted.other holds",
        "2 cases",
    ]
    [row] = json.loads(conform("--list", "--level", "info", "--json", "-").stdout)
    assert (row["id"], row["level"], row["about"]) == ("planted.other", "info", "Asks once; holds.")
    assert "exercised by no case" in conform("--coverage").stdout


def test_merge(conform: Run, cases: dict[str, Case], expectations: dict[str, list[Expectation]], tmp_path: Path) -> None:
    plant(cases, one=fails)
    conform("--ours", "--json", tmp_path / "a.json")
    conform("--addr", "here", "--json", tmp_path / "b.json")
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    merged = conform("merge", *files, "--json", tmp_path / "c.json")
    assert merged.exit_code == 1
    assert [run.target.label for run in results.read(tmp_path / "c.json").runs] == ["ours", "address"]
    expectations["ours"] = expectations["address"] = [Expectation(("planted.one",), "x", "")]
    assert conform("merge", *files, "--expected").exit_code == 0
    assert conform("merge", tmp_path / "none.json").exit_code == 2


def test_rounds(conform: Run, cases: dict[str, Case], subjects: dict[str, FakeSubject], tmp_path: Path) -> None:
    turns = 0

    async def shaky(trial: Trial) -> None:
        nonlocal turns
        turns += 1
        trial.equal("turn", turns == 2, False)

    plant(cases, good=passes, shaky=shaky)
    done = conform("rounds", "--ours", "--rounds", 3, "--seed", 7, "--loops", 1, "--keep", tmp_path / "kept")
    assert done.exit_code == 1
    assert "planted.shaky: seed 8\n" in done.stdout
    assert done.stdout.endswith("3 rounds beside 1 busy loops, 2 of them as expected\n")
    assert subjects["ours"].entered == subjects["ours"].left == 3, "each round has a server of its own"
    [file] = (tmp_path / "kept").iterdir()
    assert [case.id for case in results.read(file).runs[0].surprises] == ["planted.shaky"]
    assert conform("rounds", "--ours", "--rounds", 2).exit_code == 0
    assert "name one server" in conform("rounds").stderr
