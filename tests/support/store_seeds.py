"""Many lives of `store_sim`, one a seed, on all cores; what fails is printed with the command that repeats it.

python -m tests.support.store_seeds 1016628          one seed again, with its traceback
python -m tests.support.store_seeds 1000-2000        many: the seeds that fail, and how often each rare situation came up
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.support.garbage import collect_seldom
from tests.support.store_sim import Sim

PORTION = 250
"""Seeds that a process takes at once."""
FAILURES_PRINTED = 20

RARE = (
    "a handler failed",
    "a commit failed",
    "a commit failed and its state is open",
    "appends were refused",
    "a turn went over a file's end",
    "dispatch lagged",
    "appends beside a sync",
    "a sync failed",
    "a write was short",
    "a clean stop",
    "a crash while starting",
    "a crash while starting after a crash while starting",
    "a crash within a turn",
    "a crash within a sync",
    "a crash within a stop",
    "a crash within a wait",
    "crash: kill",
    "crash: synced",
    "crash: power",
    "something was lost",
    "a roll was lost",
    "a batch was torn",
    "a group of several tickets",
    "the index rotated",
    "the walk began at the checkpoint's message",
    "the walk began at a file",
    "the walk began behind the log's first file",
    "a topic was deleted",
    "a topic was deleted with messages on their way",
    "a deleted topic came back",
    "something was cut",
    "whole units were cut",
    "the log ended at a file's end",
    "a kill after a failed sync",
    "units of an open turn were there",
    "old files went",
    "an old file came back",
    "a crash within a retention",
)


def again(seed: int) -> str:
    """The command that repeats a seed."""
    return f"python -m tests.support.store_seeds {seed}"


def live(seeds: Iterable[int]) -> Counter[str]:
    """Run these seeds here; how often each rare situation came up. The first failure ends it, with a note how to repeat it."""
    rare: Counter[str] = Counter()
    for seed in seeds:
        sim = Sim(seed)
        try:
            sim.run()
        except BaseException as reason:
            reason.add_note(f"again: {again(seed)}")
            raise
        rare += sim.rare
    return rare


def live_all(first: int, count: int) -> tuple[Counter[str], list[str]]:
    """Run so many seeds on all cores; the counts, and what failed, one line a seed."""
    rare: Counter[str] = Counter()
    failed: list[str] = []
    portions = [range(at, min(at + PORTION, first + count)) for at in range(first, first + count, PORTION)]
    with ProcessPoolExecutor(os.cpu_count(), initializer=collect_seldom) as pool:
        for counted, lines in pool.map(_portion, portions):
            rare += counted
            failed += lines
    return rare, failed


def _portion(seeds: range) -> tuple[Counter[str], list[str]]:
    rare: Counter[str] = Counter()
    failed = []
    for seed in seeds:
        sim = Sim(seed)
        try:
            sim.run()
        except Exception as reason:
            failed.append(f"{again(seed)}: {type(reason).__name__} {reason}")
        rare += sim.rare
    return rare, failed


def never(rare: Counter[str]) -> Iterator[str]:
    """Situations that did not come up."""
    return (name for name in RARE if not rare[name])


def main() -> int:
    """Exit status 1 when a seed failed."""
    status = 0
    for word in sys.argv[1:]:
        first, _, last = word.partition("-")
        if not last:
            print(dict(live([int(first)])))
            continue
        rare, failed = live_all(int(first), int(last) - int(first) + 1)
        print(*failed[:FAILURES_PRINTED], f"{len(failed)} seeds failed", *(f"{rare[name]:9} {name}" for name in RARE), sep="\n")
        status = status or bool(failed)
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
