"""Whose turn it is to be synced, counted exactly: tickets of the log and of queues in their order, how much each holds."""

from __future__ import annotations

import errno

import pytest

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.flush import Flusher, Ticket
from rmq_store.settings import StoreSettings
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import START_MS, Rig, draft, open_store, small, sync_settings


def flusher_of(rig: Rig) -> Flusher:
    return rig.store._flusher


def checkpoint_of(rig: Rig) -> Checkpoint:
    return rig.store._checkpoint


def begin(rig: Rig, *, force: bool = False) -> Ticket | None:
    """The next ticket, done."""
    ticket = rig.store.begin_sync(rig.mono_ms, force)
    if ticket is not None:
        ticket.run()
        rig.store.end_sync(ticket, None)
    return ticket


def files_of(ticket: Ticket | None) -> int:
    return 0 if ticket is None else len(ticket._files)


@pytest.mark.parametrize(("settings", "portions"), [(small(), [16, 16, 8]), (sync_settings(), [4] * 10)], ids=["async", "sync"])
def test_a_round_of_queues_goes_in_portions(settings: StoreSettings, portions: list[int]) -> None:
    """Under SYNC_FLUSH in smaller ones: a group commit may have to wait for it."""
    rig = Rig(MemoryDisk(), settings)
    rig.put(*[draft(queue, queue_id=queue) for queue in range(40)])
    rig.sync()
    rig.store.dispatch(rig.wall_ms)
    rig.mono_ms += 2_000
    tickets = [begin(rig) for _ in range(len(portions))]
    assert [files_of(ticket) for ticket in tickets] == portions
    assert [ticket.is_last_of_round for ticket in tickets if ticket is not None] == [False] * (len(portions) - 1) + [True]
    assert begin(rig) is None


def test_after_four_tickets_of_the_log_it_is_the_turn_of_the_queues() -> None:
    rig = Rig(MemoryDisk(), sync_settings())
    rig.mono_ms += 2_000
    turns = ""
    for number in range(30):
        rig.put(*[draft(number, queue_id=queue) for queue in range(40)])
        ticket = begin(rig, force=True)
        assert ticket is not None
        turns += "L" if ticket.upto >= 0 else "q"
    assert turns == "LLLLq" * 6


def test_a_message_between_two_flushes_waits_for_the_next_one() -> None:
    rig = Rig(MemoryDisk(), small(flush_commit_log_least_pages=0))
    rig.mono_ms += 500
    assert begin(rig) is None, "there is nothing to flush yet"
    rig.mono_ms += 10
    rig.put(draft(0))
    assert begin(rig) is None
    rig.mono_ms += 490
    ticket = begin(rig)
    assert ticket is not None
    assert rig.store.flushed_offset == ticket.upto == rig.store.written_offset


def test_the_next_flush_is_an_interval_behind_one_that_was_forced() -> None:
    rig = Rig(MemoryDisk(), small(flush_commit_log_least_pages=0))
    rig.put(draft(0))
    rig.mono_ms += 400
    assert begin(rig, force=True) is not None
    rig.put(draft(1))
    rig.mono_ms += 499
    assert begin(rig) is None
    rig.mono_ms += 1
    assert begin(rig) is not None


def test_a_ticket_that_lacked_a_descriptor_comes_again_before_any_other() -> None:
    rig = Rig(MemoryDisk(), sync_settings())
    rig.put(draft(0))
    ticket = rig.store.begin_sync(rig.mono_ms, True)
    assert ticket is not None
    rig.store.end_sync(ticket, OSError(errno.EMFILE, "no descriptor"))
    rig.put(draft(1))
    assert rig.store.begin_sync(rig.mono_ms, False) is ticket


def test_names_are_synced_with_the_first_portion_and_not_again() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(1))
    rig.sync_queues()

    def directories() -> list[str]:
        return [path for operation, path, _, _ in disk.log if operation == "sync_directory" and "/consumequeue" in path]

    assert directories()
    disk.log.clear()
    rig.put(draft(2))
    rig.sync_queues()
    assert directories() == []
    rig.put(draft(3, queue_id=1))
    rig.sync_queues()
    assert directories() == ["/store/consumequeue/TopicA", "/store/consumequeue/TopicA/1"]


def test_a_flusher_that_was_never_asked_when_it_is_due_begins_with_the_log() -> None:
    rig = Rig(MemoryDisk())
    rig.put(draft(1))
    assert rig.store.close(rig.wall_ms)
    rig.store = open_store(rig.settings, rig.wall_ms, disk=rig.disk)
    rig.put(draft(2))
    assert begin(rig) is None, "neither the log's interval nor the first round's second is over"
    rig.mono_ms += 499
    assert begin(rig) is None
    rig.mono_ms += 1
    ticket = begin(rig)
    assert ticket is not None
    assert ticket.upto == rig.store.written_offset
    assert begin(rig) is None
    rig.mono_ms += 500
    assert files_of(begin(rig)) == 1


def test_when_it_is_due() -> None:
    """The log's interval counts only while the log is dirty; else it is the queues' turn that is awaited."""
    rig = Rig(MemoryDisk(), small(flush_interval_consume_queue=3_000))
    flusher = flusher_of(rig)
    assert flusher.due(0) == 1_000
    rig.put(draft(1))
    assert flusher.due(0) == 500
    rig.mono_ms = 500
    ticket = rig.store.begin_sync(500)
    assert ticket is not None
    assert flusher.due(500) == 1_000, "one is out"
    ticket.run()
    rig.store.end_sync(ticket, None)
    assert flusher.due(500) == 1_000
    rig.mono_ms = 1_000
    assert files_of(begin(rig)) == 1
    assert flusher.due(1_000) == 61_000, "a minute later, whether anything is dirty or not"
    rig.put(draft(2))
    rig.sync()
    assert flusher.due(1_000) == 4_000, "or as soon as files have pages enough"


# --- how many pages are enough


def flushes(rig: Rig, appends: dict[int, int], until_ms: int) -> list[int]:
    found = []
    for now in range(0, until_ms + 1, 100):
        rig.mono_ms = now
        if size := appends.get(now):
            rig.put(draft(now, body_bytes=size))
        if rig.store.next_due(now) <= now and (ticket := begin(rig)) is not None and ticket.upto >= 0:
            found.append(now)
    return found


def test_the_thorough_flush_comes_ten_seconds_after_the_last_one_and_no_other() -> None:
    """flushCommitLogThoroughInterval: a flush for enough pages before it does not put it off."""
    settings = small(flush_commit_log_least_pages=4, mapped_file_size_commit_log=1 << 20)
    assert flushes(Rig(settings=settings), {0: 100, 12_000: 100}, 25_000) == [10_000, 20_000]
    assert flushes(Rig(settings=settings), {0: 6_000, 100: 6_000, 200: 6_000, 5_000: 100}, 12_000) == [500, 10_000]


def test_pages_are_counted_whole() -> None:
    settings = small(flush_commit_log_least_pages=2, mapped_file_size_commit_log=1 << 20)
    rig = Rig(settings=settings)
    rig.put(draft(1, body_bytes=7_000))
    assert rig.store.written_offset < 8_192
    rig.mono_ms = 1_000
    assert begin(rig, force=False) is None or flusher_of(rig).flushed_offset == 0
    rig.put(draft(2, body_bytes=1_000))
    assert rig.store.written_offset >= 8_192
    rig.mono_ms = 2_000
    while begin(rig) is not None:
        pass
    assert flusher_of(rig).flushed_offset == rig.store.written_offset


# --- index files that are full


def test_full_index_files_go_in_order_and_say_nothing_of_the_log() -> None:
    rig = Rig(MemoryDisk())
    for number in range(200):
        rig.put(draft(number))
        rig.wall_ms += 1_000
    rig.sync()
    index = rig.store._index
    assert index is not None
    while index.retiring:
        index.retire(1_000)
    retired = list(index.retired)
    assert len(retired) > 3
    ends = [file.end_timestamp for file in retired]
    assert ends == sorted(set(ends))
    flushed = rig.store.flushed_offset
    rig.put(draft(200))
    seen = []
    for _ in retired:
        ticket = begin(rig)
        assert ticket is not None
        assert ticket.index_file is not None
        seen.append(checkpoint_of(rig).index_message_timestamp)
        assert rig.store.flushed_offset == flushed
    assert seen == ends
    assert not index.retired
    assert seen[0] >= START_MS
