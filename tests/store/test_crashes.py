"""Random days by seed (tests/support/store_sim.py), and the proof that they find bugs: planted ones, within so many seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmq_store import commit_log, log_walk, queue_repair
from rmq_store.commit_log import CommitLog, Staged
from rmq_store.consume_queue import ConsumeQueue
from rmq_store.disk import Buffer, File
from rmq_store.dispatcher import Dispatcher
from rmq_store.flush import Flusher, Ticket
from rmq_store.segments import Segments
from rmq_store.store import Store
from rmq_store.values import Arrived
from tests.support.store_sim import RARE, Sim, live

SEEDS = 600
NIGHTLY_SEEDS = 20_000
FIRST_SEED = 1


def test_random_days() -> None:
    rare = live(range(FIRST_SEED, FIRST_SEED + SEEDS))
    assert not [name for name in RARE if not rare[name]], "a situation that never came up was not tested"


@pytest.mark.nightly
def test_many_random_days() -> None:
    live(range(1_000_000, 1_000_000 + NIGHTLY_SEEDS))


# --- planted bugs


Plant = Callable[[pytest.MonkeyPatch], None]


def answered_before_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "_write", lambda self, file, segment: None)


def answered_before_synced(patch: pytest.MonkeyPatch) -> None:
    begin = Flusher.begin

    def early(self: Flusher, mono_ms: int, force: bool) -> Ticket | None:
        ticket = begin(self, mono_ms, force)
        if ticket is not None and ticket.upto >= 0:
            self.flushed_offset = ticket.upto
        return ticket

    patch.setattr(Flusher, "begin", early)


def sync_skipped_for_one(patch: pytest.MonkeyPatch) -> None:
    run = Ticket.run
    patch.setattr(Ticket, "run", lambda self: run(self) if self.upto < 0 or len(self._files) > 1 else None)


def old_file_not_synced_at_a_roll(patch: pytest.MonkeyPatch) -> None:
    run = Ticket.run

    def newest_only(self: Ticket) -> None:
        if self.upto >= 0:
            del self._files[:-1]
        run(self)

    patch.setattr(Ticket, "run", newest_only)


def directory_not_synced(patch: pytest.MonkeyPatch) -> None:
    run = Ticket.run

    def files_only(self: Ticket) -> None:
        self._directories.clear()
        run(self)

    patch.setattr(Ticket, "run", files_only)


def sync_retried_after_an_error(patch: pytest.MonkeyPatch) -> None:
    end = Store.end_sync

    def forgiving(self: Store, ticket: Ticket, error: OSError | None) -> None:
        if error is None:
            end(self, ticket, None)
        else:
            self._flusher.is_out = False

    patch.setattr(Store, "end_sync", forgiving)


def flushed_offset_moved_on_error(patch: pytest.MonkeyPatch) -> None:
    end = Store.end_sync
    patch.setattr(Store, "end_sync", lambda self, ticket, error: end(self, ticket, None))


def offset_taken_after_the_sync(patch: pytest.MonkeyPatch) -> None:
    end = Flusher.end

    def late(self: Flusher, ticket: Ticket) -> None:
        if ticket.upto >= 0:
            ticket.upto = self._log.written_offset
        end(self, ticket)

    patch.setattr(Flusher, "end", late)


def reservation_kept_after_a_failed_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "rollback_to", without_giving_back(CommitLog.rollback_to))


def without_giving_back(rollback: Callable[[CommitLog, int], None]) -> Callable[[CommitLog, int], None]:
    def planted(self: CommitLog, savepoint: int) -> None:
        kept = [(staged.queue, staged.queue.next_offset) for staged in self.staged[savepoint:]]
        rollback(self, savepoint)
        for queue, offset in kept:
            queue.next_offset = offset

    return planted


def offset_reused_after_a_failed_turn(patch: pytest.MonkeyPatch) -> None:
    rollback = CommitLog.rollback_to

    def planted(self: CommitLog, savepoint: int) -> None:
        dropped = [staged.queue for staged in self.staged[savepoint:]]
        rollback(self, savepoint)
        for queue in dropped:
            queue.next_offset = queue.max_offset

    patch.setattr(CommitLog, "rollback_to", planted)


def unit_of_a_raising_handler_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "rollback_to", lambda self, savepoint: None)


def short_write_taken_as_whole(patch: pytest.MonkeyPatch) -> None:
    def once(file: File, offset: int, data: Buffer) -> None:
        file.write_at(offset, data)

    patch.setattr(commit_log, "write_all", once)


def dispatch_above_flushed(patch: pytest.MonkeyPatch) -> None:
    dispatch = Dispatcher.dispatch

    def planted(self: Dispatcher, upto: int, limit: int, wall_ms: int) -> list[Arrived]:
        return dispatch(self, 1 << 62, limit, wall_ms)

    patch.setattr(Dispatcher, "dispatch", planted)


def cut_not_zeroed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_repair, "zero_from", lambda file, within: 0)


def check_sum_skipped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_walk, "has_good_crc", lambda unit: True)


def zero_properties_accepted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_walk, "has_lost_sector", lambda unit, at: False)


def failed_turn_not_zeroed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "_zero", lambda self, at, size: True)


def queue_file_without_entry(patch: pytest.MonkeyPatch) -> None:
    write = ConsumeQueue.write_pending

    def ahead(self: ConsumeQueue, dirty_files: dict[str, None]) -> None:
        write(self, dirty_files)
        if self.max_offset * 20 == self.segments.end:
            self.segments.create(self.segments.end)

    patch.setattr(ConsumeQueue, "write_pending", ahead)


def checkpoint_before_the_queues_are_synced(patch: pytest.MonkeyPatch) -> None:
    begin = Flusher.begin

    def early(self: Flusher, mono_ms: int, force: bool) -> Ticket | None:
        ticket = begin(self, mono_ms, force)
        self._checkpoint.logics_physical_offset = max(self._dispatcher.last_physical_offset, 0)
        self._checkpoint.logics_message_timestamp = self._dispatcher.last_store_timestamp
        return ticket

    patch.setattr(Flusher, "begin", early)


def abort_removed_before_all_is_flushed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flusher, "sync_everything", lambda self: None)


def blank_needs_more_than_eight_bytes(patch: pytest.MonkeyPatch) -> None:
    open_segment = CommitLog._open

    def planted(self: CommitLog, at: int) -> None:
        open_segment(self, at)
        self._room -= 1

    patch.setattr(CommitLog, "_open", planted)


def batch_half_committed(patch: pytest.MonkeyPatch) -> None:
    commit = CommitLog.commit

    def planted(self: CommitLog) -> list[Staged]:
        while len(self.staged) > 3:
            self.rollback_to(len(self.staged) - 1)
        return commit(self)

    patch.setattr(CommitLog, "commit", planted)


def file_before_its_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segments, "_missing_directories", lambda self: [])
    patch.setattr(Segments, "create", created_without_note(Segments.create))


def created_without_note(create: Callable[[Segments, int], File]) -> Callable[[Segments, int], File]:
    def planted(self: Segments, start: int) -> File:
        known = dict(self.unsynced_directories)
        self.files.disk.make_directories(self.directory)
        file = create(self, start)
        self.unsynced_directories.clear()
        self.unsynced_directories.update(known)
        return file

    return planted


@pytest.mark.parametrize(
    ("plant", "first", "seeds_max"),
    [
        (answered_before_written, 1, 5),  # S1
        (answered_before_synced, 1, 50),  # S2
        (sync_skipped_for_one, 1, 20),  # S3
        (old_file_not_synced_at_a_roll, 1, 20),  # S4
        (directory_not_synced, 1, 20),  # S5
        (sync_retried_after_an_error, 1, 200),  # S6
        (flushed_offset_moved_on_error, 1, 50),  # S7
        (offset_taken_after_the_sync, 1, 100),  # S8
        (reservation_kept_after_a_failed_commit, 1, 10),  # S9
        (offset_reused_after_a_failed_turn, 1, 10),  # S10
        (unit_of_a_raising_handler_kept, 1, 10),  # S11
        (short_write_taken_as_whole, 1, 50),  # S12
        (dispatch_above_flushed, 1, 20),  # S13
        (cut_not_zeroed, 70, 200),  # S17
        (check_sum_skipped, 170, 400),  # S19
        (zero_properties_accepted, 270, 400),  # S20
        (queue_file_without_entry, 1, 50),  # S21
        (checkpoint_before_the_queues_are_synced, 40, 200),  # S24
        (abort_removed_before_all_is_flushed, 1, 20),  # S26
        (batch_half_committed, 1, 10),  # S34
        (failed_turn_not_zeroed, 1, 100),
        (file_before_its_directory, 1, 50),
    ],
)
def test_planted_bugs_are_found(plant: Plant, first: int, seeds_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`first` is near a seed that finds it, to save time; from there it must not take more than `seeds_max`."""
    plant(monkeypatch)
    for seed in range(first, first + seeds_max):
        try:
            Sim(seed).run()
        except Exception:
            return
    pytest.fail(f"{plant.__name__} survived {seeds_max} seeds")


def test_the_planted_end_of_a_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """S27: the table of `test_append` would show it."""
    from tests.store.test_append import test_a_unit_needs_eight_bytes_behind_it

    blank_needs_more_than_eight_bytes(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_unit_needs_eight_bytes_behind_it(8, False)
