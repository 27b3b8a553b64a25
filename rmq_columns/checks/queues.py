"""Consume queues by themselves, before they are held against the log: where each begins and ends, and whether its units follow.

A queue is read once, in runs of bounded size.  What the log says about it comes later (`log` counts per file how many
units it found in their places); here the units are counted that must be found.  `places.find_dangling` then looks, only in
the files whose counts differ, at each unit's place in the log.
Source of what is valid: `ConsumeQueue.recover`, `BatchConsumeQueue.recover` of the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.checks.files import CheckedFile, base_name
from rmq_columns.checks.findings import NOWHERE, Findings
from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT, Records, records
from rmq_columns.decode.queues import FILLER_SIZE, is_empty, is_filler, is_written
from rmq_columns.errors import CannotLook, FileGone

RUN_UNITS: Final = 1 << 16
"""Read at once: 1.3 MB of a plain queue."""

Key = tuple[str, int]
"""topic, queue id"""


class LogBounds(NamedTuple):
    """Physical offsets between which the log has files.  grows: somebody writes, it may have more of them by now."""

    start: int
    end: int
    grows: bool = False


class Past(NamedTuple):
    """Units of one file that point behind the log's end.  at: the first one's byte; farthest: the largest physical offset."""

    name: str
    at: int
    units: int
    farthest: int


@dataclass
class QueueState:
    """One queue as its own files have it.  Offsets count units; files are named by their first byte."""

    files: list[CheckedFile]
    is_batch: bool = False
    first: int = 0
    """offset of the first unit that is no filler"""
    end: int = 0
    """one past the last written unit"""
    last_physical_end: int = -1
    """where the last unit's message ends in the log"""
    inside: dict[int, int] = field(default_factory=dict)
    """file start -> its units that point between the log's bounds"""
    previous_end: int = -1
    """the same of the unit read last"""
    previous_offset: int = -1
    """where that one's message begins"""
    past: list[Past] = field(default_factory=list)
    """of a log that grows: to be held against its end of later"""
    leading: int = 0
    """units that lead to a message, wherever that is: all but fillers"""
    before: int = 0
    """those of them that lead before the log's start"""

    @property
    def units(self) -> int:
        """Of a queue with one unit a message; of batches none are counted."""
        return 0 if self.is_batch else max(self.end - self.first, 0)

    def file_of(self, position: int) -> CheckedFile | None:
        """The file that holds this byte of the queue."""
        low, high = 0, len(self.files)
        while low < high:
            middle = (low + high) // 2
            if self.files[middle].start <= position:
                low = middle + 1
            else:
                high = middle
        found = self.files[low - 1] if low else None
        return found if found is not None and position < found.end else None


@dataclass
class Told:
    """What is known of all queues of a store together."""

    units: int = 0
    """of those with one unit a message"""
    last_physical_end: int = -1
    """where the last message with a queue unit ends in the log"""
    past: list[Past] = field(default_factory=list)
    leading: int = 0
    """of all queues, as in `QueueState`"""
    before: int = 0

    def take(self, one: QueueState | Told) -> None:
        """One queue more, or what was told of some."""
        self.units += one.units
        self.last_physical_end = max(self.last_physical_end, one.last_physical_end)
        self.past += one.past
        self.leading += one.leading
        self.before += one.before


def check_queue(
    files: Sequence[CheckedFile], bounds: LogBounds, file_bytes: int, *, is_batch: bool
) -> tuple[QueueState, Findings]:
    """Read all units of one queue.  file_bytes: what each file should have."""
    state, findings = QueueState(list(files), is_batch), Findings()
    if not files:
        return state, findings
    state.first = -1
    for number, file in enumerate(files):
        is_last = number == len(files) - 1
        before = files[number - 1] if number else None
        if before is not None and before.start + file_bytes < file.start:
            missing = (file.start - before.start) // file_bytes - 1
            text = f"{missing} file(s) are missing between it and {base_name(before)}"
            findings.add("queue-file-missing", file.name, NOWHERE, text, max(missing, 1))
        if file.size != file_bytes:
            findings.add("queue-file-size", file.name, NOWHERE, f"{file.size} bytes instead of {file_bytes}")
        try:
            _QueueFile(file, state, bounds, findings).check(is_last)
        except CannotLook as reason:
            is_expired = bounds.grows and not state.inside and isinstance(reason, FileGone)  # the oldest: retention took it
            if not is_expired:
                findings.add("file-unreadable", file.name, NOWHERE, str(reason))
    state.first = max(state.first, 0)
    return state, findings


def report_past(past: Past, end: int, findings: Findings) -> None:
    """end: of the log, which they point behind."""
    text = f"{past.units} unit(s) point behind byte {end}, where the log ends at the latest"
    findings.add("queue-past-log", past.name, past.at, text, past.units)


class _QueueFile:
    """Walks the units of one file; carries the order over from run to run."""

    def __init__(self, file: CheckedFile, state: QueueState, bounds: LogBounds, findings: Findings) -> None:
        self._file, self._state, self._bounds, self._findings = file, state, bounds, findings
        self._dtype: np.dtype[Any] = BATCH_UNIT if state.is_batch else QUEUE_UNIT
        self._base = file.start // self._dtype.itemsize
        self._ended_at = -1
        self._past = [0, 0, 0]
        """first unit past the log's end, how many, and the largest offset"""
        self._holes = 0

    def check(self, is_last: bool) -> None:
        inside = 0
        with self._file.open() as reader:
            at = 0
            for begin, end in reader.data_ranges():
                begin -= begin % self._dtype.itemsize
                if begin > at:  # a hole: units that were never written
                    self._end_at(at // self._dtype.itemsize)
                    at = begin
                while at < end:
                    units = records(reader.read(at, RUN_UNITS * self._dtype.itemsize), self._dtype)
                    if not len(units):
                        break
                    inside += self._run(units, at // self._dtype.itemsize)
                    at += len(units) * self._dtype.itemsize
        self._end_at(at // self._dtype.itemsize)
        self._state.inside[self._file.start] = inside
        self._finish(is_last)

    def _end_at(self, unit: int) -> None:
        """The first empty unit; later ones do not change it."""
        if self._ended_at < 0:
            self._ended_at = unit

    def _finish(self, is_last: bool) -> None:
        name, size = self._file.name, self._dtype.itemsize
        capacity = self._file.size // size
        if self._past[1]:
            past = Past(name, self._past[0] * size, self._past[1], self._past[2])
            if self._bounds.grows:
                self._state.past.append(past)
            else:
                report_past(past, self._bounds.end, self._findings)
        if self._holes:
            text = f"unit {self._base + self._ended_at} is empty, {self._holes} written one(s) stand behind it"
            self._findings.add("queue-hole", name, self._ended_at * size, text)
        elif self._ended_at == 0 and capacity and not (is_last and self._bounds.grows):
            self._findings.add("queue-file-empty", name, 0, "no unit in it")
        elif not is_last and 0 <= self._ended_at < capacity:
            text = f"the file ends with unit {self._base + self._ended_at - 1}, {capacity - self._ended_at} before its end"
            self._findings.add("queue-hole", name, self._ended_at * size, text)

    def _run(self, units: Records, at: int) -> int:
        """Check units from number `at` of the file on; how many must be found in the log."""
        if (found := self._sound_run(units, at)) is not None:
            return found
        empty = is_empty(units)
        written = is_written(units) & ~empty
        if not written.all():
            first = int(np.argmin(written))
            self._end_at(at + first)
            bad = ~(written | empty)
            for row in np.flatnonzero(bad)[:1].tolist():
                text = f"unit {self._base + at + row}: offset {units[row]['physical_offset']}, size {units[row]['size']}"
                self._findings.add("queue-order", self._file.name, (at + row) * units.itemsize, text, int(bad.sum()))
        if self._ended_at >= 0 and self._ended_at < at + len(units):
            self._holes += int(np.count_nonzero(written[max(self._ended_at - at, 0) :]))
        real = written & ~is_filler(units)
        if not real.any():
            if written.any():
                self._state.end = max(self._state.end, self._base + at + int(np.flatnonzero(written)[-1]) + 1)
            return 0
        rows = np.flatnonzero(real)
        if self._state.first < 0:
            self._state.first = self._base + at + int(rows[0])
        offsets = units["physical_offset"][rows].astype(np.int64)
        sizes = units["size"][rows].astype(np.int64)
        self._order(offsets, sizes, rows, at)
        self._state.end = max(self._state.end, self._base + at + int(np.flatnonzero(written)[-1]) + 1)
        past = offsets >= self._bounds.end
        if past.any():
            self._past[0] = self._past[0] if self._past[1] else at + int(rows[np.argmax(past)])
            self._past[1] += int(past.sum())
            self._past[2] = max(self._past[2], int(offsets[past].max()))
        self._state.last_physical_end = max(self._state.last_physical_end, int((offsets + sizes)[~past].max(initial=-1)))
        before = offsets < self._bounds.start
        self._state.leading += len(rows)
        self._state.before += int(before.sum())
        return int((~before & ~past).sum())

    def _sound_run(self, units: Records, at: int) -> int | None:
        """The same of units of which nothing is to be said, in a third of the time: each behind the one before, only empty ones
        behind the last.  None: they have to be looked at closer.  Of many queues most are so, and each has few units."""
        state, bounds = self._state, self._bounds
        count = int(np.count_nonzero(units["size"]))
        if not count or self._ended_at >= 0 or units[count:].view(np.uint8).any():
            return None
        offsets = units["physical_offset"][:count].astype(np.int64)
        sizes = units["size"][:count].astype(np.int64)
        ends = offsets + sizes
        first, last, end = int(offsets[0]), int(offsets[-1]), int(ends[-1])
        if first < max(state.previous_end, 0) or last >= bounds.end or sizes.min() <= 0 or sizes.max() == FILLER_SIZE:
            return None
        if (offsets[1:] < ends[:-1]).any():
            return None
        if count < len(units):
            self._end_at(at + count)
        if state.first < 0:
            state.first = self._base + at
        state.end = max(state.end, self._base + at + count)
        state.previous_end, state.previous_offset = end, last
        state.last_physical_end = max(state.last_physical_end, end)
        before = int(np.searchsorted(offsets, bounds.start))
        state.leading += count
        state.before += before
        return count - before

    def _order(self, offsets: Any, sizes: Any, rows: Any, at: int) -> None:
        limits = np.concatenate(([self._state.previous_end], (offsets + sizes)[:-1]))
        before = np.concatenate(([self._state.previous_offset], offsets[:-1]))
        self._state.previous_end, self._state.previous_offset = int(offsets[-1] + sizes[-1]), int(offsets[-1])
        bad = (offsets < limits) & (offsets != before)  # two that lead to one place are reported when the log is looked at
        if self._state.is_batch:  # Java's own rule there is weaker: a start above the last start
            bad = offsets < before
        for row in np.flatnonzero(bad)[:1].tolist():
            text = f"unit {self._base + at + int(rows[row])} points at {offsets[row]}, the one before it ends at {limits[row]}"
            self._findings.add("queue-order", self._file.name, (at + int(rows[row])) * self._dtype.itemsize, text, int(bad.sum()))
