"""What has to reach the medium, and when: tickets that somebody else runs.

`begin` picks what is dirty and the position that will be safe, before the sync starts; `Ticket.run` does the system calls, in a
thread or inline, and touches nothing else; `end` moves the flushed offset or reports the failure, after which nothing is ever
synced again.  The log goes first, but not for ever: behind so many of its tickets, queues that are due get one.  Queues go in
rounds of small portions: once a second files with enough dirty pages, once a minute all of them.  Only when a round of everything
dirty is through, and the log flushed as far, does the checkpoint learn of it.
(Java: FlushCommitLogService, GroupCommitService, FlushConsumeQueueService)
"""

from __future__ import annotations

import errno
from typing import Final

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.disk.disk import Disk, File
from rmq_store.disk.segments import PAGE_BYTES
from rmq_store.dispatcher import Dispatcher
from rmq_store.errors import ForeignFile, InvariantBroken
from rmq_store.index.index import Index
from rmq_store.index.index_file import IndexFile
from rmq_store.log.commit_log import CommitLog
from rmq_store.queues.queues import Queues
from rmq_store.settings import FlushDiskType, StoreSettings

FIRST_ROUND_MS: Final = 1000
"""The first full flush of the queues comes this long after the start."""
GROUP_INTERVAL_MS: Final = 10
"""Under SYNC_FLUSH what nobody waits for is flushed so often, too (Java: GroupCommitService)."""
AGAIN_MS: Final = 100
"""Until a ticket is tried again for which there was no descriptor."""
ROUND_FILES: Final = 16
"""Queue files synced by one ticket under ASYNC_FLUSH."""
GROUP_ROUND_FILES: Final = 4
"""The same under SYNC_FLUSH, where a group commit may have to wait for it."""
NOTHING_COVERED: Final = (0, -1)
"""Store time and log position of the newest message whose queue entry is safe, with all before it."""
LOG_TICKETS_MAX: Final = 4
"""So many tickets of the log in a row; then it is the turn of queues that are due: under a constant load they would never be."""


class Ticket:
    """Files and directories to sync. `upto`: log position that is safe once it is done, -1 for a queue ticket."""

    __slots__ = ("_directories", "_disk", "_files", "index_file", "is_last_of_round", "store_timestamp", "upto")

    def __init__(self, disk: Disk, files: list[File | str], directories: list[str], upto: int) -> None:
        self._disk = disk
        self._files = files
        self._directories = directories
        self.upto = upto
        self.store_timestamp = 0
        self.index_file: IndexFile | None = None
        self.is_last_of_round = False

    def run(self) -> None:
        """Raises OSError; it must not be run again then, unless something could not even be opened (`NO_DESCRIPTOR`).

        What is gone of the log fails the sync: its messages are nowhere else, and nobody may be told that they are safe.
        """
        for file in self._files:
            try:
                (self._open(file) if isinstance(file, str) else file).sync()
            except FileNotFoundError:
                if self.upto >= 0:
                    raise
                # its topic was deleted meanwhile, or somebody has taken it away: the log makes it again
        for directory in self._directories:
            try:
                self._disk.sync_directory(directory)
            except FileNotFoundError:
                if self.upto >= 0:
                    raise

    def _open(self, path: str) -> File:
        try:
            return self._disk.open(path)
        except ForeignFile as reason:
            raise OSError(errno.EINVAL, str(reason)) from reason


class Flusher:
    """Which ticket is due. At most one is out."""

    def __init__(
        self,
        disk: Disk,
        settings: StoreSettings,
        log: CommitLog,
        queues: Queues,
        dispatcher: Dispatcher,
        index: Index | None,
        checkpoint: Checkpoint,
    ) -> None:
        self._disk = disk
        self._log = log
        self._queues = queues
        self._dispatcher = dispatcher
        self._index = index
        self._checkpoint = checkpoint
        is_sync = settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._interval_ms = GROUP_INTERVAL_MS if is_sync else settings.flush_interval_commit_log
        self._least_pages = 0 if is_sync else settings.flush_commit_log_least_pages
        self._thorough_ms = settings.flush_commit_log_thorough_interval
        self._thorough_due_ms: int | None = None
        self._timed = is_sync or settings.flush_commit_log_timed
        self._round_ms = settings.flush_consume_queue_thorough_interval
        self._part_ms = settings.flush_interval_consume_queue
        self._queue_least_pages = settings.flush_consume_queue_least_pages
        self._portion = GROUP_ROUND_FILES if is_sync else ROUND_FILES
        self.flushed_offset = log.written_offset
        self.last_store_timestamp = 0
        """of the newest committed unit, ms; kept by the store"""
        self.is_out = False
        self._out: Ticket | None = None
        """the one that was given out last"""
        self._again: Ticket | None = None
        """one that was run in part, for want of descriptors"""
        self._log_due_ms: int | None = None
        self._log_tickets = 0
        """of the log, since the last of queues"""
        self._round_due_ms: int | None = None
        """when everything dirty is to be synced"""
        self._part_due_ms = 0
        """when files with enough dirty pages are"""
        self._round: list[str] = []
        self._round_covers = NOTHING_COVERED
        self._round_running = False
        self._covered = NOTHING_COVERED
        """what a round covers that is through, while the log is not flushed as far"""

    @property
    def is_behind(self) -> bool:
        return self.flushed_offset < self._log.written_offset

    def has_safe_queues(self, end: int) -> bool:
        """Whether the queue entries of all messages before this log position are on the medium."""
        if not self._dispatcher.dirty_files and not self._round_running:
            return True
        return end <= self._checkpoint.logics_physical_offset

    def due(self, mono_ms: int) -> int:
        """When `begin` should be called next (mono ms), if not for a group commit."""
        if self._again is not None:
            return mono_ms + AGAIN_MS
        if self.is_out:
            return mono_ms + self._interval_ms
        if self._log_due_ms is None:
            self._log_due_ms = mono_ms + self._interval_ms
        if self._round_due_ms is None:
            self._round_due_ms = mono_ms + FIRST_ROUND_MS
            self._part_due_ms = mono_ms + self._part_ms
            self._thorough_due_ms = mono_ms + self._thorough_ms
        queue_due = self._queue_due(mono_ms, self._round_due_ms)
        if not self.is_behind:
            return queue_due
        if not self._timed and self._has_enough(mono_ms):
            return mono_ms
        return min(self._log_due_ms, queue_due)

    def _queue_due(self, mono_ms: int, round_due_ms: int) -> int:
        if self._round_running or (self._index is not None and self._index.retired):
            return mono_ms
        return min(round_due_ms, self._part_due_ms) if self._dispatcher.dirty_files else round_due_ms

    def _has_enough(self, mono_ms: int) -> bool:
        """Whether the log has so many dirty pages that a flush is worth it, or has waited long enough."""
        if not self._least_pages:
            return True
        dirty = self._log.written_offset // PAGE_BYTES - self.flushed_offset // PAGE_BYTES
        return dirty >= self._least_pages or mono_ms >= (self._thorough_due_ms or 0)

    def begin(self, mono_ms: int, force: bool) -> Ticket | None:
        """The next sync, or None when nothing is due (or one is out). `force`: the log's, now."""
        if self.is_out or (self._again is not None and force):
            return None
        if self._again is not None:
            self._out, self._again = self._again, None
            self.is_out = True
            return self._out
        self.due(mono_ms)
        ticket = None
        are_queues_due = mono_ms >= self._queue_due(mono_ms, self._round_due_ms or 0)
        log_is_due = self._log_due_ms is None or mono_ms >= self._log_due_ms or not self._timed
        if log_is_due:
            self._log_due_ms = mono_ms + self._interval_ms
        is_log_wanted = self.is_behind and (force or (log_is_due and self._has_enough(mono_ms)))
        if are_queues_due and not (is_log_wanted and self._log_tickets < LOG_TICKETS_MAX):
            ticket = self._queue_ticket(mono_ms)
            self._log_tickets = 0
        if ticket is None and is_log_wanted:
            ticket = self._log_ticket()
            self._log_tickets += 1
            self._log_due_ms = mono_ms + self._interval_ms
            if self._thorough_due_ms is not None and mono_ms >= self._thorough_due_ms:
                self._thorough_due_ms = mono_ms + self._thorough_ms
        self.is_out = ticket is not None
        self._out = ticket
        return ticket

    def _log_ticket(self) -> Ticket:
        segments = self._log.segments
        first = self.flushed_offset - self.flushed_offset % segments.file_bytes
        starts = [start for start in segments.starts if first <= start < self._log.written_offset]
        files = [segments.files.opened(segments.path(start)) for start in starts]  # opened in the thread, where it may fail
        ticket = Ticket(self._disk, files, list(self._log.unsynced_directories), self._log.written_offset)
        self._log.unsynced_directories.clear()
        ticket.store_timestamp = self.last_store_timestamp
        return ticket

    def _queue_ticket(self, mono_ms: int) -> Ticket | None:
        """A portion of the running round; a new round when it is time. None when no file has enough dirty pages."""
        if not self._round_running:
            if self._index is not None and self._index.retired:
                retired = self._index.retired[0]
                ticket = Ticket(self._disk, [retired.path], list(self._index.unsynced_directories), -1)
                self._index.retired.pop(0)
                self._index.unsynced_directories.clear()
                ticket.index_file = retired
                return ticket
            self._round_running = self._begin_round(mono_ms)
            if not self._round_running:
                return None
        files: list[File | str] = list(self._round[: self._portion])
        del self._round[: self._portion]
        ticket = Ticket(self._disk, files, list(self._queues.unsynced_directories), -1)
        self._queues.unsynced_directories.clear()
        ticket.is_last_of_round = not self._round
        return ticket

    def _begin_round(self, mono_ms: int) -> bool:
        """Choose the files of a new round, all that are dirty or those with enough dirty pages; False when there are none."""
        dispatcher = self._dispatcher
        dirty = dispatcher.dirty_files
        self._part_due_ms = mono_ms + self._part_ms
        least_pages = self._queue_least_pages
        if self._round_due_ms is None or mono_ms >= self._round_due_ms:
            self._round_due_ms = mono_ms + self._round_ms
            least_pages = 0
        self._round = [path for path, pages in dirty.items() if pages >= least_pages]
        if len(self._round) == len(dirty):
            dirty.clear()
            self._round_covers = (dispatcher.last_store_timestamp, dispatcher.last_physical_offset)
        else:
            for path in self._round:
                del dirty[path]
            self._round_covers = NOTHING_COVERED
        return bool(self._round)

    def put_off(self, ticket: Ticket) -> None:
        """There was no descriptor for it: no sync has failed, and the ticket is given out again, as soon as `due` says."""
        self.is_out = False
        self._again = ticket

    def end(self, ticket: Ticket) -> None:
        """The ticket was run without an error. Raises InvariantBroken."""
        self.is_out = False
        if ticket is not self._out:
            raise InvariantBroken("a ticket that comes back is the one that is out", f"log position {ticket.upto}")
        if ticket.upto >= 0 and not self.flushed_offset <= ticket.upto <= self._log.written_offset:
            seen = f"{self.flushed_offset}, {ticket.upto}, {self._log.written_offset}"
            raise InvariantBroken("what is flushed only grows, up to what is written", seen)
        self._out = None
        checkpoint = self._checkpoint
        if ticket.upto >= 0:
            self.flushed_offset = ticket.upto
            if ticket.store_timestamp:
                checkpoint.physic_message_timestamp = ticket.store_timestamp
        if ticket.index_file is not None:
            checkpoint.index_message_timestamp = ticket.index_file.end_timestamp
        if ticket.is_last_of_round:
            self._round_running = False
            if self._round_covers != NOTHING_COVERED:
                self._covered = self._round_covers
        store_timestamp, physical_offset = self._covered
        if 0 < physical_offset < self.flushed_offset:
            checkpoint.logics_message_timestamp = store_timestamp
            checkpoint.logics_physical_offset = physical_offset
            self._covered = NOTHING_COVERED

    def sync_everything(self) -> None:
        """At a clean close, inline. Raises OSError."""
        disk, log, dispatcher = self._disk, self._log, self._dispatcher
        if self._again is not None:
            self._run(self._again)
        self._run(self._log_ticket())
        files: list[File | str] = [*self._round, *dispatcher.dirty_files]
        directories = [*self._queues.unsynced_directories, *log.unsynced_directories]
        if self._index is not None:
            files += [file.path for file in self._index.retired]
            files += [file.file for file in self._index.files[-1:]]
            directories += self._index.unsynced_directories
        covers = (dispatcher.last_store_timestamp, dispatcher.last_physical_offset)
        ticket = Ticket(disk, files, directories, -1)
        ticket.is_last_of_round = True
        self._round_covers = covers
        self._run(ticket)

    def _run(self, ticket: Ticket) -> None:
        self._out = ticket
        ticket.run()
        self.end(ticket)
