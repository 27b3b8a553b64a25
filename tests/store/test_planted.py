"""Bugs planted into the store, and what finds each: random days within so many seeds, or a test.

The table is the whole catalogue S1 to S35; a row without a way to find the bug says why there is none.  Budgets are two to ten
times what was needed when they were set, at about 100 seeds a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.broker import test_planted_data_path
from tests.store import (
    test_append,
    test_config_files,
    test_flush,
    test_index,
    test_recovery,
    test_refusals,
    test_restart,
    test_retention_trouble,
)
from tests.store import test_retention_readers as readers
from tests.support import store_bugs as bugs
from tests.support.store_sim import Sim

Plant = Callable[[pytest.MonkeyPatch], None]


class Found(NamedTuple):
    """By how many random days from seed 1 on, by a test that fails, or by the table of another suite."""

    plant: Plant
    seeds_max: int = 0
    test: Callable[[], object] | None = None
    elsewhere: object = None


def by_seeds(plant: Plant, seeds_max: int) -> Found:
    return Found(plant, seeds_max)


def by_test(plant: Plant, test: Callable[..., object], *arguments: object) -> Found:
    return Found(plant, test=lambda: test(*arguments))


CATALOGUE: dict[str, Found | str] = {
    "S1 answer before write": by_seeds(bugs.answered_before_written, 5),
    "S2 answer before sync": by_seeds(bugs.answered_before_synced, 50),
    "S3 sync skipped when the group is one": by_seeds(bugs.sync_skipped_for_one, 30),
    "S4 old file not synced at a roll": by_seeds(bugs.old_file_not_synced_at_a_roll, 10),
    "S5 directory not synced": by_seeds(bugs.directory_not_synced, 30),
    "S6 sync retried after an I/O error": by_seeds(bugs.sync_retried_after_an_error, 50),
    "S7 flushed offset moved on error": by_seeds(bugs.flushed_offset_moved_on_error, 50),
    "S8 ticket's offset taken after the sync began": by_seeds(bugs.offset_taken_after_the_sync, 100),
    "S9 reservation kept after a failed commit": by_seeds(bugs.reservation_kept_after_a_failed_commit, 5),
    "S10 offset reused after a failed turn": by_seeds(bugs.offset_reused_after_a_failed_turn, 5),
    "S11 unit of a raising handler kept": by_seeds(bugs.unit_of_a_raising_handler_kept, 5),
    "S12 short write taken as whole": by_seeds(bugs.short_write_taken_as_whole, 50),
    "S13 dispatch above flushed": by_seeds(bugs.dispatch_above_flushed, 10),
    "S14 start strictly behind what is dispatched": by_test(
        bugs.start_strictly_behind_what_is_dispatched, test_restart.test_what_java_left_undispatched_at_a_clean_stop_is_dispatched
    ),
    "S15 recovery starts one file late": by_seeds(bugs.start_one_file_late, 50),
    "S16 cut at damage in the middle": by_test(
        bugs.cut_at_damage_in_the_middle, test_refusals.test_damage_before_what_was_safe_is_refused_not_cut
    ),
    "S17 cut not zeroed": by_seeds(bugs.cut_not_zeroed, 500),
    "S18 own offset not checked": by_test(
        bugs.units_of_elsewhere_taken, test_restart.test_a_unit_that_belongs_elsewhere_ends_the_log
    ),
    "S19 check sum skipped": by_seeds(bugs.check_sum_skipped, 300),
    "S20 zero properties accepted": by_seeds(bugs.zero_properties_accepted, 400),
    "S21 queue file without an entry": by_seeds(bugs.queue_file_without_entry, 30),
    "S22 minimum offset stale": by_seeds(bugs.minimum_stale, 50),
    "S23 shifted entry appended": by_test(bugs.shifted_entry_appended, test_append.test_a_shift_is_an_error),
    "S24 checkpoint before the queues are synced": by_seeds(bugs.checkpoint_before_the_queues_are_synced, 300),
    "S24 some queues taken for all": by_test(
        bugs.some_queues_taken_for_all, test_flush.test_queue_files_with_two_dirty_pages_are_flushed_every_second
    ),
    "S25 chain without an end": by_test(bugs.chain_without_an_end, test_index.test_a_chain_that_bites_its_tail),
    "S25 index header before its entries": "after a stop that was not clean headers are not believed, but computed from entries",
    "S26 `abort` removed before all is flushed": by_seeds(bugs.abort_removed_before_all_is_flushed, 10),
    "S27 blank needs more than eight bytes": by_test(
        bugs.blank_needs_more_than_eight_bytes, test_append.test_a_unit_needs_eight_bytes_behind_it, 8, False
    ),
    "S28 configuration written in place": by_test(
        bugs.config_written_in_place, test_config_files.test_a_stop_at_any_step_leaves_the_old_or_the_new, "synced"
    ),
    "S29 progress not clamped": Found(test_planted_data_path.progress_is_not_clamped, elsewhere=test_planted_data_path),
    "S30 retention deletes the last file": Found(test_retention_trouble.deletes_the_last_file, elsewhere=test_retention_trouble),
    "S30 retention deletes a file that is read": by_test(
        test_retention_trouble.wipes_what_it_deletes, readers.test_a_file_that_is_being_read_stays_readable
    ),
    "S31 page cache trusted after a failed sync": by_seeds(bugs.cache_trusted_after_a_failed_sync, 50),
    "S32 lock taken after loading": by_test(
        bugs.lock_taken_after_loading, test_refusals.test_a_second_broker_is_refused_before_a_byte_is_touched
    ),
    "S33 view used after the file was shortened": by_test(
        test_retention_trouble.shortens_what_it_deletes, readers.test_a_file_that_is_being_read_stays_readable
    ),
    "S34 batch half visible": by_seeds(bugs.batch_half_committed, 5),
    "S35 offsets from the queue, not from the log": by_seeds(bugs.offsets_from_the_queue_not_from_the_log, 20),
    "failed turn not zeroed": by_seeds(bugs.failed_turn_not_zeroed, 300),
    "file before its directory": by_seeds(bugs.file_before_its_directory, 50),
    "reboot taken for a kill": by_seeds(bugs.reboot_taken_for_a_kill, 50),
    "cut queues not synced": by_test(bugs.cut_queues_not_synced, test_recovery.test_what_is_cut_from_a_queue_stays_cut),
    "checkpoint kept while queues are built again": by_test(
        bugs.checkpoint_kept_while_queues_are_built_again,
        test_recovery.test_what_is_built_again_counts_as_safe_only_once_it_is,
    ),
    "value taken back by a killed start not synced": by_test(
        bugs.taken_back_and_not_synced, test_recovery.test_a_checkpoint_that_a_killed_start_took_back_is_synced
    ),
    "unfinished unit taken": by_test(
        bugs.unfinished_unit_taken, test_recovery.test_a_kill_in_the_middle_of_a_write_leaves_no_half_unit
    ),
}


@pytest.mark.parametrize("name", CATALOGUE)
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = CATALOGUE[name]
    if isinstance(found, str):
        return
    if found.elsewhere is not None:
        source = getattr(found.elsewhere, "__file__", "")
        with open(source, encoding="utf-8") as file:
            assert file.read().count(found.plant.__name__) > 1, "planted there, and found"
        return
    found.plant(monkeypatch)
    if found.test is not None:
        with pytest.raises((Exception, pytest.fail.Exception)):
            found.test()
        return
    for seed in range(1, found.seeds_max + 1):
        try:
            Sim(seed).run()
        except Exception:
            return
    pytest.fail(f"{name} survived {found.seeds_max} seeds")


def test_the_catalogue_is_whole() -> None:
    assert {int(name.split()[0][1:]) for name in CATALOGUE if name[0] == "S"} == set(range(1, 36))
