"""Queue offsets must follow one another through the log: checked for a block of units at once, whatever number of queues it has.

Units are sorted by queue, so one comparison of neighbours settles a block; each queue's last offset waits for the next block in
arrays.  What goes over a part's edges comes back as `Edge`s, which the caller joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from rmq_columns.checks.queues import Key
from rmq_columns.checks.report import QUEUES_MAX, Edge, LogReport, Step, judge_step
from rmq_columns.decode.dtypes import Ints, Mask

REPORTED_PER_QUEUE_MAX: Final = 64
"""Broken steps of one queue in one block that are reported; more are not counted."""
_ID_BITS: Final = 32
_FIRST, _FIRST_AT, _NEXT, _LAST_AT, _UNITS = range(5)


class Grouped(NamedTuple):
    """Rows of a block by queue.  order: rows, those of a queue side by side, in the order of the log."""

    order: Ints
    begins: Ints
    """where in `order` each queue's rows begin"""
    codes: Ints
    """of each queue, ascending: number of its topic, and its id"""
    names: list[str]
    """number -> topic"""
    generation: int
    """of the names: codes of another one say nothing here"""

    def key(self, at: int) -> Key:
        """Of the queue of this number in the block."""
        topic, queue_id = divmod(int(self.codes[at]), 1 << _ID_BITS)
        return self.names[topic], queue_id - (1 << _ID_BITS) if queue_id >> _ID_BITS - 1 else queue_id

    def rows(self) -> Iterator[tuple[Key, Ints]]:
        """Queue by queue."""
        keys = map(self.key, range(len(self.codes)))
        return zip(keys, np.split(self.order, self.begins[1:]) if len(self.order) else (), strict=True)


def grouped(rows: Ints, topics: Ints, queue_ids: Ints, names: list[str], generation: int = 0) -> Grouped:
    """topics: number of each unit's topic in names.  rows: those that count."""
    queue = (topics << _ID_BITS) | (queue_ids.astype(np.int64) & (1 << _ID_BITS) - 1)
    order = rows[np.argsort(queue[rows], kind="stable")]
    begins = np.flatnonzero(np.diff(queue[order], prepend=-1)) if len(order) else order
    return Grouped(order, begins, queue[order[begins]], names, generation)


class Numbers:
    """A number for each queue, given as they are met.  A block may have a queue for each message, so those that are known are
    looked up all at once."""

    def __init__(self, most: int) -> None:
        self.of_key: dict[Key, int] = {}
        self._most = most
        self._generation = -1
        self._codes = self._numbers = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.of_key)

    def of(self, groups: Grouped) -> tuple[Ints, Mask]:
        """Of each queue of a block, -1 of those that are too many; and which of them are met for the first time."""
        if groups.generation != self._generation:
            self._generation = groups.generation
            self._codes = self._numbers = np.zeros(0, np.int64)
        places = np.searchsorted(self._codes, groups.codes)
        numbers = np.full(len(places), -1, np.int64)
        inside = np.flatnonzero(places < len(self._codes))
        inside = inside[self._codes[places[inside]] == groups.codes[inside]]
        numbers[inside] = self._numbers[places[inside]]
        is_new = np.zeros(len(places), np.bool_)
        unknown = np.flatnonzero(numbers < 0)
        for row in unknown.tolist():
            before = len(self.of_key)
            numbers[row] = self.number(groups.key(row))
            is_new[row] = numbers[row] == before or numbers[row] < 0
        met = unknown[numbers[unknown] >= 0]
        self._codes = np.insert(self._codes, places[met], groups.codes[met])
        self._numbers = np.insert(self._numbers, places[met], numbers[met])
        return numbers, is_new

    def number(self, key: Key) -> int:
        """Of one queue."""
        if len(self.of_key) < self._most:
            return self.of_key.setdefault(key, len(self.of_key))
        return self.of_key.get(key, -1)


class Sequences:
    """Of all queues of one part of the log."""

    def __init__(self, name: str, report: LogReport) -> None:
        self._name, self._report = name, report
        self._numbers = Numbers(QUEUES_MAX)
        self._table = np.zeros((5, 64), np.int64)

    def check(self, groups: Grouped, queue_offsets: Ints, at: Ints, steps: Ints | None) -> None:
        """steps: how many queue offsets each unit takes; None: one each.  at: where the units are in their file."""
        if not len(groups.order):
            return
        offsets, places = queue_offsets[groups.order], at[groups.order]
        nexts = offsets + (1 if steps is None else steps[groups.order])
        begins = groups.begins
        numbers, is_new = self._numbers.of(groups)
        if len(self._numbers) > self._table.shape[1]:
            wider = np.zeros((5, 2 * len(self._numbers)), np.int64)
            wider[:, : self._table.shape[1]] = self._table
            self._table = wider
        expected, before = np.concatenate((offsets[:1], nexts[:-1])), np.concatenate((places[:1], places[:-1]))
        expected[begins] = np.where(is_new, offsets[begins], self._table[_NEXT][numbers])
        before[begins] = np.where(is_new, places[begins], self._table[_LAST_AT][numbers])
        broken = np.flatnonzero(offsets != expected)
        if len(broken):
            self._report_breaks(groups, broken, numbers, (expected, offsets, before, places))
        ends = np.concatenate((begins[1:], [len(offsets)]))
        kept, new = numbers >= 0, is_new & (numbers >= 0)
        table = self._table
        table[_FIRST][numbers[new]], table[_FIRST_AT][numbers[new]] = offsets[begins[new]], places[begins[new]]
        table[_NEXT][numbers[kept]], table[_LAST_AT][numbers[kept]] = nexts[ends[kept] - 1], places[ends[kept] - 1]
        table[_UNITS][numbers[kept]] += (ends - begins)[kept]

    def _report_breaks(self, groups: Grouped, broken: Ints, numbers: Ints, columns: tuple[Ints, Ints, Ints, Ints]) -> None:
        expected, offsets, before, places = columns
        reported: dict[int, int] = {}
        owners = np.searchsorted(groups.begins, broken, side="right") - 1
        for row, owner in zip(broken.tolist(), owners.tolist(), strict=True):
            reported[owner] = reported.get(owner, 0) + 1
            if numbers[owner] < 0 or reported[owner] > REPORTED_PER_QUEUE_MAX:
                continue
            step = Step(groups.key(owner), int(expected[row]), int(offsets[row]), int(before[row]), int(places[row]))
            judge_step(step, self._name, self._report.gaps, self._report.fillers, self._report)

    def edges(self) -> dict[Key, Edge]:
        """The first and the last unit of each queue so far."""
        columns = self._table[:, : len(self._numbers)].T.tolist()
        return {key: Edge(*columns[number]) for key, number in self._numbers.of_key.items()}
