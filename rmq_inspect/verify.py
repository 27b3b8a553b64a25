"""Check a store directory: what is in each file, and whether the files agree with one another.

Three passes, each over many files side by side in processes of their own, with bounded memory in each: queues and index files by
themselves; the log, every message held against its queue unit and index entries; last, where a queue has more units than
messages were found for, its units against the log.  In that order a live store can be checked, for a broker writes the log
before the queues: every queue unit of the first pass has its message in the second.
Needs numpy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from rmq_columns.scan import Ending
from rmq_inspect.directory import StoreDirectory, StoreFile
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_inspect.times import bytes_text
from rmq_inspect.verify_findings import NOWHERE, Findings
from rmq_inspect.verify_index import IndexState, check_index_file, slots_of
from rmq_inspect.verify_log import check_log_file
from rmq_inspect.verify_log_report import Known, LogReport, Step, judge_step
from rmq_inspect.verify_places import LogPlaces, find_dangling
from rmq_inspect.verify_queues import Key, LogBounds, QueueState, check_queue
from rmq_inspect.verify_report import Report
from rmq_inspect.verify_state import (
    check_checkpoint,
    check_config,
    check_positions,
    check_strays,
    check_timer,
    checkpoint_notes,
    checkpoint_times,
    condition_of,
    read_checkpoint,
    timer_note,
    usual_size,
)
from rmq_inspect.verify_workers import each
from rmq_wire.names import is_lmq

DEFAULT_QUEUE_BYTES: Final = 6_000_000
DEFAULT_BATCH_QUEUE_BYTES: Final = 13_800_000
DEFAULT_LOG_BYTES: Final = 1 << 30
DEFAULT_INDEX_BYTES: Final = 420_000_040
POOL_BYTES_MIN: Final = 64 << 20
"""Smaller stores are checked in this process: starting others costs as much."""
HOMELESS_TOLD_MAX: Final = 1000
OPEN_INDEX_FILES: Final = 2
"""Of a store that was not closed in order: the newest, and the one before it, whose slots may be on their way to the disk."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Scope:
    """What to look at."""

    with_queues: bool = True
    with_index: bool = True
    index_slots: int | None = None
    """maxHashSlotNum when the store was made with another than 5000000"""
    workers: int | None = None
    """processes; None: one for each core"""


def verify(store: StoreDirectory, scope: Scope | None = None, progress: Progress = quiet) -> Report:
    """Look at everything.  Never raises for what is in the files; `CannotLook` when a process of ours is ended from outside."""
    return _Verification(store, scope or Scope(), progress).run()


class _Verification:
    def __init__(self, store: StoreDirectory, scope: Scope, progress: Progress) -> None:
        self._store, self._scope, self._progress = store, scope, progress
        self._report = Report(str(store.root), condition=condition_of(store))
        self._findings = self._report.findings
        self._report.notes += self._report.condition.notes
        self._report.files = [(file.name, file.size, str(file.kind)) for file in store.files()]
        self._log = [file for file in store.commit_log if file.size]
        self._log_bytes = usual_size(self._log, default=DEFAULT_LOG_BYTES)
        self._bounds = LogBounds(self._log[0].start, self._log[-1].start + self._log_bytes) if self._log else LogBounds(0, 0)
        self._queues: dict[Key, QueueState] = {}
        self._index: list[IndexState] = []
        self._checkpoint: dict[str, int] = {}

    def run(self) -> Report:
        report = self._report
        check_strays(self._store, self._findings)
        check_timer(self._store, self._findings)
        if note := timer_note(self._store):
            report.notes.append(note)
        self._checkpoint = read_checkpoint(self._store, self._findings)
        config = check_config(self._store, self._findings)
        self._log_files()
        if self._scope.with_queues:
            self._all_queues()
        if self._scope.with_index:
            self._all_index()
        self._all_log()
        end = self._log_end()
        self._check_checkpoint(end)
        self._across_files()
        if self._scope.with_queues:
            self._homeless(config)
            if self._report.condition.settled:
                ends = {key: state.end for key, state in self._queues.items() if not state.is_batch}
                check_positions(config, ends, self._findings)
            self._dangling()
            self._waiting()
        if self._scope.with_index:
            self._index_against_the_end(end)
        return report

    def _map(
        self, what: str, work: Callable[..., Answer], items: Sequence[Item], size: Callable[[Item], int], *more: Any
    ) -> list[Answer]:
        total = sum(map(size, items))
        done = 0
        found: list[Answer] = []
        for item, answer in each(work, items, more, self._workers(total, len(items))):
            done += size(item)
            self._progress(what, done, total)
            found.append(answer)
        return found

    def _workers(self, total: int, count: int) -> int:
        if total < POOL_BYTES_MIN or count < 2:
            return 1
        return min(self._scope.workers or os.cpu_count() or 1, count)

    # --- files as such

    def _log_files(self) -> None:
        before: StoreFile | None = None
        for file in self._log:
            if file.size != self._log_bytes:
                self._findings.add("log-file-size", file.name, NOWHERE, f"{file.size} bytes instead of {self._log_bytes}")
            if before is not None and file.start > before.start + self._log_bytes:
                missing = -(-(file.start - before.start) // self._log_bytes) - 1
                text = f"{missing} file(s) are missing between {before.parts[-1]} and it"
                self._findings.add("log-file-missing", file.name, NOWHERE, text, missing)
            before = file
        for file in self._store.commit_log[:-1]:
            if not file.size:
                self._findings.add("log-file-size", file.name, NOWHERE, f"0 bytes instead of {self._log_bytes}")

    # --- queues and index by themselves

    def _all_queues(self) -> None:
        for queues, is_batch, default in (
            (self._store.queues, False, DEFAULT_QUEUE_BYTES), (self._store.batch_queues, True, DEFAULT_BATCH_QUEUE_BYTES),
        ):  # fmt: skip
            keys = sorted(queues)
            size = usual_size([file for key in keys for file in queues[key]], default=default)
            tasks = [queues[key] for key in keys]
            states = self._map("queues", _queue_task, tasks, _queue_bytes, self._bounds, size, is_batch)
            for files, state, findings in states:
                if files:
                    self._queues[files[0].topic, files[0].queue_id] = state
                self._findings.merge(findings)
        self._report.queues = len(self._queues)
        self._report.queue_units = sum(max(state.end - state.first, 0) for state in self._queues.values() if not state.is_batch)

    def _all_index(self) -> None:
        files = self._store.index
        size = usual_size(files, default=DEFAULT_INDEX_BYTES)
        settled = self._report.condition.settled
        slots = self._scope.index_slots or slots_of(files, size)
        open_yet = files[-OPEN_INDEX_FILES:]
        tasks = [(file, settled or file not in open_yet) for file in files]
        for state, findings in self._map("index", _index_task, tasks, _index_bytes, size, slots):
            self._index.append(state)
            self._findings.merge(findings)
        self._index.sort(key=lambda one: one.file.name)
        self._report.index_entries = sum(max(one.count - 1, 0) for one in self._index)
        if not files and self._log:
            self._report.notes.append("there is no index (messageIndexEnable=false, or it was removed): keys were not checked")

    # --- the log

    def _all_log(self) -> None:
        dispatched_end = max((one.last_physical_end for one in self._queues.values()), default=-1)
        known = Known(
            self._queues, self._index, self._store.extensions, dispatched_end, self._log,
            self._scope.with_queues, self._scope.with_index and bool(self._index), self._report.condition.live,
            self._report.condition.settled, checkpoint_times(self._checkpoint),
        )  # fmt: skip
        tasks = [(file, file is self._log[-1]) for file in self._log]
        for one in self._map("log", _log_task, tasks, _log_bytes, known):
            self._findings.merge(one.findings)
            one.findings = Findings()
            for topic, count in one.topics.items():
                self._report.topics[topic] = self._report.topics.get(topic, 0) + count
            self._report.log.append(one)
        self._report.log.sort(key=lambda one: one.start)
        for number, one in enumerate(self._report.log[:-1]):  # files without a message at the end are preallocated
            if one.how is Ending.ZEROS and all(other.units == 0 for other in self._report.log[number + 1 :]):
                self._findings.drop("log-cut", one.name)

    def _check_checkpoint(self, end: int) -> None:
        if self._store.checkpoint is None or not self._checkpoint:
            return
        log = self._report.log
        first = next((one.first_timestamp for one in log if one.first_timestamp >= 0), -1)
        last = next((one.last_timestamp for one in reversed(log) if one.last_timestamp >= 0), -1)
        fields, live = self._checkpoint, self._report.condition.live
        check_checkpoint(self._store.checkpoint, fields, last, end, live, self._findings)
        seen = set().union(*(one.times_seen for one in log))
        places = LogPlaces(self._log)
        try:
            notes = checkpoint_notes(fields, (first, last), seen, places.begins_at, (self._bounds.start, end))
            self._report.notes.extend(notes)
        finally:
            places.readers.close()

    def _log_end(self) -> int:
        return next((one.start + one.end_at for one in reversed(self._report.log) if one.units), self._bounds.start)

    def _across_files(self) -> None:
        """Queue offsets must go on from file to file."""
        seen: dict[Key, tuple[int, int]] = {}
        holes: list[tuple[int, int]] = []
        fillers: list[tuple[int, int]] = []
        end = self._bounds.start
        for one in self._report.log:
            if one.start > end:
                holes.append((end, one.start))
            end = one.start + self._log_bytes
            holes += [(one.start + begin, one.start + stop) for begin, stop in one.gaps]
            fillers += [(one.start + begin, one.start + stop) for begin, stop in one.fillers]
            for key, edge in one.edges.items():
                expected, at = seen.get(key, (edge.first, -1))
                if edge.first != expected:
                    step = Step(key, expected, edge.first, at, one.start + edge.first_at)
                    judge_step(step, one.name, holes, fillers, one)
                seen[key] = (edge.next, one.start + edge.last_at)
            for finding in one.findings.kept:
                self._findings.add(*finding._replace(offset=finding.offset - one.start))
        self._repaired(len(fillers))
        if untagged := sum(one.without_tag_entries for one in self._report.log):
            self._report.notes.append(f"{untagged} message(s) have no index entry for their tags: a broker before 5.5 wrote them")

    def _repaired(self, stretches: int) -> None:
        """Losses that are no news."""
        if stretches:
            size = bytes_text(sum(one.filler_bytes for one in self._report.log))
            lost = sum(one.lost_before_repair for one in self._report.log)
            text = f"an earlier repair filled {stretches} stretch(es) of the log ({size}), in which messages had been lost"
            self._report.notes.append(f"{text}: {lost} queue offset(s) have no message" if lost else text)

    # --- queues against the log

    def _homeless(self, config: dict[str, Any]) -> None:
        """Messages whose queue does not exist: deleted with its topic, or lost."""
        table = config.get("topics.json", {}).get("topicConfigTable")
        missing: dict[Key, tuple[int, int, LogReport]] = {}
        for one in self._report.log:
            for key, (count, last) in one.homeless.items():
                missing[key] = (missing[key][0] + count if key in missing else count, last, one)
        begins = self._begins({topic for topic, _ in missing})
        deleted = light = 0
        for number, (key, (count, last, one)) in enumerate(sorted(missing.items())):
            waits = self._report.condition.live or (one is self._report.log[-1] and not self._report.condition.settled)
            if is_lmq(key[0]):
                light += count
            elif isinstance(table, dict) and key[0] not in table:
                deleted += count
            elif last < begins.get(key[0], -1):  # the topic was deleted and made again
                one.superseded += count
            elif not waits and number < HOMELESS_TOLD_MAX:
                text = f"{count} message(s) of {key[0]} queue {key[1]}, the last in {one.name}"
                tree = f"consumequeue/{key[0]}/{key[1]}"
                self._findings.add("queue-missing", tree, NOWHERE, text, count)
        if light:
            self._report.notes.append(f"{light} message(s) name light queues (%LMQ%) that are not there: removed, or lost")
        if deleted:
            self._report.notes.append(f"{deleted} message(s) in the log are of deleted topics")
        if restarted := sum(one.superseded for one in self._report.log):
            self._report.notes.append(f"{restarted} message(s) are from before their topic was deleted and made again")

    def _begins(self, topics: set[str]) -> dict[str, int]:
        """Topic -> where the message with offset 0 of one of its queues is in the log; of a topic made again, of its new life."""
        found: dict[str, int] = {}
        for (topic, _), state in self._queues.items():
            if topic in topics and not state.is_batch and state.files[0].start == 0 and state.first == 0 and state.end:
                with contextlib.suppress(CannotLook), state.files[0].open() as reader:
                    found[topic] = max(found.get(topic, -1), int.from_bytes(reader.read(0, 8), "big", signed=True))
        return found

    def _dangling(self) -> None:
        matched: dict[tuple[str, int, int], int] = {}
        told: set[tuple[str, int, int]] = set()
        gaps: list[tuple[int, int]] = []
        repaired = any(one.fillers for one in self._report.log)
        for one in self._report.log:
            for name, count in one.matched.items():
                matched[name] = matched.get(name, 0) + count
            told |= one.told
            gaps += [(one.start + begin, one.start + end) for begin, end in one.gaps]
        places = LogPlaces(self._log)
        try:
            for key, state in self._queues.items():
                for file in state.files:
                    if matched.get((*key, file.start), 0) != state.inside.get(file.start, 0):
                        with contextlib.suppress(CannotLook):
                            self._findings.merge(find_dangling(key, state, file, self._bounds, places, told, gaps, repaired))
        finally:
            places.readers.close()

    def _waiting(self) -> None:
        count = sum(one.waiting_count for one in self._report.log)
        if not count:
            return
        text = f"{count} message(s) at the end of the log are not in their queues yet"
        if self._report.condition.settled:
            topic, queue_id, offset, own = next((w for one in self._report.log for w in one.waiting), ("", 0, 0, 0))
            one = next(one for one in self._report.log if one.waiting_count)
            detail = f"{text}, though the last stop was clean; the first is {topic} queue {queue_id} offset {offset}"
            self._findings.add("queue-unit-missing", one.name, max(own - one.start, 0), detail, count)
        else:
            self._report.notes.append(text)

    # --- index against the log's end

    def _index_against_the_end(self, end: int) -> None:
        for state in self._index:
            geometry = state.geometry
            if geometry is None:
                continue
            odd = list(state.odd)
            if state.last_offset >= end and state.count > 1:
                odd.append((state.count - 1, state.last_offset))
            for number, offset in odd:
                at = geometry.entries_at + number * 20
                past = offset >= end
                if past and self._report.condition.live:
                    continue
                text = f"entry {number} points at {offset}" + (
                    f", the log ends at {end}" if past else ", the one before it farther on"
                )
                self._findings.add("index-past-log" if past else "index-order", state.file.name, at, text)
        waiting = sum(one.index_waiting for one in self._report.log)
        before = sum(one.index_before for one in self._report.log)
        if waiting and not self._report.condition.settled:
            self._report.notes.append(f"{waiting} message(s) at the end of the log may not be in the index yet")
        if before and self._index:
            self._report.notes.append(f"{before} message(s) are older than the index: it was removed or begun anew")


def _queue_task(
    files: list[StoreFile], bounds: LogBounds, size: int, is_batch: bool
) -> tuple[list[StoreFile], QueueState, Findings]:  # fmt: skip
    return files, *check_queue(files, bounds, size, is_batch=is_batch)


def _queue_bytes(files: list[StoreFile]) -> int:
    return sum(file.size for file in files)


def _index_task(task: tuple[StoreFile, bool], size: int, slots: int | None) -> tuple[IndexState, Findings]:
    return check_index_file(task[0], size, slots, task[1])


def _index_bytes(task: tuple[StoreFile, bool]) -> int:
    return task[0].size


def _log_task(task: tuple[StoreFile, bool], known: Known) -> LogReport:
    return check_log_file(task[0], known, task[1])


def _log_bytes(task: tuple[StoreFile, bool]) -> int:
    return task[0].size
