"""Everything that there is to be checked of some stores, as pieces of work that may be done anywhere.

Whoever calls hands in how pieces are done (one after another, in processes, in tasks of Spark): a piece is a plain value, and
so is its answer.  The log is read once.  It is also cut inside its files; where a part's units lead over its end, the cut was
forged by a message's body, and that file is looked at once more as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from rmq_columns.checks.findings import Finding, Findings
from rmq_columns.checks.index import IndexState, IndexTold
from rmq_columns.checks.log import check_log
from rmq_columns.checks.meeting import Bounds, Elsewhere
from rmq_columns.checks.queues import Key, QueueState, Told
from rmq_columns.checks.report import Known, LogPart, LogReport, QueueSummary, Sums
from rmq_columns.checks.scope import Scope
from rmq_columns.checks.tasks import Dangling, DanglingTask, IndexTask, QueueTask
from rmq_columns.checks.trees import Listed, listed_stores, log_parts
from rmq_columns.checks.whole import Whole
from rmq_columns.read.options import Options

PIECE_BYTES_MIN: Final = 64 << 20
PIECE_BYTES_MAX: Final = 2 << 30
"""A piece that was lost is done again: it should be done in seconds."""
SMALL_PIECE_BYTES: Final = 16 << 20
"""Of queues and index, at least."""

OPENED_BYTES: Final = 20 << 10
"""What might be read in the time that it takes to open a file, and to say something of it; and no task is told of more than some
hundreds of files."""

Run = Callable[[str, Callable[[Any], Any], Sequence[Any]], Sequence[Any]]
"""(what is done, how, pieces) -> their answers in order.  How: a function, or a `Sharing`."""


@dataclass(frozen=True)
class Sharing:
    """Work for which all pieces need the same: large, and known before the first of them is done."""

    work: Callable[[Any, Any], Any]
    shared: Any

    def __call__(self, piece: Any) -> Any:
        return self.work(self.shared, piece)


SmallPiece = Sequence[tuple[int, "QueueTask | IndexTask"]]
"""(number of the store, a queue or an index file)"""
Answer = tuple[int, "QueueState | Told | IndexState | IndexTold", Findings]
MANY_QUEUES: Final = 5_000
MANY_INDEX_FILES: Final = 64
"""What is known of so many (40 KB of an index file of the usual size) is sent to everybody who reads the log; of more, queue
units and index entries meet messages elsewhere."""
LogPiece = tuple[int, Sequence[LogPart]]
"""(number of the store, parts of its log)"""


class Reducer(Protocol):
    """Looks at the log, and keeps what its parts say of their queues where they said it: there are queues x parts of it."""

    def check(self, work: Sharing, pieces: Sequence[LogPiece]) -> Sequence[list[LogReport]]:
        """Answers in order, without `edges` and `matched`."""
        ...

    def check_queues(self, pieces: Sequence[SmallPiece], known: Sequence[Known]) -> Sequence[list[Answer]]:
        """As `check_small`, but of queues and index files is told what they are together: what is known of each stays here."""
        ...

    def meet(self, number: int, recut: Collection[int], known: Known) -> Elsewhere:
        """Bring messages, queue units and index entries of one store together."""
        ...

    def bounds(self, number: int) -> dict[Key, Bounds]:
        """Of the queues of one store."""
        ...

    def sums(self, number: int, recut: Collection[int], first: int) -> Sums:
        """Of one store, of all parts of the files from `first` on; of those that begin at one of `recut` what was said last."""
        ...


@dataclass
class StoreAudit:
    """What was found in one store."""

    broker_name: str
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    reports: list[LogReport] = field(default_factory=list)
    queues: dict[Key, QueueSummary] = field(default_factory=dict)
    consume_queues: Mapping[Key, QueueState | Bounds] = field(default_factory=dict)
    queue_units: int = 0
    index_entries: int = 0
    compared: tuple[bool, bool] = (False, False)
    """queues, index"""
    recut: int = 0
    """files whose cuts were forged"""

    @property
    def log_is_whole(self) -> bool:
        """Nothing is wrong with it; so queues and index can be built of it."""
        return not any(code.startswith("log-") for code in self.findings.codes())

    def all_findings(self) -> Iterator[Finding]:
        """Those that were kept, and one for each kind and file of which more were only counted."""
        yield from self.findings.kept
        for code, file, count in self.findings.hidden():
            yield Finding(code, file, -1, f"and {count} more of this kind", count)


def audit(options: Options, scope: Scope, run: Run, pieces: int = 0, reducer: Reducer | None = None) -> list[StoreAudit]:
    """Look at everything.  pieces: in how many the work may be cut, about; 0: as `split_bytes` of the options says.
    reducer: looks at the log in the place of `run`.

    Never raises for what is in the files; `BadOption`, `CannotRead` for what is no store."""
    scope = replace(scope, with_sequence=True, index_slots=scope.index_slots or options.hash_slots)
    stores = [_Store(listed, scope) for listed in listed_stores(options)]
    if pieces:
        size = sum(file.size for one in stores for file in one.listed.files.log)
        options = replace(options, split_bytes=min(max(-(-size // pieces), PIECE_BYTES_MIN), PIECE_BYTES_MAX))
    queues = sum(len(one.listed.files.queues) + len(one.listed.files.batch_queues) for one in stores if one.found.compared[0])
    index = sum(len(one.listed.files.index) for one in stores if one.found.compared[1])
    far = reducer if queues > MANY_QUEUES or index > MANY_INDEX_FILES else None
    _queues_and_index(stores, options, pieces, run if far is None else far)
    parts = log_parts(options, [one.listed for one in stores])
    _logs(stores, parts, options.split_bytes, run if reducer is None else reducer, is_far=far is not None)
    if far is not None:
        for number, one in enumerate(stores):
            one.meet(number, far)
    for number, one in enumerate(stores):
        one.judge(number, reducer)
    _dangling(stores, run)
    return [one.finish(number, far) for number, one in enumerate(stores)]


class _Store:
    """One store on its way through."""

    def __init__(self, listed: Listed, scope: Scope) -> None:
        self.found = StoreAudit(listed.store.broker_name, notes=list(listed.notes))
        with_queues, with_index = scope.with_queues and listed.can_compare, scope.with_index and listed.can_compare
        self.found.compared = with_queues, with_index
        own = replace(scope, with_queues=with_queues, with_index=with_index)
        self.whole = Whole(listed.files, own, listed.condition, self.found.findings, self.found.notes)
        self.whole.look_at_log_files()
        self.listed = replace(listed, files=replace(listed.files, log=self.whole.log))
        self.recut: set[int] = set()
        """where the files begin that were looked at once more"""

    def judge(self, number: int, reducer: Reducer | None) -> None:
        """Everything but the last pass."""
        self.found.reports = self.whole.reports
        sums = None if reducer is None else reducer.sums(number, self.recut, self.whole.bounds.start)
        self.whole.judge(self.listed.topics, sums)

    def meet(self, number: int, far: Reducer) -> None:
        """Messages, queue units and index entries that are elsewhere."""
        if any(self.found.compared):
            self.whole.take_met(far.meet(number, self.recut, self.whole.known(is_far=True)))

    def finish(self, number: int, far: Reducer | None) -> StoreAudit:
        found, whole = self.found, self.whole
        if found.compared[0]:
            whole.report_waiting()
        found.consume_queues = whole.queues if far is None else far.bounds(number)
        found.queue_units, found.index_entries = whole.queue_units, whole.index_entries
        found.queues = whole.summaries
        return found


# --- the passes


def _last_file(listed: Listed, options: Options) -> int:
    return max((file.start for file in listed.store.log_files(listed.store.tree(options))), default=0)


def _queues_and_index(stores: Sequence[_Store], options: Options, count: int, run: Run | Reducer) -> None:
    tasks: list[tuple[int, QueueTask | IndexTask]] = []
    for number, one in enumerate(stores):
        with_queues, with_index = one.found.compared
        for is_batch in (False, True) if with_queues else ():
            tasks += [(number, task) for task in one.whole.queue_tasks(is_batch=is_batch)]
        if with_index:
            tasks += [(number, task) for task in one.whole.index_tasks()]
    size = sum(task.size for _, task in tasks) // count if count else 0
    pieces = list(_packed(tasks, lambda task: task[1].size + OPENED_BYTES, max(size, SMALL_PIECE_BYTES)))
    of_pieces = (
        run("queues and index", check_small, pieces)
        if callable(run)
        else run.check_queues(pieces, [one.whole.known(is_far=True) for one in stores])
    )
    answers = [answer for piece in of_pieces for answer in piece]
    index: list[list[tuple[IndexState, Findings]]] = [[] for _ in stores]
    together = [IndexTold() for _ in stores]
    for number, state, findings in answers:
        if isinstance(state, IndexState):
            index[number].append((state, findings))
        elif isinstance(state, IndexTold):
            together[number].merge(state)
            stores[number].whole.findings.merge(findings)
        elif isinstance(state, Told):
            stores[number].whole.take_told(state, findings)
        else:
            stores[number].whole.take_queue(state, findings)
    for one, found, told in zip(stores, index, together, strict=True):
        one.whole.hold_queues_against_the_end(partial(_last_file, one.listed, options))
        if one.found.compared[1]:
            one.whole.take_index(found) if callable(run) else one.whole.take_index_told(told)


def check_small(piece: Sequence[tuple[int, QueueTask | IndexTask]]) -> list[tuple[int, QueueState | IndexState, Findings]]:
    """Queues and index files by themselves."""
    return [(number, *task.check()) for number, task in piece]


def _logs(
    stores: Sequence[_Store], parts: Sequence[Sequence[LogPart]], piece_bytes: int, run: Run | Reducer, *, is_far: bool
) -> None:
    work = Sharing(check_parts, [one.whole.known(is_far=is_far) for one in stores])

    def reports_of(chosen: Sequence[Sequence[LogPart]]) -> list[list[LogReport]]:
        pieces = [
            (number, piece) for number, own in enumerate(chosen) for piece in _packed(own, lambda part: part.size, piece_bytes)
        ]
        found: list[list[LogReport]] = [[] for _ in stores]
        answers = run("log", work, pieces) if callable(run) else run.check(work, pieces)
        for (number, _), reports in zip(pieces, answers, strict=True):
            found[number] += reports
        return found

    answers = reports_of(parts)
    forged = [{report.name for report in reports if report.misses_seam} for reports in answers]
    if any(forged):
        again = [
            [part._replace(end=None) for part in own if part.file.name in names and not part.begin]
            for own, names in zip(parts, forged, strict=True)
        ]
        for one, names, reports, more in zip(stores, forged, answers, reports_of(again), strict=True):
            one.found.recut, one.recut = len(names), {report.start for report in more}
            reports[:] = [report for report in reports if report.name not in names] + more
    for one, reports in zip(stores, answers, strict=True):
        one.whole.take_log(reports)


def check_parts(known: Sequence[Known], piece: LogPiece) -> list[LogReport]:
    """Parts of one store's log."""
    number, parts = piece
    reports = [check_log(part, known[number]) for part in parts]
    for report in reports:
        report.topics = {}  # nobody asks
    return reports


def _dangling(stores: Sequence[_Store], run: Run) -> None:
    pieces: list[tuple[int, Sequence[DanglingTask]]] = []
    shared: dict[int, Dangling] = {}
    for number, one in enumerate(stores):
        if one.found.compared[0]:
            tasks, shared[number] = one.whole.dangling()
            pieces += [(number, piece) for piece in _packed(tasks, lambda task: task.file.size, SMALL_PIECE_BYTES)]
    if not pieces:
        return
    answers = run("queues against the log", Sharing(check_dangling, shared), pieces)
    for (number, _), findings in zip(pieces, answers, strict=True):
        for found in findings:
            stores[number].whole.findings.merge(found)


def check_dangling(shared: dict[int, Dangling], piece: tuple[int, Sequence[DanglingTask]]) -> list[Findings]:
    """Queue files with units that lead nowhere."""
    number, tasks = piece
    return list(shared[number].find(tasks))


def _packed(items: Sequence[Any], size: Callable[[Any], int], most: int) -> Iterator[tuple[Any, ...]]:
    """Items in a row until a piece would be larger than `most`."""
    held: list[Any] = []
    total = 0
    for item in items:
        if held and total + size(item) > most:
            yield tuple(held)
            held, total = [], 0
        held.append(item)
        total += size(item)
    if held:
        yield tuple(held)
