"""Random days of a store, by seed: tests/support/store_sim.py. That they find bugs is shown in test_planted.py.

RMQ_SEEDS=FIRST-LAST runs others instead; a seed that fails is printed with the command to repeat it.
"""

from __future__ import annotations

import os

import pytest

from tests.support.store_seeds import live_all, never

SEEDS = 800
"""Every rare situation has come up by seed 88; the bug that needs most seeds of those that are planted needs 204."""
NIGHTLY_SEEDS = 250_000
"""Twenty minutes of two cores.  Others for each commit, as hypothesis has it (RMQ_SEED): four nights see a million lives."""
COMMITS = 10_000


def run(first: int, count: int) -> None:
    if asked := os.environ.get("RMQ_SEEDS"):
        first, last = map(int, asked.split("-"))
        count = last - first + 1
    print(f"seeds {first}-{first + count - 1}")
    rare, failed = live_all(first, count)
    assert not failed, "\n".join(failed[:20])
    assert not list(never(rare)), "a situation that never came up was not tested"


def test_random_days() -> None:
    run(1, SEEDS)


@pytest.mark.nightly
def test_many_random_days() -> None:
    run(NIGHTLY_SEEDS * (1 + int(os.environ.get("RMQ_SEED", 0)) % COMMITS), NIGHTLY_SEEDS)
