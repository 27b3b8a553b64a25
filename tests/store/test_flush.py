"""Tickets, the checkpoint, what is due when, and the disk's limit."""

from __future__ import annotations

import errno

import pytest

from rmq_store.disk.disk import Usage
from rmq_store.errors import Closed, Unwritable
from rmq_store.layouts import CHECKPOINT
from rmq_store.results import IndexType
from rmq_store.settings import StoreSettings
from tests.support.memory_disk import Fault, MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, small, sync_settings

LOG = "/commitlog/"


def checkpoint(disk: MemoryDisk) -> tuple[int, ...]:
    """physic, logics, index times; master flushed, confirm, logics positions."""
    return CHECKPOINT.unpack(disk.contents()[f"{ROOT}/checkpoint"][: CHECKPOINT.size])


def synced(disk: MemoryDisk, part: str) -> list[str]:
    return [path for operation, path, _, _ in disk.log if operation == "sync" and part in path]


def test_the_log_is_flushed_every_half_second() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    assert rig.store.next_due(0) <= 1000
    rig.put(draft(1))
    assert rig.store.begin_sync(499) is None
    assert rig.store.next_due(499) <= 500
    ticket = rig.store.begin_sync(500)
    assert ticket is not None
    assert rig.store.begin_sync(500, True) is None, "one at a time"
    ticket.run()
    assert rig.store.flushed_offset == 0
    rig.store.end_sync(ticket, None)
    assert rig.store.flushed_offset == rig.store.written_offset
    assert rig.store.begin_sync(600, True) is None


def test_a_forced_sync_is_the_log_s() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.log.clear()
    ticket = rig.store.begin_sync(0, True)
    assert ticket is not None
    ticket.run()
    assert synced(disk, LOG) == [f"{ROOT}/commitlog/{0:020d}"]
    assert synced(disk, "/consumequeue/") == []


def test_a_group_over_a_file_s_end_syncs_both_files_and_the_directory() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    rig.sync()
    disk.log.clear()
    file_bytes = rig.settings.mapped_file_size_commit_log
    number = 1
    while rig.store.written_offset < file_bytes:
        rig.put(draft(number, body_bytes=3000))
        number += 1
    ticket = rig.store.begin_sync(0, True)
    assert ticket is not None
    ticket.run()
    assert synced(disk, LOG) == [f"{ROOT}/commitlog/{start:020d}" for start in (0, file_bytes)]
    assert ("sync_directory", f"{ROOT}/commitlog", 0, 0) in disk.log


def test_an_error_of_a_sync_fences_and_is_never_repeated() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, sync_settings())
    rig.put(draft(1))
    disk.faults = [Fault("sync", error=errno.EIO)]
    rig.sync()
    assert rig.store.flushed_offset == 0
    assert rig.store.refusal is Closed.FENCED
    with pytest.raises(Unwritable) as caught:
        rig.store.stage(draft(2), START_MS)
    assert caught.value.why is Closed.FENCED
    for _ in range(100):
        rig.wait(1000)
        assert rig.store.begin_sync(rig.mono_ms, True) is None
    assert rig.store.dispatch(START_MS) == []
    assert not rig.store.close(START_MS)
    assert len(synced(disk, LOG)) == 1, "the first sync of a new file, before"


def test_the_checkpoint_follows_the_queues() -> None:
    """delta550 4.3: the times and the position of the newest message whose entry a full flush covered."""
    disk = MemoryDisk()
    rig = Rig(disk)
    [first] = rig.put(draft(1))
    [second] = rig.put(draft(2, queue_id=1))
    rig.mono_ms += 999
    rig.sync()
    rig.wait(0)
    assert checkpoint(disk)[1] == 0, "queues come a second after the start"
    rig.mono_ms += 1
    rig.wall_ms += 1000
    rig.put(draft(3, queue_id=2))
    rig.sync()
    rig.wait(1000)
    found = checkpoint(disk)
    assert found[0] == rig.wall_ms - 1000
    assert found[1] == rig.wall_ms - 1000
    assert found[5] > second.physical_offset > first.physical_offset
    assert {path.split("/")[4] for path in synced(disk, "/consumequeue/TopicA/")} == {"0", "1", "2"}
    rig.put(draft(4))
    rig.wait(1000)
    rig.sync()
    rig.wait(1000)
    assert checkpoint(disk)[1] == found[1], "the next full flush comes after a minute"
    assert checkpoint(disk)[0] > found[0]
    rig.wait(60_000)
    rig.sync()
    rig.wait(1000)
    assert checkpoint(disk)[1] > found[1]


def test_a_round_over_many_queues_goes_in_portions_and_counts_at_its_end() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(*[draft(number, queue_id=number) for number in range(40)])
    rig.mono_ms += 1000
    portions = 0
    rig.store.next_due(rig.mono_ms)
    while (ticket := rig.store.begin_sync(rig.mono_ms)) is not None:
        ticket.run()
        assert rig.store._checkpoint.logics_physical_offset == 0
        rig.store.end_sync(ticket, None)
        portions += ticket.upto < 0
    assert portions == 3
    assert rig.store._checkpoint.logics_physical_offset > 0
    assert len(set(synced(disk, "/consumequeue/"))) == 40


def test_full_index_files_are_written_back_and_synced() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    for number in range(40):
        rig.put(draft(number))
    assert rig.store._index is not None
    assert rig.store._index.retiring
    for _ in range(20):
        rig.wait(1000)
        rig.sync()
    rig.wait(1000)
    assert not rig.store._index.retiring
    assert not rig.store._index.retired
    assert checkpoint(disk)[2] == START_MS
    assert len(set(synced(disk, "/index/"))) == len(rig.store._index.files) - 1
    assert len(rig.store.query("TopicA", "key3", 64, 0, 1 << 60, IndexType.KEY).units) == 1


def test_a_disk_over_its_limit_refuses_and_recovers() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, small(disk_space_warning_level_ratio=0.9))
    rig.put(draft(1))
    disk.space = Usage(1000, 80, 80)
    rig.wait(10_000)
    with pytest.raises(Unwritable) as caught:
        rig.store.stage(draft(2), START_MS)
    assert caught.value.why is Closed.DISK_OVER_LIMIT
    assert rig.numbers() == [1]
    disk.space = Usage(1000, 500, 500)
    rig.wait(10_000)
    rig.put(draft(3))
    assert rig.numbers() == [1, 3]
    rig.reopen()


def test_a_full_disk_does_not_hide_one_over_its_limit() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, small(disk_space_warning_level_ratio=0.9))
    disk.space = Usage(1000, 10, 10)
    disk.faults = [Fault("create", error=errno.ENOSPC, path_part=LOG)]
    assert rig.try_put(draft(1)) is None
    for _ in range(12):
        rig.wait(1000)
    assert rig.store.refusal is Closed.DISK_OVER_LIMIT
    disk.space = Usage(1000, 900, 900)
    rig.wait(10_000)
    rig.put(draft(2))


def test_a_closed_store_takes_nothing() -> None:
    rig = Rig()
    rig.store.stage(draft(1), START_MS)
    assert rig.store.close(START_MS)
    assert rig.store.close(START_MS)
    with pytest.raises(Unwritable) as caught:
        rig.store.stage(draft(2), START_MS)
    assert caught.value.why is Closed.SHUT
    rig.store.tick(1, 1)
    assert rig.store.begin_sync(1, True) is None
    rig.open()
    assert rig.store.report.clean
    assert rig.store.written_offset == 0, "what was staged and not committed is dropped"


def test_a_close_that_cannot_write_leaves_the_mark() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    disk.faults = [Fault("sync", error=errno.EIO)]
    assert not rig.store.close(START_MS)
    assert f"{ROOT}/abort" in disk.contents()
    rig.disk = disk.crash("all")
    rig.open()
    assert rig.numbers() == [1]


def test_a_deleted_topic_does_not_stop_a_sync() -> None:
    rig = Rig()
    rig.put(draft(1), draft(2, "Other"))
    rig.store.delete_topics(["TopicA"])
    rig.mono_ms += 1000
    rig.sync()
    assert rig.store.refusal is None
    assert rig.numbers("Other") == [2]


# --- Java's other intervals, for who asks for them


def flush_times(rig: Rig, appends: dict[int, int], until_ms: int) -> list[int]:
    """When the log was flushed, if so many bytes are appended at these times; looked at every 10 ms."""
    found = []
    number = 0
    for now in range(0, until_ms + 1, 10):
        rig.mono_ms = now
        if size := appends.get(now):
            rig.put(draft(number := number + 1, body_bytes=size))
        if rig.store.next_due(now) <= now and (ticket := rig.store.begin_sync(now)) is not None:
            ticket.run()
            rig.store.end_sync(ticket, None)
            found += [now] if ticket.upto >= 0 else []
    return found


def test_few_pages_wait_for_the_thorough_flush() -> None:
    """flushCommitLogLeastPages, flushCommitLogThoroughInterval (Java: FlushRealTimeService)."""
    settings = small(flush_commit_log_least_pages=4, mapped_file_size_commit_log=1 << 20)
    assert flush_times(Rig(settings=settings), {0: 100}, 12_000) == [10_000]
    assert flush_times(Rig(settings=settings), {0: 100, 1000: 6000, 2000: 6000, 2600: 6000}, 9_000) == [3000]
    assert flush_times(Rig(settings=small()), {0: 100, 1000: 100}, 2000) == [500, 1000], "ours: whatever is dirty"


def test_untimed_flushes_follow_each_append() -> None:
    """flushCommitLogTimed=false"""
    assert flush_times(Rig(settings=small(flush_commit_log_timed=False)), {0: 100, 30: 100, 700: 100}, 1000) == [0, 30, 700]


def test_under_sync_flush_nothing_waits_longer_than_ten_milliseconds() -> None:
    """Messages with WAIT=false: nobody waits for them, and yet they are flushed and seen (Java: GroupCommitService)."""
    assert flush_times(Rig(settings=sync_settings()), {100: 100, 200: 100}, 400) == [100, 200]
    rig = Rig(settings=sync_settings())
    rig.store.begin_sync(0)
    rig.put(draft(1))
    assert rig.numbers() == []
    assert rig.store.next_due(0) <= 10
    ticket = rig.store.begin_sync(10)
    assert ticket is not None
    ticket.run()
    rig.store.end_sync(ticket, None)
    rig.store.dispatch(START_MS)
    assert rig.numbers() == [1]


def wide() -> StoreSettings:
    """Queue files of five pages and a bit, of which one page is about 205 entries."""
    return small(mapped_file_size_consume_queue=1024 * 20, mapped_file_size_commit_log=1 << 20)


def put_many(rig: Rig, count: int, queue_id: int = 0) -> None:
    for first in range(0, count, 50):
        rig.put(*[draft(number, queue_id=queue_id) for number in range(first, min(first + 50, count))])


def test_queue_files_with_two_dirty_pages_are_flushed_every_second() -> None:
    """flushIntervalConsumeQueue, flushConsumeQueueLeastPages (Java: FlushConsumeQueueService, isAbleToFlush)."""
    disk = MemoryDisk()
    rig = Rig(disk, wide())
    rig.wait(1000)
    rig.sync()  # the first full flush has come and gone
    disk.log.clear()
    put_many(rig, 409)
    put_many(rig, 410, queue_id=1)
    rig.mono_ms += 999
    rig.sync()
    assert synced(disk, "/consumequeue/") == []
    before = rig.store._checkpoint.logics_physical_offset
    rig.mono_ms += 1
    assert rig.store.next_due(rig.mono_ms) <= rig.mono_ms
    rig.sync()
    assert synced(disk, "/consumequeue/") == [f"{ROOT}/consumequeue/TopicA/1/{0:020d}"], "8192 bytes are two pages, 8180 are not"
    assert rig.store._checkpoint.logics_physical_offset == before, "the other queue is not safe"
    assert not rig.store._flusher.has_safe_queues(rig.store.written_offset)
    disk.log.clear()
    put_many(rig, 1)
    rig.mono_ms += 1000
    rig.sync()
    assert synced(disk, "/consumequeue/") == [f"{ROOT}/consumequeue/TopicA/0/{0:020d}"]
    assert rig.store._checkpoint.logics_physical_offset > before, "all that was dirty is safe"
    assert rig.store._flusher.has_safe_queues(rig.store.written_offset)
    disk.log.clear()
    put_many(rig, 1)
    rig.mono_ms += 1000
    rig.sync()
    assert synced(disk, "/consumequeue/") == [], "pages count from the last flush"


def test_a_full_queue_file_is_flushed_within_a_second() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.wait(1000)
    rig.sync()
    disk.log.clear()
    rig.put(*[draft(number) for number in range(11)])
    rig.mono_ms += 1000
    rig.sync()
    assert synced(disk, "/consumequeue/") == [f"{ROOT}/consumequeue/TopicA/0/{0:020d}"]


def test_the_two_keys_of_queue_flushes_count() -> None:
    disk = MemoryDisk()
    rig = Rig(disk, small(flush_interval_consume_queue=300, flush_consume_queue_least_pages=0))
    rig.mono_ms += 1000
    rig.sync()
    disk.log.clear()
    [placed] = rig.put(draft(1), draft(2))[1:]
    rig.mono_ms += 299
    rig.sync()
    assert synced(disk, "/consumequeue/") == []
    rig.mono_ms += 1
    rig.sync()
    assert synced(disk, "/consumequeue/") == [f"{ROOT}/consumequeue/TopicA/0/{0:020d}"]
    assert rig.store._checkpoint.logics_physical_offset == placed.physical_offset


def test_queues_get_their_turn_under_a_constant_load_of_waiting_senders() -> None:
    """Somebody waits for the log at every end of a sync; without a turn of their own queues would be flushed never."""
    disk = MemoryDisk()
    rig = Rig(disk, sync_settings())
    rig.put(draft(0))
    rig.sync()
    log_tickets = most = 0
    for number in range(1, 2000):
        rig.mono_ms += 5
        rig.put(draft(number))
        ticket = rig.store.begin_sync(rig.mono_ms, True)
        assert ticket is not None
        log_tickets = log_tickets + 1 if ticket.upto >= 0 else 0
        most = max(most, log_tickets)
        ticket.run()
        rig.store.end_sync(ticket, None)
    assert len(set(synced(disk, "/consumequeue/"))) > 150
    assert most > 10, "the log goes first"
    assert rig.store._checkpoint.logics_physical_offset > 0


@pytest.mark.parametrize("settings", [wide(), sync_settings()], ids=["async", "sync"])
def test_the_checkpoint_moves_though_messages_come_during_every_sync(settings: StoreSettings) -> None:
    """A round covers messages that the log's flush reaches only later; old files would never be deleted."""
    rig = Rig(MemoryDisk(), settings)
    covered = set()
    for number in range(0, 4000, 2):
        rig.mono_ms += 100
        rig.put(draft(number))
        ticket = rig.store.begin_sync(rig.mono_ms, rig.store._is_sync)
        rig.put(draft(number + 1))
        if ticket is not None:
            ticket.run()
            rig.store.end_sync(ticket, None)
        covered.add(rig.store._checkpoint.logics_physical_offset)
        assert rig.store._checkpoint.logics_physical_offset < rig.store.flushed_offset or not rig.store.flushed_offset
    assert len(covered) > 3
