"""Runs the test suite part by part and prints what each took.

A part is a directory of `tests/`, cheap ones first; what is marked `java`, wherever it stands, is the last part.  With
RMQ_REQUIRE=java (CI) a Java test that skips counts as failed: the machine was supposed to have a JDK and Maven.  `docker` there
says the same of the tests that need a daemon and the images.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as Tree
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PARTS = (
    "tidy", "wire", "store", "net", "broker", "namesrv", "columns", "spark", "conformance", "inspect", "cli", "docker", "java",
)  # fmt: skip
JAVA = "java"
PART_SECONDS_MAX = {JAVA: 2400}
"""A part that takes longer hangs: it is ended.  Half of what CI allows for everything."""
NIGHTLY_PART_SECONDS_MAX = {JAVA: 7200, "store": 4 * 3600}
"""A million lives of the store are simulated then."""


class Outcome(NamedTuple):
    passed: int
    failed: int
    skipped: int
    seconds: float


def run_part(part: str, *, nightly: bool, extra: list[str]) -> Outcome:
    """Run one directory under pytest; its counts come from the JUnit file, so a crash of pytest itself counts as a failure."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        marks = ("java" if part == JAVA else "not java") + ("" if nightly else " and not nightly")
        place = HERE if part == JAVA else HERE / part
        command = [sys.executable, "-m", "pytest", str(place), f"--junitxml={report}", "--durations=5", "-m", marks, *extra]
        try:
            limits = NIGHTLY_PART_SECONDS_MAX if nightly else PART_SECONDS_MAX
            status = subprocess.run(command, check=False, timeout=limits.get(part, 900)).returncode
        except subprocess.TimeoutExpired:
            status = -1
            print(f"part {part}: ended after its time limit", flush=True)
        took = time.monotonic() - started
        if status == 5:
            return Outcome(0, 0, 0, took)
        if not report.exists():
            return Outcome(0, 1, 0, took)
        suite = Tree.parse(report).getroot().find("testsuite")
        assert suite is not None
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        passed = int(suite.get("tests", 0)) - failed - skipped
        return Outcome(passed, failed or (1 if status not in (0, 5) else 0), skipped, took)


def main() -> int:
    """Exit status 0 when nothing failed and nothing that had to run was skipped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="run this part (repeatable)")
    parser.add_argument("--without", action="append", choices=PARTS, default=[], help="leave this part out (repeatable)")
    parser.add_argument("--nightly", action="store_true", help="run the long variants too")
    options, extra = parser.parse_known_args()
    parts = [p for p in PARTS if (not options.only or p in options.only) and p not in options.without and (HERE / p).is_dir()]
    outcomes = {part: run_part(part, nightly=options.nightly, extra=extra) for part in parts}
    required = os.environ.get("RMQ_REQUIRE", "").split(",")
    print(f"\n{'part':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for part, outcome in outcomes.items():
        print(f"{part:<12} {outcome.passed:>7} {outcome.failed:>7} {outcome.skipped:>8} {outcome.seconds:>8.1f}")
    passed, failed, skipped = (sum(o[i] for o in outcomes.values()) for i in range(3))
    missing = [p for p in required if p in outcomes and (outcomes[p].skipped or not outcomes[p].passed)]
    for part in missing:
        print(f"part {part} was required and has skipped tests, or ran none")
    print(f"{passed} passed, {failed + len(missing)} failed, {skipped} skipped")
    return 1 if failed or missing or not passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
