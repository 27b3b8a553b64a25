"""Random hours of a timer with kills, power cuts and deaths in the middle of a flush; and that they find planted bugs."""

from __future__ import annotations

import pytest

from tests.support.planting import Plant, find_by_seed
from tests.support.timer_bugs import BUGS
from tests.support.timer_play import play

SEEDS = range(80)
SEEDS_MAX = 40
"""In which each bug must be found: the hardest needs six."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_nothing_early_and_nothing_twice_without_cause(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_found(bug: Plant) -> None:
    find_by_seed(bug, play, range(SEEDS_MAX))
