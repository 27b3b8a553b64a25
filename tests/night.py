"""Runs the long variants, step by step: `make nightly`, or `make nightly PART="store mutants"` for some of them.

A step is a part of the suite (`tests.parts --nightly`), the mutants, the Spark parts by day with another version, or the tests of
stock clients at the real broker (RMQ_SUBJECT).  Steps that compute run two at once; one that waits for real brokers runs beside
them.  What takes all cores by itself comes last, so that nothing waits for it.  Each step's output goes to
`build/night/STEP.log`; its begin and end are printed, and now and then what it is at.  A step that fails stops no other: how its
output ended is printed at the end, and the command that runs again what failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LOGS: Final = ROOT / "build" / "night"
OTHER_SPARK: Final = "4.2"
MUTANTS, OTHER_SPARK_STEP = "mutants", f"spark-{OTHER_SPARK}"
ON_JAVA, FOREIGN = "on-java", "foreign"
WAITING: Final = (ON_JAVA, "java", "conformance", FOREIGN)
"""They wait for servers: one at a time, beside those that compute.  The longest begin first, here and below."""
COMPUTING: Final = (
    "jobs",
    "broker",
    "spark",
    "columns",
    OTHER_SPARK_STEP,
    "wire",
    "client",
    "inspect",
    "namesrv",
    "net",
    "cli",
    MUTANTS,
    "store",
)
"""Two at a time; `mutants` and `store` take both cores themselves and end together."""
NOTHING_BY_NIGHT: Final = ("tidy", "docker", "java-clients", "s3")
"""Parts whose tests would all come out as they did by day."""
AT_THE_SUBJECT: Final = (
    "test_answers.py",
    "test_clients.py",
    "test_direct_consumption.py",
    "test_example_mains.py",
    "test_examples.py",
    "test_filters.py",
    "test_groups.py",
    "test_mqadmin.py",
    "test_ordered.py",
    "test_packed_bodies.py",
    "test_pop.py",
    "test_proxy.py",
    "test_pulls.py",
    "test_python_lag.py",
    "test_python_modes.py",
    "test_replies.py",
    "test_retention.py",
    "test_stock_clients_send_and_unwrap",
    "test_timers.py",
    "test_topics.py",
    "test_traces.py",
    "test_transactions.py",
    "test_two_masters.py",
)
"""Tests of `tests/java` that play at the subject that RMQ_SUBJECT names, by pytest's `-k`: by day ours, by night Java's, too.
So do all of `foreign`, by night only.
"""
COMPUTING_AT_ONCE: Final = 2
TAIL_LINES: Final = 60
SAID_EVERY_S: Final = 300.0


class Took(NamedTuple):
    step: str
    status: int
    seconds: float
    cpu_s: float

    def __str__(self) -> str:
        how = "passed" if self.status == 0 else f"FAILED ({self.status})"
        return f"{self.step:<12} {self.seconds / 60:6.1f} min  CPU {self.cpu_s / 60:6.1f} min  {how}"


def command_of(step: str, extra: Sequence[str]) -> list[str]:
    """What a step runs; `extra` goes to pytest.  The other Spark has an environment of its own: nobody else's changes; and all
    tests have its defaults (`tests/spark/cluster.py`).  At the real broker tests run as by day.
    """
    if step == MUTANTS:
        return [sys.executable, "-m", "tests.support.mutants"]
    if step == OTHER_SPARK_STEP:
        environment = f"VENV=build/venv-{OTHER_SPARK_STEP}"
        given = (environment, f"PYSPARK={OTHER_SPARK}", "RMQ_AS_USERS=yes", f"ARGS={shlex.join(extra)}")
        return ["make", "--no-print-directory", "test-spark", *given]
    parts = [sys.executable, "-m", "tests.parts"]
    if step == ON_JAVA:
        return ["env", "RMQ_SUBJECT=java", *parts, "--only", "java", "-k", " or ".join(AT_THE_SUBJECT), *extra]
    subjects = ["env", "RMQ_SUBJECT=ours,java"] if step == FOREIGN else []
    return [*subjects, *parts, "--nightly", "--only", step, *extra]


class Night:
    """Some steps, begun in their order, and what is said of them."""

    def __init__(self, steps: Sequence[str], extra: Sequence[str]) -> None:
        self._steps = steps
        self._extra = extra
        self._started = time.monotonic()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._saying = threading.Lock()
        self._over = threading.Event()

    def run(self) -> list[Took]:
        """In the order in which they were named."""
        LOGS.mkdir(parents=True, exist_ok=True)
        says = threading.Thread(target=self._say_now_and_then, daemon=True)
        says.start()
        lanes = (
            (ThreadPoolExecutor(1), [step for step in WAITING if step in self._steps]),
            (ThreadPoolExecutor(COMPUTING_AT_ONCE), [step for step in COMPUTING if step in self._steps]),
        )
        took: dict[str, Future[Took]] = {step: lane.submit(self._one, step) for lane, steps in lanes for step in steps}
        try:
            return [took[step].result() for step in self._steps]
        finally:  # Ctrl-C ends the steps that run: they have the same terminal; no other begins
            self._over.set()
            for lane, _ in lanes:
                lane.shutdown(cancel_futures=True)

    def _one(self, step: str) -> Took:
        started = time.monotonic()
        self._say(f"{step} begins")
        with log_of(step).open("wb") as printed:
            child = subprocess.Popen(
                command_of(step, self._extra), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT
            )
            self._running[step] = child
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            del self._running[step]
        took = Took(step, child.returncode, time.monotonic() - started, used.ru_utime + used.ru_stime)
        self._say(f"{took}: {last_line(step)}")
        return took

    def _say(self, what: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        with self._saying:
            print(f"[{minutes:3}:{seconds:02}] {what}", flush=True)

    def _say_now_and_then(self) -> None:
        while not self._over.wait(SAID_EVERY_S):
            for step in tuple(self._running):
                self._say(f"{step} is at: {last_line(step)}")


def log_of(step: str) -> Path:
    """What it printed."""
    return LOGS / f"{step}.log"


def tail_of(step: str, lines: int) -> list[str]:
    """The last lines that are not empty."""
    with log_of(step).open(encoding="utf-8", errors="replace") as printed:
        return list(deque((line.rstrip() for line in printed if line.strip()), lines))


def last_line(step: str) -> str:
    return "".join(tail_of(step, 1))


def summary(all_took: Sequence[Took], seconds: float) -> Iterator[str]:
    """How what failed ended, a line for each step, and how to run again what failed."""
    failed = [took.step for took in all_took if took.status]
    for step in failed:
        yield f"\n##### {step} failed; the end of {log_of(step)}:"
        yield from tail_of(step, TAIL_LINES)
    yield ""
    yield from map(str, all_took)
    yield f"{len(all_took)} steps in {seconds / 60:.1f} min, CPU {sum(took.cpu_s for took in all_took) / 60:.1f} min"
    if failed:
        yield f'again: make nightly PART="{" ".join(failed)}"'


def main() -> int:
    """1 when a step has failed."""
    every = [*WAITING, *COMPUTING]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", action="append", choices=every, metavar="STEP", help=", ".join(every))
    options, extra = parser.parse_known_args()
    started = time.monotonic()
    took = Night(options.step or every, extra).run()
    print("\n".join(summary(took, time.monotonic() - started)))
    return int(any(one.status for one in took))


if __name__ == "__main__":
    sys.exit(main())
