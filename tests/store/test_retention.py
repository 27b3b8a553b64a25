"""What is deleted, and when (statements 001-72 to 001-79).

START_MS is 22:13 UTC.  The small log has files of 32 KiB, which some 150 messages fill; queue files hold ten units.
"""

from __future__ import annotations

import pytest

from rmq_store.disk.disk import Usage
from rmq_store.disk_space import RetentionRules, hours
from rmq_store.errors import Closed, Unwritable
from rmq_store.retention import HOUR_MS
from tests.store.retention_kit import DAY_MS, FILE_BYTES, ROOM, contents, filled, log_files
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, sync_settings

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
    assert hours(f"{'9' * 5_000};7;٣") == {7}, "more digits than Python reads"
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
    rig.sync_queues()
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
    assert rig.store.min_offset == 0, "in queues that the medium does not have: a cut would give their offsets again"
    rig.sync_queues()
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


# --- several directories


class TwoDisks(MemoryDisk):
    """/one and /two are partitions of their own; the rest has room."""

    used = {"/one": 50, "/two": 50}

    def usage(self, path: str) -> Usage:
        percent = self.used.get(path, 50)
        return Usage(100, 100 - percent, 100 - percent)


def test_the_least_full_directory_counts_and_full_ones_get_no_new_file() -> None:
    """001-75: multi-path; and code 28 reports each."""
    disk = TwoDisks()
    rig = filled(files=3, rules=RetentionRules(), disk=disk, store_path_commit_log="/one,/two")
    disk.used = {"/one": 99, "/two": 60}
    rig.retain(70_000)
    assert rig.store.min_offset == 0
    assert rig.store.refusal is None
    info = rig.store.runtime_info(START_MS)
    assert (info["commitLogDiskRatio"], info["commitLogDiskRatio_/one"], info["commitLogDiskRatio_/two"]) == (
        "0.6",
        "0.99",
        "0.6",
    )
    before = set(contents(rig))
    while rig.store.written_offset < 6 * FILE_BYTES:
        rig.put(draft(1, body_bytes=4000))
    rig.sync_queues()
    assert {name.split("/")[1] for name in set(contents(rig)) - before if name.count("/") == 2} == {"two"}
    disk.used = {"/one": 99, "/two": 99}
    rig.retain(30_000)
    assert rig.store.refusal is Closed.DISK_OVER_LIMIT
    assert rig.store.min_offset == 6 * FILE_BYTES, "from both"
