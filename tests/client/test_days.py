"""Days of producers and consumers with a cluster that fails, by seeds; and bugs that they find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.client import plants
from tests.client.days import BAD_ANSWERS, Plan, play
from tests.client.sim_cluster import Faults
from tests.support.night_seeds import each_of_the_night
from tests.support.planting import Plant, find_by_seed

BOTH: Final = ("broker-a", "broker-b")
DAYS: Final[dict[str, Callable[[], Plan]]] = {
    "calm": Plan,
    "batches": lambda: Plan(batch=4, fails=0.3),
    "quiet": lambda: Plan(quiet=True, messages=30),
    "quiet, in order": lambda: Plan(quiet=True, orderly=True, messages=30),
    "in order": lambda: Plan(orderly=True),
    "cut off, in order": lambda: Plan(orderly=True, cut=True, messages=160),
    "bad answers": lambda: Plan(faults=Faults(**BAD_ANSWERS)),
    "bad answers, in order": lambda: Plan(orderly=True, faults=Faults(**BAD_ANSWERS)),
    "a broker dies": lambda: Plan(kills=BOTH[:1]),
    "all fails": lambda: Plan(kills=BOTH, namesrv_dies=True, clock_jumps=True, faults=Faults(**BAD_ANSWERS)),
    "all dies, in order": lambda: Plan(orderly=True, kills=BOTH, namesrv_dies=True, clock_jumps=True),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", DAYS)
def test_a_day(kind: str, seed: int) -> None:
    play(seed, DAYS[kind]())


@pytest.mark.nightly
@pytest.mark.parametrize("kind", DAYS)
def test_many_days(kind: str) -> None:
    each_of_the_night(400, lambda seed: play(seed, DAYS[kind]()))


SEEDS_MAX: Final = 40
FOUND_IN: Final[list[tuple[Plant, str, int]]] = [
    (plants.progress_passes_what_is_not_done, "batches", 4),
    (plants.ack_index_is_ignored, "batches", 38),
    (plants.an_answer_of_another_question_is_taken, "bad answers", 0),
    (plants.a_retry_goes_to_the_broker_that_failed, "a broker dies", 1),
    (plants.a_queue_goes_without_telling_how_far_it_is, "quiet", 0),
    (plants.what_failed_is_done, "calm", 0),
    (plants.a_late_result_moves_progress_back, "calm", 0),
    (plants.an_orderly_consumer_needs_no_lock, "in order", 14),
    (plants.what_failed_is_tried_again_behind_the_others, "in order", 1),
    (plants.a_failed_send_is_said_to_be_stored_nowhere, "bad answers", 0),
    (plants.a_queue_begins_at_its_end, "calm", 1),
    (plants.a_lock_never_expires, "cut off, in order", 0),
]
"""Bug, kind of day, and the first seed that finds it."""
found_in = pytest.mark.parametrize(
    ("plant", "kind", "seed"), FOUND_IN, ids=[f"{plant.__name__}-{kind}" for plant, kind, _ in FOUND_IN]
)


@found_in
def test_a_bug_is_found(plant: Plant, kind: str, seed: int) -> None:
    find_by_seed(plant, lambda pinned: play(pinned, DAYS[kind]()), [seed])


@pytest.mark.nightly
@found_in
def test_the_pinned_seed_is_the_first(plant: Plant, kind: str, seed: int) -> None:
    assert find_by_seed(plant, lambda tried: play(tried, DAYS[kind]()), range(SEEDS_MAX)) == seed
