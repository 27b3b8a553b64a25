"""Positions held against consume queues: where a queue begins and ends, and what stands behind each position.

One pass over the units of a split, a file at a time; of the log only the head of a few messages is read, for their store times.
What a split says of a queue is a part of the truth: the rows of all splits belong together (smallest `firstOffset` and
`nextOffset`, largest `endOffset`, sums of messages and bytes).  A queue of which the log has nothing any more begins where it
ends, as `ConsumeQueue.correctMinOffset` has it: such files say their end and no `firstOffset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rmq_columns.decode.dtypes import Ints
from rmq_columns.errors import StoreError
from rmq_columns.read.arrow import microseconds
from rmq_columns.read.plan import Part, Split
from rmq_columns.read.reading import read_split
from rmq_columns.read.schema import TIME
from rmq_columns.read.seams import first_time
from rmq_columns.read.stores import LogFile

POSITIONS: Final = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("position", pa.int64()),
        ("firstOffset", pa.int64()),
        ("endOffset", pa.int64()),
        ("messages", pa.int64()),
        ("bytes", pa.int64()),
        ("nextOffset", pa.int64()),
        ("nextStoreTimestamp", TIME),
        ("lastStoreTimestamp", TIME),
    ]
)
"""A row of a position: messages and bytes from it to the end of this file, and the first of them.  A row without one is the
queue's own: its offsets, `endOffset` not included, and when its last message was stored; `firstOffset` is null where the log
begins behind the whole file."""
UNIT_COLUMNS: Final = ("queueOffset", "physicalOffset", "size", "batchSize")


@dataclass(frozen=True)
class Asked:
    """The item of one task.  positions: (topic, queue id) -> ascending; logs: the store's log files, in order."""

    split: Split
    positions: Mapping[tuple[str, int], Sequence[int]]
    logs: tuple[LogFile, ...]


def asked_of(splits: Sequence[Split], positions: Mapping[tuple[str, str, int], set[int]]) -> list[Asked]:
    """An item for each split of the table `consumequeue`.  positions: by broker name, topic, queue id.  Raises `CannotRead`."""
    logs: dict[int, tuple[LogFile, ...]] = {}
    found = []
    for split in splits:
        store = split.store
        if id(store) not in logs:
            logs[id(store)] = tuple(store.log_files(store.tree(split.options)))
        queues = {(part.topic, part.queue_id) for part in split.parts}
        held = {queue: sorted(positions.get((store.broker_name, *queue), ())) for queue in queues}
        found.append(Asked(split, held, logs[id(store)]))
    return found


def positions_in(asked: Asked) -> Iterator[pa.RecordBatch]:
    """The rows of one split, with the schema `POSITIONS`.  Raises `CannotRead`, in mode FAILFAST `Malformed`."""
    times = _Times(asked)
    rows: list[dict[str, Any]] = []
    for part in asked.split.parts:
        rows += _of_part(asked, part, times)
    yield pa.RecordBatch.from_pylist(rows, POSITIONS)


@dataclass
class _Found:
    """Of one file.  Arrays have an element for each position."""

    positions: Ints
    first: int | None = None
    end: int = 0
    last_physical: int = -1
    messages: Ints = field(init=False)
    bytes: Ints = field(init=False)
    next_offset: Ints = field(init=False)
    next_physical: Ints = field(init=False)

    def __post_init__(self) -> None:
        shape = len(self.positions)
        self.messages, self.bytes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        self.next_offset, self.next_physical = np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)

    def take(self, offsets: Ints, physical: Ints, sizes: Ints, counts: Ints) -> None:
        """Units in a row, of a queue whose offsets ascend."""
        ends = offsets + counts
        if self.first is None:
            self.first = int(offsets[0])
        if int(ends[-1]) >= self.end:
            self.end, self.last_physical = int(ends[-1]), int(physical[-1])
        if not len(self.positions):
            return
        at = np.searchsorted(np.maximum.accumulate(ends), self.positions, side="right")
        there = at < len(offsets)
        inside = at[there]
        consumed = np.maximum(self.positions[there] - offsets[inside], 0)  # of a unit that is a batch
        self.messages[there] += _behind(counts)[inside] - consumed
        self.bytes[there] += _behind(sizes)[inside]
        fresh = there & (self.next_offset < 0)
        self.next_offset[fresh] = np.maximum(offsets[at[fresh]], self.positions[fresh])
        self.next_physical[fresh] = physical[at[fresh]]


def _behind(values: Ints) -> Ints:
    """Sums from each element to the last."""
    sums: Ints = np.cumsum(values[::-1])[::-1]
    return sums


def _of_part(asked: Asked, part: Part, times: _Times) -> Iterator[dict[str, Any]]:
    found = _Found(np.array(asked.positions.get((part.topic, part.queue_id), ()), np.int64))
    log_start = asked.logs[0].start if asked.logs else 0
    options = replace(asked.split.options, columns=UNIT_COLUMNS)
    for batch in read_split(replace(asked.split, options=options, parts=(part,))):
        batch = batch.filter(batch["queueOffset"].is_valid())  # rows of mode PERMISSIVE that are no units
        offsets, physical, sizes, counts = (batch[name].to_numpy().astype(np.int64) for name in UNIT_COLUMNS)
        kept = physical >= log_start  # as `ConsumeQueue.correctMinOffset`: the log has no longer what stands before
        if len(offsets):
            found.end = max(found.end, int((offsets + counts).max()))
        if kept.any():
            found.take(offsets[kept], physical[kept], sizes[kept], counts[kept])
    if not found.end:
        return
    name = {"brokerName": asked.split.store.broker_name, "topic": part.topic, "queueId": part.queue_id}
    last = times.at(found.last_physical)
    yield {**name, "firstOffset": found.first, "endOffset": found.end, "lastStoreTimestamp": last}
    for number in np.flatnonzero(found.next_offset >= 0).tolist():
        yield {
            **name,
            "position": int(found.positions[number]),
            "messages": int(found.messages[number]),
            "bytes": int(found.bytes[number]),
            "nextOffset": int(found.next_offset[number]),
            "nextStoreTimestamp": times.at(int(found.next_physical[number])),
        }


class _Times:
    """Store times of messages by their place, in microseconds; None where no message is."""

    def __init__(self, asked: Asked) -> None:
        self._logs, self._tree = asked.logs, asked.split.store.tree(asked.split.options)
        self._starts = [log.start for log in self._logs]
        self._known: dict[int, int | None] = {}

    def at(self, physical: int) -> int | None:
        if physical not in self._known:
            self._known[physical] = self._read(physical)
        return self._known[physical]

    def _read(self, physical: int) -> int | None:
        number = int(np.searchsorted(self._starts, physical, side="right")) - 1
        if number < 0 or physical >= self._logs[number].end:
            return None
        log = self._logs[number]
        with suppress(StoreError), self._tree.open(log.path) as file:  # gone since it was listed: no time, but still a lag
            ms = first_time(file, physical - log.start)
            return None if ms is None else int(microseconds(np.array([ms]))[0])
        return None
