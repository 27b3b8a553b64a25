"""In a task: the places of the chosen messages, from the consume queues and checked, and the bytes of the log that hold them.

The units that belong to a part of the log are found by halving each file of a queue, the same way at both ends of every part, so
that parts one behind another share out all units, and each unit is checked by one of them.  What it leads to has to be the
message that it names, and no message of the queue may stand where no unit leads.  Otherwise: `SeamMismatch`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from rmq_columns.decode.dtypes import QUEUE_UNIT, Ints, records
from rmq_columns.decode.queues import is_written
from rmq_columns.errors import SeamMismatch
from rmq_columns.files.filesystem import PLACE_MAX, File, Tree
from rmq_columns.read.options import Options
from rmq_columns.read.pruning import UNIT_BYTES, Pruned, QueueFile, wrong_unit

GAP_BYTES: Final = 256 << 10
"""Between two messages, read through: a request costs a remote store as much as these bytes, and a disk as well."""
WINDOW_UNITS: Final = 512
"""Of a queue's file, read at once where a place was found to lie: 10 KiB in place of nine small reads."""
WAY_OUT: Final = "read with pruning=off"


@dataclass(frozen=True)
class Expected:
    """Messages to which units of some queues lead, by their places, ascending.  Arrays have an element for each."""

    places: Ints
    sizes: Ints
    queue_ids: Ints
    offsets: Ints

    @classmethod
    def none(cls) -> Expected:
        """No messages."""
        nothing: Ints = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, nothing)

    def between(self, options: Options) -> Expected:
        """Those in the range of physical offsets that is asked for."""
        low, high = options.starting_offset or 0, PLACE_MAX if options.ending_offset is None else options.ending_offset
        kept = slice(*np.searchsorted(self.places, (low, high)).tolist())
        return Expected(self.places[kept], self.sizes[kept], self.queue_ids[kept], self.offsets[kept])

    def ranges(self, gap_bytes: int = GAP_BYTES) -> Iterator[tuple[int, int]]:
        """(begin, end) of the log's bytes to be read: both where a unit begins or ends."""
        if not len(self.places):
            return
        ends = self.places + self.sizes
        cuts = np.flatnonzero(self.places[1:] - ends[:-1] >= gap_bytes) + 1
        firsts, lasts = np.concatenate(([0], cuts)), np.concatenate((cuts, [len(ends)])) - 1
        yield from zip(self.places[firsts].tolist(), ends[lasts].tolist(), strict=True)

    def check(self, path: str, start: int, end: int, found: Expected) -> None:
        """The messages of these queues that stand in the log from start on, below end.  Raises `SeamMismatch`."""
        first, last = np.searchsorted(self.places, (start, end)).tolist()
        own = (self.places[first:last], self.sizes[first:last], self.queue_ids[first:last], self.offsets[first:last])
        seen = (found.places, found.sizes, found.queue_ids, found.offsets)
        if all(np.array_equal(one, other) for one, other in zip(own, seen, strict=True)):
            return
        if len(strange := np.setdiff1d(seen[0], own[0])):
            raise SeamMismatch(path, -1, f"to the message at {strange[0]} of the log no unit of its queue leads: {WAY_OUT}")
        if len(missed := np.setdiff1d(own[0], seen[0])):
            raise SeamMismatch(
                path, -1, f"a queue unit leads to {missed[0]} of the log, where no message of it begins: {WAY_OUT}"
            )
        raise SeamMismatch(path, -1, f"queue units and messages from {start} on name other sizes or offsets: {WAY_OUT}")


def expected_of(tree: Tree, pruned: Pruned, checked_from: int, start: int, end: int) -> Expected:
    """Where messages of the queues begin in these bytes of the log.

    checked_from: from where on units are checked, too, since no other part of the log does it.

    Raises `SeamMismatch`, `CannotRead`.
    """
    pieces = []
    for file in pruned.files:
        if file.units and file.first_place < end:
            found = _units_of(tree, file, checked_from, start, end)
            if len(found.places):
                pieces.append(found)
    if not pieces:
        return Expected.none()
    columns = [np.concatenate([getattr(one, name) for one in pieces]) for name in ("places", "sizes", "queue_ids", "offsets")]
    order = np.argsort(columns[0], kind="stable")
    places, sizes, queue_ids, offsets = (column[order] for column in columns)
    return Expected(places, sizes, queue_ids, offsets)


def _units_of(tree: Tree, file: QueueFile, checked_from: int, start: int, end: int) -> Expected:
    """Of one file of a queue."""
    with tree.open(file.path) as opened:
        first, last = (_first_from(opened, file.units, place) for place in (checked_from, end))
        units = records(opened.read(first * UNIT_BYTES, max(last - first, 0) * UNIT_BYTES), QUEUE_UNIT)
        following = _unit_at(opened, last) if last < file.units else end
    places, sizes = units["physical_offset"].astype(np.int64), units["size"].astype(np.int64)
    row = wrong_unit(units)
    if row < 0 and not (last >= first and len(units) == last - first and following >= end):
        row = len(units)
    if row < 0 and len(places) and not (places[0] >= checked_from and places[-1] < end):
        row = 0
    if row >= 0:
        raise SeamMismatch(file.path, (first + row) * UNIT_BYTES, f"a queue unit is none, or leads back in the log: {WAY_OUT}")
    offsets = file.start + np.arange(first, last)
    wanted = (offsets >= file.low) & (offsets < file.high) & (places >= start)
    queue_ids = np.full(len(places), file.queue_id, np.int64)
    return Expected(places[wanted], sizes[wanted], queue_ids[wanted], offsets[wanted])


def _unit_at(file: File, number: int) -> int:
    """Where it leads; -1 when it is none."""
    units = records(file.read(number * UNIT_BYTES, UNIT_BYTES), QUEUE_UNIT)
    return int(units[0]["physical_offset"]) if len(units) and wrong_unit(units) < 0 else -1


def _first_from(file: File, count: int, place: int) -> int:
    """Number of the first unit in the file that leads to this place or behind it, or that was never written.

    By halving, then one read of the few that are left.
    """
    low, high = 0, count
    while high - low > WINDOW_UNITS:
        middle = (low + high) // 2
        if _is_below(file, middle, 1, place)[0]:
            low = middle + 1
        else:
            high = middle
    below = _is_below(file, low, high - low, place)
    return low + (len(below) if all(below) else below.index(False))


def _is_below(file: File, number: int, count: int, place: int) -> list[bool]:
    units = records(file.read(number * UNIT_BYTES, count * UNIT_BYTES), QUEUE_UNIT)
    below: list[bool] = (is_written(units) & (units["physical_offset"] < place)).tolist()
    return [*below, *[False] * (count - len(below))]
