"""The conformance suite itself: whole, against our broker and Apache RocketMQ, and each comes out as conformance/expected says.

`rmq conform --expected` is what anybody runs; its exit status is the test.  The page, the JUnit file and the raw outcome stay in
build/conform when that directory is there (CI keeps it).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from conformance import results
from tests.support.java import OLD_SERVER, REFERENCE, java

ROOT = Path(__file__).parents[2]
CASES_MIN = 900
"""A run of fewer cases is not the suite."""
SECONDS_MAX = 600
MIDDLE = "5.3.3"


def conform(directory: Path, *subject: str) -> Counter[str]:
    """Run it; outcomes by name.  The test fails with what it printed when a case came otherwise than foretold."""
    file = directory / "outcome.json"
    command = [sys.executable, "-m", "rmq_cli.main", "conform", "--expected", "--json", str(file), *subject]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, f"{done.stdout[-8_000:]}\n{done.stderr[-2_000:]}"
    [run] = msgspec.json.decode(file.read_bytes(), type=results.Matrix).runs
    outcomes = Counter(case.outcome for case in run.cases)
    assert outcomes.total() >= CASES_MIN
    return outcomes


def test_ours(tmp_path: Path) -> None:
    outcomes = conform(tmp_path, "--ours")
    assert outcomes["passed"] >= 0.6 * outcomes.total()


@pytest.mark.java
@pytest.mark.parametrize("version", [REFERENCE, *(pytest.param(old, marks=pytest.mark.nightly) for old in (MIDDLE, OLD_SERVER))])
def test_the_real_one(tmp_path: Path, version: str) -> None:
    outcomes = conform(tmp_path, "--jars", version, "--java", java())
    assert not outcomes["failed"]
    assert not outcomes["error"]
