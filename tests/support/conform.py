"""The conformance suite as anybody runs it: `rmq conform --expected`, whose exit status is the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec

from conformance.suite import results

ROOT = Path(__file__).parents[2]
CASES_MIN = 900
"""A run of fewer cases is not the suite."""
SECONDS_MAX = 2_400
"""Only a hang takes as long."""
PATIENCE = "4"
"""Whether a server is slow is not what is judged here: the machine may be, and other lanes run beside."""


def conform(directory: Path, *subject: str) -> Counter[str]:
    """Run it; outcomes by name.  The test fails with what it printed when a case came otherwise than expected."""
    file = directory / "outcome.json"
    options = ("--expected", "--patience", PATIENCE, "--json", str(file))
    command = [sys.executable, "-m", "rmq_cli.main", "conform", *options, *subject]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, f"{done.stdout[-8_000:]}\n{done.stderr[-2_000:]}"
    [run] = msgspec.json.decode(file.read_bytes(), type=results.Matrix).runs
    outcomes = Counter(case.outcome for case in run.cases)
    assert outcomes.total() >= CASES_MIN
    return outcomes
