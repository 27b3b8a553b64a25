"""Mutants: lines of the product left out or turned round, each with the tests that must notice.

`tests/mutants.toml` is the table.  A row with tests is applied to a copy of the tree, and one of them must fail; a row with a
reason says why nobody can tell the mutant from the original, or why that is accepted.

    python -m tests.support.mutants --only flush
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
TABLE: Final = ROOT / "tests" / "mutants.toml"
LEFT_OUT: Final = (".*", "__pycache__", "build", "target", "lib-*", "*.egg-info")
LIMIT_S: Final = 120
"""For one mutant's tests: one that makes them wait for ever is noticed by that, and said apart: the machine may be busy."""
AT_ONCE: Final = os.cpu_count() or 1
KILLED, HUNG, ALIVE, BROKEN, ACCEPTED = "killed", "hung", "ALIVE", "BROKEN", "accepted"
OUTCOMES: Final = {0: ALIVE, 1: KILLED, 2: KILLED}
"""By pytest's status; 2: a module cannot even be imported."""


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row.  `before` stands in `file` once, or the `occurrence`-th place of it (from 1) is meant; there it becomes `after`."""

    file: str
    before: str
    after: str
    occurrence: int = 0
    tests: tuple[str, ...] = ()
    """Node ids: one of them fails."""
    why: str = ""
    """It is accepted."""

    def __str__(self) -> str:
        number = f" ({self.occurrence})" if self.occurrence else ""
        return f"{self.file}: {' '.join(self.before.split())}{number} => {' '.join(self.after.split())}"

    def applied(self, text: str) -> str:
        """The file's text with the mutant in it.  Raises ValueError when its place is not there, or is not the only one."""
        pieces = text.split(self.before)
        at = self.occurrence or 1
        if at >= len(pieces) or (not self.occurrence and len(pieces) != 2):
            raise ValueError(f"{self}: stands there {len(pieces) - 1} time(s)")
        return self.before.join(pieces[:at]) + self.after + self.before.join(pieces[at:])


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    mutant: tuple[Mutant, ...]


def load() -> tuple[Mutant, ...]:
    """The table's rows."""
    return msgspec.toml.decode(TABLE.read_bytes(), type=_Table).mutant


def run(mutants: Iterable[Mutant], *copies: Path) -> list[tuple[Mutant, str]]:
    """Every mutant alone in a copy, which is as it was afterwards; each printed with its outcome.  One at a time in each copy."""
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def tried(mutant: Mutant) -> tuple[Mutant, str]:
        copy = free.get()
        try:
            outcome = ACCEPTED if mutant.why else _outcome(mutant, copy)
        finally:
            free.put(copy)
        print(f"{outcome:9}{mutant}", flush=True)
        return mutant, outcome

    with ThreadPoolExecutor(len(copies)) as beside:
        return list(beside.map(tried, mutants))


def _outcome(mutant: Mutant, copy: Path) -> str:
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.applied(text), encoding="utf-8")
    try:
        return OUTCOMES.get(_tested(mutant.tests, copy), BROKEN)
    except subprocess.TimeoutExpired:
        return HUNG
    finally:
        path.write_text(text, encoding="utf-8")


def _tested(tests: Sequence[str], copy: Path, limit_s: int = LIMIT_S) -> int:
    """Pytest's status.  Compiled modules are not kept: a mutant may be as long as its original, and made in the same second.

    Hypothesis draws the same each time: a mutant that it finds only by luck would live on some nights.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "", "--hypothesis-seed=0", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, timeout=limit_s, capture_output=True, check=False)
    return done.returncode


def main() -> int:
    """0: the tests pass without a mutant, and every mutant that should be noticed is."""
    parser = argparse.ArgumentParser(
        prog="tests.support.mutants", description="Do the tests notice the mutants of tests/mutants.toml?"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose file or text contains this")
    only = parser.parse_args().only
    chosen = [mutant for mutant in load() if only in str(mutant)]
    tests = sorted({test for mutant in chosen for test in mutant.tests})
    with tempfile.TemporaryDirectory() as scratch:
        copies = [Path(scratch) / f"tree-{number}" for number in range(AT_ONCE)]
        for copy in copies:
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        if tests and _tested(tests, copies[0], LIMIT_S * 10):
            print("the tests fail without any mutant")
            return 1
        outcomes = run(chosen, *copies)
    counts = Counter(outcome for _, outcome in outcomes)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    return int(bool(counts[ALIVE] + counts[BROKEN]))


if __name__ == "__main__":
    sys.exit(main())
