"""Runs the test suite part by part and prints what each took.

A part is a directory of `tests/`, cheap ones first; what is marked `java`, wherever it stands but in `spark`, is the last part,
and `s3` is what is so marked in `columns`.
With RMQ_REQUIRE=java (CI) a Java test that skips counts as failed: the machine was supposed to have a JDK and Maven.  `docker`
there says the same of the tests that need a daemon and the images, `spark` of those that need PySpark.

What is judged against the real broker or runs in Spark depends on a second program with races of its own: a few failed tests of
those parts are tried once more, alone.  Which ones, and how that ended, is printed and counted; what fails twice has failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as Tree
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PARTS = (
    "tidy",
    "wire",
    "store",
    "net",
    "broker",
    "namesrv",
    "columns",
    "s3",
    "spark",
    "conformance",
    "inspect",
    "cli",
    "docker",
    "java",
)
COLUMNS, JAVA, S3, SPARK = "columns", "java", "s3", "spark"
USUAL_SECONDS_MAX = 900
PART_SECONDS_MAX = {JAVA: 2400, SPARK: 1800}
"""A part that takes longer hangs: it is ended.  Half of what CI allows for everything."""
NIGHTLY_USUAL_SECONDS_MAX = 2 * 3600
NIGHTLY_PART_SECONDS_MAX = {"store": 4 * 3600}
"""A million lives of the store are simulated then."""
AGAIN_MAX = 5
"""More failures than these are no accident: nothing is tried again."""


class Outcome(NamedTuple):
    passed: int
    failed: int
    skipped: int
    seconds: float
    again: int = 0
    """passed at the second try only"""


def place_of(part: str) -> Path:
    """The directory of its tests."""
    return HERE / (COLUMNS if part == S3 else part)


def run_part(part: str, *, nightly: bool, extra: list[str]) -> Outcome:
    """Run one directory under pytest; what failed beside Java or in Spark once more, alone."""
    with tempfile.TemporaryDirectory() as scratch:
        places = [str(HERE), f"--ignore={HERE / SPARK}"] if part == JAVA else [str(place_of(part))]
        marks = [] if part == SPARK else ["java" if part == JAVA else "not java"]
        marks += [S3] if part == S3 else [f"not {S3}"] if part == COLUMNS else []
        marks += [] if nightly else ["not nightly"]
        command = [sys.executable, "-m", "pytest", *places, "--durations=5", "-o", f"cache_dir={scratch}/cache"]
        command += ["-m", " and ".join(marks), *extra]
        limits, usual = (
            (NIGHTLY_PART_SECONDS_MAX, NIGHTLY_USUAL_SECONDS_MAX) if nightly else (PART_SECONDS_MAX, USUAL_SECONDS_MAX)
        )
        seconds = limits.get(part, usual)
        outcome, names = counted(part, command, Path(scratch) / "report.xml", seconds)
        if part not in (JAVA, SPARK) or not 0 < len(names) <= AGAIN_MAX:
            return outcome
        print(f"\npart {part}: once more, alone: {', '.join(names)}", flush=True)
        second, still = counted(
            part, [*command, "--last-failed", "--last-failed-no-failures=none"], Path(scratch) / "2.xml", seconds
        )
        if second.passed + second.failed < len(names):
            return outcome  # it did not come to all of them
        print(f"part {part}: at the second try {len(names) - len(still)} of {len(names)} passed", flush=True)
        again = len(names) - len(still)
        return Outcome(outcome.passed + again, second.failed, outcome.skipped, outcome.seconds + second.seconds, again)


def counted(part: str, command: list[str], report: Path, seconds: float) -> tuple[Outcome, list[str]]:
    """One run, and the tests that failed; counts come from the JUnit file, so a crash of pytest itself counts as a failure."""
    started = time.monotonic()
    try:
        status = subprocess.run([*command, f"--junitxml={report}"], check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        status = -1
        print(f"part {part}: ended after its time limit", flush=True)
    took = time.monotonic() - started
    if status == 5:
        return Outcome(0, 0, 0, took), []
    if not report.exists():
        return Outcome(0, 1, 0, took), []
    suite = Tree.parse(report).getroot().find("testsuite")
    assert suite is not None
    names = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    passed = int(suite.get("tests", 0)) - failed - skipped
    return Outcome(passed, failed or (1 if status not in (0, 5) else 0), skipped, took), names if status == 1 else []


def main() -> int:
    """Exit status 0 when nothing failed and nothing that had to run was skipped."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="run this part (repeatable)")
    parser.add_argument("--without", action="append", choices=PARTS, default=[], help="leave this part out (repeatable)")
    parser.add_argument("--nightly", action="store_true", help="run the long variants too")
    options, extra = parser.parse_known_args()
    # a shell's background job ignores it, and so would all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parts = [p for p in PARTS if (not options.only or p in options.only) and p not in options.without and place_of(p).is_dir()]
    outcomes = {part: run_part(part, nightly=options.nightly, extra=extra) for part in parts}
    required = os.environ.get("RMQ_REQUIRE", "").split(",")
    print(f"\n{'part':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for part, outcome in outcomes.items():
        again = f"  ({outcome.again} of them at the second try)" if outcome.again else ""
        print(f"{part:<12} {outcome.passed:>7} {outcome.failed:>7} {outcome.skipped:>8} {outcome.seconds:>8.1f}{again}")
    passed, failed, skipped = (sum(o[i] for o in outcomes.values()) for i in range(3))
    missing = [p for p in required if p in outcomes and (outcomes[p].skipped or not outcomes[p].passed)]
    for part in missing:
        print(f"part {part} was required and has skipped tests, or ran none")
    print(f"{passed} passed, {failed + len(missing)} failed, {skipped} skipped")
    return 1 if failed or missing or not passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
