"""Bugs planted into light queues, batch queues, extensions and log directories: the tests of each find them.

A planted bug that no seed finds would mean that the tests by seed prove nothing.
"""

from __future__ import annotations

from typing import Any

import pytest

from rmq_store.disk.multi_path_segments import MultiPathSegments
from rmq_store.log import property_staging
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.property_staging import PropertyStaging
from rmq_store.log.staging import Staged
from rmq_store.queues.batch_queue import BatchConsumeQueue
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.extended_queue import ExtendedConsumeQueue
from rmq_store.recovery import queue_repair
from rmq_store.recovery.recovery import Recovery
from tests.support.node_ids import function_of
from tests.support.planting import FAILURES, Errors, Plant, find, find_by_seed

SEEDS_MAX = 40


def light_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Recovery does not see that a unit belongs into light queues, too."""
    patch.setattr(PropertyStaging, "restore", lambda *_: None)


def light_is_not_aligned(patch: pytest.MonkeyPatch) -> None:
    """A light queue that lost entries before the walk is filled up from the middle."""
    patch.setattr(Recovery, "_lead_to", lambda *_: True)


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
    patch.setattr(property_staging, "inner_count", lambda _: 1)


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
    patch.setattr("rmq_store.log.walk.has_good_seal", lambda _: True)


def full_directories_are_used(patch: pytest.MonkeyPatch) -> None:
    def choose(segments: Any, start: int) -> str:
        return str(segments._writable[start // segments.file_bytes % len(segments._writable)])

    patch.setattr(MultiPathSegments, "_choose", choose)


LIGHT_SEED = "tests/store/test_light_queues.py::counters_and_queues_survive"
BATCH_SEED = "tests/store/test_batch_queues.py::batches_survive"
EXTENDED_SEED = "tests/store/test_extended_queues.py::hashes_survive"
BY_SEED: dict[Plant, tuple[str, int, Errors]] = {
    light_is_forgotten: (LIGHT_SEED, 0, FAILURES),
    batches_count_one: (BATCH_SEED, 0, FAILURES),
    batch_ends_are_stale: (BATCH_SEED, 0, KeyError),
    batch_bases_are_lost: (BATCH_SEED, 0, FAILURES),
    extensions_are_written_over: (EXTENDED_SEED, 0, FAILURES),
    extensions_are_not_synced: (EXTENDED_SEED, 0, FAILURES),
}
"""Bug: what finds it, at the first seed that does."""
BY_TEST = {
    light_is_not_aligned: "tests/store/test_light_queues.py::test_a_light_queue_that_lost_entries_is_made_again",
    light_counts_stay: "tests/store/test_light_queues.py::test_counters_go_back_with_what_is_taken_back",
    times_are_stale: "tests/store/test_extended_queues.py::test_store_times_are_in_the_extensions",
    seals_are_not_looked_at: (
        "tests/store/test_light_queues.py::test_forced_verification_ends_the_log_where_topic_or_properties_changed"
    ),
    full_directories_are_used: "tests/store/test_multi_path_segments.py::test_full_directories_get_nothing_unless_all_are_full",
}


@pytest.mark.parametrize("plant", BY_TEST, ids=lambda plant: plant.__name__)
def test_it_is_found(plant: Plant) -> None:
    find(plant, function_of(BY_TEST[plant]), by=ValueError if plant is times_are_stale else FAILURES)


@pytest.mark.parametrize("plant", BY_SEED, ids=lambda plant: plant.__name__)
def test_its_seed_finds_it(plant: Plant) -> None:
    check, seed, by = BY_SEED[plant]
    find_by_seed(plant, function_of(check), [seed], by)


@pytest.mark.nightly
@pytest.mark.parametrize("plant", BY_SEED, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first(plant: Plant) -> None:
    check, seed, by = BY_SEED[plant]
    assert find_by_seed(plant, function_of(check), range(SEEDS_MAX), by) == seed
