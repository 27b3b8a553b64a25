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
from rmq_columns.decode.dtypes import Ints

REPORTED_PER_QUEUE_MAX: Final = 64
"""Broken steps of one queue in one block that are reported; more are not counted."""
_FIRST, _FIRST_AT, _NEXT, _LAST_AT, _UNITS = range(5)


class Grouped(NamedTuple):
    """Rows of a block by queue.  order: rows, those of a queue side by side, in the order of the log."""

    order: Ints
    begins: Ints
    """where in `order` each queue's rows begin"""
    keys: list[Key]

    def rows(self) -> Iterator[tuple[Key, Ints]]:
        """Queue by queue."""
        return zip(self.keys, np.split(self.order, self.begins[1:]) if len(self.order) else (), strict=True)


def grouped(rows: Ints, topics: Ints, queue_ids: Ints, names: list[str]) -> Grouped:
    """topics: number of each unit's topic in names.  rows: those that count."""
    queue = (topics << 32) | (queue_ids.astype(np.int64) & 0xFFFFFFFF)
    order = rows[np.argsort(queue[rows], kind="stable")]
    begins = np.flatnonzero(np.diff(queue[order], prepend=-1)) if len(order) else order
    heads = order[begins]
    keys = [(names[topic], queue_id) for topic, queue_id in zip(topics[heads].tolist(), queue_ids[heads].tolist(), strict=True)]
    return Grouped(order, begins, keys)


class Sequences:
    """Of all queues of one part of the log."""

    def __init__(self, name: str, report: LogReport) -> None:
        self._name, self._report = name, report
        self._numbers: dict[Key, int] = {}
        self._table = np.zeros((5, 64), np.int64)

    def check(self, groups: Grouped, queue_offsets: Ints, at: Ints, steps: Ints | None) -> None:
        """steps: how many queue offsets each unit takes; None: one each.  at: where the units are in their file."""
        if not len(groups.order):
            return
        offsets, places = queue_offsets[groups.order], at[groups.order]
        nexts = offsets + (1 if steps is None else steps[groups.order])
        begins = groups.begins
        numbers, is_new = self._numbered(groups.keys)
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

    def _numbered(self, keys: list[Key]) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """A number for each queue, -1 for those that are too many; and which of them are met for the first time."""
        known, before = self._numbers, len(self._numbers)
        numbers = np.fromiter(map(known.get, keys, [-1] * len(keys)), np.int64, len(keys))
        is_new = numbers < 0
        for row in np.flatnonzero(is_new).tolist():
            if len(known) < QUEUES_MAX:
                numbers[row] = known[keys[row]] = len(known)
        if before != len(known) and len(known) > self._table.shape[1]:
            wider = np.zeros((5, 2 * len(known)), np.int64)
            wider[:, : self._table.shape[1]] = self._table
            self._table = wider
        return numbers, is_new

    def _report_breaks(self, groups: Grouped, broken: Ints, numbers: Ints, columns: tuple[Ints, Ints, Ints, Ints]) -> None:
        expected, offsets, before, places = columns
        reported: dict[int, int] = {}
        owners = np.searchsorted(groups.begins, broken, side="right") - 1
        for row, owner in zip(broken.tolist(), owners.tolist(), strict=True):
            reported[owner] = reported.get(owner, 0) + 1
            if numbers[owner] < 0 or reported[owner] > REPORTED_PER_QUEUE_MAX:
                continue
            step = Step(groups.keys[owner], int(expected[row]), int(offsets[row]), int(before[row]), int(places[row]))
            judge_step(step, self._name, self._report.gaps, self._report.fillers, self._report)

    def edges(self) -> dict[Key, Edge]:
        """The first and the last unit of each queue so far."""
        columns = self._table[:, : len(self._numbers)].T.tolist()
        return {key: Edge(*columns[number]) for key, number in self._numbers.items()}
