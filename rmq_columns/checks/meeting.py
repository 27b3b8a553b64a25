"""What meets elsewhere than where the log is read: queue units and messages by queue and file of that queue, index entries and
keys by stretches of the log.

With many queues nobody can hold what is known of all of them.  So whoever reads a part of the log says of each message what its
queue unit must hold (`Recorded`), whoever reads a queue says what it is (`shares`), and who gets both of one file of a queue
compares them (`meet`), as `places` does.  A message whose queue has no such file meets the queue as a whole.

With many index files it is the same: whoever reads a part of the log says which entries there must be (`RecordedKeys`), whoever
reads an index file says which of its entries point into which stretch (`stretches`), and who gets both reads these and compares
(`meet_keys`), as `entries` does.  Both sides know the stretch by the physical offset alone, so nobody has to be told of index
files, and none has more than so many bytes of log have keys.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from rmq_columns.checks.entries import IndexCheck, Keys, found_in, together
from rmq_columns.checks.files import CheckedFile
from rmq_columns.checks.index import IndexState, IndexTold
from rmq_columns.checks.places import Places
from rmq_columns.checks.queues import Key, QueueState
from rmq_columns.checks.readers import Readers
from rmq_columns.checks.report import Entry, Known, LogReport
from rmq_columns.checks.sequence import Grouped, Numbers
from rmq_columns.checks.tasks import DanglingTask
from rmq_columns.decode.dtypes import QUEUE_UNIT, Ints, Records, records
from rmq_columns.decode.implied import IndexEntries
from rmq_columns.decode.queues import EXTENSION_ADDRESS_MAX
from rmq_columns.errors import CannotLook
from rmq_wire.layout.index import Geometry
from rmq_wire.names import SCHEDULE_TOPIC

WHOLE: Final = -1
"""In the place of where a file begins: all of a queue whose units are not where their offsets say, or whose files are odd."""
OFFSET_MAX: Final = 1 << 56
"""Of a unit whose place in its queue is a number of bytes."""
ROW: Final = np.dtype(
    [
        ("queue_offset", "<i8"),
        ("physical_offset", "<i8"),
        ("size", "<i8"),
        ("tags_code", "<i8"),
        ("store_timestamp", "<i8"),
        ("at", "<i8"),
    ]
)
"""What a queue unit must hold, and where its message is in the log file."""


STRETCH_BYTES: Final = 32 << 20
"""Of log; some ten thousand messages of a usual size."""
KEY: Final = np.dtype([("offset", "<i8"), ("key_hash", "<i8"), ("time", "<i8"), ("is_tag", "?")])
"""As `entries.Keys`."""


class Bounds(NamedTuple):
    """What a report wants of a queue."""

    first: int
    end: int
    is_batch: bool


class Recorded:
    """In the place of `Places`: keeps what the units of one part of the log must hold."""

    def __init__(self, file_bytes: int, apart: frozenset[Key]) -> None:
        self._file_bytes, self._apart = file_bytes, apart
        self._numbers = Numbers(sys.maxsize)
        self._held: list[tuple[Ints, Records]] = []
        """(each row's queue, rows of `ROW`)"""

    def close(self) -> None:
        """As of `Places`."""

    def compare_all(self, groups: Grouped, wanted: Entry, at: Ints, report: LogReport, known: Known) -> None:
        """As of `Places`.  Without a step for each queue: a block of the log may have one for each message."""
        numbers, _ = self._numbers.of(groups)
        self._keep(
            np.repeat(numbers, np.diff(groups.begins, append=len(groups.order))), wanted.take(groups.order), at[groups.order]
        )

    def compare(self, key: Key, wanted: Entry, at: Ints, report: LogReport, known: Known) -> None:
        """As of `Places`."""
        self._keep(np.full(len(at), self._numbers.number(key), np.int64), wanted, at)

    def _keep(self, numbers: Ints, wanted: Entry, at: Ints) -> None:
        rows = np.empty(len(at), ROW)
        for name in Entry._fields:
            rows[name] = getattr(wanted, name)
        rows["at"] = at
        self._held.append((numbers, rows))

    def rows(self) -> Iterator[tuple[Key, int, bytes]]:
        """(queue, where its file begins, rows of `ROW` in the order of the log), once; nothing is kept behind it."""
        held, self._held = self._held, []
        if not held:
            return
        numbers, rows = (np.concatenate(parts) for parts in zip(*held, strict=True))
        held.clear()
        keys = list(self._numbers.of_key)
        offsets = rows["queue_offset"]
        is_apart = np.array([key in self._apart for key in keys], np.bool_)[numbers]
        is_placed = (offsets >= 0) & (offsets < OFFSET_MAX) & ~is_apart
        positions = np.where(is_placed, offsets, 0) * QUEUE_UNIT.itemsize
        files = np.where(is_placed, positions - positions % self._file_bytes, WHOLE)
        order = np.lexsort((files, numbers))
        rows, numbers, files = rows[order], numbers[order], files[order]
        is_new = (np.diff(numbers, prepend=-1) != 0) | (np.diff(files, prepend=WHOLE) != 0)
        begins = np.flatnonzero(is_new)
        packed, size = rows.view(np.uint8), ROW.itemsize
        every = (numbers[begins], files[begins], begins, np.append(begins, len(rows))[1:])
        for number, file, begin, end in zip(*(one.tolist() for one in every), strict=True):
            yield keys[number], file, packed[begin * size : end * size].tobytes()


def apart(queues: Mapping[Key, Sequence[CheckedFile]], batch_queues: Mapping[Key, object], file_bytes: int) -> frozenset[Key]:
    """Queues that are looked at as a whole."""
    odd = {key for key, files in queues.items() if any(file.size != file_bytes or file.start % file_bytes for file in files)}
    return frozenset(odd | batch_queues.keys())


def shares(state: QueueState, is_apart: bool) -> Iterator[tuple[int, QueueState]]:
    """(where a file begins, what is known of the queue and this file of it)"""
    own = replace(state, past=[])
    if is_apart:
        yield WHOLE, own
        return
    for file in state.files:
        inside = {file.start: state.inside[file.start]} if file.start in state.inside else {}
        yield file.start, replace(own, files=[file], inside=inside)


@dataclass
class Elsewhere:
    """What is known of the queues of a store where somebody else holds them, and brings messages and queue units together."""

    states_of: Callable[[set[str]], Mapping[Key, QueueState]]
    """of some topics"""
    reports: dict[tuple[int, int], LogReport] = field(default_factory=dict)
    """by where a file of the log begins, and a part in it"""
    index_past: Callable[[int], Sequence[IndexState]] = lambda _end: ()
    """the index files with entries that point there or behind it, or are out of order"""
    dangling: list[DanglingTask] = field(default_factory=list)


class Met(NamedTuple):
    """What a meeting found.  reports: by where the file of the log begins, and the part in it."""

    reports: dict[tuple[int, int], LogReport]
    dangling: list[DanglingTask]


def meet(key: Key, state: QueueState | None, rows: Sequence[tuple[int, int, bytes]], known: Known, is_all: bool) -> Met:
    """state: None where there is no such queue.  rows: (where the file begins in the log, begin of the part, `ROW`s), in order.

    is_all: whether these are all messages of the queue's file, so that units for which there is none are too many.
    """
    if state is not None and is_all and _is_sound(key, state, rows):
        return Met({}, [])
    names = {file.start: file.name for file in known.log}
    places = Places({} if state is None else {key: state}, known.extensions, known.log)
    found = Met({}, [])
    matched: dict[int, int] = {}
    try:
        for start, begin, packed in rows:
            columns = np.frombuffer(packed, ROW)
            report = LogReport(names.get(start, ""), start, 0, begin)
            wanted = Entry(*(np.ascontiguousarray(columns[name]) for name in Entry._fields))
            places.compare(key, wanted, np.ascontiguousarray(columns["at"]), report, known)
            for (_, _, at), count in report.matched.items():
                matched[at] = matched.get(at, 0) + count
            report.matched = {}
            if says_something(report):
                found.reports[start, begin] = report
    finally:
        places.close()
    if state is not None and is_all:
        too_many = [file for file in state.files if matched.get(file.start, 0) != state.inside.get(file.start, 0)]
        found.dangling.extend(DanglingTask(key, state, file) for file in too_many)
    return found


def _is_sound(key: Key, state: QueueState, rows: Sequence[tuple[int, int, bytes]]) -> bool:
    """Whether nothing is to be said of a file of a queue, seen at once: its units are just those of these messages, in order."""
    if len(state.files) != 1 or state.is_batch or key[0] == SCHEDULE_TOPIC:
        return False
    [file] = state.files
    wanted = np.frombuffer(b"".join([packed for _, _, packed in rows]), ROW)
    count, offsets = len(wanted), wanted["queue_offset"]
    if count != state.inside.get(file.start, 0):
        return False
    if not count:
        return True
    first, size = int(offsets[0]), QUEUE_UNIT.itemsize
    begin, end = first * size - file.start, (first + count) * size - file.start
    if begin < 0 or end > file.size or first + count > state.end or int(offsets[-1]) != first + count - 1:
        return False
    try:
        with file.open() as reader:
            units = records(reader.read(begin, end - begin), QUEUE_UNIT)
    except CannotLook:
        return False
    if len(units) != count:
        return False
    is_same = (units["physical_offset"] == wanted["physical_offset"]) & (units["size"] == wanted["size"])
    is_same &= (units["tags_code"] == wanted["tags_code"]) & (wanted["tags_code"] > EXTENSION_ADDRESS_MAX)
    return bool((is_same & (offsets == np.arange(first, first + count))).all())


def says_something(report: LogReport) -> bool:
    """Anything besides the sums."""
    lacks = report.waiting_count or report.superseded or report.orphans or report.without_tag_entries
    return bool(report.findings.counts or report.reported or lacks)


def take(report: LogReport, more: LogReport) -> None:
    """What was found of the same part elsewhere."""
    report.findings.merge(more.findings)
    report.reported |= more.reported
    report.waiting += more.waiting
    report.waiting_count += more.waiting_count
    report.superseded += more.superseded
    report.without_tag_entries += more.without_tag_entries
    for key, (count, last) in more.orphans.items():
        before, at = report.orphans.get(key, (0, -1))
        report.orphans[key] = before + count, max(at, last)


class RecordedKeys(IndexCheck):
    """In the place of `IndexCheck`: keeps which entries one part of the log must have."""

    def __init__(self, told: IndexTold, settled: bool) -> None:
        super().__init__(told, (), settled)
        self.rows: list[tuple[int, int, int, bytes]] = []
        """(stretch, from where on and up to where units were looked at in it, rows of `KEY`), in the order of the log"""

    def compare(self, own: Ints, end: Ints, times: Ints, wanted: IndexEntries, report: LogReport, log: CheckedFile) -> None:
        """As of `IndexCheck`."""
        if not self.compares:
            return
        keys = self.keys(own, times, wanted, report)
        packed = np.empty(len(keys.offset), KEY)
        for name in Keys._fields:
            packed[name] = getattr(keys, name)
        low, high = int(own[0]), int(end[-1])
        for stretch in range(low // STRETCH_BYTES, (high - 1) // STRETCH_BYTES + 1):
            begin, stop = max(low, stretch * STRETCH_BYTES), min(high, (stretch + 1) * STRETCH_BYTES)
            inside = packed[(packed["offset"] >= begin) & (packed["offset"] < stop)]
            self.rows.append((stretch, begin, stop, inside.tobytes()))


class Located(NamedTuple):
    """An index file, for whoever reads some of its entries.  begin_timestamp: ms, from which their seconds count."""

    file: CheckedFile
    geometry: Geometry
    begin_timestamp: int


def stretches(number: int, offsets: Ints) -> Iterator[tuple[int, int, int]]:
    """(stretch, number of the first entry that points into it, number behind the last); number, offsets: as of `index.walked`."""
    places = offsets // STRETCH_BYTES
    begins = [0, *(np.flatnonzero(places[1:] != places[:-1]) + 1).tolist(), len(places)]
    for begin, end in itertools.pairwise(begins):
        yield int(places[begin]), number + begin, number + end


def meet_keys(
    entries: Sequence[tuple[Located, int, int]], rows: Sequence[tuple[int, int, int, int, bytes]], known: Known
) -> dict[tuple[int, int], LogReport]:
    """All that meets in one stretch; what is wrong, by where the file begins in the log and the part in it.

    entries: (file, number of the first entry, number behind the last), in the order of files; rows: (where the file begins in the
    log, begin of the part, the rest as of `RecordedKeys.rows`).  A file that cannot be read has been reported already.
    """
    check, log = IndexCheck(known.index_told, (), known.settled), {file.start: file for file in known.log}
    pieces, readers = [], Readers()
    for (file, geometry, begin_timestamp), begin, end in entries if check.compares and rows else ():
        with suppress(CannotLook):
            pieces.append(found_in(readers.get(file), geometry, begin_timestamp, begin, end))
    readers.close()
    every, reports = together(pieces), dict[tuple[int, int], LogReport]()
    for start, begin, low, high, packed in rows:
        columns = np.frombuffer(packed, KEY)
        keys = Keys(*(np.ascontiguousarray(columns[name]) for name in Keys._fields))
        report = reports.setdefault((start, begin), LogReport(log[start].name, start, 0, begin))
        check.judge(low, keys, check.inside(every, low, high), report, log[start])
    return {place: one for place, one in reports.items() if says_something(one)}
