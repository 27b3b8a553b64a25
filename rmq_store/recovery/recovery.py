"""Bringing log, queues and index into one state when a store is opened.

After a clean stop the queues say where the log was dispatched to, and only what lies behind is walked.  After an unclean one
the walk starts at the message that the checkpoint names, or at the newest log file whose first unit it covers; queues are first
cut back to that position, then everything is dispatched again, so what follows it equals a rebuild from the log.  The index is
mended from its own entries and completed from the log.  Where the log ends, the rest of the file is overwritten with zeros:
stale units must not come back at the next start.  Whole units among them are first copied aside.
A queue that turns out to miss units before the walk makes the walk start over from the first file.
(Java: DefaultMessageStore.recover, CommitLog.recoverNormally and recoverAbnormally)
"""

from __future__ import annotations

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.dispatcher import Dispatcher
from rmq_store.errors import StoreDamaged
from rmq_store.index.index import Index
from rmq_store.log import cut
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.property_staging import PropertyStaging
from rmq_store.log.staging import Staged
from rmq_store.log.walk import Doubts, LogWalk
from rmq_store.queues.consume_queue import NOTHING, ConsumeQueue
from rmq_store.queues.queues import Queues
from rmq_store.recovery import queue_repair
from rmq_store.recovery.boot_mark import Cache
from rmq_store.recovery.dispatch_start import DispatchStart
from rmq_store.recovery.index_recovery import IndexRecovery
from rmq_store.recovery.inventory import Inventory
from rmq_store.recovery.missing import Missing
from rmq_store.recovery.report import Report
from rmq_store.recovery.stored_units import StoredUnits
from rmq_store.settings import StoreSettings
from rmq_wire.implied.light_queues import is_light_queue
from rmq_wire.implied.previous_queues import NOTHING_KNOWN, Place, PreviousQueues
from rmq_wire.implied.queue_entries import GAP_MAX, UNQUEUED, why_no_queue
from rmq_wire.message import StoredMessage


class _Gap(Exception):
    """A queue misses units that lie before the walk."""


class Recovery:
    """One opening. Everything here may wait for the disk and raises OSError."""

    def __init__(
        self,
        settings: StoreSettings,
        log: CommitLog,
        queues: Queues,
        index: Index,
        checkpoint: Checkpoint,
        cache: Cache = Cache.UNKNOWN,
        noted: Inventory | None = None,
        previous: PreviousQueues = NOTHING_KNOWN,
    ) -> None:
        """`cache`: what the files show after an unclean stop; `noted`: what a clean one left; `previous`: what the queues that
        are made anew knew."""
        self._previous = previous
        self._cache = cache
        self._settings = settings
        self._log = log
        self._queues = queues
        self._units = StoredUnits(settings, queues, PropertyStaging(settings, log, queues), previous)
        self._checkpoint = checkpoint
        self._start = DispatchStart(log, queues, checkpoint)
        self._index = IndexRecovery(
            log,
            index,
            checkpoint,
            self._units,
            self._start,
            cache,
            is_on=settings.message_index_enable,
            keyless=noted.keyless if noted is not None else 0,
        )
        self._missing = Missing(settings.store_path_root_dir, log, queues, noted)
        self._whole_before = self._safe_end()
        self._dispatched_end = 0
        """log position up to which queues had units when they were found"""
        self._touched: dict[str, int] = {}
        """queue files that may differ from what the medium has"""
        self._wall_ms = 0

    def run(self, clean: bool, wall_ms: int) -> tuple[Report, Dispatcher]:
        """Raises StoreDamaged when valid messages would be lost."""
        self._wall_ms = wall_ms
        report = Report(clean, stopped_clean=clean)
        if not self._log.segments.starts:
            return report, self._start_empty(clean)
        start = self._after_clean_stop(report) if clean else None
        if start is None:
            if not clean:
                self._look_for_gaps(report)
            if self._cache is Cache.UNKNOWN:
                self._write_again()
            for queue in self._queues:
                queue_repair.scan_end(queue)
            self._dispatched_end = max((queue.end_physical for queue in self._queues), default=0)
            start = self._log.min_offset if report.rebuilt else self._start.after_unclean_stop()
        dispatcher = self._walk(start, report)
        if dispatcher.index is None:
            self._index.complete(report, wall_ms)
        dispatcher.index = self._index.index
        self._finish(report)
        return report, dispatcher

    def _after_clean_stop(self, report: Report) -> int | None:
        """Where to begin, and whether that is all that has to be read. Raises StoreDamaged before anything is touched."""
        self._missing.refuse_gaps()
        for queue in self._queues.opened():
            queue_repair.find_end(queue)
        wrong = self._missing.in_queues()
        report.missing = [*self._missing.for_good(), *wrong]
        report.rebuilt = bool(wrong)
        start = None if wrong else self._start.after_clean_stop(are_queues_as_left=self._missing.knows_queues)
        report.clean = start is not None
        return start

    def _look_for_gaps(self, report: Report) -> None:
        """An unclean stop takes no file away before what was safe.  Raises StoreDamaged before anything is touched."""
        safe = self._safe_end()
        self._missing.refuse_gaps(safe)
        report.missing = self._missing.queue_files(safe)
        report.rebuilt = bool(report.missing)

    def _safe_end(self) -> int:
        """The log and all queues were on the medium before this position, 0 when nothing was promised.

        Java's queues may be there before the log is.
        """
        checkpoint = self._checkpoint
        is_promised = checkpoint.logics_message_timestamp <= checkpoint.physic_message_timestamp
        return checkpoint.logics_physical_offset if is_promised else 0

    def _start_empty(self, clean: bool) -> Dispatcher:
        """Without a log queues and index mean nothing. (Java destroys them, too, without a question.)"""
        known = clean or self._checkpoint.logics_physical_offset > 0
        for queue in self._queues:
            if queue.segments.starts and known:
                raise StoreDamaged(
                    f"{self._log.segments.directory} holds no files, but {queue.segments.directory} does: restore the log, or"
                    f" remove {self._queues.directory} to start empty"
                )
        self._queues.delete(list(self._queues.by_topic))
        self._index.remove_all()
        self._log.begin_at(0)
        return Dispatcher(self._index.index, 0)

    def _write_again(self) -> None:
        """What a failed sync has left in memory only looks safe: the next sync would pass over it."""
        segments = self._log.segments
        known = self._checkpoint.logics_physical_offset
        for start in segments.starts:
            if start + segments.file_bytes > known:
                queue_repair.write_again(segments.file(start))

    # --- queues

    def _walk(self, start: int, report: Report) -> Dispatcher:
        """Dispatch everything from `start` on to the queues; sets the report's end."""
        self._build_again_from(start)
        while True:
            report.walked_from = start
            if not report.clean:
                for queue in self._queues:
                    if not self._is_left_alone(queue):
                        self._cut_back(queue, start)
            dispatcher = Dispatcher(self._index.of_all(start), start)
            walk = LogWalk(self._log.segments, start, doubts=self._doubts(report))
            try:
                self._dispatch_walk(walk, dispatcher, report)
            except _Gap:
                report.rebuilt = True
                report.clean = False
                start = self._log.min_offset
                self._build_again_from(start)
                continue
            for queue in self._queues if not report.clean else ():
                if self._is_left_alone(queue):
                    self._cut_back(queue, walk.end)
            dispatcher.dirty_files = self._touched | dispatcher.dirty_files
            report.end, report.reason = walk.end, walk.reason
            if dispatcher.index is not None:
                dispatcher.index.write_gathered()
            if not report.clean and walk.last_unit_at >= 0:
                self._checkpoint.confirm_physical_offset = walk.last_unit_at
            return dispatcher

    def _build_again_from(self, start: int) -> None:
        """Before queues are cut back to a position before the checkpoint's: nothing behind it is safe from then on.

        Raises StoreDamaged when the log ends before what was safe: it must be refused before anything is touched.
        """
        checkpoint = self._checkpoint
        known = checkpoint.logics_physical_offset
        if known <= start:
            checkpoint.make_sure()
            return
        if self._safe_end():
            walk = LogWalk(self._log.segments, start, known)
            for _ in walk.batches():
                pass
            # A checkpoint that names a place within a unit says nothing about the log.
            if walk.end < known or (walk.end == known and self._start.unit_at(known) is None):
                raise StoreDamaged(
                    f"{self._log.segments.directory}: good units end at {walk.end} ({walk.reason}), but {known} was safe on disk:"
                    " restore the files, or remove the checkpoint file to go on with what is left"
                )
        checkpoint.take_back()

    def _doubts(self, report: Report) -> Doubts:
        """Units before the newest that was synced are whole, and so are those that a killed process had dispatched."""
        sealed = self._settings.force_verify_prop_crc
        if report.clean:
            return Doubts(sealed=sealed)
        if self._cache is Cache.WHOLE:
            return Doubts(unfinished_from=self._dispatched_end, sealed=sealed)
        return Doubts(self._checkpoint.physic_message_timestamp, self._whole_before, self._dispatched_end, sealed)

    def _is_left_alone(self, queue: ConsumeQueue) -> bool:
        """This run puts nothing into light queues: what it cut of one would not come back."""
        settings = self._settings
        return not (settings.enable_lmq and settings.enable_multi_dispatch) and is_light_queue(queue.topic)

    def _cut_back(self, queue: ConsumeQueue, start: int) -> None:
        """Leave what belongs before the log position `start`."""
        if queue.segments.starts:
            queue_repair.cut_to(queue, queue_repair.first_at_or_after(queue, start))
            self._touch(queue)
        if not queue.segments.starts:
            # Only a log that has lost its beginning to retention can owe this queue offsets without a file.
            if not self._log.min_offset:
                queue.max_offset = queue.next_offset = 0
            queue.min_offset = queue.max_offset

    def _touch(self, queue: ConsumeQueue) -> None:
        """Its last file was cut, now or by a start that did not come to its end: the medium may not know."""
        if queue.segments.starts:
            self._touched[queue.segments.path(queue.segments.starts[-1])] = 0

    def _dispatch_walk(self, walk: LogWalk, dispatcher: Dispatcher, report: Report) -> None:
        from_first_file = walk.end <= self._log.min_offset
        with_keys = dispatcher.index is not None
        for units in walk.batches():
            all_staged = self._units.staged(units, with_keys=with_keys, with_places=True)
            if len(units) > len(all_staged):
                self._skip(units, report)
            for staged in all_staged:
                if not staged.sys_flag & UNQUEUED:
                    queue = staged.queue
                    if staged.queue_offset != queue.next_offset:
                        dispatcher.dispatch(staged.physical_offset, len(dispatcher.waiting), self._wall_ms)
                        if self._lead_to(queue, staged.queue_offset, staged, report if from_first_file else None):
                            staged.queue_offset = queue.next_offset
                        else:
                            staged.sys_flag, staged.light = UNQUEUED, ()
                    if not staged.sys_flag & UNQUEUED:
                        queue.next_offset += staged.count
                for light, offset in staged.light:
                    if offset != light.next_offset:
                        dispatcher.dispatch(staged.physical_offset, len(dispatcher.waiting), self._wall_ms)
                        if not self._lead_to(light, offset, staged, report if from_first_file else None):
                            staged.light = tuple(pair for pair in staged.light if pair[0] is not light)
                            continue
                    light.next_offset += 1
                dispatcher.waiting.append(staged)
            dispatcher.dispatch(walk.end, len(dispatcher.waiting), self._wall_ms)
            self._previous.walked(walk.end)
        dispatcher.dispatched_offset = walk.end

    def _skip(self, units: list[StoredMessage], report: Report) -> None:
        for unit in units:
            if why := why_no_queue(unit):
                report.skipped += 1
                if not unit.sys_flag & UNQUEUED:
                    self._previous.skipped(unit, why)

    def _align(self, queue: ConsumeQueue, offset: int, staged: Staged, report: Report | None) -> None:
        """Make the queue's next unit this one: cut what is behind it, bridge a gap, start anew where the log starts behind it.

        `report`: None when the walk did not begin with the first file.
        """
        if offset < queue.max_offset:
            queue_repair.cut_to(queue, queue_repair.place_of(queue, offset))  # its topic was deleted and made again
        elif queue.segments.starts:
            if report is None:
                raise _Gap
            if offset - queue.max_offset <= GAP_MAX and not queue.is_batch:  # as a repaired log has them
                report.bridged += offset - queue.max_offset
                queue_repair.bridge(queue, offset, staged.physical_offset, staged.size, self._touched)
            else:
                queue.remove_files()
        queue.max_offset = queue.next_offset = offset

    def _lead_to(self, queue: ConsumeQueue, offset: int, staged: Staged, report: Report | None) -> bool:
        """The same, but a light queue's units stay together (Java may have counted an offset too many) unless the queue before it
        shows that messages were lost.  False: that shows that the message is not in it."""
        place = _place(queue, offset, staged)
        is_gap = bool(queue.segments.starts) and offset >= queue.max_offset
        if is_gap and is_light_queue(queue.topic) and not self._previous.has(place):
            if report is None:
                raise _Gap
            return True
        if is_accepted := self._previous.accepts(place):
            self._align(queue, offset, staged, report)
        return is_accepted

    # --- afterwards

    def _finish(self, report: Report) -> None:
        """Clear what lies behind the log's end, make sure of what lies before it, set the queues' bounds."""
        end, log = report.end, self._log
        start = log.segments.start_of(end)
        later_files = [found for found in log.segments.starts if found >= end and found != start]
        for later in later_files:
            if report.stopped_clean and self._start.unit_at(later) is not None:
                raise StoreDamaged(
                    f"{log.segments.directory}: good units end at {end} ({report.reason}), but the file of {later} holds more:"
                    " restore the damaged file; an empty file named `abort` in the root says that these may be dropped"
                )
        root = self._settings.store_path_root_dir
        report.cut_units, report.kept_aside = cut.keep_aside(log.segments.files.disk, log.segments, end, root)
        for later in later_files:
            report.removed_files.append(log.segments.path(later))
            report.cut_bytes += sum(high - low for low, high in log.segments.file(later).data_ranges(0))
            log.segments.remove(later)
        if start is not None:
            file = log.segments.file(start)
            report.cut_bytes += queue_repair.zero_from(file, end - start)
            if report.cut_bytes and report.clean:
                file.sync()
        if not report.clean:
            # The units were read from the page cache; before they count as flushed they must be on the medium.
            for walked in log.segments.starts:
                if walked + log.segments.file_bytes > report.walked_from:
                    log.segments.file(walked).sync()
            for directory in log.segments.directories:
                log.segments.files.disk.sync_directory(directory)
            self._queues.sync_directories()
            if (index := self._index.index) is not None:
                index.unsynced_directories[index.directory] = None
        log.begin_at(end)
        for queue in self._queues.opened():
            if not queue.segments.starts:
                continue
            queue_repair.correct_min(queue, log.min_offset)


def _place(queue: ConsumeQueue, offset: int, staged: Staged) -> Place:
    """Where a message says it is in a queue whose next offset is another one."""
    expected = queue.max_offset if queue.segments.starts else NOTHING
    return Place(queue.topic, queue.queue_id, offset, staged.physical_offset, staged.size, expected)
