"""Check a store directory: what is in each file, and whether the files agree with one another.

The checks are those of `rmq_columns.checks`; here they are made in processes of this machine, with bounded memory in each, and
together with what lies around log, queues and index: checkpoint, configuration, timer, strays.
Needs numpy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from rmq_columns.checks.findings import NOWHERE
from rmq_columns.checks.log import check_log
from rmq_columns.checks.places import LogPlaces
from rmq_columns.checks.report import LogPart
from rmq_columns.checks.scope import Scope, StoreFiles
from rmq_columns.checks.tasks import IndexTask, QueueTask
from rmq_columns.checks.whole import Whole
from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.index_file import has_room
from rmq_inspect.progress import Progress, quiet
from rmq_inspect.verify.report import Report
from rmq_inspect.verify.state import (
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
)
from rmq_inspect.verify.workers import each

POOL_BYTES_MIN: Final = 64 << 20
"""Smaller stores are checked in this process: starting others costs as much."""

Answer = TypeVar("Answer")


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
        files = StoreFiles(store.commit_log, store.queues, store.batch_queues, store.extensions, store.index)
        self._whole = Whole(files, scope, self._report.condition, self._findings, self._report.notes)
        self._checkpoint: dict[str, int] = {}

    def run(self) -> Report:
        report, checks = self._report, self._whole
        check_strays(self._store, self._findings)
        check_timer(self._store, self._findings)
        if note := timer_note(self._store):
            report.notes.append(note)
        self._checkpoint = read_checkpoint(self._store, self._findings)
        config = check_config(self._store, self._findings)
        checks.look_at_log_files()
        if self._scope.with_queues:
            self._all_queues()
        if self._scope.with_index:
            self._all_index()
        self._all_log()
        report.queues, report.queue_units, report.index_entries = len(checks.queues), checks.queue_units, checks.index_entries
        self._check_checkpoint(checks.log_end())
        checks.judge(config.get("topics.json", {}).get("topicConfigTable"), times=checkpoint_times(self._checkpoint))
        if self._scope.with_queues:
            if report.condition.settled:
                ends = {key: state.end for key, state in checks.queues.items() if not state.is_batch}
                check_positions(config, ends, self._findings)
            tasks, last = checks.dangling()
            for found in last.find(tasks):
                self._findings.merge(found)
            checks.report_waiting()
        return report

    def _map(
        self, what: str, work: Callable[..., Answer], items: Sequence[LogPart | QueueTask | IndexTask], *more: Any
    ) -> list[Answer]:
        total = sum(item.size for item in items)
        done = 0
        found: list[Answer] = []
        for item, answer in each(work, items, more, self._workers(total, len(items))):
            done += item.size
            self._progress(what, done, total)
            found.append(answer)
        return found

    def _workers(self, total: int, count: int) -> int:
        if total < POOL_BYTES_MIN or count < 2:
            return 1
        return min(self._scope.workers or os.cpu_count() or 1, count)

    def _all_queues(self) -> None:
        for is_batch in (False, True):
            for answer in self._map("queues", QueueTask.check, self._whole.queue_tasks(is_batch=is_batch)):
                self._whole.take_queue(*answer)
        self._whole.hold_queues_against_the_end(self._store.last_log_start)

    def _all_index(self) -> None:
        tasks = self._whole.index_tasks()
        self._whole.take_index(self._map("index", IndexTask.check, tasks))
        slots = self._scope.index_slots
        for task in tasks:  # what was asked for stands in no file of this size: who asked must hear that something else was read
            if slots is not None and not has_room(task.file_bytes, slots):
                self._findings.drop("index-geometry", task.file.name)
                text = f"{task.file_bytes} bytes have no room for an entry behind {slots} hash slots (--hash-slots)"
                self._findings.add("index-geometry", task.file.name, NOWHERE, text)

    def _all_log(self) -> None:
        report, log = self._report, self._whole.log
        known = self._whole.known(checkpoint_times(self._checkpoint))
        tasks = [LogPart(file, file is log[-1]) for file in log]
        answers = self._map("log", check_log, tasks, known)
        for one in answers:
            for topic, count in one.topics.items():
                report.topics[topic] = report.topics.get(topic, 0) + count
        self._whole.take_log(answers)
        report.log = self._whole.reports

    def _check_checkpoint(self, end: int) -> None:
        if self._store.checkpoint is None or not self._checkpoint:
            return
        log = self._report.log
        first = next((one.first_timestamp for one in log if one.first_timestamp >= 0), -1)
        last = next((one.last_timestamp for one in reversed(log) if one.last_timestamp >= 0), -1)
        fields, live = self._checkpoint, self._report.condition.live
        check_checkpoint(self._store.checkpoint, fields, last, end, live, self._findings)
        seen = set().union(*(one.times_seen for one in log))
        places = LogPlaces(self._whole.log)
        try:
            notes = checkpoint_notes(fields, (first, last), seen, places.begins_at, (self._whole.bounds.start, end))
            self._report.notes.extend(notes)
        finally:
            places.readers.close()
