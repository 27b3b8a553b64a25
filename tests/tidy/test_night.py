"""The steps of the night: all of them, or those that are named; each with its time, and none stopped by another's failure."""

from __future__ import annotations

import sys

import pytest

from tests import night


def test_the_night_runs_every_part_and_what_comes_after() -> None:
    assert night.steps_of([]) == [night.EVERY_PART, *night.AFTERWARDS]
    assert "--only" not in night.command_of(night.EVERY_PART, [])
    for step in night.PARTS_OF_SUITE:
        assert night.command_of(step, ["-x"])[-4:] == ["--nightly", "--only", step, "-x"]


def test_a_step_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(night, "command_of", lambda step, _: [sys.executable, "-c", f"raise SystemExit({step == 'store'})"])
    monkeypatch.setattr(sys, "argv", ["night", "--step", "store", "--step", "mutants"])
    assert night.main() == 1
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["store", "mutants"]
    assert lines[-2].endswith("FAILED (1)")
    assert lines[-1].endswith("passed")
