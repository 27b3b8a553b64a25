"""Runs the long variants, step by step: `make nightly`, or `make nightly PART="store mutants"` for some of them.

A step is a part of the suite (`tests.parts`) with its nightly tests, or one of `AFTERWARDS`.  All together the parts run as their
lanes do; named, each runs alone.  What a step took is printed when it ends, and all of it at the end.  A step that fails stops no
other.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.parts import PARTS

ROOT: Final = Path(__file__).parents[1]
OTHER_SPARK: Final = "4.2"
PARTS_OF_SUITE: Final = tuple(part.name for part in PARTS if part.places)
EVERY_PART: Final = "parts"
AFTERWARDS: Final = ("mutants", f"spark-{OTHER_SPARK}")
"""Steps that are no parts: the mutants of `tests/mutants.toml`, and the Spark parts by day with the other version."""


class Took(NamedTuple):
    step: str
    status: int
    seconds: float


def command_of(step: str, extra: Sequence[str]) -> list[str]:
    """What a step runs; `extra` goes to pytest."""
    if step == "mutants":
        return [sys.executable, "-m", "tests.support.mutants"]
    if step == f"spark-{OTHER_SPARK}":
        return ["make", "--no-print-directory", "test-spark", f"PYSPARK={OTHER_SPARK}", f"ARGS={' '.join(extra)}"]
    only = [] if step == EVERY_PART else ["--only", step]
    return [sys.executable, "-m", "tests.parts", "--nightly", *only, *extra]


def steps_of(named: Sequence[str]) -> list[str]:
    """Those that were named, in their order; else all."""
    return list(named) or [EVERY_PART, *AFTERWARDS]


def run(steps: Sequence[str], extra: Sequence[str]) -> Iterator[Took]:
    """One after the other."""
    for step in steps:
        print(f"\n##### {step}", flush=True)
        started = time.monotonic()
        status = subprocess.run(command_of(step, extra), cwd=ROOT, check=False).returncode
        took = Took(step, status, time.monotonic() - started)
        print(line_of(took), flush=True)
        yield took


def line_of(took: Took) -> str:
    """One step's line."""
    return f"{took.step:<12} {took.seconds / 60:6.1f} min  {'passed' if took.status == 0 else f'FAILED ({took.status})'}"


def main() -> int:
    """1 when a step has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", action="append", default=[], choices=(*PARTS_OF_SUITE, *AFTERWARDS), metavar="STEP")
    options, extra = parser.parse_known_args()
    took = list(run(steps_of(options.step), extra))
    print("\n" + "\n".join(map(line_of, took)))
    return int(any(one.status for one in took))


if __name__ == "__main__":
    sys.exit(main())
