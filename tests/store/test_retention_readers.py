"""What everybody sees when old files have gone: queues, index, pulls, look-ups, requests to clean up."""

from __future__ import annotations

import pytest

from rmq_store import retention
from rmq_store.disk.disk import RealDisk
from rmq_store.disk_space import RetentionRules
from rmq_store.errors import Cold
from rmq_store.results import Boundary, GetStatus
from rmq_store.retention import HOUR_MS
from tests.store.retention_kit import AT_ALL_HOURS, FILE_BYTES, contents, filled, log_files, queue_files, step
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, number_of, small, units_of

# --- what follows the log


def test_queues_and_index_follow_the_log() -> None:
    """001-79, S22: files wholly below the log's beginning go, minimum offsets rise to the first message that is left."""
    rig = filled()
    assert rig.store._index is not None
    indexes = len(rig.store._index.files)
    for _ in range(2 * indexes):
        rig.wait(1000)
        rig.sync()
    kept = number_of(
        units_of([rig.store.lookup(rig.store.queue_unit("TopicA", 0, rig.store.queue_bounds("TopicA", 0)[1] - 1)[0])])[0].body
    )
    rig.retain(73 * HOUR_MS)
    low, _ = rig.store.queue_bounds("TopicA", 0)
    physical, _, _ = rig.store.queue_unit("TopicA", 0, low)
    assert physical == rig.store.min_offset, "the first message of the first file"
    assert queue_files(rig)[0] == low * 20 // 200 * 200
    assert rig.numbers()[-1] == kept
    assert rig.store.queue_bounds("Old", 0) == (1, 1), "nothing left, and its offsets go on"
    assert queue_files(rig, "Old") == [0], "never the last file"
    assert len(rig.store._index.files) < indexes
    assert all(file.end_physical >= rig.store.min_offset for file in rig.store._index.files)
    assert rig.store.earliest_store_time("TopicA", 0) == START_MS
    again = rig.numbers()
    bounds = rig.store.topics()
    rig.reopen()
    assert (rig.numbers(), rig.store.topics()) == (again, bounds)
    rig.put(draft(7, "Old"))
    assert rig.store.queue_bounds("Old", 0) == (1, 2)


def test_a_queue_s_minimum_lies_within_its_first_file() -> None:
    rig = filled(files=2)
    rig.retain(73 * HOUR_MS)
    low, high = rig.store.queue_bounds("TopicA", 0)
    for offset in range(queue_files(rig)[0] // 20, high):
        physical, _, _ = rig.store.queue_unit("TopicA", 0, offset) if offset >= low else (0, 0, 0)
        assert (physical >= rig.store.min_offset) is (offset >= low)


def test_cold_queues_are_read_by_a_thread() -> None:
    rig = filled()
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    rig.wait(73 * HOUR_MS)
    disk.cold = {name for name in disk.contents() if "/consumequeue/" in name}
    chores = []
    rig.store.retention.next_due(rig.mono_ms)
    for _ in range(1000):
        rig.wait(max(rig.store.retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
        chore = rig.store.retention.begin(rig.mono_ms, rig.wall_ms)
        if chore is not None:
            chores.append(chore)
            chore.run()
            rig.store.retention.end(chore, None, rig.mono_ms)
    assert any(isinstance(chore, Cold) for chore in chores)
    assert rig.store.queue_unit("TopicA", 0, rig.store.queue_bounds("TopicA", 0)[0])[0] == rig.store.min_offset


def test_many_queues_are_corrected_in_portions() -> None:
    rig = Rig()
    rig.store.retain_by(AT_ALL_HOURS)
    rig.put(*[draft(number, queue_id=number % 100) for number in range(100)])
    while rig.store.written_offset < 2 * FILE_BYTES:
        rig.put(draft(1, body_bytes=4000))
    rig.sync_queues()
    rig.wait(73 * HOUR_MS)
    corrected = []
    for _ in range(60):
        rig.wait(max(rig.store.retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
        before = sum(low for low, _ in rig.store.topics()["TopicA"].values())
        chore = rig.store.retention.begin(rig.mono_ms, rig.wall_ms)
        if chore is not None:
            chore.run()
            rig.store.retention.end(chore, None, rig.mono_ms)
        corrected.append(sum(low for low, _ in rig.store.topics()["TopicA"].values()) - before)
    assert sum(corrected[1:]) >= 99
    assert max(corrected[1:]) <= retention.QUEUES_AT_ONCE + 10


# --- readers


def test_a_file_that_is_being_read_stays_readable() -> None:
    """S30, S33: it is unlinked now and closed when the last view of it is gone."""
    rig = filled()
    read = rig.store.read_queue("TopicA", 0, 0, 32, 1 << 20)
    before = b"".join(bytes(chunk) for chunk in read.chunks)
    rig.retain(73 * HOUR_MS)
    assert 0 not in log_files(rig)
    assert b"".join(bytes(chunk) for chunk in read.chunks) == before


def test_on_a_real_disk_a_view_outlives_its_file(tmp_path: object) -> None:
    """The same with maps of the operating system: reading must not be a SIGBUS."""
    rig = Rig(RealDisk(), small(store_path_root_dir=f"{tmp_path}/store"))
    rig.store.retain_by(
        RetentionRules(file_reserved_time=0, delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
    )
    rig.wall_ms = 4_000_000_000_000
    while rig.store.written_offset < 3 * FILE_BYTES:
        rig.put(*[draft(number, body_bytes=3000) for number in range(5)])
    rig.sync_queues()
    read = rig.store.read_queue("TopicA", 0, 0, 8, 1 << 20)
    before = b"".join(bytes(chunk) for chunk in read.chunks)
    rig.retain(100_000)
    assert rig.store.min_offset == 3 * FILE_BYTES
    assert b"".join(bytes(chunk) for chunk in read.chunks) == before
    rig.reopen()
    assert rig.store.min_offset == 3 * FILE_BYTES


def test_pulls_of_what_is_gone_get_a_clear_status() -> None:
    """Java: MESSAGE_WAS_REMOVING while the queue still speaks of it, OFFSET_TOO_SMALL once its minimum has risen."""
    rig = filled()
    rig.wait(73 * HOUR_MS)
    seen = []
    for _ in range(200):
        step(rig)
        read = rig.store.read_queue("TopicA", 0, 3, 32, 1 << 20)
        if read.status is not GetStatus.FOUND:
            seen.append((read.status, read.next_offset))
    statuses = list(dict.fromkeys(status for status, _ in seen))
    assert statuses == [GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_TOO_SMALL]
    assert seen[-1][1] == rig.store.queue_bounds("TopicA", 0)[0]
    assert seen[0][1] > 3
    assert rig.store.lookup(0) is None
    assert rig.store.store_time_at("TopicA", 0, 3) == -1
    assert rig.store.query("TopicA", "key3", 10, 0, 1 << 60).units == []
    assert rig.store.offset_by_time("TopicA", 0, 0) == rig.store.queue_bounds("TopicA", 0)[0]


def test_a_cold_read_of_a_file_that_goes_meanwhile() -> None:
    rig = filled(hot_window_bytes=0)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    rig.reopen()
    rig.store.retain_by(AT_ALL_HOURS)
    disk.cold = {name for name in disk.contents() if "/commitlog/" in name}
    with pytest.raises(Cold) as caught:
        rig.store.read_queue("TopicA", 0, 3, 32, 1 << 20)
    rig.retain(73 * HOUR_MS)
    caught.value.run()
    assert rig.store.read_queue("TopicA", 0, 3, 32, 1 << 20).status is GetStatus.OFFSET_TOO_SMALL


@pytest.mark.parametrize("gone", [0, 2])
def test_a_log_file_that_somebody_else_removed(gone: int) -> None:
    """A pull of its messages is answered where those behind it begin; look-ups find nothing; the others are served."""
    rig = filled()
    rig.reopen()
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    positions = [rig.store.queue_unit("TopicA", 0, offset)[0] for offset in range(rig.store.queue_bounds("TopicA", 0)[1])]
    rig.store._files.clear()
    disk.unlink(f"{ROOT}/commitlog/{gone * FILE_BYTES:020d}")
    within = [offset for offset, at in enumerate(positions) if at // FILE_BYTES == gone]
    read = rig.store.read_queue("TopicA", 0, within[0], 32, 1 << 20)
    assert (read.status, read.next_offset) == (GetStatus.MESSAGE_WAS_REMOVING, within[-1] + 1)
    assert rig.store.read_queue("TopicA", 0, read.next_offset, 1, 1 << 20).status is GetStatus.FOUND
    assert rig.store.lookup(positions[within[0]]) is None
    assert rig.store.query("TopicA", f"key{within[0]}", 10, 0, 1 << 60).units == []


# --- queues and topics on request


def test_queues_without_a_message_left_are_removed_on_request() -> None:
    """Code 306: Java removes them and begins at 0 when they come back."""
    rig = filled()
    assert rig.store.clean_expired_queues() == 0
    rig.retain(73 * HOUR_MS)
    assert rig.store.clean_expired_queues() == 1
    assert set(rig.store.topics()) == {"TopicA"}
    assert not [name for name in contents(rig) if "/Old/" in name]
    assert rig.put(draft(7, "Old"))[0].queue_offset == 0
    rig.reopen()
    assert rig.numbers("Old") == [7]


def test_a_queue_with_a_message_on_its_way_is_not_removed() -> None:
    rig = filled()
    rig.retain(73 * HOUR_MS)
    rig.store.stage(draft(7, "Old"), START_MS)
    assert rig.store.clean_expired_queues() == 0
    rig.store.commit()
    rig.store.dispatch(START_MS)
    assert rig.numbers("Old") == [7]


def test_a_search_by_time_passes_over_what_the_log_has_lost_and_the_queue_has_not() -> None:
    """Retention follows with the queues one after the other: until then they begin with messages that are gone."""
    rig = Rig(settings=small(mapped_file_size_consume_queue=20 * 2_000))
    times = []
    while rig.store.written_offset < 4 * FILE_BYTES:
        rig.wait(1_000)
        times.append(rig.wall_ms)
        rig.put(draft(len(times), body_bytes=700))
    rig.sync_queues()
    for start in (0, FILE_BYTES, 2 * FILE_BYTES):
        rig.store._log.segments.remove(start)
    late = len(times) - 3
    assert rig.store.queue_bounds("TopicA", 0) == (0, len(times)), "the queue does not know yet"
    by_time = rig.store.offset_by_time
    assert [by_time("TopicA", 0, times[late], one) for one in (Boundary.LOWER, Boundary.UPPER)] == [late, late]
    assert by_time("TopicA", 0, times[late] - 1) == late


def test_a_queue_that_cannot_be_read_keeps_no_other_from_following() -> None:
    rig = Rig()
    rig.store.retain_by(AT_ALL_HOURS)
    number = 0
    while rig.store.written_offset < 4 * FILE_BYTES:
        rig.put(draft(number, "Bad", body_bytes=700), draft(number, "Good", body_bytes=700))
        number += 1
    rig.sync_queues()
    rig.wait(73 * HOUR_MS)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    bad = {name for name in disk.contents() if "/consumequeue/Bad/" in name}
    for _ in range(300):
        disk.cold = set(bad)
        rig.wait(max(rig.store.retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
        chore = rig.store.retention.begin(rig.mono_ms, rig.wall_ms)
        if isinstance(chore, Cold):
            rig.store.retention.end(chore, OSError(5, "Input/output error"), rig.mono_ms)
        elif chore is not None:
            chore.run()
            rig.store.retention.end(chore, None, rig.mono_ms)
    disk.cold = set()
    low, _ = rig.store.queue_bounds("Good", 0)
    assert rig.store.queue_unit("Good", 0, low)[0] >= rig.store.min_offset > 0
    assert low > 0
    assert rig.store.queue_bounds("Bad", 0)[0] == 0, "nobody could read it"
    assert rig.store.retention.followed == 0, "the next look tries again"
    rig.retain(HOUR_MS)
    low, _ = rig.store.queue_bounds("Bad", 0)
    assert rig.store.queue_unit("Bad", 0, low)[0] >= rig.store.min_offset
    assert rig.store.retention.followed == rig.store.min_offset
