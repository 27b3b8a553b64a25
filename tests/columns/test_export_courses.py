"""Random courses of events: no row of an export is lost or doubled, whatever happens; and a course shows it when one is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc
import pytest

from rmq_columns.export import manifest as parquet_manifest
from rmq_columns.export import parquet as parquet_export
from rmq_columns.export import plan as parquet_plan
from rmq_columns.export import progress as parquet_progress
from rmq_columns.export import split as parquet_split
from rmq_columns.read import plan
from rmq_columns.read.seams import unit_says
from tests.columns.courses import World
from tests.support.planting import Plant, find_by_seed

SEEDS: Final = 25
EVENTS: Final = 12


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_course(tmp_path: Path, seed: int) -> None:
    World(tmp_path, Random(seed)).run(EVENTS)


def least_end(patch: pytest.MonkeyPatch) -> None:
    """A new broker's log begins where the first of the others ends."""

    class Least(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            ends = [state.next for state in self.values() if state.next is not None]
            return dict.get(self, key, parquet_progress.Reached("", min(ends)) if ends else None)

    reached = parquet_progress.reached
    patch.setattr(parquet_progress, "reached", lambda *given: Least(reached(*given)))


def cleared_first(patch: pytest.MonkeyPatch) -> None:
    """What does not hold any more is taken away before it is made again, and made again of whatever is there."""
    take_over = parquet_manifest.take_over

    def taking(there: Any, run: str, plans: Any) -> None:
        take_over(there, run, plans)
        seen = parquet_manifest.survey(there)
        held = {one.data for one in parquet_manifest.read_done(there, seen) if one.holds}
        parquet_manifest.remove_strays(there, "", run, {*seen.plans, *seen.entries}, held)

    patch.setattr(parquet_manifest, "take_over", taking)
    patch.setattr(parquet_export, "_gone", lambda one: None)
    patch.setattr(parquet_split, "_check_had", lambda one, tally: None)


def written_over(patch: pytest.MonkeyPatch) -> None:
    """A plan has one name, and nobody looks whether it is still his own."""
    patch.setattr(parquet_plan.Plan, "name", property(lambda self: f"_manifest/plan-{self.increment:05}-00000000.json"))
    patch.setattr(parquet_manifest, "plans_there", lambda there: Equal())


class Equal:
    """To everything."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def wrong_counts(patch: pytest.MonkeyPatch) -> None:
    """The last row is the last message, also when it is none."""
    add = parquet_split.Tally.add

    def adding(self: Any, batch: Any, limit: int | None = None) -> None:
        add(self, batch, limit)
        wrong = pc.is_valid(batch["_corrupt"]).to_numpy(zero_copy_only=False)
        if limit is None and wrong.any():
            self.next = max(self.next or 0, int(batch["physicalOffset"].to_numpy()[wrong].max()) + 1)

    patch.setattr(parquet_split.Tally, "add", adding)


def by_name(patch: pytest.MonkeyPatch) -> None:
    """A log is known by its broker's name."""
    patch.setattr(parquet_progress, "log_key", lambda store: store.broker_name)
    patch.setattr(parquet_progress, "_named", lambda stores, states: stores)


def largest_queue(patch: pytest.MonkeyPatch) -> None:
    """A range begins at the first unit of the largest queue."""

    def start_at(file: Any, own_start: int, low: int, places: Any) -> int | None:
        place = None if places is None else places.first_behind(low)
        return place - own_start if place is not None and unit_says(file, own_start, place - own_start) else None

    patch.setattr(plan, "_start_at", start_at)


def more_than_it_had(patch: pytest.MonkeyPatch) -> None:
    """A split that is made again gets what has come behind it, too."""
    kept = parquet_split._kept
    patch.setattr(parquet_split, "_kept", lambda one, batch: kept(one._replace(had=None), batch))


def reported_again(patch: pytest.MonkeyPatch) -> None:
    """What is no message is shown by each increment that meets it."""
    kept = parquet_split._kept
    patch.setattr(parquet_split, "_kept", lambda one, batch: kept(one._replace(reported=frozenset()), batch))


def half_a_row(patch: pytest.MonkeyPatch) -> None:
    """One message of a batch is lost on its way."""
    rows_of = parquet_split.rows_of

    def losing(*given: Any) -> Any:
        for batch in rows_of(*given):
            yield batch.filter(np.arange(len(batch)) != 7)

    patch.setattr(parquet_split, "rows_of", losing)


PLANTS: Final[dict[Plant, int]] = {
    least_end: 0,
    cleared_first: 0,
    written_over: 11,
    wrong_counts: 16,
    by_name: 36,
    largest_queue: 0,
    more_than_it_had: 2,
    reported_again: 1,
    half_a_row: 0,
}
"""Fault -> the first course that shows it."""
SEARCH_MAX: Final = 100


def course(tmp_path: Path) -> Callable[[int], None]:
    return lambda seed: World(tmp_path / str(seed), Random(seed)).run(EVENTS)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_shows_itself(tmp_path: Path, plant: Plant) -> None:
    find_by_seed(plant, course(tmp_path), [PLANTS[plant]])


@pytest.mark.nightly
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_pinned_course_is_the_first(tmp_path: Path, plant: Plant) -> None:
    assert find_by_seed(plant, course(tmp_path), range(SEARCH_MAX)) == PLANTS[plant]
