"""What a task of `audit` does: queues and index files by themselves, parts of the log, units that lead nowhere; and, where there
are many queues or index files, queue units and messages that meet by queue and file of that queue, index entries and keys that
meet by stretches of the log.

Rows of one table, of several kinds: an answer of a piece of work, which is for the driver; the rest stays with Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rmq_spark.grouped_rows import cached
from rmq_spark.work import Given, Work, pickled, unpickled

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_columns.checks.audit import LogPiece, SmallPiece
    from rmq_columns.checks.findings import Findings
    from rmq_columns.checks.index import IndexTold
    from rmq_columns.checks.meeting import Located
    from rmq_columns.checks.report import Known
    from rmq_columns.checks.tasks import IndexTask

ANSWER: Final = "answer"
"""held: what a piece of work gave; piece: its number"""
EDGE: Final = "edge"
"""Where a queue begins and ends in a part of the log: queue offsets, and places of its first and last message there."""
MATCHED: Final = "matched"
"""units of a queue file whose message is in the part"""
WANTED: Final = "wanted"
"""held: what the queue units of a part's messages must hold (`meeting.ROW`)"""
KEYS: Final = "keys"
"""held: which index entries a part must have in a stretch of the log (`meeting.KEY`); firstAt, lastAt: where it was looked at"""
ENTRIES: Final = "entries"
"""entries of an index file (topic: its name) that point into a stretch of the log, numbers first up to next; held: the file"""
INDEX: Final = "index"
"""held: what is known of an index file (topic: its name); lastAt: where its last entry points; units: entries out of order"""
STATE: Final = "state"
"""held: what is known of a queue, for one file of it; queueFile null: of all of it.  first, next: of its messages; units: 1 for a
queue of batches"""
REPORT, DANGLING, LONE = "report", "dangling", "lone"
"""Of a meeting: what it found in a part; a file of a queue with too many units; messages whose queue has no such file."""
PART: Final = ("part", "begin")
"""Where the file begins in the log, and the part in the file."""
QUEUE: Final = ("store", "topic", "queueId")
FILE: Final = (*QUEUE, "queueFile")
STRETCH: Final = ("store", "stretch")
MEETING: Final = "kind string, store int, part long, begin long, topic string, queueId int, queueFile long, held binary"
ROWS_AT_ONCE: Final = 1 << 12
ROWS_BYTES: Final = 8 << 20
Row = Mapping[str, Any]


def schema(given: Given) -> pa.Schema:
    """Of the table."""
    import pyarrow as pa

    places = [(name, pa.int64()) for name in ("first", "firstAt", "next", "lastAt", "units", "piece", "stretch")]
    queue = [("topic", pa.string()), ("queueId", pa.int32()), ("queueFile", pa.int64())]
    part = [("kind", pa.string()), ("store", pa.int32()), ("part", pa.int64()), ("begin", pa.int64())]
    return pa.schema([*part, *queue, *places, ("held", pa.binary())])


def read(given: Given, numbered: tuple[int, Any]) -> Iterator[pa.RecordBatch]:
    """Of one piece of work."""
    from rmq_columns.checks.audit import check_dangling, check_small

    number, piece = numbered
    match given["how"]:
        case "queues":
            rows = check_queues(number, piece, cached(given["shared"]))
        case "log":
            rows = check_log(number, piece, cached(given["shared"]))
        case "small":
            rows = iter([answer(number, check_small(piece))])
        case _:
            rows = iter([answer(number, check_dangling(cached(given["shared"]), piece))])
    return batches(rows, schema(given))


AUDITED: Final = Work(schema, read, parameters={"how": str, "shared": str})


def batches(rows: Iterator[Row], kind: pa.Schema, large: str = "held") -> Iterator[pa.RecordBatch]:
    """Not too many at once, nor too large.  large: the column with bytes."""
    import pyarrow as pa

    held: list[Row] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row.get(large) or b"")
        if len(held) >= ROWS_AT_ONCE or size >= ROWS_BYTES:
            yield pa.RecordBatch.from_pylist(held, kind)
            held, size = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, kind)


def answer(number: int, value: Any) -> Row:
    """For the driver."""
    return {"kind": ANSWER, "piece": number, "held": pickled(value)}


def check_log(number: int, piece: LogPiece, known: Sequence[Known]) -> Iterator[Row]:
    """Parts of the log of one store."""
    from rmq_columns.checks.audit import check_parts

    store, parts = piece
    reports = []
    for part in parts:
        [report] = check_parts(known, (store, [part]))
        place = {"store": store, "part": report.start, "begin": report.begin}
        for (topic, queue_id), edge in report.edges.items():
            at = {"firstAt": report.start + edge.first_at, "lastAt": report.start + edge.last_at, "units": edge.units}
            yield {"kind": EDGE, **place, "topic": topic, "queueId": queue_id, "first": edge.first, "next": edge.next, **at}
        for (topic, queue_id, file), units in report.matched.items():
            yield {"kind": MATCHED, **place, "topic": topic, "queueId": queue_id, "queueFile": file, "units": units}
        for (topic, queue_id), file, held in report.wanted:
            yield {"kind": WANTED, **place, "topic": topic, "queueId": queue_id, "queueFile": file, "held": held}
        for stretch, low, high, held in report.keys:
            yield {"kind": KEYS, **place, "stretch": stretch, "firstAt": low, "lastAt": high, "held": held}
        report.edges, report.matched, report.wanted, report.keys = {}, {}, [], []
        reports.append(report)
    yield answer(number, reports)


def check_queues(number: int, piece: SmallPiece, known: Sequence[Known]) -> Iterator[Row]:
    """Queues and index files by themselves; what is known of each stays here."""
    from rmq_columns.checks.findings import Findings
    from rmq_columns.checks.index import IndexTold
    from rmq_columns.checks.meeting import shares
    from rmq_columns.checks.queues import Told
    from rmq_columns.checks.tasks import IndexTask

    told: dict[int, tuple[Told, Findings]] = {}
    indexed: dict[int, tuple[IndexTold, Findings]] = {}
    for store, task in piece:
        if isinstance(task, IndexTask):
            yield from check_index(store, task, *indexed.setdefault(store, (IndexTold(), Findings())))
            continue
        state, findings = task.check()
        together, found = told.setdefault(store, (Told(), Findings()))
        together.take(state)
        found.merge(findings)
        if not state.files:
            continue
        key = (state.files[0].topic, state.files[0].queue_id)
        own = {"kind": STATE, "store": store, "topic": key[0], "queueId": key[1], "first": state.first, "next": state.end}
        own["units"] = int(state.is_batch)
        state.past = []
        whole, is_apart = pickled(state, is_pressed=False), key in known[store].apart
        yield {**own, "held": whole}
        if len(state.files) == 1 and not is_apart:  # all of it is in its only file
            yield {**own, "queueFile": state.files[0].start, "held": whole}
            continue
        for file, share in shares(state, is_apart):
            yield {**own, "queueFile": file, "held": pickled(share, is_pressed=False)}
    yield answer(number, [(store, *both) for by_store in (told, indexed) for store, both in by_store.items()])


def check_index(store: int, task: IndexTask, told: IndexTold, findings: Findings) -> Iterator[Row]:
    """An index file by itself, and where its entries point; what is found, and what is told of several, is added up."""
    from rmq_columns.checks.index import IndexState
    from rmq_columns.checks.meeting import Located, stretches

    state, held = IndexState(task.file), b""
    own = {"store": store, "topic": task.file.name}
    for number, offsets in task.walked(state, findings):
        assert state.geometry is not None
        held = held or pickled(Located(task.file, state.geometry, state.begin_timestamp))
        for stretch, first, behind in stretches(number, offsets):
            yield {"kind": ENTRIES, **own, "stretch": stretch, "first": first, "next": behind, "held": held}
    told.take(state)
    state.fences = state.fences[:0]
    yield {"kind": INDEX, **own, "lastAt": state.last_offset, "units": len(state.odd), "held": pickled(state)}


class IndexMeeting:
    """A `Reduction`: a stretch of the log."""

    def __init__(self, shared: Mapping[int, Known]) -> None:
        """shared: of each store."""
        self._known, self._store = shared, 0
        self._files: dict[bytes, Located] = {}
        self._entries: list[tuple[Located, int, int]] = []
        self._rows: list[tuple[int, int, int, int, bytes]] = []

    def take(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """Entries come before what there must be."""
        for row in batch.to_pylist():
            self._store, held = row["store"], row["held"]
            if row["kind"] == KEYS:
                self._rows.append((row["part"], row["begin"], row["firstAt"], row["lastAt"], held))
                continue
            if held not in self._files:
                self._files[held] = unpickled(held)
            self._entries.append((self._files[held], row["first"], row["next"]))
        return ()

    def end(self) -> Iterator[pa.RecordBatch]:
        """What was found."""
        from rmq_columns.checks.meeting import meet_keys

        found = meet_keys(self._entries, self._rows, self._known[self._store])
        own = {"kind": REPORT, "store": self._store}
        rows = ({**own, "part": part, "begin": begin, "held": pickled(one)} for (part, begin), one in found.items())
        return batches(rows, _met())


class Meeting:
    """A `Reduction`: files of queues one after the other, or queues with what has no such file."""

    def __init__(self, shared: tuple[Sequence[Known], bool]) -> None:
        """shared: of each store; whether all messages of a file are there."""
        self._known, self._is_all = shared
        self._place: tuple[Any, ...] = ()
        """as of `FILE`"""
        self._state: Any = None
        self._rows: list[tuple[int, int, bytes]] = []

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """States come before messages."""
        return batches(self._taken(batch), _met())

    def end(self) -> Iterator[pa.RecordBatch]:
        """What was found of the last one."""
        return batches(self._found(), _met())

    def _taken(self, batch: pa.RecordBatch) -> Iterator[Row]:
        keys = FILE if self._is_all else QUEUE
        columns = (batch.column(name).to_pylist() for name in (*FILE, "kind", *PART, "held"))
        for *place, kind, part, begin, held in zip(*columns, strict=True):
            if self._place[: len(keys)] != tuple(place[: len(keys)]):
                yield from self._found()
                self._place, self._state, self._rows = tuple(place), None, []
            if kind == STATE:
                self._state = unpickled(held)
            else:
                self._rows.append((part, begin, held))

    def _found(self) -> Iterator[Row]:
        from rmq_columns.checks.meeting import meet

        if not self._place:
            return
        place, key = dict(zip(FILE, self._place, strict=True)), self._place[1:3]
        if self._state is None and self._is_all:
            yield from ({**place, "kind": LONE, "part": part, "begin": begin, "held": held} for part, begin, held in self._rows)
            return
        met = meet(key, self._state, self._rows, self._known[place["store"]], self._is_all)
        for (part, begin), report in met.reports.items():
            yield {**place, "kind": REPORT, "part": part, "begin": begin, "held": pickled(report)}
        for task in met.dangling:
            yield {**place, "kind": DANGLING, "held": pickled(task)}


def _met() -> pa.Schema:
    """As `MEETING`."""
    import pyarrow as pa

    kinds = {"string": pa.string(), "int": pa.int32(), "long": pa.int64(), "binary": pa.binary()}
    return pa.schema([(name, kinds[kind]) for name, kind in (one.split() for one in MEETING.split(","))])
