"""Bugs of the reference that concern its store, by the numbers of apache/rocketmq's issues: each is a test here.

Those that other suites show anyway stand in the table with the tests that show them; the rest is below.
"""

from __future__ import annotations

import itertools

import pytest

from tests.support.loops import each
from tests.support.memory_disk import MemoryDisk
from tests.support.node_ids import function_of
from tests.support.store_rig import ROOT, START_MS, Rig, draft, number_of, small, sync_settings, units_of

SHOWN: dict[str, list[str]] = {
    "#678 #10073 #10079 checkpoint ahead of synced queues": [
        "tests/store/test_planted.py::test_planted_bugs_are_found",
        "tests/store/test_recovery.py::test_a_checkpoint_ahead_of_what_was_flushed_promises_nothing",
        "tests/store/test_flush.py::test_the_checkpoint_follows_the_queues",
    ],
    "#10017 #10666 stale units of an earlier life": [
        "tests/store/test_restart.py::test_a_unit_that_belongs_elsewhere_ends_the_log",
        "tests/store/test_restart.py::test_units_of_an_earlier_life_do_not_come_back",
    ],
    "#8239 consumers read what is not flushed": ["tests/store/test_dispatch.py::test_sync_flush_shows_only_what_is_flushed"],
    "#2706 #3408 a failed flush acknowledges; a flush over a file's end": [
        "tests/store/test_flush.py::test_an_error_of_a_sync_fences_and_is_never_repeated",
        "tests/store/test_flush.py::test_a_group_over_a_file_s_end_syncs_both_files_and_the_directory",
    ],
    "#4466 batch stored in part": [
        "tests/store/test_append.py::test_a_batch_that_fits_in_no_file_or_has_a_bad_member_leaves_nothing"
    ],
    "#9728 empty last queue file": ["tests/store/test_restart.py::test_an_empty_queue_file_does_not_make_a_phantom"],
    "#10417 #8753 minimum stale after retention": ["tests/store/test_retention_readers.py::test_queues_and_index_follow_the_log"],
    "#7355 shifted entry appended": ["tests/store/test_dispatch.py::test_a_shift_is_an_error"],
    "#9705 configuration lost at a power cut": [
        "tests/store/test_config_files.py::test_a_stop_at_any_step_leaves_the_old_or_the_new",
        "tests/store/test_config_files.py::test_two_bad_copies_are_refused_and_kept",
    ],
    "#331 #2398 #1400 disk full never ends": ["tests/store/test_append.py::test_a_full_disk_takes_the_whole_turn_back"],
    "#7539 index files without end": ["tests/store/test_index.py::test_an_index_file_that_cannot_be_made_delays_the_dispatch"],
    "#3613 #7948 hits of other keys": ["tests/store/test_index.py::test_colliding_keys_are_told_apart"],
    "#8438 doubled hits": [
        "tests/store/test_index.py::test_a_message_with_one_key_twice_is_found_once",
        "tests/store/test_crashes.py::test_random_days",
    ],
    "#10291 query by key empty": ["tests/store/test_index.py::test_queries"],
    "#9455 clock jumps": ["tests/store/test_retention.py::test_a_jump_of_the_clock_is_not_believed_at_first_sight"],
    "#8479 deleted topic comes back": ["tests/store/test_recovery.py::test_deleted_topics_stay_deleted_over_a_clean_stop"],
    "#8660 #9792 reading makes queues": ["tests/store/test_reads.py::test_reading_makes_nothing"],
}


def test_every_test_that_is_named_is_there() -> None:
    each([node for nodes in SHOWN.values() for node in nodes], function_of)


@pytest.mark.parametrize("stop", ["all", "synced"])
def test_the_tail_that_was_not_dispatched(stop: str) -> None:
    """#405 #467 #1434: also of the file before the last."""
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_commit_log=4096))
    for number in range(20):
        rig.put(draft(number, queue_id=number % 3))
    for number in range(20, 60):
        rig.store.stage(draft(number, queue_id=number % 3), START_MS)
        rig.store.commit()
    assert rig.store.undispatched == 40
    starts = [start for start in rig.store._log.segments.starts if start > rig.store._dispatcher.dispatched_offset]
    assert len(starts) > 2, "files that no queue has heard of"
    rig.sync()
    rig.disk = disk.crash(stop)
    rig.open()
    for queue_id in range(3):
        assert rig.numbers(queue_id=queue_id) == list(range(queue_id, 60, 3))
    assert [len(rig.store.query("TopicA", f"key{number}", 8, 0, 1 << 60).units) for number in range(60)] == [1] * 60


@pytest.mark.parametrize("before", [0, 130, 300, 411])
def test_every_set_of_lost_sectors(before: int) -> None:
    """#7437: topic and properties have no check sum. Whatever sectors of a unit a power cut takes, it is whole or absent."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0, body_bytes=10 + before))
    rig.sync()
    rig.wait(1500)
    rig.store._checkpoint.file.sync()
    sent = draft(1, body_bytes=500)
    sent.properties += b"user\x01" + b"u" * 1200 + b"\x02"
    rig.wall_ms += 10
    [placed] = rig.put(sent)
    sectors = range(placed.physical_offset // 512, (placed.end_offset - 1) // 512 + 1)
    assert len(sectors) >= 4
    path = f"{ROOT}/commitlog/{0:020d}"
    whole = bytes(disk.contents()[path])
    for lost in itertools.chain.from_iterable(itertools.combinations(sectors, n) for n in range(len(sectors) + 1)):
        after = disk.crash("synced")
        file = after.open(path)
        for sector in sectors:
            low = max(sector * 512, placed.physical_offset)
            if sector not in lost:
                file.write_at(low, whole[low : (sector + 1) * 512])
        again = Rig(after, rig.settings, rig.wall_ms)
        if lost:
            assert again.numbers() == [0], lost
        else:
            assert again.numbers() == [0, 1]


def test_a_queue_that_loses_everything() -> None:
    """#10108: the minimum must not stay above the maximum."""
    disk = MemoryDisk()
    rig = Rig(disk, sync_settings())
    rig.put(draft(0, "Other"))
    rig.sync()
    rig.put(*[draft(number) for number in range(25)])
    rig.disk = disk.crash("synced")
    rig.open()
    assert rig.store.queue_bounds("TopicA", 0) == (0, 0)
    [placed] = rig.put(draft(30))
    assert placed.queue_offset == 0
    assert rig.store.store_time_at("TopicA", 0, 5) == -1


def test_keys_are_found_after_a_kill() -> None:
    """#8007: the newest index file survives, with the keys of messages that a recovery does not walk."""
    disk = MemoryDisk()
    rig = Rig(disk, small(max_index_num=4000))
    for number in range(300):
        rig.put(draft(number))
    rig.wait(1500)
    rig.sync()
    rig.wait(1500)
    rig.disk = disk.crash("all")
    rig.open()
    assert rig.store.report.walked_from > 0
    assert [len(rig.store.query("TopicA", f"key{number}", 8, 0, 1 << 60).units) for number in range(300)] == [1] * 300


@pytest.mark.parametrize("after_ms", [0, 1, 999, 1000, 1999, 2500])
def test_a_hit_at_the_edge_of_a_second(after_ms: int) -> None:
    """#5174: entries keep whole seconds, a window is in milliseconds."""
    rig = Rig()
    rig.put(draft(0))
    rig.wall_ms += after_ms
    rig.put(draft(1))
    at = rig.wall_ms
    found = rig.store.query("TopicA", "key1", 8, at, at).units
    assert [number_of(unit.body) for unit in units_of(found)] == [1]
    assert rig.store.query("TopicA", "key1", 8, at + 1, at + 500).units == []
    assert rig.store.query("TopicA", "key1", 8, at - 500, at - 1).units == []
