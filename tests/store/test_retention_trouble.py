"""Retention on a disk that fails, or stops in the middle; and planted bugs."""

from __future__ import annotations

import contextlib
import errno
import random

import pytest

from rmq_store.errors import Closed
from rmq_store.retention import HOUR_MS
from tests.store.retention_kit import AT_ALL_HOURS, FILE_BYTES, filled, log_files, step
from tests.support.memory_disk import Fault, MemoryDisk, Stopped
from tests.support.node_ids import function_of
from tests.support.planting import FAILURES, Plant, find
from tests.support.retention_bugs import (
    deletes_the_last_file,
    leaves_minimum_offsets,
    shortens_what_it_deletes,
    wipes_what_it_deletes,
)
from tests.support.store_rig import draft

# --- trouble


def test_a_file_that_cannot_be_removed_is_tried_again() -> None:
    """redeleteHangedFileInterval; what was forgotten is not served meanwhile."""
    disk = MemoryDisk()
    rig = filled(disk=disk)
    disk.faults = [Fault("unlink", error=errno.EACCES, path_part=f"/commitlog/{0:020d}")]
    rig.wait(73 * HOUR_MS)
    rig.retain(10_000)
    assert rig.store.refusal is None
    assert rig.store.min_offset == FILE_BYTES
    assert 0 in log_files(rig)
    rig.retain(100_000)
    assert log_files(rig)[:2] == [0, FILE_BYTES], "nothing behind it goes before it: the log must not have a gap"
    rig.retain(30_000)
    assert rig.store.min_offset == log_files(rig)[0] == 4 * FILE_BYTES


def test_a_directory_that_cannot_be_synced_fences() -> None:
    disk = MemoryDisk()
    rig = filled(disk=disk)
    disk.faults = [Fault("sync_directory", error=errno.EIO, path_part="/commitlog")]
    rig.retain(73 * HOUR_MS)
    assert rig.store.refusal is Closed.FENCED
    left = log_files(rig)
    rig.retain(HOUR_MS)
    assert log_files(rig) == left, "a fenced store deletes nothing more"
    assert rig.store.read_queue("TopicA", 0, rig.store.queue_bounds("TopicA", 0)[1] - 1, 1, 1 << 20).message_count == 1


def test_a_full_disk_gets_room_by_retention() -> None:
    disk = MemoryDisk()
    rig = filled(disk=disk)
    disk.faults = [Fault("write", times=1000, error=errno.ENOSPC, path_part="/commitlog/")]
    assert rig.try_put(draft(1)) is None
    rig.retain(73 * HOUR_MS)
    assert rig.store.min_offset == 4 * FILE_BYTES
    disk.faults = []
    rig.retain(3000)
    rig.put(draft(2))


def test_a_stop_at_any_operation_of_the_disk() -> None:
    """G6: also within a removal, with any part of what was not synced; and again while the next start is under way."""
    chance = random.Random(4711)
    for operations in range(0, 60, 2):
        rig = filled()
        numbers = rig.numbers()
        disk = rig.disk
        assert isinstance(disk, MemoryDisk)
        rig.wait(73 * HOUR_MS)
        disk.stop_after(operations)
        with contextlib.suppress(Stopped):
            rig.retain(60_000)
        disk.before = None
        rig.disk = disk.crash(chance.choice(["all", "synced", chance]))  # type: ignore[arg-type]
        rig.open()
        found = rig.numbers()
        assert found == numbers[len(numbers) - len(found) :]
        assert rig.store.queue_bounds("TopicA", 0)[1] == len(numbers)
        assert rig.put(draft(1))[0].queue_offset == len(numbers)
        rig.store.retain_by(AT_ALL_HOURS)
        rig.sync_queues()
        rig.wait(73 * HOUR_MS)  # a recovery may have written to the files once more
        rig.retain(20_000)
        assert rig.store.min_offset == 4 * FILE_BYTES, "and goes on where it was stopped"


@pytest.mark.parametrize("keep", ["all", "synced"])
def test_a_stop_in_the_middle_of_a_look(keep: str) -> None:
    """G6: after any number of steps the next start finds a store that agrees with itself and has lost only what was to go."""
    for steps in range(0, 40, 3):
        rig = filled()
        numbers = rig.numbers()
        rig.wait(73 * HOUR_MS)
        for _ in range(steps):
            step(rig)
        assert isinstance(rig.disk, MemoryDisk)
        rig.disk = rig.disk.crash(keep)
        rig.open()
        left = rig.numbers()
        assert left == numbers[len(numbers) - len(left) :]
        low, high = rig.store.queue_bounds("TopicA", 0)
        assert (high, rig.store.queue_unit("TopicA", 0, low)[0] >= rig.store.min_offset) == (len(numbers), True)
        assert rig.put(draft(1))[0].queue_offset == high


# --- planted bugs


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (deletes_the_last_file, "tests/store/test_retention.py::test_consumed_messages_stay_and_whole_files_go"),
        (deletes_the_last_file, "tests/store/test_retention.py::test_what_is_not_flushed_or_not_dispatched_stays"),
        (leaves_minimum_offsets, "tests/store/test_retention_readers.py::test_queues_and_index_follow_the_log"),
        (shortens_what_it_deletes, "tests/store/test_retention_readers.py::test_a_file_that_is_being_read_stays_readable"),
        (wipes_what_it_deletes, "tests/store/test_retention_readers.py::test_a_file_that_is_being_read_stays_readable"),
    ],
)
def test_planted_bugs_are_found(plant: Plant, test: str) -> None:
    find(plant, function_of(test), by=BufferError if plant is shortens_what_it_deletes else FAILURES)
