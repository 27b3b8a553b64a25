"""Syncs and commits in trouble: what lacks a descriptor, what is gone, odd errors, and what a fenced store still saves."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from rmq_store.disk.disk import Kind, RealDisk
from rmq_store.errors import Closed, CommitFailed, CreateFailed, ForeignFile, InvariantBroken
from rmq_store.flush import Ticket
from rmq_store.log.commit_log import JOINED_BYTES_MAX
from rmq_store.log.writability import Writability
from rmq_store.recovery import boot_mark, inventory
from rmq_store.scheduled_tasks import LOCK_LOST
from rmq_store.settings import StoreSettings
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small, sync_settings

LOG = f"{ROOT}/commitlog/"
FIRST = f"{LOG}{0:020d}"
SECOND = f"{LOG}{8 * 4096:020d}"
BOOT = f"{ROOT}/{boot_mark.NAME}"
BOTH = pytest.mark.parametrize("settings", [small(), sync_settings()], ids=["async", "sync"])


def rig_with_one(settings: StoreSettings | None = None, *, let_go: bool = False) -> tuple[MemoryDisk, Rig]:
    """A store with message 1, not flushed; `let_go`: its files are not open any more."""
    disk = MemoryDisk()
    rig = Rig(disk, settings or sync_settings())
    rig.put(draft(1))
    if let_go:
        rig.store._files.clear()
    return disk, rig


def after(disk: MemoryDisk, keep: str) -> list[int]:
    """The messages that the next process finds: "all" after a kill, "synced" after a power cut."""
    return Rig(disk.crash(keep)).numbers()


# --- a log file that was let go


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_log_file_that_cannot_be_opened_puts_the_sync_off(error: int) -> None:
    disk, rig = rig_with_one(let_go=True)
    disk.faults = [Fault("open", error=error, path_part=LOG)]
    ticket = rig.store.begin_sync(rig.mono_ms, True)
    assert ticket is not None
    with pytest.raises(OSError) as caught:
        ticket.run()
    assert rig.store.end_sync(ticket, caught.value)
    assert rig.store.refusal is None
    assert rig.store.flushed_offset == 0
    rig.wait(0)
    assert rig.store.next_due(rig.mono_ms) == rig.mono_ms + 100
    again = rig.store.begin_sync(rig.mono_ms + 100)
    assert again is ticket
    again.run()
    rig.store.end_sync(again, None)
    assert rig.store.flushed_offset == rig.store.written_offset
    assert after(disk, "synced") == [1]


def test_a_log_file_that_is_open_is_not_opened_again() -> None:
    disk, rig = rig_with_one()
    disk.faults = [Fault("open", error=errno.EMFILE, path_part=LOG)]
    rig.sync()
    assert rig.store.flushed_offset == rig.store.written_offset


def test_a_log_file_that_is_gone_fails_the_sync() -> None:
    disk, rig = rig_with_one(let_go=True)
    disk.unlink(FIRST)
    rig.sync()
    assert rig.store.refusal is Closed.FENCED
    assert rig.store.flushed_offset == 0, "nobody is told that it is safe"
    assert BOOT not in disk.contents()


def test_a_log_directory_that_is_gone_fails_the_sync() -> None:
    disk, rig = rig_with_one()
    disk.faults = [Fault("sync_directory", error=errno.ENOENT, path_part="/commitlog")]
    rig.sync()
    assert rig.store.refusal is Closed.FENCED
    assert rig.store.flushed_offset == 0


def test_something_foreign_in_a_log_file_s_place_fails_the_sync() -> None:
    disk, rig = rig_with_one(let_go=True)
    disk.unlink(FIRST)
    disk.place(FIRST, Kind.LINK)
    rig.sync()
    assert rig.store.refusal is Closed.FENCED
    assert "not a regular file" in rig.store.refusal_text
    assert not rig.store.close(rig.wall_ms)


def test_something_foreign_in_a_log_file_s_place_makes_a_stop_unclean() -> None:
    disk, rig = rig_with_one(let_go=True)
    disk.unlink(FIRST)
    disk.place(FIRST, Kind.DIRECTORY)
    assert not rig.store.close(rig.wall_ms)
    assert f"{ROOT}/abort" in disk.contents()


def test_something_foreign_that_a_stop_meets_makes_it_unclean() -> None:
    disk, rig = rig_with_one()

    def before(_operation: str, path: str) -> None:
        if path.endswith(inventory.NAME):
            raise ForeignFile(f"{path} is a link")

    disk.before = before
    assert not rig.store.close(rig.wall_ms)
    disk.before = None
    assert BOOT not in disk.contents()
    assert rig.reopen().report.end == rig.store.written_offset, "the lock was let go"


# --- commits


@pytest.mark.parametrize(("error", "text"), [(MemoryError(), "MemoryError"), (ForeignFile("a link"), "a link")])
def test_what_is_no_error_of_the_disk_takes_the_turn_back_and_fences(error: Exception, text: str) -> None:
    disk, rig = rig_with_one()

    def before(operation: str, path: str) -> None:
        if operation == "write" and path == FIRST:
            raise error

    disk.before = before
    rig.store.stage(draft(2), rig.wall_ms)
    with pytest.raises(CommitFailed) as caught:
        rig.store.commit()
    disk.before = None
    assert caught.value.why is Closed.FENCED
    assert text in str(caught.value)
    assert rig.store.savepoint() == 0
    rig.store.commit()
    assert rig.store.refusal is Closed.FENCED
    assert after(disk, "all") == [1], "what was refused is nowhere"


@pytest.mark.parametrize("times", [1, 1000])
def test_what_had_landed_before_such_an_error_is_put_back_to_zeros(times: int) -> None:
    disk = MemoryDisk()
    rig = Rig(disk, small(mapped_file_size_commit_log=1 << 20))
    rig.put(draft(1))
    end = rig.store.written_offset
    writes = 0

    def before(operation: str, path: str) -> None:
        nonlocal writes
        if operation == "write" and path == FIRST:
            writes += 1
            if 1 < writes <= 1 + times:
                raise MemoryError

    disk.before = before
    for number in range(2, 4 + JOINED_BYTES_MAX // 8000):
        rig.store.stage(draft(number, body_bytes=8000), rig.wall_ms)
    with pytest.raises(CommitFailed) as caught:
        rig.store.commit()
    disk.before = None
    assert caught.value.why is Closed.FENCED
    assert any(disk.contents()[FIRST][end:]) is (times > 1), "zeros, unless these cannot be written either"


def test_a_commit_that_is_not_noted_is_refused_and_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    _disk, rig = rig_with_one()

    def fails(_staged: object) -> None:
        raise MemoryError

    monkeypatch.setattr(rig.store._dispatcher, "add", fails)
    rig.store.stage(draft(2), rig.wall_ms)
    with pytest.raises(CommitFailed) as caught:
        rig.store.commit()
    assert caught.value.why is Closed.FENCED
    assert rig.store.refusal is Closed.FENCED


# --- a store that a failed write has fenced


@BOTH
def test_what_was_written_before_a_failed_write_is_synced_all_the_same(settings: StoreSettings) -> None:
    disk, rig = rig_with_one(settings)
    disk.faults = [Fault("write", error=errno.EIO, partial=30, times=1, path_part=LOG)]
    assert rig.try_put(draft(2)) is None
    assert rig.store.refusal is Closed.FENCED
    assert rig.store.sync_refusal is None
    rig.wait(500)
    ticket = rig.store.begin_sync(rig.mono_ms)
    assert ticket is not None
    ticket.run()
    rig.store.end_sync(ticket, None)
    assert rig.store.flushed_offset == rig.store.written_offset
    rig.store.dispatch(rig.wall_ms)
    assert rig.numbers() == [1], "consumers see it"
    assert BOOT in disk.contents(), "no sync has failed"
    assert after(disk, "synced") == [1]


@BOTH
def test_a_fenced_store_is_not_always_due(settings: StoreSettings) -> None:
    disk, rig = rig_with_one(settings)
    disk.faults = [Fault("write", error=errno.EIO, path_part=LOG)]
    rig.try_put(draft(2))
    steps = 0
    while rig.mono_ms < 20_000:
        rig.wait(max(rig.store.next_due(rig.mono_ms) - rig.mono_ms, 1))
        ticket = rig.store.begin_sync(rig.mono_ms)
        if ticket is not None:
            ticket.run()
            rig.store.end_sync(ticket, None)
        steps += 1
    assert rig.store.flushed_offset == rig.store.written_offset
    assert steps < 200


def test_after_a_failed_sync_nothing_is_synced_whatever_failed_before() -> None:
    disk, rig = rig_with_one()
    disk.faults = [Fault("write", error=errno.EIO, path_part=LOG), Fault("sync", error=errno.EIO, times=1, path_part=LOG)]
    rig.try_put(draft(2))
    rig.sync()
    assert rig.store.sync_refusal is not None
    assert rig.store.begin_sync(rig.mono_ms + 1000, True) is None
    assert rig.store.flushed_offset == 0
    assert BOOT not in disk.contents()


def test_after_a_ticket_that_is_not_the_one_that_is_out_nothing_is_synced() -> None:
    disk, rig = rig_with_one()
    ticket = rig.store.begin_sync(rig.mono_ms, True)
    assert ticket is not None
    with pytest.raises(InvariantBroken):
        rig.store.end_sync(Ticket(disk, [], [], 0), None)
    assert rig.store.sync_refusal is not None
    assert rig.store.begin_sync(rig.mono_ms, True) is None


def test_a_sync_of_somebody_else_s_that_failed_counts_as_one_of_the_log() -> None:
    disk, rig = rig_with_one()
    rig.store.sync_failed(OSError(errno.EIO, "Input/output error"))
    assert rig.store.refusal is Closed.FENCED
    assert "sync failed" in rig.store.refusal_text
    assert rig.store.sync_refusal is not None
    assert rig.store.begin_sync(rig.mono_ms, True) is None
    assert rig.store.next_due(rig.mono_ms) >= rig.mono_ms
    assert BOOT not in disk.contents()


def test_a_store_that_is_shut_syncs_no_more_and_hears_of_no_failure() -> None:
    disk, rig = rig_with_one()
    assert rig.store.close(rig.wall_ms)
    assert rig.store.sync_refusal == Closed.SHUT.value
    rig.open()
    closed = Writability(lambda: pytest.fail("the mark is another process's by now"))
    closed.shut()
    closed.sync_failed(OSError(errno.EIO, "late"))
    assert closed.why is Closed.SHUT
    assert BOOT in disk.contents()


# --- the log's first file


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_first_file_whose_sync_fails_fences_and_is_not_believed(operation: str, error: int) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    disk.faults = [Fault(operation, error=error, times=1, path_part="/commitlog")]
    rig.store.stage(draft(1), rig.wall_ms)
    with pytest.raises(CreateFailed) as caught:
        rig.store.commit()
    assert caught.value.why is Closed.FENCED
    assert BOOT not in disk.contents()
    assert rig.store.sync_refusal is not None
    for _ in range(3):
        rig.wait(1000)
    assert rig.store.refusal is Closed.FENCED
    assert not rig.store.close(rig.wall_ms)


def test_a_first_file_whose_directory_lacks_a_descriptor_is_made_once_more() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    disk.faults = [Fault("sync_directory", error=errno.EMFILE, times=1, path_part="/commitlog")]
    assert rig.try_put(draft(1)) is None
    assert rig.store.refusal is Closed.DISK_FULL
    assert BOOT in disk.contents(), "no sync has failed"
    disk.log.clear()
    rig.wait(1000)
    rig.wait(1000)
    rig.put(draft(2))
    done = [(operation, path) for operation, path, _, _ in disk.log if operation != "write"]
    directory = ("sync_directory", LOG.rstrip("/"))
    assert done.index(("create", FIRST)) < done.index(("sync", FIRST)) < done.index(directory) < done.index(("create", SECOND))
    assert rig.numbers() == [2]
    rig.sync()
    assert after(disk, "synced") == [2]


# --- what is foreign


@pytest.mark.parametrize("kind", ["directory", "link"])
def test_a_lock_that_something_foreign_has_replaced_is_lost(tmp_path: Path, kind: str) -> None:
    rig = Rig(RealDisk(), small(store_path_root_dir=str(tmp_path)))
    rig.put(draft(1))
    lock = tmp_path / "lock"
    lock.unlink()
    if kind == "directory":
        lock.mkdir()
    else:
        lock.symlink_to(tmp_path / "abort")
    rig.wait(1000)
    assert rig.store.refusal is Closed.FENCED
    assert rig.store.refusal_text == LOCK_LOST
    rig.wait(1000)
    assert not rig.store.close(rig.wall_ms)


def test_a_foreign_file_that_a_task_meets_fences() -> None:
    writability = Writability(lambda: None)

    def meets() -> None:
        raise ForeignFile("/store/checkpoint is not a regular file")

    writability.guarded(meets)
    assert writability.why is Closed.FENCED
    assert "checkpoint" in writability.detail
