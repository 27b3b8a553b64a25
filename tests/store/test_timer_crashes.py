"""Random hours of a timer with kills, power cuts and deaths in the middle of a flush; and that they find planted bugs."""

from __future__ import annotations

import pytest

from tests.support import timer_bugs as bugs
from tests.support.planting import Plant, find_by_seed
from tests.support.timer_play import play

SEEDS = range(80)
SEEDS_MAX = 40
"""In which each bug must be found."""
SEEDS_OF_BUGS: dict[Plant, int] = {
    bugs.check_does_not_wait_for_the_log: 5,
    bugs.timer_log_is_not_synced: 1,
    bugs.nothing_is_cut_at_the_start: 2,
    bugs.wheel_is_not_mended: 8,
    bugs.slot_read_before_it_is_over: 0,
    bugs.roll_without_its_mark: 0,
    bugs.first_of_a_chain_is_lost: 0,
    bugs.recall_is_lost_by_rolling: 0,
    bugs.slot_counts_as_read_in_the_middle: 0,
    bugs.due_is_delivered_before_its_recall_enters: 2,
}
"""Bug: the first seed that finds it."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_nothing_early_and_nothing_twice_without_cause(seed: int) -> None:
    play(seed)


@pytest.mark.parametrize("bug", SEEDS_OF_BUGS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_found(bug: Plant) -> None:
    find_by_seed(bug, play, [SEEDS_OF_BUGS[bug]])


@pytest.mark.nightly
@pytest.mark.parametrize("bug", SEEDS_OF_BUGS, ids=lambda bug: bug.__name__)
def test_the_pinned_seed_is_the_first(bug: Plant) -> None:
    assert find_by_seed(bug, play, range(SEEDS_MAX)) == SEEDS_OF_BUGS[bug]
