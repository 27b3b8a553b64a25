"""Bugs planted into the store, and what finds each: a random day, or a test.

The table is the whole catalogue S1 to S35.  Of random days the first seed is pinned that finds the bug: it takes one life to see
that it still does.  When a change of the simulation moves that, the nightly search says where it is now.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rmq_store.errors import ForeignFile, StoreDamaged
from rmq_wire.errors import BadRecord
from tests.support import retention_bugs
from tests.support import store_bugs as bugs
from tests.support.delay_bugs import progress_is_not_clamped
from tests.support.engine import Harness
from tests.support.node_ids import function_of
from tests.support.planting import FAILURES, Errors, Plant, find, find_by_seed
from tests.support.store_sim import Sim

SEEDS_MAX = 1000
"""In which each must be found: the hardest needs two hundred."""


class Found(NamedTuple):
    """By the random day of a seed, or by a test that fails; and by which errors."""

    plant: Plant
    by: Errors = FAILURES
    seed: int = 0
    test: Callable[[], object] | None = None


def by_seed(plant: Plant, seed: int, by: Errors = FAILURES) -> Found:
    return Found(plant, by, seed)


def by_test(plant: Plant, test: str, *arguments: object, by: Errors = FAILURES) -> Found:
    """test: of this room, without `test_` in front of its module and its own name."""
    module, _, name = test.partition(".")
    function = function_of(f"tests/store/test_{module}.py::test_{name}")
    return Found(plant, by, test=lambda: function(*arguments))


def progress_is_clamped() -> None:
    with tempfile.TemporaryDirectory() as root:
        harness = Harness(Path(root))
        harness.driver.advance(2_000)
        function_of("tests/broker/test_schedule.py::test_progress_beyond_the_queue_is_clamped")(harness)


CATALOGUE: dict[str, Found] = {
    "S1 answer before write": by_seed(bugs.answered_before_written, 1, StoreDamaged),
    "S2 answer before sync": by_seed(bugs.answered_before_synced, 3),
    "S3 sync skipped when the group is one": by_seed(bugs.sync_skipped_for_one, 3),
    "S4 old file not synced at a roll": by_seed(bugs.old_file_not_synced_at_a_roll, 3, BadRecord),
    "S5 directory not synced": by_seed(bugs.directory_not_synced, 14),
    "S6 sync retried after an I/O error": by_seed(bugs.sync_retried_after_an_error, 9, BadRecord),
    "S7 flushed offset moved on error": by_seed(bugs.flushed_offset_moved_on_error, 9, by=StoreDamaged),
    "S8 ticket's offset taken after the sync began": by_seed(bugs.offset_taken_after_the_sync, 6),
    "S9 reservation kept after a failed commit": by_seed(bugs.reservation_kept_after_a_failed_commit, 2),
    "S10 offset reused after a failed turn": by_seed(bugs.offset_reused_after_a_failed_turn, 2),
    "S11 unit of a raising handler kept": by_seed(bugs.unit_of_a_raising_handler_kept, 2),
    "S12 short write taken as whole": by_seed(bugs.short_write_taken_as_whole, 10),
    "S13 dispatch above flushed": by_seed(bugs.dispatch_above_flushed, 3),
    "S14 start strictly behind what is dispatched": by_test(
        bugs.start_strictly_behind_what_is_dispatched, "restart.what_java_left_undispatched_at_a_clean_stop_is_dispatched"
    ),
    "S15 recovery starts one file late": by_seed(bugs.start_one_file_late, 9),
    "S16 cut at damage in the middle": by_test(
        bugs.cut_at_damage_in_the_middle, "refusals.damage_before_what_was_safe_is_refused_not_cut"
    ),
    "S17 cut not zeroed": by_seed(bugs.cut_not_zeroed, 125),
    "S18 own offset not checked": by_test(bugs.units_of_elsewhere_taken, "restart.a_unit_that_belongs_elsewhere_ends_the_log"),
    "S19 check sum skipped": by_seed(bugs.check_sum_skipped, 204),
    "S20 zero properties accepted": by_seed(bugs.zero_properties_accepted, 92),
    "S21 queue file without an entry": by_seed(bugs.queue_file_without_entry, 10),
    "S22 minimum offset stale": by_seed(bugs.minimum_stale, 2),
    "S23 shifted entry appended": by_test(bugs.shifted_entry_appended, "dispatch.a_shift_is_an_error"),
    "S24 checkpoint before the queues are synced": by_seed(bugs.checkpoint_before_the_queues_are_synced, 86),
    "S24 some queues taken for all": by_test(
        bugs.some_queues_taken_for_all, "flush.queue_files_with_two_dirty_pages_are_flushed_every_second"
    ),
    "S25 chain without an end": by_test(bugs.chain_without_an_end, "index.a_chain_that_bites_its_tail"),
    "S25 index header before its entries": by_test(bugs.header_before_its_entries, "index.a_header_waits_for_its_entries"),
    "S26 `abort` removed before all is flushed": by_seed(bugs.abort_removed_before_all_is_flushed, 2, ForeignFile),
    "S27 blank needs more than eight bytes": by_test(
        bugs.blank_needs_more_than_eight_bytes, "append.a_unit_needs_eight_bytes_behind_it", 8, False
    ),
    "S28 configuration written in place": by_test(
        bugs.config_written_in_place, "config_files.a_stop_at_any_step_leaves_the_old_or_the_new", "synced"
    ),
    "S29 progress not clamped": Found(progress_is_not_clamped, AssertionError, test=progress_is_clamped),
    "S30 retention deletes the last file": by_test(
        retention_bugs.deletes_the_last_file, "retention.consumed_messages_stay_and_whole_files_go"
    ),
    "S30 retention deletes a file that is read": by_test(
        retention_bugs.wipes_what_it_deletes, "retention_readers.a_file_that_is_being_read_stays_readable"
    ),
    "S31 page cache trusted after a failed sync": by_seed(bugs.cache_trusted_after_a_failed_sync, 2, BadRecord),
    "S32 lock taken after loading": by_test(
        bugs.lock_taken_after_loading, "refusals.a_second_broker_is_refused_before_a_byte_is_touched"
    ),
    "S33 view used after the file was shortened": by_test(
        retention_bugs.shortens_what_it_deletes, "retention_readers.a_file_that_is_being_read_stays_readable", by=BufferError
    ),
    "S34 batch half visible": by_seed(bugs.batch_half_committed, 2),
    "S35 offsets from the queue, not from the log": by_seed(bugs.offsets_from_the_queue_not_from_the_log, 5),
    "failed turn not zeroed": by_seed(bugs.failed_turn_not_zeroed, 72),
    "file before its directory": by_seed(bugs.file_before_its_directory, 14),
    "reboot taken for a kill": by_seed(bugs.reboot_taken_for_a_kill, 2, BadRecord),
    "cut queues not synced": by_test(bugs.cut_queues_not_synced, "recovery.what_is_cut_from_a_queue_stays_cut"),
    "checkpoint kept while queues are built again": by_test(
        bugs.checkpoint_kept_while_queues_are_built_again,
        "recovery.what_is_built_again_counts_as_safe_only_once_it_is",
    ),
    "value taken back by a killed start not synced": by_test(
        bugs.taken_back_and_not_synced, "recovery.a_checkpoint_that_a_killed_start_took_back_is_synced"
    ),
    "stamps not compared": by_test(
        bugs.stamps_not_compared, "missing.a_queue_that_is_not_whole_is_reported_and_made_again", True, by=FileNotFoundError
    ),
    "stamp kept when files changed": by_test(bugs.stamp_kept_when_files_changed, "unopened.retention_puts_back_what_it_opened"),
    "leftovers not looked for": by_test(
        bugs.leftovers_not_looked_for, "unopened.what_retention_has_not_removed_yet_is_found_again"
    ),
    "row forgets the least offset": by_test(bugs.row_forgets_the_least_offset, "unopened.retention_puts_back_what_it_opened"),
    "put back while a message is on its way": by_test(
        bugs.put_back_while_a_message_is_on_its_way, "unopened.a_queue_with_a_message_on_its_way_is_not_put_back"
    ),
    "rows believed before queues followed the log": by_test(
        bugs.rows_believed_before_queues_followed_the_log,
        "unopened.a_stop_before_the_queues_have_followed_the_log_leaves_no_rows_to_be_believed",
    ),
    "unfinished unit taken": by_test(bugs.unfinished_unit_taken, "recovery.a_kill_in_the_middle_of_a_write_leaves_no_half_unit"),
}


def live(seed: int) -> None:
    Sim(seed).run()


@pytest.mark.parametrize("name", CATALOGUE)
def test_planted_bugs_are_found(name: str) -> None:
    found = CATALOGUE[name]
    if found.test is not None:
        find(found.plant, found.test, by=found.by)
    else:
        find_by_seed(found.plant, live, [found.seed], found.by)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name, found in CATALOGUE.items() if found.test is None])
def test_the_pinned_seed_is_the_first(name: str) -> None:
    found = CATALOGUE[name]
    assert find_by_seed(found.plant, live, range(1, SEEDS_MAX + 1), found.by) == found.seed


def test_the_catalogue_is_whole() -> None:
    assert {int(name.split()[0][1:]) for name in CATALOGUE if name[0] == "S"} == set(range(1, 36))
