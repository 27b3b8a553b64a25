"""Bugs planted into light queues, batch queues, extensions and log directories: the tests of each find them.

A planted bug that no seed finds would mean that the tests by seed prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rmq_store import queue_repair, special_staging
from rmq_store.batch_queue import BatchConsumeQueue
from rmq_store.commit_log import CommitLog, Staged
from rmq_store.consume_queue import ConsumeQueue
from rmq_store.extended_queue import ExtendedConsumeQueue
from rmq_store.recovery import Recovery
from rmq_store.special_staging import SpecialStaging
from rmq_store.spread import SpreadSegments
from tests.store import test_batch_queues as batches
from tests.store import test_extended_queues as extensions
from tests.store import test_light_queues as light
from tests.store import test_spread as spread

SEEDS_MAX = 40
Plant = Callable[[pytest.MonkeyPatch], None]


def found(check: Callable[..., None], seeds: int = SEEDS_MAX) -> bool:
    """Does one of so many seeds fail?  (Without seeds: does it fail?)"""
    for seed in range(seeds):
        try:
            check(seed)
        except Exception:
            return True
        except AssertionError:
            return True
    return False


def fails(check: Callable[[], None]) -> Callable[[int], None]:
    return lambda _: check()


def light_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Recovery does not see that a unit belongs into light queues, too."""
    patch.setattr(SpecialStaging, "restore", lambda *_: None)


def light_is_not_aligned(patch: pytest.MonkeyPatch) -> None:
    """A light queue that lost entries before the walk is filled up from the middle."""
    patch.setattr(Recovery, "_align_light", lambda *_: None)


def light_counts_stay(patch: pytest.MonkeyPatch) -> None:
    """A rollback keeps what light queues have counted."""
    whole = CommitLog.rollback_to

    def rollback(log: CommitLog, savepoint: int) -> None:
        for staged in log.staged[savepoint:]:
            staged.light = ()
        whole(log, savepoint)

    patch.setattr(CommitLog, "rollback_to", rollback)


def batches_count_one(patch: pytest.MonkeyPatch) -> None:
    """Recovery takes an inner batch for one message."""
    patch.setattr(special_staging, "inner_count", lambda _: 1)


def batch_ends_are_stale(patch: pytest.MonkeyPatch) -> None:
    """Cutting a batch queue leaves its place where it was."""
    whole = queue_repair._set_batch_end

    def set_end(queue: BatchConsumeQueue, place: int, offset: int) -> None:
        before = queue.end_place
        whole(queue, place, offset)
        queue.end_place = max(before, queue.end_place)

    patch.setattr(queue_repair, "_set_batch_end", set_end)


def batch_bases_are_lost(patch: pytest.MonkeyPatch) -> None:
    """A new file of a batch queue is not known by its first offset."""
    whole = BatchConsumeQueue.write_pending

    def write(queue: BatchConsumeQueue, dirty: dict[str, None]) -> None:
        known = dict(queue.bases)
        whole(queue, dirty)
        queue.bases = {start: known.get(start, 0) for start in queue.segments.starts}

    patch.setattr(BatchConsumeQueue, "write_pending", write)


def extensions_are_written_over(patch: pytest.MonkeyPatch) -> None:
    """After a restart extensions begin at the first position again."""

    def set_end(queue: ExtendedConsumeQueue) -> None:
        queue.ext_end = 0

    patch.setattr(queue_repair, "_set_ext_end", set_end)


def extensions_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Their files are missing among those of a round."""
    whole = ExtendedConsumeQueue._extend
    patch.setattr(ExtendedConsumeQueue, "_extend", lambda queue, _: whole(queue, {}))


def times_are_stale(patch: pytest.MonkeyPatch) -> None:
    """What a failed dispatch has gathered comes again."""

    def pend(queue: ExtendedConsumeQueue, staged: Staged) -> None:
        ConsumeQueue.pend(queue, staged)
        queue._times.append(staged.store_timestamp - 1)

    patch.setattr(ExtendedConsumeQueue, "pend", pend)


def seals_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("rmq_store.log_walk.has_good_seal", lambda _: True)


def full_directories_are_used(patch: pytest.MonkeyPatch) -> None:
    def choose(segments: Any, start: int) -> str:
        return str(segments._writable[start // segments.file_bytes % len(segments._writable)])

    patch.setattr(SpreadSegments, "_choose", choose)


CASES: tuple[tuple[Plant, Callable[[int], None]], ...] = (
    (light_is_forgotten, light.test_counters_and_queues_survive_crashes),
    (light_is_not_aligned, fails(light.test_a_light_queue_that_lost_entries_is_made_again)),
    (light_counts_stay, fails(light.test_counters_go_back_with_what_is_taken_back)),
    (batches_count_one, batches.test_batches_survive_crashes_and_restarts),
    (batch_ends_are_stale, batches.test_batches_survive_crashes_and_restarts),
    (batch_bases_are_lost, batches.test_batches_survive_crashes_and_restarts),
    (extensions_are_written_over, extensions.test_hashes_survive_crashes_and_restarts),
    (extensions_are_not_synced, extensions.test_hashes_survive_crashes_and_restarts),
    (times_are_stale, fails(extensions.test_store_times_are_in_the_extensions)),
    (seals_are_not_looked_at, fails(light.test_forced_verification_ends_the_log_where_topic_or_properties_changed)),
    (full_directories_are_used, fails(spread.test_full_directories_get_nothing_unless_all_are_full)),
)


@pytest.mark.parametrize(("plant", "check"), CASES, ids=[plant.__name__ for plant, _ in CASES])
def test_it_is_found(plant: Plant, check: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert found(check), f"{plant.__name__}: {plant.__doc__}"
