"""What a task of `order` does with its split: hands over sharded messages, and finds by itself where queues and clock go back.

A split is read in the order of the log, so the last row of each queue is all that must be kept.  Where the split begins and ends
it says so (`SUMMARY`), for the seams are looked at afterwards.  What is in no queue (rolled back, a filler of a repair) has a
place in the log alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from rmq_columns.decode.implied import is_queued
from rmq_spark.picking import Picking, log_splits, picking
from rmq_spark.work import Given, Work

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_columns.read.plan import Split

KEYED, QUEUE_ORDER, CLOCK, SUMMARY, DAMAGE = "keyed", "queueOrder", "clock", "summary", "damage"
PLACE: Final = ("queueOffset", "physicalOffset", "storeTimestamp")
QUEUE_ID_BITS: Final = 32


@dataclass
class _Seen:
    """The first and the last row of a queue, or of the log, in this split: (queue offset, physical offset, store time)."""

    first: tuple[int, int, int]
    last: tuple[int, int, int]


@dataclass
class _State:
    broker: str | None = None
    queues: dict[tuple[str | None, int], _Seen] = field(default_factory=dict)


def schema() -> pa.Schema:
    """Rows of `look`: a message and, where there is one, the row before it; of a summary the first and the last."""
    import pyarrow as pa

    from rmq_columns.read.schema import TIME

    whole = [("queueOffset", pa.int64()), ("physicalOffset", pa.int64()), ("storeTimestamp", TIME)]
    texts = [("tag", pa.string()), ("brokerName", pa.string()), ("topic", pa.string()), ("queueId", pa.int32())]
    more = [("key", pa.string()), ("sequence", pa.string()), ("uniqKey", pa.string())]
    return pa.schema([*texts, *whole, *more, *((f"previous{name[0].upper()}{name[1:]}", kind) for name, kind in whole)])


def look(wanted: Picking, key: str, sequence: str | None, tolerance_ms: int, split: Split) -> Iterator[pa.RecordBatch]:
    """One split.  key, sequence: columns of what `wanted` picks; tolerance_ms: so far may store times go back."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from rmq_spark.picking import CORRUPT, pick

    state = _State()
    for batch in pick(wanted, split):
        bad = pc.is_valid(batch.column(CORRUPT))
        if (damaged := batch.filter(bad)).num_rows:
            yield _made(damaged, DAMAGE, key, sequence)
            batch = batch.filter(pc.invert(bad))
        if not len(batch):
            continue
        state.broker = batch.column("brokerName")[0].as_py()
        keyed = batch.filter(pc.and_(pc.is_valid(batch.column(key)), pa.array(_queued(batch))))
        if len(keyed):
            yield _made(keyed, KEYED, key, sequence)
        yield from _went_back(batch, state, tolerance_ms * 1000)
    if state.queues:
        rows = [(SUMMARY, topic, queue_id, one.first, one.last) for (topic, queue_id), one in state.queues.items()]
        yield _rows(state.broker, rows)


def _queued(batch: pa.RecordBatch) -> Any:
    """Which rows are in a queue, as a mask of numpy's."""
    return is_queued(batch.column("sysFlag").to_numpy(zero_copy_only=False))


def _made(batch: pa.RecordBatch, tag: str, key: str, sequence: str | None) -> pa.RecordBatch:
    import pyarrow as pa

    own = {"key": key, "sequence": sequence}
    columns = []
    for one in schema():
        name = own.get(one.name, one.name)
        if one.name == "tag":
            columns.append(pa.array([tag] * len(batch), pa.string()))
        elif name in batch.schema.names:
            columns.append(_text(batch.column(name)) if one.name == "sequence" else batch.column(name).cast(one.type))
        else:
            columns.append(pa.nulls(len(batch), one.type))
    return pa.record_batch(columns, schema=schema())


def _text(values: pa.Array) -> pa.Array:
    """A time as its ms, anything else as it is written."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(values.type):
        values = pc.divide(values.cast(pa.int64()), 1000)
    return values.cast(pa.string())


def _rows(broker: str | None, rows: list[tuple[str, str | None, int, tuple[int, int, int], tuple[int, int, int]]]) -> Any:
    import pyarrow as pa

    made: dict[str, list[Any]] = {name: [None] * len(rows) for name in schema().names}
    for at, (tag, topic, queue_id, this, other) in enumerate(rows):
        made["tag"][at], made["brokerName"][at], made["topic"][at], made["queueId"][at] = tag, broker, topic, queue_id
        for name, value, before in zip(PLACE, this, other, strict=True):
            made[name][at], made[f"previous{name[0].upper()}{name[1:]}"][at] = value, before
    return pa.record_batch([pa.array(made[one.name], one.type) for one in schema()], schema=schema())


def _went_back(batch: pa.RecordBatch, state: _State, tolerance_us: int) -> Iterator[pa.RecordBatch]:
    """Rows that are behind the one before them: in their queue by queue offset, in the log by store time."""
    import pyarrow as pa

    topics = batch.column("topic").dictionary_encode()
    names = topics.dictionary.to_pylist()
    code = topics.indices.to_numpy(zero_copy_only=False).astype(np.int64) << QUEUE_ID_BITS
    code |= batch.column("queueId").to_numpy(zero_copy_only=False).astype(np.int64) & ((1 << QUEUE_ID_BITS) - 1)
    columns = [batch.column(name).cast(pa.int64()).to_numpy(zero_copy_only=False) for name in PLACE]
    place = np.stack(columns, axis=1)
    found: list[Any] = []
    queued = np.flatnonzero(_queued(batch))
    order = queued[np.argsort(code[queued], kind="stable")]
    edges = np.flatnonzero(np.diff(code[order])) + 1
    for rows in np.split(order, edges) if len(order) else ():
        one = int(code[rows[0]])
        topic, queue_id = names[one >> QUEUE_ID_BITS], int(np.int64(one).astype(np.int32))
        found += _behind(QUEUE_ORDER, topic, queue_id, place[rows], state, 0, 1)
    found += _behind(CLOCK, None, -1, place, state, 2, -tolerance_us)
    if found:
        yield _rows(state.broker, found)


def _behind(tag: str, topic: str | None, queue_id: int, place: Any, state: _State, by: int, step: int) -> Iterator[Any]:
    """Rows whose column `by` is less than that of the row before plus `step`."""
    seen = state.queues.get((topic, queue_id))
    before = np.concatenate((place[:1] if seen is None else np.array([seen.last]), place[:-1]))
    wrong = place[:, by] < before[:, by] + step
    if seen is None:
        wrong[0] = False
    for row in np.flatnonzero(wrong).tolist():
        yield tag, topic, queue_id, _triple(place[row]), _triple(before[row])
    first = _triple(place[0]) if seen is None else seen.first
    state.queues[topic, queue_id] = _Seen(first, _triple(place[-1]))


def _triple(row: Any) -> tuple[int, int, int]:
    return int(row[0]), int(row[1]), int(row[2])


def _schema(given: Given) -> pa.Schema:
    return schema()


def _look(given: Given, split: Split) -> Iterator[pa.RecordBatch]:
    return look(given["wanted"], given["key"], given.get("sequence"), given["tolerance"], split)


ORDERED: Final = Work(_schema, _look, log_splits, {"wanted": picking, "key": str, "sequence": str, "tolerance": int})
"""The table of what `look` gives."""
