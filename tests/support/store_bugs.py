"""Bugs planted into the store, one function each, for the suites that must find them (tests/store/test_planted.py).

Numbers like S7 are those of the catalogue of bugs that this store must not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from msgspec.structs import replace

from rmq_store import store
from rmq_store.disk import config_files
from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.disk.disk import Buffer, Disk, File
from rmq_store.disk.segments import Segments
from rmq_store.dispatcher import Dispatcher
from rmq_store.errors import StoreLocked
from rmq_store.flush import Flusher, Ticket
from rmq_store.index.index_file import IndexFile
from rmq_store.log import commit_log
from rmq_store.log import walk as log_walk
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.staging import Staged
from rmq_store.queues import unopened
from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.unopened import NO_STAMP, QueueRow, Unopened, decoded
from rmq_store.recovery import inventory, queue_repair, recovery
from rmq_store.recovery.dispatch_start import DispatchStart
from rmq_store.recovery.opening import open_locked
from rmq_store.recovery.recovery import Recovery
from rmq_store.recovery.report import Report
from rmq_store.results import Arrived
from rmq_store.settings import StoreSettings
from rmq_store.store import Store
from rmq_wire.times import Zone

HasBatches = Callable[[str], bool] | None


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

    def planted(
        self: Dispatcher, upto: int, limit: int, wall_ms: int, keys_max: int | None = None, new_queues_max: int | None = None
    ) -> list[Arrived]:
        return dispatch(self, 1 << 62, limit, wall_ms, keys_max, new_queues_max)

    patch.setattr(Dispatcher, "dispatch", planted)


def taken_back_and_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Checkpoint, "make_sure", lambda checkpoint: None)


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

    def ahead(self: ConsumeQueue, dirty_files: dict[str, int]) -> None:
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


def some_queues_taken_for_all(patch: pytest.MonkeyPatch) -> None:
    begin = Flusher._begin_round

    def all_covered(self: Flusher, mono_ms: int) -> bool:
        is_begun = begin(self, mono_ms)
        self._round_covers = (self._dispatcher.last_store_timestamp, self._dispatcher.last_physical_offset)
        return is_begun

    patch.setattr(Flusher, "_begin_round", all_covered)


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
    patch.setattr(Segments, "_missing_directories", lambda self, directory: [])
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


def start_strictly_behind_what_is_dispatched(patch: pytest.MonkeyPatch) -> None:
    start = DispatchStart.after_clean_stop

    def planted(self: DispatchStart, *, are_queues_as_left: bool) -> int | None:
        found = start(self, are_queues_as_left=are_queues_as_left)
        unit = None if found is None else self.unit_at(found)
        return found if unit is None else unit.physical_offset + unit.total_size

    patch.setattr(DispatchStart, "after_clean_stop", planted)


def start_one_file_late(patch: pytest.MonkeyPatch) -> None:
    start = DispatchStart.after_unclean_stop

    def planted(self: DispatchStart) -> int:
        found = start(self)
        later = [at for at in self._log.segments.starts if at > found and self.unit_at(at) is not None]
        return later[0] if later else found

    patch.setattr(DispatchStart, "after_unclean_stop", planted)


def cut_at_damage_in_the_middle(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_build_again_from", lambda self, start: None)


def units_of_elsewhere_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_walk, "is_at_home", lambda unit, position: True)


def minimum_stale(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_repair, "correct_min", lambda queue, log_min: None)


def shifted_entry_appended(patch: pytest.MonkeyPatch) -> None:
    gather = Dispatcher._gather

    def planted(self: Dispatcher, batch: list[Staged], touched: list[ConsumeQueue]) -> None:
        ends = {id(one.queue): one.queue.max_offset for one in batch}
        for one in batch:
            one.queue_offset = ends[id(one.queue)]
            ends[id(one.queue)] += 1
        gather(self, batch, touched)

    patch.setattr(Dispatcher, "_gather", planted)


STEPS_MAX = 100_000


def chain_without_an_end(patch: pytest.MonkeyPatch) -> None:
    def planted(self: IndexFile, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        number = self._slot(key_hash % self.slot_num)
        for _ in range(STEPS_MAX):
            if not 0 < number < self.count:
                return
            entry_hash, physical, _, number = self._entry(number)
            if entry_hash == key_hash:
                yield physical
        raise AssertionError("this never ends")

    patch.setattr(IndexFile, "entries", planted)


def header_before_its_entries(patch: pytest.MonkeyPatch) -> None:
    write = IndexFile.write_header

    def planted(self: IndexFile) -> None:
        gathered, self._tail = self._tail, bytearray()
        write(self)
        self._tail = gathered

    patch.setattr(IndexFile, "write_header", planted)


def config_written_in_place(patch: pytest.MonkeyPatch) -> None:
    def planted(disk: Disk, path: str, chunks: Iterable[bytes]) -> None:
        disk.make_directories(path.rpartition("/")[0])
        try:
            file = disk.open(path)
        except FileNotFoundError:
            file = disk.create(path, 0)
        file.set_length(0)
        file.write_at(0, b"".join(chunks))
        file.sync()

    patch.setattr(config_files, "persist_config", planted)


def cache_trusted_after_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_write_again", lambda self: None)


def lock_taken_after_loading(patch: pytest.MonkeyPatch) -> None:
    def planted(
        disk: Disk, settings: StoreSettings, wall_ms: int, *, pid: int, zone: Zone = None, has_batch_queues: HasBatches = None
    ) -> Store:
        root = settings.store_path_root_dir
        parts = open_locked(disk, settings, disk.make_directories(root), wall_ms, pid, zone, has_batch_queues)
        lock = disk.lock(f"{root}/lock")
        if lock is None:
            raise StoreLocked(root)
        return Store(disk, settings, lock, parts, wall_ms, zone)

    patch.setattr(store.Store, "open", staticmethod(planted))


def offsets_from_the_queue_not_from_the_log(patch: pytest.MonkeyPatch) -> None:
    scan, run = queue_repair.scan_end, Recovery.run
    found: dict[int, int] = {}

    def scanned(queue: ConsumeQueue) -> None:
        scan(queue)
        found[id(queue)] = queue.max_offset

    def planted(self: Recovery, clean: bool, wall_ms: int) -> tuple[Report, Dispatcher]:
        found.clear()
        done = run(self, clean, wall_ms)
        for queue in self._queues:
            queue.next_offset = found.get(id(queue), queue.next_offset)
        return done

    patch.setattr(recovery.queue_repair, "scan_end", scanned)
    patch.setattr(Recovery, "run", planted)


def checkpoint_kept_while_queues_are_built_again(patch: pytest.MonkeyPatch) -> None:
    from rmq_store.disk.checkpoint import Checkpoint

    patch.setattr(Checkpoint, "take_back", lambda self: None)


def cut_queues_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recovery, "_touch", lambda self, queue: None)


def unfinished_unit_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(log_walk.LogWalk, "_is_followed", lambda self, end: True)


def reboot_taken_for_a_kill(patch: pytest.MonkeyPatch) -> None:
    from rmq_store.recovery.boot_mark import BootMark, Cache

    take = BootMark.take

    def planted(self: BootMark) -> Cache:
        take(self)
        return Cache.WHOLE

    patch.setattr(BootMark, "take", planted)


def stamps_not_compared(patch: pytest.MonkeyPatch) -> None:
    def planted(self: Unopened, topic: str, row: bytes) -> bool:
        self._rows[topic] = row
        return True

    patch.setattr(Unopened, "add", planted)


def stamp_kept_when_files_changed(patch: pytest.MonkeyPatch) -> None:
    def planted(self: Unopened, topic: str, rows: list[QueueRow]) -> int:
        return int(decoded(self._left[topic]).stamp) if topic in self._left else NO_STAMP

    patch.setattr(Unopened, "_stamp_left", planted)


def leftovers_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unopened, "_is_all", lambda self, topic, rows: True)


def row_forgets_the_least_offset(patch: pytest.MonkeyPatch) -> None:
    made = unopened.rows_of
    patch.setattr(unopened, "rows_of", lambda queues: [replace(row, min_offset=0) for row in made(queues)])


def put_back_while_a_message_is_on_its_way(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unopened, "_is_at_rest", lambda queue: True)


def rows_believed_before_queues_followed_the_log(patch: pytest.MonkeyPatch) -> None:
    taken = inventory.taken
    patch.setattr(inventory, "taken", lambda *parts: replace(taken(*parts), followed=parts[2].min_offset))
