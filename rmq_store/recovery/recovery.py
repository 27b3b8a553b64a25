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
from rmq_store.recovery import index_repair, queue_repair
from rmq_store.recovery.boot_mark import Cache
from rmq_store.recovery.dispatch_start import DispatchStart
from rmq_store.recovery.inventory import Inventory
from rmq_store.recovery.missing import Missing
from rmq_store.recovery.report import Report
from rmq_store.recovery.stored_units import StoredUnits
from rmq_store.settings import StoreSettings
from rmq_wire import property_names as prop
from rmq_wire.implied.index_keys import is_indexed, key_hash
from rmq_wire.implied.light_queues import is_light_queue
from rmq_wire.implied.previous_queues import NOTHING_KNOWN, Place, PreviousQueues
from rmq_wire.implied.queue_entries import GAP_MAX, UNQUEUED, why_no_queue
from rmq_wire.message import StoredMessage
from rmq_wire.properties import find

UNIQ_KEY = prop.UNIQ_KEY.encode()
KEYS = prop.KEYS.encode()


class _Gap(Exception):
    """A queue misses units that lie before the walk."""


class Recovery:
    """One opening. Everything here may wait for the disk and raises OSError."""

    def __init__(
        self,
        settings: StoreSettings,
        log: CommitLog,
        queues: Queues,
        index: Index | None,
        checkpoint: Checkpoint,
        cache: Cache = Cache.UNKNOWN,
        noted: Inventory | None = None,
        previous: PreviousQueues = NOTHING_KNOWN,
    ) -> None:
        """`cache`: what the files show after an unclean stop; `noted`: what a clean one left; `previous`: what the queues that
        are made anew knew."""
        self._keyless = noted.keyless if noted is not None else 0
        self._previous = previous
        self._cache = cache
        self._settings = settings
        self._log = log
        self._queues = queues
        self._units = StoredUnits(settings, queues, PropertyStaging(settings, log, queues), previous)
        self._index = index
        self._checkpoint = checkpoint
        self._start = DispatchStart(log, queues, checkpoint)
        self._missing = Missing(settings.store_path_root_dir, log, queues, noted)
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
            if self._cache is Cache.UNKNOWN:
                self._write_again()
            for queue in self._queues:
                queue_repair.scan_end(queue)
            self._dispatched_end = max((queue.end_physical for queue in self._queues), default=0)
            start = self._log.min_offset if report.rebuilt else self._start.after_unclean_stop()
        dispatcher = self._walk(start, report)
        if self._index is not None and dispatcher.index is None:
            self._complete_index(self._index, report)
        dispatcher.index = self._index
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
        start = None if wrong else self._start.after_clean_stop()
        report.clean = start is not None
        return start

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
        if self._index is not None:
            for file in self._index.files.copy():
                self._index.remove(file)
        self._log.begin_at(0)
        return Dispatcher(self._index, 0)

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
                    self._cut_back(queue, start)
            dispatcher = Dispatcher(self._index_from(start), start)
            walk = LogWalk(self._log.segments, start, doubts=self._doubts(report))
            try:
                self._dispatch_walk(walk, dispatcher, report)
            except _Gap:
                report.rebuilt = True
                report.clean = False
                start = self._log.min_offset
                self._build_again_from(start)
                continue
            dispatcher.dirty_files = self._touched | dispatcher.dirty_files
            report.end, report.reason = walk.end, walk.reason
            if dispatcher.index is not None:
                dispatcher.index.write_gathered()
            if not report.clean and walk.last_unit_at >= 0:
                self._checkpoint.confirm_physical_offset = walk.last_unit_at
            return dispatcher

    def _index_from(self, start: int) -> Index | None:
        """The index if it has to be built of all that is walked, which then is read only once."""
        index = self._index
        if index is None or index.files or start > self._log.min_offset:
            return None
        self._checkpoint.take_back_index(0)
        return index

    def _build_again_from(self, start: int) -> None:
        """Before queues are cut back to a position before the checkpoint's: nothing behind it is safe from then on.

        Raises StoreDamaged when the log ends before what was safe: it must be refused before anything is touched.
        """
        checkpoint = self._checkpoint
        known = checkpoint.logics_physical_offset
        if known <= start:
            checkpoint.make_sure()
            return
        # Java's queues may be on the medium before the log is; then nothing was promised.
        if checkpoint.logics_message_timestamp <= checkpoint.physic_message_timestamp:
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
        return Doubts(self._checkpoint.physic_message_timestamp, self._dispatched_end, sealed)

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

    # --- index

    def _complete_index(self, index: Index, report: Report) -> None:
        """Index what is not: what follows the last entry; all of it when there is no index, but for what a clean stop found no
        key in.  Java gives the index what it dispatches again anyhow: what is behind the queues (`recoverNormally`), or all from
        the file that the checkpoint names (`recoverAbnormally`, `isMappedFileMatchedRecover`); what was lost before stays lost.
        """
        log_min = self._log.min_offset
        resume = log_min
        if report.clean and not index.has_entries and self._keyless <= report.end:
            resume = max(resume, self._keyless)
        cut, count, safe = None, len(index.files), index.files
        if index.files and report.clean:
            cut = index_repair.cut_at_hole(index, self._about_log())
        elif index.files:
            about = self._about_log()
            safe = safe[: index_repair.count_safe(index, self._checkpoint.index_message_timestamp, report.end, about)]
            cut = index_repair.mend(index, len(safe), report.end, about, self._cache)
        if cut is not None or not index.files:
            self._checkpoint.take_back_index(safe[-1].end_timestamp if safe else 0)
        if cut is not None:
            index.indexed_offset = resume = cut
            # A file that was removed must not come back beside new entries.
            self._log.segments.files.disk.sync_directory(index.directory)
            if len(index.files) < count:
                report.index_from = max(cut, log_min)
        elif index.files:
            newest = index.files[-1]
            newest.load_slots()
            if newest.count > 1:
                resume = newest.end_physical
                index.indexed_offset = resume + 1
        if report.clean and self._has_keyed(max(resume, log_min), index.indexed_offset - 1, report.walked_from):
            report.index_from = max(resume, log_min)
        for units in LogWalk(self._log.segments, max(resume, log_min), report.end).batches():
            batch = self._units.staged(units, with_keys=True)
            if batch:
                index.reserve(batch, self._wall_ms)
                index.put_batch(batch)
                index.write_gathered()

    def _about_log(self) -> index_repair.AboutLog:
        return index_repair.AboutLog(self._log.min_offset, self._entries_of, self._next_indexed, self._has_keyed)

    def _entries_of(self, at: int) -> index_repair.Implied | None:
        unit = self._start.unit_at(at)
        for staged in () if unit is None else self._units.staged([unit], with_keys=True):
            hashes = tuple([key_hash(staged.queue.hash_heads.prefix, key) for key in staged.keys])
            return index_repair.Implied(staged.store_timestamp, hashes)
        return None

    def _next_indexed(self, at: int, behind: int) -> int:
        """Position of the first unit behind `behind` that has an index entry; the walk's end when none has."""
        walk = LogWalk(self._log.segments, max(at, self._log.min_offset))
        for units in walk.batches():
            for unit in units:
                if unit.physical_offset > behind:
                    for staged in self._units.staged([unit], with_keys=True):
                        if staged.keys and is_indexed(staged.sys_flag):
                            return staged.physical_offset
        return walk.end

    def _has_keyed(self, at: int, behind: int, before: int) -> bool:
        """Whether a unit that begins between these positions is indexed by keys; the walk begins at the unit at `at`."""
        for units in LogWalk(self._log.segments, at, before).batches():
            between = [unit for unit in units if behind < unit.physical_offset < before]
            keyed = [unit for unit in between if find(unit.properties, UNIQ_KEY) or find(unit.properties, KEYS)]
            if any(is_indexed(staged.sys_flag) for staged in self._units.staged(keyed, with_keys=False)):
                return True
        return False

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
            if self._index is not None:
                self._index.unsynced_directories[self._index.directory] = None
        log.begin_at(end)
        for queue in self._queues.opened():
            if not queue.segments.starts:
                continue
            queue_repair.correct_min(queue, log.min_offset)


def _place(queue: ConsumeQueue, offset: int, staged: Staged) -> Place:
    """Where a message says it is in a queue whose next offset is another one."""
    expected = queue.max_offset if queue.segments.starts else NOTHING
    return Place(queue.topic, queue.queue_id, offset, staged.physical_offset, staged.size, expected)
