"""What is deleted, when, and what everybody sees then (statements 001-72 to 001-79).

START_MS is 22:13 UTC.  The small log has files of 32 KiB, which some 150 messages fill; queue files hold ten units.
"""

from __future__ import annotations

import errno

import pytest

from rmq_store import retention
from rmq_store.disk import RealDisk, Usage
from rmq_store.disk_space import RetentionRules, hours
from rmq_store.errors import Closed, Cold, Unwritable
from rmq_store.retention import HOUR_MS, Retention
from rmq_store.values import GetStatus
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, number_of, small, sync_settings, units_of

FILE_BYTES = small().mapped_file_size_commit_log
DAY_MS = 24 * HOUR_MS
AT_ALL_HOURS = RetentionRules(delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
ROOM = Usage(1000, 500, 500)


def filled(files: int = 4, rules: RetentionRules = AT_ALL_HOURS, disk: MemoryDisk | None = None, **settings: object) -> Rig:
    """So many full log files and the beginning of one more, all dispatched and flushed; topic Old in the first file only."""
    rig = Rig(disk or MemoryDisk(), small(**settings))
    rig.store.retain_by(rules)
    number = 0
    rig.put(draft(100_000, "Old"))
    while rig.store.written_offset < files * FILE_BYTES:
        rig.put(*[draft(number + n, body_bytes=700) for n in range(10)])
        number += 10
    rig.sync()
    return rig


def log_files(rig: Rig) -> list[int]:
    return [int(name.rpartition("/")[2]) for name in contents(rig) if "/commitlog/" in name]


def contents(rig: Rig) -> dict[str, bytes]:
    assert isinstance(rig.disk, MemoryDisk)
    return rig.disk.contents()


def queue_files(rig: Rig, topic: str = "TopicA") -> list[int]:
    return [int(name.rpartition("/")[2]) for name in contents(rig) if f"/consumequeue/{topic}/0/" in name]


# --- which log files go


def test_consumed_messages_stay_and_whole_files_go() -> None:
    """001-72: reading removes nothing; the unit of deletion is a file of the log."""
    rig = filled()
    before = contents(rig)
    everything = rig.numbers()
    rig.retain(70 * HOUR_MS)
    assert contents(rig).keys() == before.keys()
    assert rig.numbers() == everything
    rig.retain(3 * HOUR_MS)
    assert log_files(rig) == [4 * FILE_BYTES, 5 * FILE_BYTES], "the one that is written to, and the one made ahead"
    assert all(len(data) == FILE_BYTES for name, data in contents(rig).items() if "/commitlog/" in name)


@pytest.mark.parametrize(("reserved", "age_hours", "goes"), [(72, 71, False), (72, 72, True), (48, 47, False), (48, 48, True)])
def test_files_expire_by_their_last_change(reserved: int, age_hours: int, goes: bool) -> None:
    """001-73: fileReservedTime, 72 hours by default, after the last modification."""
    rig = filled(
        rules=RetentionRules(file_reserved_time=reserved, delete_when=frozenset(range(24)), clean_resource_interval=60_000)
    )
    assert RetentionRules().file_reserved_time == 72
    rig.retain((reserved - 1) * HOUR_MS)
    assert rig.store.min_offset == 0
    rig.retain((age_hours - reserved + 1) * HOUR_MS + 60_000)
    assert (rig.store.min_offset > 0) is goes


def test_expired_files_wait_for_the_hour() -> None:
    """001-74: deleteWhen, hour 4 by default; a list separated by `;`; the whole hour counts."""
    assert RetentionRules().delete_when == hours("04") == {4}
    assert hours("04;16; 23 ;x;24;-1") == {4, 16, 23}
    rig = filled(rules=RetentionRules(disk_space_warning_level_ratio=None))
    rig.retain(3 * DAY_MS + 5 * HOUR_MS + 46 * 60_000)  # 03:59 of the fourth night
    assert rig.store.min_offset == 0
    rig.retain(3 * 60_000)
    assert rig.store.min_offset == 4 * FILE_BYTES


def test_expired_files_go_at_any_hour_when_space_is_short() -> None:
    """001-75: diskMaxUsedSpaceRatio, 75 percent, bounds 10 and 95; expired files only."""
    disk = MemoryDisk()
    rig = filled(rules=RetentionRules(disk_space_warning_level_ratio=None), disk=disk)
    disk.space = Usage(1000, 240, 240)  # 76 percent
    rig.retain(71 * HOUR_MS - 1)
    assert rig.store.min_offset == 0, "not expired"
    disk.space = Usage(1000, 250, 250)
    rig.retain(2 * HOUR_MS)
    assert rig.store.min_offset == 0, "75 percent are allowed, and it is not the hour"
    disk.space = Usage(1000, 249, 249)
    rig.retain(60_000)
    assert rig.store.min_offset == 4 * FILE_BYTES


@pytest.mark.parametrize(
    ("configured", "used", "short"),
    [(75, 76, True), (75, 75, False), (1, 10, False), (1, 11, True), (99, 95, False), (99, 96, True)],
)
def test_the_bounds_of_the_limit_for_expired_files(configured: int, used: int, short: bool) -> None:
    disk = MemoryDisk()
    disk.space = Usage(100, 100 - used, 100 - used)
    rig = Rig(disk)
    rig.store.retain_by(
        RetentionRules(disk_max_used_space_ratio=configured, disk_space_clean_forcibly_ratio=85, clean_file_forcibly_enable=False)
    )
    assert rig.store._space.deletes_expired is (short or used > 85)


def test_the_oldest_go_whatever_their_age_when_space_is_very_short() -> None:
    """001-76: diskSpaceCleanForciblyRatio, 85 percent, bounds 30 and 85; cleanFileForciblyEnable."""
    disk = MemoryDisk()
    rules = RetentionRules(disk_space_warning_level_ratio=None)
    rig = filled(rules=rules, disk=disk)
    disk.space = Usage(1000, 150, 150)
    rig.retain(60_000)
    assert rig.store.min_offset == 0
    disk.space = Usage(1000, 149, 149)
    rig.store.retain_by(RetentionRules(disk_space_warning_level_ratio=None, clean_file_forcibly_enable=False))
    rig.retain(60_000)
    assert rig.store.min_offset == 0, "it is forbidden"
    rig.store.retain_by(rules)
    rig.retain(11_000)
    assert rig.store.min_offset == 4 * FILE_BYTES
    rig.store.retain_by(RetentionRules(disk_space_clean_forcibly_ratio=99))
    assert rig.store._space.deletes_any, "86 percent: more than 85 cannot be allowed"


def test_a_disk_over_the_warning_level_refuses_appends() -> None:
    """001-77: diskSpaceWarningLevelRatio, 90 percent; reads go on; appends again within ten seconds of having room."""
    disk = MemoryDisk()
    rig = filled(rules=RetentionRules(clean_file_forcibly_enable=False), disk=disk)
    disk.space = Usage(1000, 100, 100)
    rig.wait(10_000)
    rig.put(draft(1))
    disk.space = Usage(1000, 99, 99)
    rig.wait(10_000)
    with pytest.raises(Unwritable) as caught:
        rig.store.stage(draft(2), START_MS)
    assert caught.value.why is Closed.DISK_OVER_LIMIT
    assert rig.numbers()[-1] == 1
    disk.space = ROOM
    rig.wait(10_000)
    rig.put(draft(3))


def test_somebody_asks_for_it() -> None:
    """001-78: code 329 deletes expired files at any hour, in twenty looks."""
    rig = filled(rules=RetentionRules(disk_space_warning_level_ratio=None, file_reserved_time=1, delete_file_batch_max=1))
    rig.retain(2 * HOUR_MS)
    assert rig.store.min_offset == 0
    rig.store.retention.delete_now()
    rig.retain(10_000)
    assert rig.store.min_offset == FILE_BYTES
    rig.retain(20_000)
    assert rig.store.min_offset == 3 * FILE_BYTES
    rig.retain(21 * 10_000)
    assert rig.store.min_offset == 4 * FILE_BYTES
    rig.put(draft(1, body_bytes=8000), draft(2, body_bytes=8000), draft(3, body_bytes=8000), draft(4, body_bytes=8000))
    rig.put(draft(1, body_bytes=8000), draft(2, body_bytes=8000))
    rig.sync()
    rig.retain(2 * HOUR_MS)
    assert rig.store.min_offset == 4 * FILE_BYTES, "the twenty are over"


def test_the_pace() -> None:
    """001-79: first look after a minute, then every ten seconds; ten files a look, 100 ms apart; the first kept file ends it."""
    rig = filled(files=14, rules=RetentionRules(delete_when=frozenset(range(24)), file_reserved_time=0))
    rig.retain(59_999)
    assert rig.store.min_offset == 0
    rig.retain(1)
    assert rig.store.min_offset == FILE_BYTES
    rig.retain(99)
    assert rig.store.min_offset == FILE_BYTES
    rig.retain(1)
    assert rig.store.min_offset == 2 * FILE_BYTES
    rig.retain(5000)
    assert rig.store.min_offset == 10 * FILE_BYTES
    rig.retain(10_000)
    assert rig.store.min_offset == 14 * FILE_BYTES


def test_a_younger_file_protects_those_behind_it() -> None:
    rig = filled()
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    rig.wait(60 * HOUR_MS)
    second = disk.open(f"{ROOT}/commitlog/{FILE_BYTES:020d}")
    second.write_at(0, second.read_at(0, 1))
    rig.retain(13 * HOUR_MS)
    assert rig.store.min_offset == FILE_BYTES


def test_what_is_not_flushed_or_not_dispatched_stays() -> None:
    """S30's cousin: the log must not lose what the queues or the medium do not have yet."""
    rig = Rig(MemoryDisk(), sync_settings())
    rig.store.retain_by(
        RetentionRules(file_reserved_time=0, delete_when=frozenset(range(24)), disk_space_warning_level_ratio=None)
    )
    for number in range(20):
        rig.store.stage(draft(number, body_bytes=4000), START_MS)
        rig.store.commit()
    rig.retain(100_000)
    assert rig.store.min_offset == 0
    rig.sync()
    rig.retain(100_000)
    assert rig.store.min_offset == 0, "flushed, but in no queue"
    rig.store.dispatch(START_MS)
    rig.retain(10_000)
    assert rig.store.min_offset > 0


def test_a_jump_of_the_clock_is_not_believed_at_first_sight() -> None:
    rig = filled()
    rig.retain(120_000)
    rig.wall_ms += 25 * 365 * DAY_MS
    rig.retain(10_000)
    assert rig.store.min_offset == 0
    rig.retain(10_000)
    assert rig.store.min_offset > 0, "it stays so"
    rig = filled()
    rig.retain(120_000)
    rig.wall_ms -= 25 * 365 * DAY_MS
    rig.retain(100_000)
    assert rig.store.min_offset == 0


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
    rig.sync()
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
    rig.sync()
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
        rig.wait(max(rig.store.retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
        chore = rig.store.retention.begin(rig.mono_ms, rig.wall_ms)
        if chore is not None:
            chore.run()
            rig.store.retention.end(chore, None, rig.mono_ms)
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
    """A pull of its messages is told where those behind it begin; look-ups find nothing; the others are served."""
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


# --- trouble


def test_a_file_that_cannot_be_removed_is_tried_again() -> None:
    """redeleteHangedFileInterval; what was forgotten is not served meanwhile."""
    disk = MemoryDisk()
    rig = filled(disk=disk)
    disk.faults = [Fault("unlink", error=errno.EACCES, path_part=f"/commitlog/{0:020d}")]
    rig.wait(73 * HOUR_MS)
    rig.retain(10_000)
    assert rig.store.refusal is None
    assert rig.store.min_offset == 4 * FILE_BYTES
    assert 0 in log_files(rig)
    rig.retain(100_000)
    assert 0 in log_files(rig)
    rig.retain(30_000)
    assert 0 not in log_files(rig)


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


@pytest.mark.parametrize("keep", ["all", "synced"])
def test_a_stop_in_the_middle_of_a_look(keep: str) -> None:
    """G6: after any number of steps the next start finds a store that agrees with itself and has lost only what was to go."""
    for steps in range(0, 40, 3):
        rig = filled()
        numbers = rig.numbers()
        rig.wait(73 * HOUR_MS)
        for _ in range(steps):
            rig.wait(max(rig.store.retention.next_due(rig.mono_ms) - rig.mono_ms, 0))
            chore = rig.store.retention.begin(rig.mono_ms, rig.wall_ms)
            if chore is not None:
                chore.run()
                rig.store.retention.end(chore, None, rig.mono_ms)
        assert isinstance(rig.disk, MemoryDisk)
        rig.disk = rig.disk.crash(keep)
        rig.open()
        left = rig.numbers()
        assert left == numbers[len(numbers) - len(left) :]
        low, high = rig.store.queue_bounds("TopicA", 0)
        assert (high, rig.store.queue_unit("TopicA", 0, low)[0] >= rig.store.min_offset) == (len(numbers), True)
        assert rig.put(draft(1))[0].queue_offset == high


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


# --- planted bugs


def deletes_the_last_file(patch: pytest.MonkeyPatch) -> None:
    """S30"""
    patch.setattr(Retention, "_oldest", lambda self: self._log.segments.starts[0] if self._log.segments.starts else None)


def leaves_minimum_offsets(patch: pytest.MonkeyPatch) -> None:
    """S22"""
    patch.setattr(retention, "first_kept", lambda queue, log_min: queue.min_offset)


def shortens_what_it_deletes(patch: pytest.MonkeyPatch) -> None:
    """S30 (one being read), S33: the space is wanted back at once."""
    run = retention.Removal.run

    def planted(self: retention.Removal) -> None:
        for path in self.paths:
            self._disk.open(path).set_length(0)
        run(self)

    patch.setattr(retention.Removal, "run", planted)


def wipes_what_it_deletes(patch: pytest.MonkeyPatch) -> None:
    """S30 (one being read): zeros first."""
    run = retention.Removal.run

    def planted(self: retention.Removal) -> None:
        for path in self.paths:
            file = self._disk.open(path)
            file.write_at(0, bytes(file.length()))
        run(self)

    patch.setattr(retention.Removal, "run", planted)


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (deletes_the_last_file, test_consumed_messages_stay_and_whole_files_go),
        (deletes_the_last_file, test_what_is_not_flushed_or_not_dispatched_stays),
        (leaves_minimum_offsets, test_queues_and_index_follow_the_log),
        (shortens_what_it_deletes, test_a_file_that_is_being_read_stays_readable),
        (wipes_what_it_deletes, test_a_file_that_is_being_read_stays_readable),
    ],
)
def test_planted_bugs_are_found(plant: object, test: object, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)  # type: ignore[operator]
    with pytest.raises((AssertionError, BufferError, IndexError, OSError)):
        test()  # type: ignore[operator]
