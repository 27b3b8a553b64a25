"""From the timer's memory to its disk, a ticket at a time: log, then wheel, then check file, each synced before the next.

So the wheel on the disk never leads behind the log on the disk, and the check file never says more than both have.  A ticket
waits until the commit log on the disk has what it speaks for: the messages that entered the wheel, and the copies of those that
did not.  (While others send, the log always has something newer that the disk has not: the next ticket speaks of that.)  A thread
runs it and touches nothing else.  When a sync fails, no ticket comes after it: the check file stays behind, and the next start
does again what it does not speak for.  (Java: `TimerFlushService`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rmq_store.disk.config_files import persist_config
from rmq_store.disk.disk import Disk, File, write_all
from rmq_store.timer.check import Check
from rmq_store.timer.machine import Timer

IDLE_ROUNDS: Final = 10
"""So many times are passed over while nothing but time has passed; Java writes the time every second."""

WAITS_MS: Final = 50
"""How often it is looked whether the disk has what a ticket waits for."""


class TimerTicket:
    """What has to reach the medium.  `run` in a thread, once."""

    def __init__(
        self,
        disk: Disk,
        log_files: list[File],
        directories: list[str],
        wheel: File | None,
        pages: list[tuple[int, bytearray]],
        check: Check,
        metrics: Callable[[], bytes] | None,
        timer: Timer,
    ) -> None:
        self._disk = disk
        self._log_files = log_files
        self._directories = directories
        self._wheel = wheel
        self.pages = pages
        self.check = check
        self._metrics = metrics
        self._check_file = timer.check_file
        self._metrics_path = timer.metrics_path
        self.is_syncing = False
        """An error now would leave it open what the medium has."""

    def run(self) -> None:
        """Raises OSError; `is_syncing` then says whether it may be tried again."""
        for file in self._log_files:
            self._sync(file)
        for directory in self._directories:
            self._disk.sync_directory(directory)
        if self._wheel is not None and self.pages:
            for at, page in self.pages:
                write_all(self._wheel, at, page)
            self._sync(self._wheel)
        self._sync(self._check_file.write(self.check))
        if self._metrics is not None:
            persist_config(self._disk, self._metrics_path, [self._metrics()])

    def _sync(self, file: File) -> None:
        self.is_syncing = True
        file.sync()
        self.is_syncing = False


class TimerFlusher:
    """Which ticket is due; at most one is out."""

    def __init__(self, disk: Disk, timer: Timer) -> None:
        self._disk = disk
        self._timer = timer
        self._flushed = timer.check()
        self._synced_to = timer.log.end
        self._metrics_written = timer.metrics.changes
        self._left = timer.left
        self._idle = 0
        self._waits_for = 0
        self._waiting: TimerTicket | None = None
        """Is to be run when the commit log is on the disk up to `_waits_for`."""
        self.is_out = False
        self.is_broken = False
        """A sync has failed: nothing is written any more."""

    @property
    def waits(self) -> bool:
        """A ticket waits for the commit log."""
        return self._waiting is not None

    def pause_ms(self, interval_ms: int) -> int:
        """When `begin` should be called next."""
        return min(interval_ms, WAITS_MS) if self.waits else interval_ms

    def begin(self, flushed_offset: int, wall_ms: int, *, force: bool = False) -> TimerTicket | None:
        """What to write now, None when nothing is due.  `flushed_offset`: how far the commit log is on the disk."""
        if self.is_out or self.is_broken or not self._timer.is_used:
            return None
        if self._waiting is not None and self._timer.safe_from <= flushed_offset:
            self._put_back(self._waiting)  # there is a newer one
            self._waiting = None
        if self._waiting is None:
            self._waits_for = self._timer.safe_from
            self._waiting = self._made(wall_ms, force=force)
        if self._waiting is None or self._waits_for > flushed_offset:
            return None
        ticket, self._waiting = self._waiting, None
        self.is_out = True
        return ticket

    def _made(self, wall_ms: int, *, force: bool) -> TimerTicket | None:
        """What there is to write now; no page of the wheel that it has is changed until it was run."""
        timer = self._timer
        check = timer.check()
        if check == self._flushed and not timer.wheel.is_dirty and timer.metrics.changes == self._metrics_written:
            return None
        only_time = check._replace(read_ms=self._flushed.read_ms) == self._flushed and timer.left == self._left
        self._idle += 1
        if only_time and self._idle < IDLE_ROUNDS and not force:
            return None
        self._idle = 0
        self._left = timer.left
        state, _, counter = timer.version
        timer.version = (state, wall_ms, counter + 1)
        log = timer.log
        low = self._synced_to - self._synced_to % log.file_bytes
        starts = log.segments.starts if log.end > self._synced_to else ()
        files = [log.segments.file(start) for start in starts if low <= start < log.end]
        directories = [*log.segments.unsynced_directories]
        log.segments.unsynced_directories.clear()
        if timer.wheel.is_new:
            directories.append(timer.wheel.path.rpartition("/")[0])
            timer.wheel.is_new = False
        metrics = timer.metrics.snapshot() if timer.metrics.changes != self._metrics_written else None
        self._metrics_written = timer.metrics.changes
        return TimerTicket(self._disk, files, directories, timer.wheel.file, timer.wheel.lend(), timer.check(), metrics, timer)

    def end(self, ticket: TimerTicket, error: BaseException | None) -> None:
        """The ticket was run."""
        self.is_out = False
        if error is None:
            self._timer.wheel.take_back(ticket.pages, written=True)
            self._flushed = ticket.check
            self._synced_to = ticket.check.flush_position
        else:
            self._put_back(ticket)
            self.is_broken = ticket.is_syncing

    def _put_back(self, ticket: TimerTicket) -> None:
        """What it should have written is dirty still."""
        self._timer.wheel.take_back(ticket.pages, written=False)
        log = self._timer.log.segments
        log.unsynced_directories.update(dict.fromkeys((log.directory, log.directory.rpartition("/")[0])))
        self._left = -1
        self._metrics_written = -1
