"""The steps of the night: all of them, or those that are named; each with its time, and none stopped by another's failure."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests import night
from tests.parts import BY_NIGHT, HERE, PARTS


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(night, "LOGS", tmp_path / "night")
    return night.LOGS


def play(monkeypatch: pytest.MonkeyPatch, program: str, *steps: str) -> int:
    """The night's status; each step runs this program, with its name."""
    monkeypatch.setattr(night, "command_of", lambda step, _: [sys.executable, "-uc", program, step])
    monkeypatch.setattr(sys, "argv", ["night", *(word for step in steps for word in ("--step", step))])
    return night.main()


def test_every_part_has_its_step_or_nothing_to_do() -> None:
    steps = [*night.WAITING, *night.COMPUTING]
    parts = [part.name for part in PARTS if part.places]
    others = {night.ON_JAVA, night.MUTANTS, night.OTHER_SPARK_STEP}
    assert sorted(steps) == sorted({*parts, *others} - {*night.NOTHING_BY_NIGHT})
    for part in {*parts} - {*night.NOTHING_BY_NIGHT}:
        assert night.command_of(part, ["-x"])[-4:] == ["--nightly", "--only", part, "-x"]


def test_a_part_without_a_test_by_night_has_none() -> None:
    places = [HERE / place for part in PARTS if part.name in night.NOTHING_BY_NIGHT for place in part.places]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", *BY_NIGHT, *map(str, places)]
    done = subprocess.run(command, cwd=night.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr


def test_what_plays_at_the_subject_plays_at_java_s_by_night() -> None:
    """All modules that RMQ_SUBJECT says something to, by name or by one of their tests."""
    modules = {path.name: ast.parse(path.read_text()) for path in (HERE / "java").glob("test_*.py")}
    assert {name for name, tree in modules.items() if plays_at_the_subject(tree)} == {
        name for name, tree in modules.items() if {name, *(test.name for test in own_tests(tree))} & {*night.AT_THE_SUBJECT}
    }
    command = night.command_of(night.ON_JAVA, ["-x"])
    assert command[:2] == ["env", "RMQ_SUBJECT=java"]
    assert command[-1] == "-x"


def own_tests(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]


def plays_at_the_subject(tree: ast.Module) -> bool:
    """It names `SUBJECTS`, or a test of it takes the fixture."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return "SUBJECTS" in names or "subject" in {argument.arg for test in own_tests(tree) for argument in test.args.args}


def test_all_steps_run_each_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], logs: Path) -> None:
    assert play(monkeypatch, "import sys; print(sys.argv[1], 'it is')") == 0
    steps = [*night.WAITING, *night.COMPUTING]
    assert sorted(path.stem for path in logs.iterdir()) == sorted(log.stem for log in map(night.log_of, steps))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-1 - len(steps) : -1]] == steps
    for step in steps:
        assert [line for line in lines if line.startswith("[") and line.endswith(f" {step} begins")]
        assert [line for line in lines if line.startswith("[") and line.endswith(f"passed: {step} it is")]


def test_a_step_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    program = "import sys; print('first\\n' * 1000); print('why', sys.argv[1]); sys.exit(3 if sys.argv[1] == 'net' else 0)"
    assert play(monkeypatch, program, "net", "mutants", "java") == 1
    out = capsys.readouterr().out
    told = out[out.index("##### net failed") :].splitlines()
    assert told.count("first") == night.TAIL_LINES - 1
    assert "why net" in told
    assert "why java" not in told
    *_, net, mutants, java, whole, again = told
    assert "FAILED (3)" in net
    assert mutants.endswith("passed")
    assert java.endswith("passed")
    assert whole.startswith("3 steps in ")
    assert again == 'again: make nightly PART="net"'


def test_what_computes_runs_two_at_once_and_what_waits_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of these three ends when all three have begun."""
    program = (
        "import pathlib, sys, time\n"
        f"where = pathlib.Path({str(tmp_path)!r})\n"
        "(where / sys.argv[1]).touch()\n"
        "until = time.monotonic() + 90\n"
        "while not all((where / name).exists() for name in ('java', 'wire', 'net')):\n"
        "    assert time.monotonic() < until\n"
        "    time.sleep(0.01)\n"
    )
    assert play(monkeypatch, program, "java", "wire", "net") == 0


def test_what_a_step_is_at_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It ends when that was said."""
    said = tmp_path / "said"
    real = night.Night._say

    def say(self: night.Night, what: str) -> None:
        real(self, what)
        if what == "net is at: half way":
            said.touch()

    monkeypatch.setattr(night.Night, "_say", say)
    monkeypatch.setattr(night, "SAID_EVERY_S", 0.01)
    program = (
        "import pathlib, time\n"
        "print('half way')\n"
        "until = time.monotonic() + 90\n"
        f"while not pathlib.Path({str(said)!r}).exists():\n"
        "    assert time.monotonic() < until\n"
        "    time.sleep(0.01)\n"
    )
    assert play(monkeypatch, program, "net") == 0
