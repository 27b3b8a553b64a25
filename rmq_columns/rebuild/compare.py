"""Whether the queues that a store has are those that its log implies: rebuilt units against the store's, byte by byte.

Not everything that differs is wrong.  Units before the log's beginning lead to messages that retention took, so a rebuilt queue
begins behind them; a deleted topic has messages in the log and no queue; addresses of extensions depend on extensions that are
gone.  What is left is a difference, and the first one of each queue is reported.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT, Mask, Records, records
from rmq_columns.decode.queues import EXTENSION_ADDRESS_MAX, is_empty, is_filler, is_written
from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import LocalTree, Tree, joined, translated
from rmq_columns.read.options import Options
from rmq_columns.read.stores import LogFile
from rmq_columns.rebuild.entries import Key, Kind
from rmq_columns.rebuild.plan import Plan, log_options
from rmq_columns.rebuild.runs import Settled
from rmq_wire.store_names import BATCH_QUEUES, QUEUES, offset_name, offset_of

BLOCK_UNITS: Final = 1 << 16
"""Compared at once."""
TASK_BYTES: Final = 64 << 20
"""Of queue files, compared by one task."""
EQUAL: Final = "equal"
EQUIVALENT: Final = "equivalent"
"""equal but for the addresses of extensions"""
DELETED_TOPIC: Final = "deleted topic"
"""its messages are in the log, but no topic of this name is in topics.json"""
RETAINED: Final = "before the log"
"""all units of the store's queue lead to messages that retention took"""
DIFFERENT: Final = "different"
MISSING: Final = "missing"
"""the store has no such queue"""
SOUND: Final = (EQUAL, EQUIVALENT, DELETED_TOPIC, RETAINED)
COMPARED: Final = pa.schema(
    [
        ("brokerName", pa.string()),
        ("topic", pa.string()),
        ("queueId", pa.int32()),
        ("outcome", pa.string()),
        ("units", pa.int64()),
        ("differentUnits", pa.int64()),
        ("firstDifferentOffset", pa.int64()),
        ("field", pa.string()),
        ("storePhysicalOffset", pa.int64()),
        ("storeSize", pa.int32()),
        ("storeTagsCode", pa.int64()),
        ("rebuiltPhysicalOffset", pa.int64()),
        ("rebuiltSize", pa.int32()),
        ("rebuiltTagsCode", pa.int64()),
    ]
)
"""units: compared.  firstDifferentOffset: of the queue; of a batch queue the first message's.  The fields show that unit."""


class Pair(NamedTuple):
    """A queue of both; start and end in units, -1 for one that was not rebuilt."""

    key: Key
    files: tuple[LogFile, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Comparison:
    """Of one task.  log_start: physical offset at which the log begins."""

    plan: Plan
    options: Options
    pairs: tuple[Pair, ...]
    log_start: int
    topics: frozenset[str] | None
    """that topics.json knows; None when it cannot be read"""


def plan_comparison(plan: Plan, options: Options, made: Mapping[Key, Settled]) -> list[Comparison]:
    """Tasks, all queues of the store and all that were rebuilt."""
    tree, store, rules = plan.store.tree(options), plan.store, plan.rules
    wanted = replace(log_options(options), topics=rules.topics, queue_ids=rules.queue_ids)
    left = {(key.topic, key.queue_id, key.kind is Kind.BATCH): (key, queue) for key, queue in made.items()}
    pairs = []
    for one in store.queues(tree, wanted, (QUEUES, BATCH_QUEUES)):
        key, queue = left.pop((one.topic, one.queue_id, one.is_batch), (None, None))
        if key is None or queue is None:
            kind = Kind.BATCH if one.is_batch else Kind.PLAIN
            pairs.append(Pair(Key(one.topic, one.queue_id, kind), one.files, -1, -1))
        else:
            pairs.append(Pair(key, one.files, queue.place, queue.end_place))
    pairs += [Pair(key, (), queue.place, queue.end_place) for key, queue in left.values()]
    log_start = min((file.start for file in store.log_files(tree)), default=0)
    topics = _topics(tree, plan)
    return [Comparison(plan, options, tuple(some), log_start, topics) for some in _packed(pairs)]


def _packed(pairs: Sequence[Pair]) -> Iterator[list[Pair]]:
    held: list[Pair] = []
    size = 0
    for pair in pairs:
        held.append(pair)
        size += sum(file.size for file in pair.files)
        if size >= TASK_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _topics(tree: Tree, plan: Plan) -> frozenset[str] | None:
    try:
        table = plan.store.topics(tree)
    except CannotRead:
        return None
    return None if table is None else frozenset(table)


def compare_queues(task: Comparison) -> Iterator[pa.RecordBatch]:
    """A row for each queue, with the schema `COMPARED`.  Raises `CannotRead`."""
    tree = task.plan.store.tree(task.options)
    rows = [_compared(task, tree, pair) for pair in task.pairs]
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in COMPARED]
    yield pa.record_batch(columns, schema=COMPARED)


def _compared(task: Comparison, tree: Tree, pair: Pair) -> dict[str, Any]:
    key = pair.key
    row: dict[str, Any] = {
        "brokerName": task.plan.store.broker_name,
        "topic": key.topic,
        "queueId": key.queue_id,
        "units": 0,
        "differentUnits": 0,
    }
    kind = BATCH_UNIT if key.kind is Kind.BATCH else QUEUE_UNIT
    if not pair.files and pair.start >= 0:
        is_deleted = task.topics is not None and key.topic not in task.topics and key.kind is not Kind.LIGHT
        return row | {"outcome": DELETED_TOPIC if is_deleted else MISSING, "units": pair.end - pair.start}
    rebuilt = _Units(LocalTree(), _files_of(task, key) if pair.start >= 0 else (), kind)
    found = _Difference(task.log_start, kind is BATCH_UNIT)
    old = _Units(tree, pair.files, kind)
    shift = found.skipped(old) - pair.start if key.kind is Kind.BATCH else 0  # a batch queue made anew begins at its first file
    begin, end = (pair.start, pair.end) if pair.start >= 0 else (old.end, old.end)
    if key.kind is not Kind.BATCH:
        for at in range(old.start, min(begin, old.end), BLOCK_UNITS):
            found.take_extra(at, old.read(at, min(BLOCK_UNITS, begin - at)))
    for at in range(begin, end, BLOCK_UNITS):
        count = min(BLOCK_UNITS, end - at)
        found.take(at, old.read(at + shift, count), rebuilt.read(at, count))
    for at in range(end + shift, old.end, BLOCK_UNITS):
        found.take_extra(at, old.read(at, BLOCK_UNITS))
    row |= {"units": found.units, "differentUnits": found.different, **found.first}
    if found.different:
        return row | {"outcome": DIFFERENT}
    return row | {"outcome": RETAINED if pair.start < 0 else EQUIVALENT if found.addresses else EQUAL}


def _files_of(task: Comparison, key: Key) -> tuple[LogFile, ...]:
    directory = joined(task.plan.target.root, BATCH_QUEUES if key.kind is Kind.BATCH else QUEUES, key.topic, str(key.queue_id))
    with translated(directory):
        starts = sorted(start for name in os.listdir(directory) if (start := offset_of(name)) is not None)
        paths = [joined(directory, offset_name(start)) for start in starts]
        return tuple(LogFile(path, start, os.path.getsize(path)) for path, start in zip(paths, starts, strict=True))


class _Units:
    """Units of a row of files by their number.  start, end: of those that the files have room for."""

    def __init__(self, tree: Tree, files: Sequence[LogFile], kind: np.dtype[Any]) -> None:
        self._tree, self._files, self._kind = tree, files, kind
        self.start = files[0].start // kind.itemsize if files else 0
        self.end = files[-1].end // kind.itemsize if files else 0

    def read(self, number: int, count: int) -> Records:
        """Zeros where there is no file."""
        at, end = number * self._kind.itemsize, (number + count) * self._kind.itemsize
        data = bytearray(end - at)
        for file in self._files:
            low, high = max(at, file.start), min(end, file.end)
            if low < high:
                with self._tree.open(file.path) as opened:
                    raw = opened.read(low - file.start, high - low)
                data[low - at : low - at + len(raw)] = raw
        return records(data, self._kind)


class _Difference:
    """What differs in one queue."""

    def __init__(self, log_start: int, is_batch: bool) -> None:
        self._log_start, self._is_batch = log_start, is_batch
        self.units = self.different = 0
        self.addresses = False
        self.first: dict[str, Any] = {}

    def skipped(self, old: _Units) -> int:
        """The first unit that leads into the log; one past the last when none does."""
        for at in range(old.start, old.end, BLOCK_UNITS):
            units = old.read(at, min(BLOCK_UNITS, old.end - at))
            inside = (units["physical_offset"] >= self._log_start) | ~is_written(units)
            if inside.any():
                return at + int(np.argmax(inside))
        return old.end

    def take(self, at: int, old: Records, new: Records) -> None:
        """Units of the same places."""
        same = np.ones(len(new), np.bool_)
        for name in new.dtype.names or ():
            same &= old[name] == new[name]
        if not self._is_batch and not same.all():
            place = (old["physical_offset"] == new["physical_offset"]) & (old["size"] == new["size"])
            both = (old["tags_code"] <= EXTENSION_ADDRESS_MAX) & (new["tags_code"] <= EXTENSION_ADDRESS_MAX)
            self.addresses |= bool((place & both & ~same).any())
            same |= place & both
        self.units += len(new)
        self._count(at, ~same, old, new)

    def take_extra(self, at: int, old: Records) -> None:
        """Units of the store where none was rebuilt: fine are those that lead before the log."""
        wrong = ~is_empty(old) & ~is_filler(old) & (old["physical_offset"] >= self._log_start)
        self._count(at, wrong, old, np.zeros(len(old), old.dtype))

    def _count(self, at: int, wrong: Mask, old: Records, new: Records) -> None:
        if not wrong.any():
            return
        self.different += int(wrong.sum())
        if self.first:
            return
        row = int(np.argmax(wrong))
        one, other = old[row], new[row]
        names: Collection[str] = [name for name in new.dtype.names or () if one[name] != other[name]]
        offset = int((other if other["size"] else one)["base_offset"]) if self._is_batch else at + row
        field = "no unit in the store" if not one["size"] else "no message in the log" if not other["size"] else ", ".join(names)
        self.first = {
            "firstDifferentOffset": offset,
            "field": field,
            "storePhysicalOffset": int(one["physical_offset"]),
            "storeSize": int(one["size"]),
            "storeTagsCode": int(one["tags_code"]),
            "rebuiltPhysicalOffset": int(other["physical_offset"]),
            "rebuiltSize": int(other["size"]),
            "rebuiltTagsCode": int(other["tags_code"]),
        }
