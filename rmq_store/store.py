"""The store: what the broker talks to.

`stage` and `commit` append, `dispatch` makes visible, `read_queue`, `lookup`, `query` and their like read, `begin_sync` and
`end_sync` bracket a sync that somebody else runs, `tick` does what is due by the clock.  No method waits for the disk once the
store is open, no method reads a clock, and nothing here knows what a topic is allowed to do.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final

from rmq_store.disk.disk import Disk, Lock
from rmq_store.disk.segments import NO_DESCRIPTOR
from rmq_store.disk_space import DiskSpace, RetentionRules
from rmq_store.errors import Closed, CommitFailed, InvariantBroken, StoreError, StoreLocked, Unwritable
from rmq_store.flush import Flusher, Ticket
from rmq_store.log.batch import Batch
from rmq_store.log.draft import Draft, Placed
from rmq_store.log.property_staging import PropertyStaging
from rmq_store.log.staging import Staged
from rmq_store.log.writability import Writability
from rmq_store.queues.queues import exhausted
from rmq_store.read.reading import Reading
from rmq_store.recovery import inventory
from rmq_store.recovery.boot_mark import BootMark
from rmq_store.recovery.opening import Parts, open_locked
from rmq_store.results import Arrived
from rmq_store.retention import Retention
from rmq_store.scheduled_tasks import ScheduledTasks
from rmq_store.settings import FlushDiskType, StoreSettings
from rmq_store.statistics import StoreStatistics
from rmq_wire.times import Zone

NEW_QUEUES_MAX = 64
"""that get their first message in one dispatch of a running store: a file and two directories each, 0.1 ms"""
DISPATCH_ALL: Final = 1 << 30


class Store(Reading):
    """One open store directory. Make it with `Store.open`."""

    def __init__(self, disk: Disk, settings: StoreSettings, lock: Lock, parts: Parts, wall_ms: int, zone: Zone) -> None:
        files, log, queues, index, checkpoint, dispatcher, report = parts
        super().__init__(settings, log, queues, index, StoreStatistics(wall_ms))
        self.report = report
        self._disk = disk
        self._lock = lock
        self._checkpoint = checkpoint
        self._dispatcher = dispatcher
        dispatcher.is_live = True
        self._files = files
        self._flusher = Flusher(disk, settings, log, queues, dispatcher, index, checkpoint)
        self._boot_mark = BootMark(disk, settings.store_path_root_dir)
        self._writability = Writability(self._boot_mark.distrust)
        self._space = DiskSpace(disk, settings, log.segments, self._writability)
        self._tasks = ScheduledTasks(lock, self._space, self._writability, checkpoint, index, self._reader, self.statistics)
        self.retention = Retention(
            disk, self._space, log, queues, index, self._reader, self._flusher, dispatcher, self._writability, zone
        )
        """deletes old files; driven apart from `tick`, since it takes a thread"""
        self._property_staging = PropertyStaging(settings, log, queues)
        self._stages_properties = self._property_staging.is_always
        self._is_broken = False
        """An invariant does not hold."""
        self._is_sync = settings.flush_disk_type is FlushDiskType.SYNC_FLUSH

    # --- opening and closing

    @staticmethod
    def open(
        disk: Disk,
        settings: StoreSettings,
        wall_ms: int,
        *,
        pid: int,
        zone: Zone = None,
        has_batch_queues: Callable[[str], bool | None] | None = None,
    ) -> Store:
        """Lock the directory, load it, bring it into one state. `zone`: for index file names, local by default.

        `has_batch_queues`: whether a topic's queue.type is BatchCQ, None for no topic; then, and without it, what is on disk.

        Raises StoreRefused (StoreLocked, StoreDamaged, ForeignFile) with a text that says what to do, OSError.
        """
        root = settings.store_path_root_dir
        changed = disk.make_directories(root)
        lock = disk.lock(f"{root}/lock")
        if lock is None:
            raise StoreLocked(f"{root} is in use by another broker: stop it, or choose another directory")
        try:
            parts = open_locked(disk, settings, changed, wall_ms, pid, zone, has_batch_queues)
            return Store(disk, settings, lock, parts, wall_ms, zone)
        except BaseException:
            lock.release()
            raise

    def close(self, wall_ms: int) -> bool:
        """Stop. True when everything was dispatched, synced and noted, so that the next start finds a clean stop.

        What is staged and not committed is dropped. A ticket that is still out may yet fail, and nobody will hear of it: the stop
        is not clean then. Never raises OSError.
        """
        if self._writability.why is Closed.SHUT:
            return True
        clean = False
        try:
            if self._flusher.is_out:
                self._boot_mark.distrust()
            elif self._writability.why is not Closed.FENCED:
                clean = self._close_clean(wall_ms)
        except (OSError, StoreError) as reason:
            self._writability.detail = str(reason)
            self._boot_mark.distrust()
        self._writability.shut()
        self._files.clear()
        self._lock.release()
        return clean

    def _close_clean(self, wall_ms: int) -> bool:
        self.rollback_to(0)
        if self._is_broken:
            return False
        self._dispatcher.dispatch(self.written_offset, DISPATCH_ALL, wall_ms)
        if self._dispatcher.waiting:
            return False
        self._queues.remove_deleted()
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
        for directory in self._log.segments.directories:
            self._disk.sync_directory(directory)
        followed = self.retention.followed
        noted = inventory.taken(self._disk, root, self._log, self._queues, self._checkpoint, followed, self._index)
        inventory.write(self._disk, root, noted)
        self._boot_mark.remove()
        self._disk.unlink(f"{root}/abort")
        self._disk.sync_directory(root)
        return True

    # --- appending

    def stage(self, draft: Draft, wall_ms: int) -> Placed:
        """Reserve a place for this message and pack it. Raises Illegal, Unwritable."""
        if self._writability.why is not None:
            raise Unwritable(self._writability.why, self._writability.detail)
        queues = self._queues.by_topic.get(draft.topic)
        queue = queues.get(draft.queue_id) if queues is not None else None
        if queue is None:
            queue = self._queues.get(draft.topic, draft.queue_id)
        if self._stages_properties or queue.is_batch:
            return self._property_staging.stage(draft, queue, wall_ms)
        return self._log.stage(draft, queue, wall_ms)

    def open_batch(self, topic: str, queue_id: int) -> Batch:
        """For messages of this queue that enter the log together: `add` them at leisure, then `stage_batch`."""
        return self._log.open_batch(self._queues.get(topic, queue_id))

    def stage_batch(self, batch: Batch, wall_ms: int) -> Sequence[Placed]:
        """All of them in one file, or none. Raises Illegal, Unwritable."""
        if self._writability.why is not None:
            raise Unwritable(self._writability.why, self._writability.detail)
        return self._log.stage_batch(batch, self._queues.get(batch.topic, batch.queue_id), wall_ms)

    def savepoint(self) -> int:
        """A mark to roll back to within this turn."""
        return len(self._log.staged)

    def rollback_to(self, savepoint: int) -> None:
        """Drop what was staged since the mark; places and queue offsets are free again."""
        try:
            self._log.rollback_to(savepoint)
        except InvariantBroken as broken:
            self.fence(broken)

    def commit(self) -> None:
        """Write everything staged. Raises CommitFailed; then nothing of it is stored and every reservation is given back."""
        if not self._log.staged:
            return
        count = len(self._log.staged)
        try:
            staged = self._log.commit()
        except CommitFailed as reason:
            self.statistics.put_failed_times += count
            if self._log.sync_error is not None:
                self.sync_failed(self._log.sync_error)
            self._writability.refuse(reason.why, str(reason))
            raise
        try:
            self._note(staged)
        except Exception as broken:
            self.fence(broken)
            raise CommitFailed(Closed.FENCED, str(broken)) from broken

    def _note(self, staged: list[Staged]) -> None:
        self._dispatcher.add(staged)
        self._flusher.last_store_timestamp = staged[-1].store_timestamp
        statistics = self.statistics
        if len(staged) == 1:
            statistics.put_times += staged[0].count
            statistics.put_bytes += staged[0].size
        else:
            statistics.put_times += sum([one.count for one in staged])
            statistics.put_bytes += sum([one.size for one in staged])

    # --- dispatch

    def dispatch(self, wall_ms: int, limit: int = DISPATCH_ALL, keys_max: int | None = None) -> list[Arrived]:
        """Make committed messages visible, at most `limit`, and of these one or those that have `keys_max` keys, and then the
        first of some queues; under SYNC_FLUSH only what is flushed.

        A failing disk delays them (and refuses appends meanwhile); nothing is raised.
        """
        if not self._dispatcher.waiting or self._is_broken:
            return []
        upto = self._flusher.flushed_offset if self._is_sync else self._log.written_offset
        try:
            new_queues_max = NEW_QUEUES_MAX if keys_max is not None and self._queues.made else None
            arrived = self._dispatcher.dispatch(upto, limit, wall_ms, keys_max, new_queues_max)
            if not self._dispatcher.waiting:
                self._queues.made = 0
            return arrived
        except OSError as reason:
            self._writability.failed(reason)
        except InvariantBroken as broken:
            self.fence(broken)
        return []

    @property
    def undispatched(self) -> int:
        """Messages committed and not visible yet."""
        return len(self._dispatcher.waiting)

    @property
    def dispatched_offset(self) -> int:
        """What begins before it is in queues and index."""
        return self._dispatcher.dispatched_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        upto = self._flusher.flushed_offset if self._is_sync else self._log.written_offset
        return max(upto - self._dispatcher.dispatched_offset, 0)

    # --- syncing

    def begin_sync(self, mono_ms: int, force: bool = False) -> Ticket | None:
        """What to sync now: run the ticket, then give it to `end_sync`. None when nothing is due, or one is out.

        `force`: the log's newest bytes, for answers that wait for them. A store that a failed write has fenced is synced as ever:
        what it had answered before is promised.
        """
        if self._writability.sync_refusal is not None:
            return None
        return self._flusher.begin(mono_ms, force)

    def end_sync(self, ticket: Ticket, error: OSError | None) -> bool:
        """The ticket was run. An error fences the store: what is on the medium is not known any more.

        True when nothing but descriptors was short: no sync has failed, and it is given out again. Raises InvariantBroken.
        """
        if error is None:
            try:
                self._flusher.end(ticket)
            except InvariantBroken as broken:
                self.fence(broken)
                self._writability.sync_refusal = str(broken)
                raise
            return False
        if error.errno in NO_DESCRIPTOR:
            self._flusher.put_off(ticket)
            return True
        self._flusher.is_out = False
        self.sync_failed(error)
        return False

    def sync_failed(self, error: BaseException) -> None:
        """Somebody's sync of a file or directory of this store failed: it is fenced, and the next start trusts no page cache."""
        self._writability.sync_failed(error)

    @property
    def sync_refusal(self) -> str | None:
        """Why nothing is synced any more, None while syncs go on."""
        return self._writability.sync_refusal

    def fence(self, broken: Exception) -> None:
        """Nothing is appended and nothing made visible any more; `refusal_text` says which invariant does not hold."""
        self._is_broken = True
        self._writability.refuse(Closed.FENCED, str(broken))
        self._boot_mark.distrust()

    # --- time

    def tick(self, mono_ms: int, wall_ms: int) -> None:
        """Do what is due: samples, checkpoint, gathered index entries, slots of full index files, disk limit, retries."""
        if self._writability.why is not Closed.SHUT:
            self._tasks.tick(mono_ms, wall_ms)

    def next_due(self, mono_ms: int) -> int:
        """When `tick` or `begin_sync` has something to do, mono ms."""
        due = self._tasks.next_due(mono_ms)
        if self._writability.sync_refusal is not None:
            return due
        return min(due, self._flusher.due(mono_ms))

    # --- retention

    def retain_by(self, rules: RetentionRules) -> None:
        """Other rules from now on."""
        self._space.rules = rules
        self._space.look()

    def clean_expired_queues(self) -> int:
        """Remove queues whose newest message the log has lost; how many (Java: ConsumeQueueStore.cleanExpired)."""
        return exhausted(self.cleaning_expired_queues())

    def cleaning_expired_queues(self) -> Generator[None, None, int]:
        """The same with pauses. An error of the disk refuses appends."""
        try:
            return (yield from self._queues.removing_expired(self._log.min_offset))
        except OSError as reason:
            self._writability.failed(reason)
            return 0

    # --- state

    @property
    def refusal(self) -> Closed | None:
        """Why appends are refused now, None when they are not."""
        return self._writability.why

    @property
    def refusal_text(self) -> str:
        return self._writability.detail

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
        return {topic: bounds for topic in self._queues.topics() if (bounds := self._queues.bounds_of(topic))}

    def topic_names(self) -> list[str]:
        """Of all topics with a queue, also of those that never had a message."""
        return self._queues.topics()

    def adopt_topics(self, topics: Iterable[str]) -> None:
        """They are made: what a kill has left of earlier ones of these names does not hinder them."""
        for topic in topics:
            self._queues.adopt(topic)

    def delete_topics(self, topics: Iterable[str]) -> int:
        """Remove the queues of these topics, and of their messages on the way; all stay in the log. How many topics existed."""
        return exhausted(self.deleting_topics(topics))

    def deleting_topics(self, topics: Iterable[str]) -> Generator[None, None, int]:
        """The same with a pause after every queue; all are gone at the first. An error of the disk refuses appends."""
        topics = dict.fromkeys(topics)
        self._dispatcher.forget(topics)
        try:
            return (yield from self._queues.deleting(topics))
        except OSError as reason:
            self._writability.failed(reason)
            return 0

    # --- figures

    def runtime_info(self, wall_ms: int) -> dict[str, str]:
        """The store's part of code 28: statistics, disk, log bounds (Java: getRuntimeInfo). Raises OSError."""
        info = {**self.statistics.runtime_info(wall_ms), **self._space.runtime_info()}
        info["commitLogMinOffset"] = str(self.min_offset if self._log.segments.starts else -1)
        info["commitLogMaxOffset"] = str(self.written_offset)
        return info
