"""A whole store: which checks there are to be made of its files, and what follows when all their answers are there.

Three passes, each of many pieces of work that may be done side by side, wherever: queues and index files by themselves; the log,
every message held against its queue unit and index entries; last, where a queue has more units than messages were found for,
its units against the log.  In that order a live store can be checked, for a broker writes the log before the queues: every queue
unit of the first pass has its message in the second.  This module hands the pieces out, takes the answers, and judges what goes
over the edges of files and parts: the sequence of queue offsets, missing files, messages without a queue.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, Final

from rmq_columns.checks.condition import Condition
from rmq_columns.checks.files import CheckedFile, base_name, is_gone, usual_size, written
from rmq_columns.checks.findings import NOWHERE, Findings
from rmq_columns.checks.index import IndexState, IndexTold, slots_of
from rmq_columns.checks.lost import Derived, look_for_loss
from rmq_columns.checks.meeting import Elsewhere, apart, take
from rmq_columns.checks.queues import Key, LogBounds, QueueState, Told, report_past
from rmq_columns.checks.report import Edge, Known, LogReport, QueueSummary, Step, Sums, judge_step
from rmq_columns.checks.scope import Scope, StoreFiles
from rmq_columns.checks.tasks import Dangling, DanglingTask, IndexTask, QueueTask
from rmq_columns.decode.dtypes import QUEUE_UNIT, records
from rmq_columns.decode.scan import Ending
from rmq_columns.errors import CannotLook
from rmq_columns.shown import bytes_text
from rmq_wire.names import is_lmq

DEFAULT_QUEUE_BYTES: Final = 6_000_000
DEFAULT_BATCH_QUEUE_BYTES: Final = 13_800_000
DEFAULT_LOG_BYTES: Final = 1 << 30
DEFAULT_INDEX_BYTES: Final = 420_000_040
ORPHANS_REPORTED_MAX: Final = 1000
OPEN_INDEX_FILES: Final = 2
"""Of a store that was not closed in order: the newest, and the one before it, whose slots may be on their way to the disk."""


class Whole:
    """One store.  Called in the order of the methods; each may be left out together with what builds on it."""

    def __init__(self, files: StoreFiles, scope: Scope, condition: Condition, findings: Findings, notes: list[str]) -> None:
        self._files, self._scope, self._condition, self.findings, self.notes = files, scope, condition, findings, notes
        self.log = [file for file in files.log if file.size]
        self.log_bytes = usual_size(self.log, default=DEFAULT_LOG_BYTES)
        if condition.live:  # what is written to the next files is read later than the end of the one before, which has grown, too
            self.log = written(self.log)
        self.bounds = self._bounds()
        self.queues: dict[Key, QueueState] = {}
        """unless they are elsewhere"""
        self.told = Told()
        self.elsewhere: Elsewhere | None = None
        self.index: list[IndexState] = []
        """unless they are elsewhere"""
        self.index_told = IndexTold()
        self.reports: list[LogReport] = []
        self.summaries: dict[Key, QueueSummary] = {}
        self._matched: dict[tuple[str, int, int], int] = {}

    def _bounds(self) -> LogBounds:
        if not self.log:  # nor can there be a queue yet
            return LogBounds(0, 0)
        return LogBounds(self.log[0].start, self.log[-1].start + self.log_bytes, self._condition.live)

    # --- files as such

    def look_at_log_files(self) -> None:
        """Sizes, and files that are missing between others."""
        before: CheckedFile | None = None
        for file in self.log:
            if file.size != self.log_bytes:
                self.findings.add("log-file-size", file.name, NOWHERE, f"{file.size} bytes instead of {self.log_bytes}")
            if before is not None and file.start > before.start + self.log_bytes:
                missing = -(-(file.start - before.start) // self.log_bytes) - 1
                text = f"{missing} file(s) are missing between {base_name(before)} and it"
                self.findings.add("log-file-missing", file.name, NOWHERE, text, missing)
            before = file
        for file in self._files.log[:-1]:
            if not file.size:
                self.findings.add("log-file-size", file.name, NOWHERE, f"0 bytes instead of {self.log_bytes}")

    # --- queues and index by themselves

    def queue_tasks(self, *, is_batch: bool) -> list[QueueTask]:
        """One for each queue."""
        queues = self._files.batch_queues if is_batch else self._files.queues
        default = DEFAULT_BATCH_QUEUE_BYTES if is_batch else DEFAULT_QUEUE_BYTES
        size = usual_size([file for files in queues.values() for file in files], default=default)
        return [QueueTask(queues[key], self.bounds, size, is_batch) for key in sorted(queues)]

    @cached_property
    def _apart(self) -> tuple[int, frozenset[Key]]:
        """Bytes of most files of queues; queues that must be looked at as a whole."""
        queues = self._files.queues
        size = usual_size([file for files in queues.values() for file in files], default=DEFAULT_QUEUE_BYTES)
        return size, apart(queues, self._files.batch_queues, size)

    def take_queue(self, state: QueueState, findings: Findings) -> None:
        """The answer to one."""
        if state.files:
            self.queues[state.files[0].topic, state.files[0].queue_id] = state
            self.told.take(state)
        self.findings.merge(findings)

    def take_told(self, told: Told, findings: Findings) -> None:
        """The answers to some, of queues that are elsewhere."""
        self.told.take(told)
        self.findings.merge(findings)

    def hold_queues_against_the_end(self, last_file: Callable[[], int]) -> None:
        """When all queues are there: of a log that grows, units may point behind its end of then, but not behind its end of now.

        last_file: where the last file of the log begins that is there now.
        """
        past = self.told.past
        end = max(last_file() + self.log_bytes, self.bounds.end) if past else 0
        for one in past:
            if one.farthest >= end:
                report_past(one, end, self.findings)

    def index_tasks(self) -> list[IndexTask]:
        """One for each index file."""
        files = self._files.index
        size = usual_size(files, default=DEFAULT_INDEX_BYTES)
        slots = self._scope.index_slots or slots_of(files, size)
        open_yet = files[-OPEN_INDEX_FILES:]
        return [IndexTask(file, size, slots, self._condition.settled or file not in open_yet) for file in files]

    def take_index(self, answers: Sequence[tuple[IndexState, Findings]]) -> None:
        """All answers."""
        told = IndexTold()
        for state, findings in answers:
            self.index.append(state)
            self.findings.merge(findings)
            told.take(state)
        self.index.sort(key=lambda one: one.file.name)
        self.take_index_told(told)

    def take_index_told(self, told: IndexTold) -> None:
        """What is known of all of them together."""
        self.index_told = told
        expired = told.expired() if self._condition.live else []
        for name in expired:
            self.findings.drop("file-unreadable", name)
        told.files -= len(expired)
        self.index = [one for one in self.index if one.file.name not in expired]
        if not self._files.index and self.log:
            self.notes.append("there is no index (messageIndexEnable=false, or it was removed): keys were not checked")

    # --- the log

    def known(self, times: Sequence[int] = (), *, is_far: bool = False) -> Known:
        """What who checks the log must be given.  times: as in `Known`; is_far: of queues and index files nothing, they are
        elsewhere.
        """
        scope = self._scope
        file_bytes, whole_queues = self._apart if is_far else (0, frozenset())
        return Known(
            self.queues,
            self.index,
            self._files.extensions,
            self.told.last_physical_end,
            self.log,
            scope.with_queues,
            scope.with_index and self.index_told.files > 0,
            self._condition.live,
            scope.with_crc,
            scope.with_sequence,
            self._condition.settled,
            file_bytes,
            whole_queues,
            self.index_told,
            list(times),
        )

    def take_log(self, reports: Sequence[LogReport]) -> None:
        """All answers, of whole files or of parts that together are whole files."""
        unreadable: set[str] = set()
        for one in reports:
            if one.name in unreadable:
                one.findings.drop("file-unreadable", one.name)
            elif ("file-unreadable", one.name) in one.findings.counts:
                unreadable.add(one.name)
            self.findings.merge(one.findings)
            one.findings = Findings()
        self.reports = sorted(reports, key=lambda one: (one.start, one.begin))
        if self._condition.live:
            self._leave_out_expired()
        for number, one in enumerate(self.reports[:-1]):  # files without a message at the end are preallocated
            if one.how is Ending.ZEROS and all(other.units == 0 for other in self.reports[number + 1 :]):
                self.findings.drop("log-cut", one.name)

    def take_met(self, elsewhere: Elsewhere) -> None:
        """What messages, queue units and index entries that met elsewhere had to say of the parts of the log; before `judge`."""
        self.elsewhere = elsewhere
        for report in self.reports:
            if (more := elsewhere.reports.pop((report.start, report.begin), None)) is not None:
                self.findings.merge(more.findings)
                more.findings = Findings()
                take(report, more)

    def _leave_out_expired(self) -> None:
        """The oldest files, when they are there no more: a broker that runs has deleted them; what leads to them is no damage."""
        read = {one.start for one in self.reports} - {one.start for one in self.reports if one.is_gone}
        unread = max((file.start for file in self.log if file.start not in read), default=-1)
        expired = list(takewhile(lambda file: file.start <= unread and (file.start not in read or is_gone(file)), self.log))
        while expired and expired[-1].start in read:
            expired.pop()
        if not expired or len(expired) == len(self.log):
            return
        for file in expired:
            self.findings.drop("file-unreadable", file.name)
        self.reports = [one for one in self.reports if one.start > expired[-1].start]
        self.log = self.log[len(expired) :]
        self.bounds = self._bounds()
        self.notes.append(f"{len(expired)} file(s) of the log were deleted meanwhile, the oldest: they were not looked at")

    def log_end(self) -> int:
        """Where the last message ends."""
        return next((one.start + one.end_at for one in reversed(self.reports) if one.units), self.bounds.start)

    def join(self, sums: Sums | None) -> None:
        """Queue offsets must go on from file to file and from part to part.

        sums: of the queues of all parts, where the reports have nothing of them; what these say is used up here.
        """
        sums = Sums() if sums is None else sums
        self.summaries, self._matched = sums.queues, sums.matched
        seen: dict[Key, tuple[int, int]] = {}
        holes: list[tuple[int, int]] = []
        fillers: list[tuple[int, int]] = []
        end = self.bounds.start
        for one in self.reports:
            if one.start > end:
                holes.append((end, one.start))
            end = one.start + self.log_bytes
            holes += [(one.start + begin, one.start + stop) for begin, stop in one.gaps]
            fillers += [(one.start + begin, one.start + stop) for begin, stop in one.fillers]
            for step in sums.steps.get((one.start, one.begin), ()):
                judge_step(step, one.name, holes, fillers, one)
            for key, edge in one.edges.items():
                expected, at = seen.get(key, (edge.first, -1))
                if edge.first != expected:
                    step = Step(key, expected, edge.first, at, one.start + edge.first_at)
                    judge_step(step, one.name, holes, fillers, one)
                seen[key] = (edge.next, one.start + edge.last_at)
                self._sum_up(key, edge, one.start)
            for name, count in one.matched.items():
                self._matched[name] = self._matched.get(name, 0) + count
            for finding in one.findings.kept:
                self.findings.add(*finding._replace(offset=finding.offset - one.start))
            one.findings, one.edges, one.matched = Findings(), {}, {}
        self._repaired(len(fillers))
        if untagged := sum(one.without_tag_entries for one in self.reports):
            self.notes.append(f"{untagged} message(s) have no index entry for their tags: a broker before 5.5 wrote them")

    def _sum_up(self, key: Key, edge: Edge, start: int) -> None:
        known = self.summaries.get(key)
        if known is None:
            known = self.summaries[key] = QueueSummary(0, edge.first, edge.next, start + edge.first_at, -1)
        known.units += edge.units
        known.end_offset, known.last_physical_offset = edge.next, start + edge.last_at

    def _repaired(self, stretches: int) -> None:
        """Losses that are no news."""
        if stretches:
            size = bytes_text(sum(one.filler_bytes for one in self.reports))
            lost = sum(one.lost_before_repair for one in self.reports)
            text = f"an earlier repair filled {stretches} stretch(es) of the log ({size}), in which messages had been lost"
            self.notes.append(f"{text}: {lost} queue offset(s) have no message" if lost else text)

    # --- all of them together

    @property
    def queue_units(self) -> int:
        """Of all queues with one entry a message."""
        return self.told.units

    @property
    def index_entries(self) -> int:
        """Of all index files."""
        return self.index_told.entries

    def judge(self, topics: Any, sums: Sums | None = None, times: Sequence[int] = ()) -> None:
        """Everything but the last pass.  topics: as for `find_orphans`; sums: as for `join`; times: as in `Known`."""
        derived = Derived(self.told, self.index_told, times)
        look_for_loss(self._files.log, self.reports, derived, self.bounds.start, self.findings, self.notes)
        self.join(sums)
        if self._scope.with_queues:
            self.find_orphans(topics)
        if self._scope.with_index:
            self.hold_index_against_the_end(self.log_end())

    # --- queues against the log

    def find_orphans(self, topics: Any) -> None:
        """Messages whose queue does not exist: deleted with its topic, or lost.  topics: by name, those that exist, if known."""
        missing: dict[Key, tuple[int, int, LogReport]] = {}
        for one in self.reports:
            for key, (count, last) in one.orphans.items():
                missing[key] = (missing[key][0] + count if key in missing else count, last, one)
        begins = self._begins({topic for topic, _ in missing})
        deleted = light = 0
        for number, (key, (count, last, one)) in enumerate(sorted(missing.items())):
            is_newest = one.name == self.reports[-1].name
            waits = self._condition.live or (is_newest and not self._condition.settled)
            if is_lmq(key[0]):
                light += count
            elif isinstance(topics, dict) and key[0] not in topics:
                deleted += count
            elif last < begins.get(key[0], -1):  # the topic was deleted and made again
                one.superseded += count
            elif not waits and number < ORPHANS_REPORTED_MAX:
                text = f"{count} message(s) of {key[0]} queue {key[1]}, the last in {one.name}"
                tree = f"consumequeue/{key[0]}/{key[1]}"
                self.findings.add("queue-missing", tree, NOWHERE, text, count)
        if light:
            self.notes.append(f"{light} message(s) name light queues (%LMQ%) that are not there: removed, or lost")
        if deleted:
            self.notes.append(f"{deleted} message(s) in the log are of deleted topics")
        if restarted := sum(one.superseded for one in self.reports):
            self.notes.append(f"{restarted} message(s) are from before their topic was deleted and made again")

    def _begins(self, topics: set[str]) -> dict[str, int]:
        """Topic -> where the message with offset 0 of one of its queues is in the log; of a topic made again, of its new life."""
        found: dict[str, int] = {}
        queues = self.queues if self.elsewhere is None or not topics else self.elsewhere.states_of(topics)
        for (topic, _), state in queues.items():
            if topic in topics and not state.is_batch and state.files[0].start == 0 and state.first == 0 and state.end:
                with contextlib.suppress(CannotLook), state.files[0].open() as reader:
                    for unit in records(reader.read(0, QUEUE_UNIT.itemsize), QUEUE_UNIT):
                        found[topic] = max(found.get(topic, -1), int(unit["physical_offset"]))
        return found

    def dangling(self) -> tuple[list[DanglingTask], Dangling]:
        """Queue files with more units than messages have, and how to find which are the ones too many."""
        reported: set[tuple[str, int, int]] = set()
        gaps: list[tuple[int, int]] = []
        for one in self.reports:
            reported |= one.reported
            gaps += [(one.start + begin, one.start + end) for begin, end in one.gaps]
        tasks = (
            list(self.elsewhere.dangling)
            if self.elsewhere is not None
            else [
                DanglingTask(key, state, file)
                for key, state in self.queues.items()
                for file in state.files
                if self._matched.get((*key, file.start), 0) != state.inside.get(file.start, 0)
            ]
        )
        return tasks, Dangling(self.bounds, self.log, reported, gaps, any(one.fillers for one in self.reports))

    def report_waiting(self) -> None:
        """Messages that are not in their queues yet."""
        count = sum(one.waiting_count for one in self.reports)
        if not count:
            return
        text = f"{count} message(s) at the end of the log are not in their queues yet"
        if self._condition.settled:
            topic, queue_id, offset, own = next((w for one in self.reports for w in one.waiting), ("", 0, 0, 0))
            one = next(one for one in self.reports if one.waiting_count)
            detail = f"{text}, though the last stop was clean; the first is {topic} queue {queue_id} offset {offset}"
            self.findings.add("queue-unit-missing", one.name, max(own - one.start, 0), detail, count)
        else:
            self.notes.append(text)

    # --- index against the log's end

    def hold_index_against_the_end(self, end: int) -> None:
        """end: of the last message."""
        may_say = self.index_told.odd or self.index_told.last_offset >= end
        far = () if self.elsewhere is None or not may_say else self.elsewhere.index_past(end)
        for state in self.index or far:
            geometry = state.geometry
            if geometry is None:
                continue
            odd = list(state.odd)
            if state.last_offset >= end and state.count > 1:
                odd.append((state.count - 1, state.last_offset))
            for number, offset in odd:
                at = geometry.entry_at(number)
                past = offset >= end
                if past and self._condition.live:
                    continue
                text = f"entry {number} points at {offset}" + (
                    f", the log ends at {end}" if past else ", the one before it farther on"
                )
                self.findings.add("index-past-log" if past else "index-order", state.file.name, at, text)
        waiting = sum(one.index_waiting for one in self.reports)
        before = sum(one.index_before for one in self.reports)
        if waiting and not self._condition.settled:
            self.notes.append(f"{waiting} message(s) at the end of the log may not be in the index yet")
        if before and self.index_told.files:
            self.notes.append(f"{before} message(s) are older than the index: it was removed or begun anew")
