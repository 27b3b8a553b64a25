"""The store: what the broker talks to.

`stage` and `commit` append, `dispatch` makes visible, `read_queue`, `lookup`, `query` and their like read, `begin_sync` and
`end_sync` bracket a sync that somebody else runs, `tick` does what is due by the clock.  No method waits for the disk once the
store is open, no method reads a clock, and nothing here knows what a topic is allowed to do.

Errors of the disk end in one of two states.  What may pass (no space, no descriptors) refuses appends and is tried again a
second later.  What leaves the medium unknown (an I/O error on a write, any error of a sync) fences the store: nothing is ever
appended again, reads go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rmq_store.commit_log import PASSING, Staged
from rmq_store.disk import Disk, Lock
from rmq_store.errors import Closed, CommitFailed, Illegal, StoreLocked, Unwritable
from rmq_store.flush import Flusher, Ticket
from rmq_store.log_reader import LogReader
from rmq_store.lookup import Lookup
from rmq_store.opening import Parts, open_locked
from rmq_store.pull import QueueReader
from rmq_store.settings import FlushDiskType, StoreSettings
from rmq_store.statistics import StoreStatistics, double_text
from rmq_store.values import Arrived, Boundary, Draft, IndexType, Placed, QueryResult, Read
from rmq_wire.times import Zone

DISPATCH_ALL: Final = 1 << 30
SECOND_MS: Final = 1000
RETRY_MS: Final = 1000
"""How long appends are refused after an error that may pass."""
DISK_CHECK_MS: Final = 10_000
"""Java: cleanResourceInterval."""
RESIDENCY_MS: Final = 10_000
"""How long a log block that was in memory is taken to be still there."""
WRITE_BACK_MS: Final = 5
WRITE_BACK_PAGES: Final = 64
"""Index slots go back to a full file in portions of 256 KiB."""


class Store:
    """One open store directory. Make it with `Store.open`."""

    def __init__(self, disk: Disk, settings: StoreSettings, lock: Lock, parts: Parts, wall_ms: int) -> None:
        files, log, queues, index, checkpoint, dispatcher, report = parts
        self.settings = settings
        self.report = report
        self.statistics = StoreStatistics(wall_ms)
        self._disk = disk
        self._lock = lock
        self._log = log
        self._queues = queues
        self._index = index
        self._checkpoint = checkpoint
        self._dispatcher = dispatcher
        self._files = files
        self._flusher = Flusher(disk, settings, log, queues, dispatcher, index, checkpoint)
        self._reader = LogReader(log, settings.hot_window_bytes)
        self._pull = QueueReader(settings, log, queues, self._reader, self.statistics)
        self._lookup = Lookup(settings, log, queues, index, self._reader)
        self._refusal: Closed | None = None
        self._refusal_text = ""
        self._retry_due_ms: int | None = None
        self._over_limit = False
        self._is_sync = settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._second_due_ms = 0
        self._disk_due_ms = 0
        self._residency_due_ms = 0
        self._ratio = 0.0

    # --- opening and closing

    @staticmethod
    def open(disk: Disk, settings: StoreSettings, wall_ms: int, *, pid: int, zone: Zone = None) -> Store:
        """Lock the directory, load it, bring it into one state. `zone`: for index file names, local by default.

        Raises StoreRefused (StoreLocked, StoreDamaged, ForeignFile) with a text that says what to do, OSError.
        """
        root = settings.store_path_root_dir
        changed = disk.make_directories(root)
        lock = disk.lock(f"{root}/lock")
        if lock is None:
            raise StoreLocked(f"{root} is in use by another broker: stop it, or choose another directory")
        try:
            return Store(disk, settings, lock, open_locked(disk, settings, changed, wall_ms, pid, zone), wall_ms)
        except BaseException:
            lock.release()
            raise

    def close(self, wall_ms: int) -> bool:
        """Stop. True when everything was dispatched, synced and noted, so that the next start finds a clean stop.

        What is staged and not committed is dropped. No ticket may be out. Never raises OSError.
        """
        if self._refusal is Closed.SHUT:
            return True
        clean = False
        try:
            if self._refusal is not Closed.FENCED:
                clean = self._close_clean(wall_ms)
        except OSError as reason:
            self._refusal_text = str(reason)
        self._refusal = Closed.SHUT
        self._files.clear()
        self._lock.release()
        return clean

    def _close_clean(self, wall_ms: int) -> bool:
        self._log.rollback_to(0)
        self._dispatcher.dispatch(self.written_offset, DISPATCH_ALL, wall_ms)
        if self._dispatcher.waiting:
            return False
        if self._index is not None:
            self._index.close()
        for start in self._log.segments.starts.copy():
            if start >= self.written_offset:
                self._reader.forget_file(start)
                self._log.segments.remove(start)
        self._flusher.sync_everything()
        self._checkpoint.write()
        self._checkpoint.file.sync()
        root = self.settings.store_path_root_dir
        self._disk.sync_directory(self._log.segments.directory if self._log.segments.starts else root)
        self._disk.unlink(f"{root}/abort")
        self._disk.sync_directory(root)
        return True

    # --- appending

    def stage(self, draft: Draft, wall_ms: int) -> Placed:
        """Reserve a place for this message and pack it. Raises Illegal, Unwritable."""
        if self._refusal is not None:
            raise Unwritable(self._refusal, self._refusal_text)
        queues = self._queues.by_topic.get(draft.topic)
        queue = queues.get(draft.queue_id) if queues is not None else None
        if queue is None:
            queue = self._queues.get(draft.topic, draft.queue_id)
        return self._log.stage(draft, queue, wall_ms)

    def stage_batch(self, drafts: Sequence[Draft], wall_ms: int) -> Sequence[Placed]:
        """All of them in one file, or none. Raises Illegal, Unwritable."""
        if self._refusal is not None:
            raise Unwritable(self._refusal, self._refusal_text)
        log = self._log
        queues = [self._queues.get(draft.topic, draft.queue_id) for draft in drafts]
        log.make_room(sum(map(log.unit_bytes, drafts, queues)))
        savepoint = log.savepoint()
        try:
            return [log.stage(draft, queue, wall_ms) for draft, queue in zip(drafts, queues, strict=True)]
        except Illegal:
            log.rollback_to(savepoint)
            raise

    def savepoint(self) -> int:
        """A mark to roll back to within this turn."""
        return len(self._log.staged)

    def rollback_to(self, savepoint: int) -> None:
        """Drop what was staged since the mark; places and queue offsets are free again."""
        self._log.rollback_to(savepoint)

    def commit(self) -> None:
        """Write everything staged. Raises CommitFailed; then nothing of it is stored and every reservation is given back."""
        if not self._log.staged:
            return
        count = len(self._log.staged)
        try:
            staged = self._log.commit()
        except CommitFailed as reason:
            self.statistics.put_failed_times += count
            self._refuse(reason.why, str(reason))
            raise
        self._note(staged)

    def _note(self, staged: list[Staged]) -> None:
        self._dispatcher.add(staged)
        self._flusher.last_store_timestamp = staged[-1].store_timestamp
        statistics = self.statistics
        statistics.put_times += len(staged)
        statistics.put_bytes += sum([one.size for one in staged])

    def _refuse(self, why: Closed, text: str) -> None:
        if self._refusal is not Closed.FENCED:
            self._refusal, self._refusal_text = why, text
            self._retry_due_ms = None

    # --- dispatch

    def dispatch(self, wall_ms: int, limit: int = DISPATCH_ALL) -> list[Arrived]:
        """Make committed messages visible, at most `limit`; under SYNC_FLUSH only what is flushed.

        A failing disk delays them (and refuses appends meanwhile); nothing is raised.
        """
        if not self._dispatcher.waiting:
            return []
        upto = self._flusher.flushed_offset if self._is_sync else self._log.written_offset
        try:
            return self._dispatcher.dispatch(upto, limit, wall_ms)
        except OSError as reason:
            self._refuse(Closed.DISK_FULL if reason.errno in PASSING else Closed.FENCED, str(reason))
            return []

    @property
    def undispatched(self) -> int:
        """Messages committed and not visible yet."""
        return len(self._dispatcher.waiting)

    @property
    def dispatch_behind_bytes(self) -> int:
        upto = self._flusher.flushed_offset if self._is_sync else self._log.written_offset
        return max(upto - self._dispatcher.dispatched_offset, 0)

    # --- syncing

    def begin_sync(self, mono_ms: int, force: bool = False) -> Ticket | None:
        """What to sync now: run the ticket, then give it to `end_sync`. None when nothing is due, or one is out.

        `force`: the log's newest bytes, for answers that wait for them.
        """
        if self._refusal is Closed.FENCED or self._refusal is Closed.SHUT:
            return None
        return self._flusher.begin(mono_ms, force)

    def end_sync(self, ticket: Ticket, error: OSError | None) -> None:
        """The ticket was run. An error fences the store: what is on the medium is not known any more."""
        if error is None:
            self._flusher.end(ticket)
        else:
            self._flusher.is_out = False
            self._refuse(Closed.FENCED, f"sync failed: {error}")

    # --- time

    def tick(self, mono_ms: int, wall_ms: int) -> None:
        """Do what is due: samples, checkpoint, gathered index entries, slots of full index files, disk limit, retries."""
        if self._refusal is Closed.SHUT:
            return
        if mono_ms >= self._second_due_ms:
            self._second_due_ms = mono_ms + SECOND_MS
            self.statistics.sample(wall_ms)
            self._retry(mono_ms)
            self._guarded(self._checkpoint.write)
            if self._index is not None:
                self._guarded(self._index.write_gathered)
                self._guarded(self._index.write_headers)
        if self._index is not None and self._index.retiring:
            index = self._index
            self._guarded(lambda: index.retire(WRITE_BACK_PAGES))
        if mono_ms >= self._residency_due_ms:
            self._residency_due_ms = mono_ms + RESIDENCY_MS
            self._reader.forget_residency()
        if mono_ms >= self._disk_due_ms:
            self._disk_due_ms = mono_ms + DISK_CHECK_MS
            self._check_disk()

    def next_due(self, mono_ms: int) -> int:
        """When `tick` or `begin_sync` has something to do, mono ms."""
        due = min(self._second_due_ms, self._disk_due_ms, self._residency_due_ms)
        if self._index is not None and self._index.retiring:
            due = min(due, mono_ms + WRITE_BACK_MS)
        if self._refusal in (Closed.FENCED, Closed.SHUT):
            return due  # nothing is synced any more
        return min(due, self._flusher.due(mono_ms))

    def _guarded(self, action: Callable[[], object]) -> None:
        if self._refusal is Closed.FENCED:
            return
        try:
            action()
        except OSError as reason:
            self._refuse(Closed.DISK_FULL if reason.errno in PASSING else Closed.FENCED, str(reason))

    def _retry(self, mono_ms: int) -> None:
        """A second after an error that may pass, appends are tried again."""
        if self._refusal is not Closed.DISK_FULL:
            return
        if self._retry_due_ms is None:
            self._retry_due_ms = mono_ms + RETRY_MS
        elif mono_ms >= self._retry_due_ms:
            self._refusal, self._refusal_text = (Closed.DISK_OVER_LIMIT, "") if self._over_limit else (None, "")

    def _check_disk(self) -> None:
        limit = self.settings.disk_space_warning_level_ratio
        try:
            self._ratio = self._disk.usage(self.settings.commit_log_directory).used_ratio
        except OSError:
            return
        self._over_limit = limit is not None and self._ratio > limit
        if self._over_limit and self._refusal is None:
            self._refusal, self._refusal_text = Closed.DISK_OVER_LIMIT, f"{self._ratio:.0%} used"
        elif not self._over_limit and self._refusal is Closed.DISK_OVER_LIMIT:
            self._refusal, self._refusal_text = None, ""

    # --- state

    @property
    def refusal(self) -> Closed | None:
        """Why appends are refused now, None when they are not."""
        return self._refusal

    @property
    def refusal_text(self) -> str:
        return self._refusal_text

    @property
    def written_offset(self) -> int:
        """End of the committed log."""
        return self._log.written_offset

    @property
    def flushed_offset(self) -> int:
        """What ends at or before it is safe on the medium."""
        return self._flusher.flushed_offset

    @property
    def min_offset(self) -> int:
        """Position of the log's first byte."""
        return self._log.min_offset

    def topics(self) -> dict[str, dict[int, tuple[int, int]]]:
        """topic: {queue id: (min offset, max offset)} of queues that ever had a message."""
        return {
            topic: bounds
            for topic, queues in self._queues.by_topic.items()
            if (bounds := {queue.queue_id: (queue.min_offset, queue.max_offset) for queue in queues.values() if queue.max_offset})
        }

    def delete_topics(self, topics: Iterable[str]) -> int:
        """Remove the queues of these topics, and of their messages on the way; all stay in the log. How many topics existed."""
        try:
            return self._queues.delete(topics)
        except OSError as reason:
            self._refuse(Closed.DISK_FULL if reason.errno in PASSING else Closed.FENCED, str(reason))
            return 0

    # --- reading

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """(min offset, max offset); (0, 0) for a queue that does not exist. Makes nothing."""
        queue = self._queues.find(topic, queue_id)
        return (0, 0) if queue is None else (queue.min_offset, queue.max_offset)

    def read_queue(
        self, topic: str, queue_id: int, offset: int, max_count: int, max_bytes: int,
        accepts: frozenset[int] | None = None, matches: Callable[[memoryview], bool] | None = None,
    ) -> Read:  # fmt: skip
        """Messages of a queue from `offset` on (Java: DefaultMessageStore.getMessage). Raises Cold.

        `accepts`: hash codes of the tags wanted, None for all; `matches` sees each whole unit and may refuse it.
        """
        return self._pull.read(topic, queue_id, offset, max_count, max_bytes, accepts, matches)

    def queue_unit(self, topic: str, queue_id: int, offset: int) -> tuple[int, int, int]:
        """(physical offset, size, tags code) of one visible entry of a queue; the caller knows its bounds. Raises Cold."""
        queue = self._queues.find(topic, queue_id)
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            raise IndexError(f"{topic} queue {queue_id} has no offset {offset}")
        return queue.unit(offset)

    def lookup(self, physical_offset: int, *, checked: bool = False) -> memoryview | None:
        """The whole unit that begins here, or None. `checked`: only when its queue entry points back to it. Raises Cold."""
        return self._lookup.unit(physical_offset, checked)

    def query(
        self, topic: str, key: str, max_num: int, begin_ms: int, end_ms: int, index_type: IndexType = IndexType.KEY,
    ) -> QueryResult:  # fmt: skip
        """Messages with this key, unique key or tag, stored within the times (Java: queryMessage). Raises Cold."""
        return self._lookup.query(topic, key, max_num, begin_ms, end_ms, index_type)

    def offset_by_time(self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER) -> int:
        """Java: getOffsetInQueueByTime. 0 for a queue that does not exist. Raises Cold."""
        return self._lookup.offset_by_time(topic, queue_id, timestamp, boundary)

    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int:
        """Store time of one message, ms; -1 when there is none. Raises Cold."""
        return self._lookup.store_time_at(topic, queue_id, offset)

    def earliest_store_time(self, topic: str, queue_id: int) -> int:
        """Store time of the queue's first message, ms; -1 when it has none. Raises Cold."""
        return self._lookup.earliest_store_time(topic, queue_id)

    def earliest_message_time(self) -> int:
        """Store time of the log's first message, ms; -1 when it is empty. Raises Cold."""
        return self._reader.store_timestamp_at(self._log.min_offset)

    # --- figures

    def runtime_info(self, wall_ms: int) -> dict[str, str]:
        """The store's part of code 28: statistics, disk, log bounds (Java: getRuntimeInfo). Raises OSError."""
        settings = self.settings
        info = self.statistics.runtime_info(wall_ms)
        log_ratio = double_text(self._disk.usage(settings.commit_log_directory).used_ratio)
        info[f"commitLogDiskRatio_{settings.commit_log_directory}"] = log_ratio
        info["commitLogDiskRatio"] = log_ratio
        info["consumeQueueDiskRatio"] = double_text(self._disk.usage(settings.store_path_root_dir).used_ratio)
        info["commitLogMinOffset"] = str(self.min_offset if self._log.segments.starts else -1)
        info["commitLogMaxOffset"] = str(self.written_offset)
        return info
