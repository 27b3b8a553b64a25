"""Runs the test suite: five lanes side by side, each part by part, and prints what each part took.

A part is a list of places in `tests/`; a place that another part names is that part's.  The Python lane computes, two lanes wait
for real brokers and stock clients, those of Spark do both, so that together they fill two cores; a lane that has ended takes
parts of the Python lane that have not begun.  What a part prints comes in one piece, when it ends; one that runs alone prints as
it goes.  No test is tried a second time.

With `--nightly` a part runs its long variants and the properties that take more examples then: what would come out as it did by
day is left to the day.  `tests.night` runs all parts so.

With RMQ_REQUIRE=java (CI) a test of a Java part that skips counts as failed: the machine was supposed to have a JDK and Maven.
`docker` there says the same of the tests that need a daemon and the images, `s3` and `spark` of those parts.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as Tree
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock, Timer
from typing import NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parent
MEMORY = Path("/dev/shm")
PYTHON, JAVA, CLIENTS, SPARK, JOBS = "python", "java", "clients", "spark", "jobs"
LANES = {PYTHON: "12000-18000", JAVA: "18000-22000", CLIENTS: "22000-25000", SPARK: "25000-29000", JOBS: "29000-32000"}
"""Lane -> the ports that its servers may take."""
NICE = {PYTHON: 3, SPARK: 3, JOBS: 4}
"""Lane -> by how much its processes give way to others.  Stock clients give up after 3 s, real brokers turn away what has waited
for 10 s: their lanes come first, those that compute take what is left, and all of it once the others have ended."""


class Part(NamedTuple):
    """Some of the tests, run by one process of pytest."""

    name: str
    lane: str
    places: tuple[str, ...]
    """Directories and modules below `tests/`; none: a part that is still to come."""
    cpu_budget_s: int
    """CPU seconds of all its processes.  More than `OVER` times this is said at the end."""
    group: str = ""
    """A name that it shares with other parts: who asks for that, asks for all of them."""

    def is_meant(self, names: Sequence[str]) -> bool:
        """By its own name, or by its group's."""
        return self.name in names or (self.group != "" and self.group in names)


JUDGING = ("diff", "executors", "loss", "loss_unknown", "pending", "planted", "retries")
"""Tests of jobs on Spark that judge what became of messages, and those of executors that die: half of the work."""
STOCK_CLIENTS = (
    "answers",
    "clients",
    "direct_consumption",
    "example_mains",
    "examples",
    "fast_delays",
    "filters",
    "groups",
    "mqadmin",
    "ordered",
    "pop",
    "proxy",
    "pulls",
    "python_client",
    "python_examples",
    "python_lag",
    "python_modes",
    "python_push",
    "replies",
)
"""Tests of stock clients, most of them at brokers of ours: half of the work; the others are of real brokers and their files."""
PARTS = (
    Part("tidy", PYTHON, ("tidy", "harness"), 15),
    Part("store", PYTHON, ("store",), 60),
    Part("broker", PYTHON, ("broker",), 150),
    Part("columns", PYTHON, ("columns",), 110),
    Part("wire", PYTHON, ("wire",), 30),
    Part("inspect", PYTHON, ("inspect",), 35),
    Part("namesrv", PYTHON, ("namesrv",), 15),
    Part("net", PYTHON, ("net",), 10),
    Part("docker", PYTHON, ("docker",), 5),
    Part("java", JAVA, ("java", "conformance/test_suite.py", "namesrv/test_against_java.py"), 500),
    Part("foreign", JAVA, ("foreign",), 5),
    Part("conformance", JAVA, ("conformance",), 45),
    Part("cli", JAVA, ("cli",), 110),
    Part("s3", JAVA, ("columns/test_s3.py", "columns/test_export_destination.py"), 30),
    Part("java-clients", CLIENTS, tuple(f"java/test_{what}.py" for what in STOCK_CLIENTS), 350, group="java"),
    Part("client", CLIENTS, ("client",), 150),
    Part("spark", SPARK, ("spark",), 350),
    Part("jobs", JOBS, tuple(f"spark/test_{job}.py" for job in JUDGING), 600),
    Part("live topics", SPARK, (), 300),
)
CPU_BUDGET_S = 45 * 60 * 2 * 7 // 10
"""What all parts may take together, those to come as well: 45 minutes of two cores, of which five lanes keep 70 % busy."""
OVER = 1.5
"""A part that takes this many times its budget is named; it fails nothing, for a slow machine is nobody's fault."""
PART_SECONDS_MAX = 4800
"""A part that takes longer hangs, even on a machine three times slower than most: it is ended, so that the others are judged."""
NIGHTLY_PART_SECONDS_MAX = 6 * 3600
"""A million lives of the store are simulated then."""
BY_NIGHT = ("--only-nightly", "--hypothesis-profile=nightly")
MEMORY_FREE_MIN = 8 << 30
"""With less than this, test directories lie on the disk."""


class Outcome(NamedTuple):
    passed: int
    failed: int
    skipped: int
    wall_s: float
    cpu_s: float


def command_of(part: Part) -> list[str]:
    """Its places, without those in them that are other parts'."""
    others = [place for other in PARTS if other is not part for place in other.places]
    inside = [place for place in others if any(place.startswith(f"{own}/") for own in part.places)]
    places = [*(str(HERE / place) for place in part.places), *(f"--ignore={HERE / place}" for place in inside)]
    return [sys.executable, "-m", "pytest", *places, "--durations=8", "--durations-min=0.5", "--cpu=12"]


def scratch_root(part: Part, *, nightly: bool) -> Path | None:
    """Where test directories lie: in memory, but for the gigabytes of the nightly stores, all of which Spark reads."""
    if (nightly and part.lane in (SPARK, JOBS)) or not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return None
    room = os.statvfs(MEMORY)
    return MEMORY if room.f_bavail * room.f_frsize >= MEMORY_FREE_MIN else None


def run_part(
    part: Part, lane: str, *, nightly: bool, seed: int, extra: Sequence[str], printing: Lock, alone: bool = False
) -> Outcome:
    """Run it under pytest and print its output; counts come from the JUnit file, so a crash of pytest itself is a failure.

    `lane`: where it runs, of whose ports it takes some.
    """
    with tempfile.TemporaryDirectory(prefix=f"rmq-{part.name}-", dir=scratch_root(part, nightly=nightly)) as scratch:
        report, output = Path(scratch) / "report.xml", Path(scratch) / "output"
        command = [*command_of(part), f"--basetemp={scratch}/tests", "-o", f"cache_dir={scratch}/cache", f"--junitxml={report}"]
        command += [f"--hypothesis-seed={seed}", *(BY_NIGHT if nightly else ()), *extra]
        started = time.monotonic()
        with output.open("wb") as printed:
            child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "RMQ_PORTS": LANES[lane], "RMQ_SEED": str(seed)},
                stdin=subprocess.DEVNULL,
                stdout=None if alone else printed,
                stderr=subprocess.STDOUT,
            )
        if part.lane in NICE and not alone:
            os.setpriority(os.PRIO_PROCESS, child.pid, NICE[part.lane])
        limit = NIGHTLY_PART_SECONDS_MAX if nightly else PART_SECONDS_MAX
        with ended_after(child, limit) as late:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        wall, cpu = time.monotonic() - started, used.ru_utime + used.ru_stime
        outcome = Outcome(*counted(report, child.returncode), wall, cpu)
        with printing:
            print(f"\n===== part {part.name}: {wall:.0f} s, CPU {cpu:.0f} s", flush=True)
            print(output.read_text(errors="replace"), flush=True)
            if late:
                print(f"part {part.name}: ended after its limit of {limit} s", flush=True)
        return outcome


class ended_after:
    """Kills a child that takes longer; true when it had to."""

    def __init__(self, child: subprocess.Popen[bytes], seconds: float) -> None:
        self.child = child
        self.late = False
        self.timer = Timer(seconds, self.end)

    def end(self) -> None:
        self.late = True
        os.kill(self.child.pid, signal.SIGKILL)

    def __bool__(self) -> bool:
        return self.late

    def __enter__(self) -> ended_after:
        self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()


def counted(report: Path, status: int) -> tuple[int, int, int]:
    """Passed, failed, skipped."""
    if status == 5:  # no test was collected
        return 0, 0, 0
    suite = Tree.parse(report).getroot().find("testsuite") if report.exists() else None
    if suite is None:
        return 0, 1, 0
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    passed = int(suite.get("tests", 0)) - failed - skipped
    return passed, failed or int(status != 0), skipped


def run_lanes(parts: Sequence[Part], *, nightly: bool, seed: int, extra: Sequence[str]) -> dict[Part, Outcome]:
    """All lanes side by side."""
    printing = Lock()
    interrupted = Event()  # Ctrl-C ends the parts that run: they have the same terminal; no other begins
    waiting = {name: deque(part for part in parts if part.lane == name) for name in LANES}

    def next_for(name: str) -> Part | None:
        """Its own first; then the last one of those that compute: behind the others that lane alone cannot use both cores."""
        for queue, take in ((waiting[name], deque.popleft), (waiting[PYTHON], deque.pop)):
            with suppress(IndexError):
                return None if interrupted.is_set() else take(queue)
        return None

    def lane(name: str) -> dict[Part, Outcome]:
        return {
            part: run_part(part, name, nightly=nightly, seed=seed, extra=extra, printing=printing, alone=len(parts) == 1)
            for part in iter(partial(next_for, name), None)
        }

    with ThreadPoolExecutor(len(LANES)) as lanes:
        found: dict[Part, Outcome] = {}
        try:
            for outcomes in lanes.map(lane, LANES):
                found |= outcomes
        except BaseException:
            interrupted.set()
            raise
    return {part: found[part] for part in parts}


def table(outcomes: dict[Part, Outcome]) -> Iterator[str]:
    """A line per part, and the parts that took much more than their share."""
    yield f"{'part':<12} {'lane':<7} {'passed':>7} {'failed':>7} {'skipped':>8} {'wall s':>8} {'CPU s':>8} {'budget':>8}"
    for part, o in outcomes.items():
        yield (
            f"{part.name:<12} {part.lane:<7} {o.passed:>7} {o.failed:>7} {o.skipped:>8}"
            f" {o.wall_s:>8.1f} {o.cpu_s:>8.1f} {part.cpu_budget_s:>8}"
        )
    for lane in LANES:
        own = [o for part, o in outcomes.items() if part.lane == lane]
        if not own:
            continue
        yield f"lane {lane:<29} {'':>9} {sum(o.wall_s for o in own):>8.1f} {sum(o.cpu_s for o in own):>8.1f}"
    for part, o in outcomes.items():
        if o.cpu_s > OVER * part.cpu_budget_s:
            yield f"part {part.name} took {o.cpu_s:.0f} s of CPU, {o.cpu_s / part.cpu_budget_s:.1f} times its budget"


def seed_of(tree: Path) -> int:
    """RMQ_SEED, or the commit's: each commit tries other examples, and the same ones each time."""
    if given := os.environ.get("RMQ_SEED"):
        return int(given)
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tree, capture_output=True, text=True, check=False)
    return int(asked.stdout[:8], 16) if asked.returncode == 0 else random.randrange(1 << 32)


def main() -> int:
    """Exit status 0 when nothing failed and nothing that had to run was skipped."""
    names = [part.name for part in PARTS if part.places]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=names, help="run this part (repeatable)")
    parser.add_argument("--without", action="append", choices=names, default=[], help="leave this part out (repeatable)")
    parser.add_argument("--nightly", action="store_true", help="run the long variants, and what takes more examples then")
    parser.add_argument("--left-out", action="store_true", help="list the tests that run by night only, and end")
    options, extra = parser.parse_known_args()
    if options.left_out:
        print("Tests that run by night only:", flush=True)
        collect = [sys.executable, "-m", "pytest", str(HERE), "--collect-only", "--nightly", "-m", "nightly"]
        return subprocess.run(collect, cwd=ROOT, check=False).returncode
    chosen = [part for part in PARTS if part.is_meant(options.only or names) and not part.is_meant(options.without)]
    parts = [part for part in chosen if all((HERE / place).exists() for place in part.places)]
    seed = seed_of(ROOT)
    print(f"seed {seed} (RMQ_SEED={seed} takes it again)", flush=True)
    started = time.monotonic()
    outcomes = run_lanes(parts, nightly=options.nightly, seed=seed, extra=extra)
    print()
    print("\n".join(table(outcomes)))
    passed, failed, skipped = (sum(o[i] for o in outcomes.values()) for i in range(3))
    required = os.environ.get("RMQ_REQUIRE", "").split(",")
    missing = [part.name for part, o in outcomes.items() if part.is_meant(required) and (o.skipped or not o.passed)]
    for name in missing:
        print(f"part {name} was required and has skipped tests, or ran none")
    print(f"wall {time.monotonic() - started:.0f} s, CPU {sum(o.cpu_s for o in outcomes.values()):.0f} s")
    print(f"{passed} passed, {failed + len(missing)} failed, {skipped} skipped")
    return 1 if failed or missing or not passed else 0


if __name__ == "__main__":
    raise SystemExit(main())
