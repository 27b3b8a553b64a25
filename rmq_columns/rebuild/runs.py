"""Parts of queues that were found one apart from the other, put together: what stands, what does not, what is missing between.

Each part of the log reports the runs of consecutive offsets that it has of a queue.  In the order of the log they make the queue,
by the rules of a broker that dispatches its log from the first file on: the next run continues the queue; or it begins earlier
(the topic was deleted and made again) and what stood there goes; or later, and the offsets between lead to its first message
without tags, unless they are so many that the queue begins anew there.  Light queues and those of batches have no such gaps: the
first stay together, the second begin anew.
Sources: our own `rmq_store.recovery.recovery`, which docs/differences.md compares with Java's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from rmq_columns.decode.dtypes import Ints
from rmq_columns.rebuild.entries import Entries, Kind
from rmq_wire.implied.queue_entries import GAP_MAX

RUNS: Final = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("kind", pa.string()),
        ("store", pa.int32()),
        ("split", pa.int32()),
        ("firstOffset", pa.int64()),
        ("endOffset", pa.int64()),
        ("units", pa.int64()),
        ("firstPhysicalOffset", pa.int64()),
        ("lastPhysicalOffset", pa.int64()),
        ("firstSize", pa.int32()),
        ("bytes", pa.int64()),
    ]
)
"""A row is a `Run` of a queue; or, of the kinds below, something that was met in a split: `units` of them, `bytes` long."""
DAMAGE: Final = "damage"
IN_NO_QUEUE: Final = "in no queue"


@dataclass(slots=True)
class Run:
    """Units of one queue with consecutive offsets, from one split.  end: one past the last offset."""

    first: int
    end: int
    units: int
    first_physical: int
    last_physical: int
    first_size: int
    bytes: int
    split: int = 0


class Piece(NamedTuple):
    """Units that stand in the queue: so many of a run, from its first on, at this place (in units) and the following ones.

    number: of its first unit among those of all pieces of the queue.  end: one past the last offset of the run.
    """

    split: int
    first_physical: int
    units: int
    place: int
    number: int = 0
    end: int = 0


class Bridge(NamedTuple):
    """Offsets that no message has: each leads to the next message."""

    place: int
    units: int
    physical: int
    size: int


@dataclass
class Settled:
    """A whole queue.  start, end: offsets of its messages; place, places: the same in units."""

    kind: Kind
    start: int = -1
    end: int = 0
    pieces: list[Piece] = field(default_factory=list)
    bridges: list[Bridge] = field(default_factory=list)
    lives: int = 1
    """1 more for each time that it begins anew, all of it or its end"""
    breaks: int = 0
    """of these, how often elsewhere than at offset 0, as no topic that is made again does: an offset in the log is wrong"""
    break_physical: int = -1
    """where the first of these is in the log"""
    dropped: int = 0
    """units of lives before the last"""
    as_said: bool = True
    """every unit that was met stands at the place of its own offset"""

    @property
    def place(self) -> int:
        """Of the first unit."""
        return 0 if self.kind is Kind.BATCH else self.start

    @property
    def end_place(self) -> int:
        """One past the last unit."""
        last = [piece.place + piece.units for piece in self.pieces[-1:]] + [one.place + one.units for one in self.bridges[-1:]]
        return max(last, default=self.place)

    @property
    def units(self) -> int:
        """Of messages and bridges."""
        return self.end_place - self.place

    @property
    def bridged(self) -> int:
        """Units without a message of their own."""
        return sum(bridge.units for bridge in self.bridges)


def settle(kind: Kind, runs: Iterable[Run]) -> Settled:
    """The queue that these runs, in the order of the log, make.  Those of a batch queue are broken where `goes_back` says."""
    made = Settled(kind, as_said=kind in (Kind.PLAIN, Kind.LIGHT))
    for run in runs:
        if made.start < 0:
            made.start = run.first
        elif run.first < made.end:
            _cut(made, run)
        elif run.first > made.end and kind is not Kind.LIGHT:
            _pass(made, run)
        place = made.end_place
        made.as_said = made.as_said and place == run.first
        made.pieces.append(Piece(run.split, run.first_physical, run.units, place, end=run.end))
        made.end = made.start + made.units if kind is Kind.LIGHT else run.end
    number = 0
    for at, piece in enumerate(made.pieces):
        made.pieces[at] = piece._replace(number=number)
        number += piece.units
    return made


def _cut(made: Settled, run: Run) -> None:
    """Forget what stands from this run's offset on; of a batch queue from the unit on that holds it."""
    offset, before = run.first, made.units
    if made.kind is Kind.BATCH:
        kept = [one for one in made.pieces if one.end <= offset]
    else:
        kept = [one._replace(units=min(one.units, offset - one.place)) for one in made.pieces if one.place < offset]
    if offset <= made.start or (made.kind is Kind.BATCH and not kept):
        _begin(made, run)
        return
    made.pieces = kept
    made.bridges = [one._replace(units=min(one.units, offset - one.place)) for one in made.bridges if one.place < offset]
    made.end = offset
    _count_life(made, run, before - made.units)


def _begin(made: Settled, run: Run) -> None:
    """Forget all that stands."""
    _count_life(made, run, made.units)
    made.pieces.clear()
    made.bridges.clear()
    made.start = made.end = run.first


def _count_life(made: Settled, run: Run, dropped: int) -> None:
    made.lives += 1
    made.as_said = False
    made.dropped += dropped
    if run.first:
        made.break_physical = run.first_physical if not made.breaks else made.break_physical
        made.breaks += 1


def _pass(made: Settled, run: Run) -> None:
    """Over offsets that no message has."""
    count = run.first - made.end
    if count > GAP_MAX or made.kind is Kind.BATCH:
        _begin(made, run)
    else:
        made.bridges.append(Bridge(made.end_place, count, run.first_physical, run.first_size))


def goes_back(runs: Sequence[Run]) -> tuple[int, ...]:
    """Offsets in the midst of earlier ones at which these runs, in the order of the log, begin: in order, each once."""
    return tuple(sorted({run.first for before, run in pairwise(runs) if run.first < before.end}))


def found_runs(entries: Entries, broken_at: Sequence[int] = ()) -> list[Run]:
    """The runs of one queue's entries, which are in the order of the log.

    broken_at: in order; a run is broken before each unit that holds such an offset, too.
    """
    ends = entries.offset + entries.span
    is_break = entries.offset[1:] != ends[:-1]
    if broken_at:
        holds = np.searchsorted(broken_at, entries.offset) < np.searchsorted(broken_at, ends)
        is_break |= holds[1:]
    breaks = np.flatnonzero(is_break) + 1
    runs = []
    for begin, end in pairwise([0, *breaks.tolist(), len(entries.offset)]):
        last = end - 1
        runs.append(
            Run(
                int(entries.offset[begin]),
                int(ends[last]),
                end - begin,
                int(entries.physical[begin]),
                int(entries.physical[last]),
                int(entries.size[begin]),
                int(entries.size[begin:end].sum()),
            )
        )
    return runs


def extend(runs: list[Run], more: list[Run]) -> None:
    """Append runs that were found behind these."""
    if runs and more and runs[-1].end == more[0].first:
        last, first = runs[-1], more.pop(0)
        last.end, last.last_physical = first.end, first.last_physical
        last.units += first.units
        last.bytes += first.bytes
    runs += more


def places(pieces: list[Piece], done: list[int], physical: Ints) -> Iterator[tuple[slice, int, int]]:
    """Which of some units of a queue stand where: (rows, place, number), by the pieces that begin in this split.

    physical: of the next units in the order of the log.  done: units of each piece that stand already; brought up to date.
    """
    for number, piece in enumerate(pieces):
        left = piece.units - done[number]
        if left <= 0:
            continue
        begin = 0 if done[number] else int(np.searchsorted(physical, piece.first_physical))
        rows = min(left, len(physical) - begin)
        if rows > 0:
            yield slice(begin, begin + rows), piece.place + done[number], piece.number + done[number]
            done[number] += rows
