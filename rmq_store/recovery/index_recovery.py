"""The index when a store is opened: which of its files are kept, and what is put in that they lack.

After a clean stop what follows the last entry is indexed, for other brokers leave some of it, and so does a run without an index.
After an unclean one the files are mended from their own entries first (`index_repair`).  A run without an index
(messageIndexEnable=false) makes none of it, but what an unclean stop before it may have left incomplete goes: the next clean stop
would vouch for it.  (Java: IndexService.load)
"""

from __future__ import annotations

from rmq_store.disk.checkpoint import Checkpoint
from rmq_store.index.index import Index
from rmq_store.log.commit_log import CommitLog
from rmq_store.log.walk import LogWalk
from rmq_store.recovery import index_repair
from rmq_store.recovery.boot_mark import Cache
from rmq_store.recovery.dispatch_start import DispatchStart
from rmq_store.recovery.report import Report
from rmq_store.recovery.stored_units import StoredUnits
from rmq_wire import property_names as prop
from rmq_wire.implied.index_keys import is_indexed, key_hash
from rmq_wire.properties import find

UNIQ_KEY = prop.UNIQ_KEY.encode()
KEYS = prop.KEYS.encode()


class IndexRecovery:
    """Everything here may wait for the disk and raises OSError."""

    def __init__(
        self,
        log: CommitLog,
        index: Index,
        checkpoint: Checkpoint,
        units: StoredUnits,
        start: DispatchStart,
        cache: Cache,
        *,
        is_on: bool,
        keyless: int,
    ) -> None:
        """`is_on`: this run has an index.  `keyless`: up to there the last stop found no key in the log."""
        self._log = log
        self._files = index
        self._checkpoint = checkpoint
        self._units = units
        self._start = start
        self._cache = cache
        self._is_on = is_on
        self._keyless = keyless

    @property
    def index(self) -> Index | None:
        """What is dispatched to."""
        return self._files if self._is_on else None

    def remove_all(self) -> None:
        """Without a log it means nothing."""
        for file in self._files.files.copy():
            self._files.remove(file)

    def of_all(self, start: int) -> Index | None:
        """The index if it has to be built of all that is walked, which then is read only once."""
        if not self._is_on or self._files.files or start > self._log.min_offset:
            return None
        self._checkpoint.take_back_index(0)
        return self._files

    def complete(self, report: Report, wall_ms: int) -> None:
        """Index what is not: what follows the last entry; all of it when there is no index, but for what a clean stop found no
        key in.  Java gives the index what it dispatches again anyhow: what is behind the queues (`recoverNormally`), or all from
        the file that the checkpoint names (`recoverAbnormally`, `isMappedFileMatchedRecover`); what was lost before stays lost.
        """
        index = self._files
        if not self._is_on:
            if not report.clean:
                self._drop_unsafe(report)
            return
        log_min = self._log.min_offset
        resume = log_min
        if report.clean and not index.has_entries and self._keyless <= report.end:
            resume = max(resume, self._keyless)
        cut, count, safe = None, len(index.files), index.files
        if index.files and report.clean:
            cut = index_repair.cut_at_hole(index, self._about_log())
        elif index.files:
            safe = safe[: self._count_safe(report)]
            cut = index_repair.mend(index, len(safe), report.end, self._about_log(), self._cache)
        if cut is not None or not index.files:
            self._checkpoint.take_back_index(safe[-1].end_timestamp if safe else 0)
        if cut is not None:
            index.indexed_offset = resume = cut
            # A file that was removed must not come back beside new entries.
            self._sync_directory()
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
                index.reserve(batch, wall_ms)
                index.put_batch(batch)
                index.write_gathered()

    def _drop_unsafe(self, report: Report) -> None:
        """What may be incomplete; the next run with an index makes it again from the log."""
        index = self._files
        first = self._count_safe(report)
        if first < len(index.files):
            self._checkpoint.take_back_index(index.files[first - 1].end_timestamp if first else 0)
            for file in index.files[first:]:
                index.remove(file)
            self._sync_directory()

    def _count_safe(self, report: Report) -> int:
        return index_repair.count_safe(self._files, self._checkpoint.index_message_timestamp, report.end, self._about_log())

    def _sync_directory(self) -> None:
        self._log.segments.files.disk.sync_directory(self._files.directory)

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
