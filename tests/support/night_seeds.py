"""The seeds that a night lives through: others for each commit, the same ones for the same commit, as hypothesis has it.

RMQ_SEEDS=FIRST-LAST takes these instead; a seed that fails says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

COMMITS: Final = 10_000


def seeds_of_the_night(count: int) -> range:
    """So many; none of them is one of the first that the day takes, as long as it takes fewer."""
    if asked := os.environ.get("RMQ_SEEDS"):
        first, last = map(int, asked.split("-"))
        return range(first, last + 1)
    first = count * (1 + int(os.environ.get("RMQ_SEED", 0)) % COMMITS)
    return range(first, first + count)


def each_of_the_night(count: int, play: Callable[[int], object]) -> None:
    """Play them one after the other; the first that fails ends it."""
    for seed in seeds_of_the_night(count):
        try:
            play(seed)
        except BaseException as wrong:
            wrong.add_note(f"seed {seed}: RMQ_SEEDS={seed}-{seed} takes it alone")
            raise
