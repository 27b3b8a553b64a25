"""The tables beside `messages`: queue units, index entries, files, topics, consumer offsets, gaps of the log.

Queue units and index entries are read in blocks and stay numpy until they are rows; the small tables are made row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rmq_columns.decode.dtypes import BATCH_UNIT, INDEX_ENTRY, INDEX_HEADER, QUEUE_UNIT, Mask, Records, records
from rmq_columns.decode.index_slots import Header, likely_geometry
from rmq_columns.decode.queues import is_empty, is_filler, is_written
from rmq_columns.errors import CannotRead, FileGone, Malformed
from rmq_columns.files.filesystem import File, Tree, joined
from rmq_columns.read.arrow import microseconds
from rmq_columns.read.messages import damages
from rmq_columns.read.offsets import QueueRanges
from rmq_columns.read.options import Mode, Options, Table
from rmq_columns.read.plan import CLOCK_STEP_MS, Part, Split, first_store_timestamp
from rmq_columns.read.schema import CORRUPT
from rmq_columns.read.stores import LogFile, chosen
from rmq_wire.layout.index import divided
from rmq_wire.store_names import BATCH_QUEUES, EXTENSIONS, QUEUES

Row = dict[str, Any]


class _Maker:
    """Rows of one split, in batches of bounded size; the one place where the mode is asked."""

    def __init__(self, split: Split, schema: pa.Schema) -> None:
        self.options, self.store, self.schema = split.options, split.store, schema
        self.tree: Tree = split.store.tree(split.options)
        self.parts = split.parts
        self.ranges = QueueRanges(split.options.starting_offsets, split.options.ending_offsets)

    def numbers(self, columns: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Columns of one length: numpy arrays, or one value for all rows."""
        count = next(len(one) for one in columns.values() if isinstance(one, np.ndarray))
        for begin in range(0, count, self.options.batch_rows):
            size = min(self.options.batch_rows, count - begin)
            yield pa.record_batch([self._column(field, columns, begin, size) for field in self.schema], schema=self.schema)

    def _column(self, field: pa.Field, columns: dict[str, Any], begin: int, size: int) -> Any:
        value = self.store.broker_name if field.name == "brokerName" else columns.get(field.name)
        if isinstance(value, np.ndarray):
            part = value[begin : begin + size]
            return pa.array(part.astype(part.dtype.newbyteorder("="))).cast(field.type)
        return pa.repeat(pa.scalar(value, field.type), size)

    def rows(self, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
        """Rows one by one."""
        held: list[Row] = []
        for row in rows:
            held.append(row | {"brokerName": self.store.broker_name})
            if len(held) >= self.options.batch_rows:
                yield self._batch(held)
                held = []
        if held:
            yield self._batch(held)

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        columns = [pa.array([row.get(one.name) for row in rows], one.type) for one in self.schema]
        return pa.record_batch(columns, schema=self.schema)

    def bad(self, path: str, at: int, why: str) -> Iterator[Row]:
        """What becomes of a row that cannot be read.  Raises `Malformed` in mode FAILFAST."""
        problem = Malformed(path, at, why)
        if self.options.mode is Mode.FAILFAST:
            raise problem
        if self.options.mode is Mode.PERMISSIVE:
            yield {CORRUPT: str(problem)}

    def of_parts(self, read: Callable[[_Maker, Part, File], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        """What `read` makes of each file.  One that is gone: `FileGone` in mode FAILFAST, or a row that says so, or none."""
        for part in self.parts:
            try:
                file = self.tree.open(part.path)
            except FileGone as gone:
                why = "deleted since the splits were planned"
                if self.options.mode is Mode.FAILFAST:
                    raise FileGone(part.path, -1, why) from gone
                of_queue = {"topic": part.topic, "queueId": part.queue_id} if part.topic else {}
                yield from self.rows({**row, **of_queue, "file": part.path} for row in self.bad(part.path, -1, why))
                continue
            with file:
                yield from read(self, part, file)


def read_table(split: Split, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of any table but `messages`.  Raises `Malformed` in mode FAILFAST, `CannotRead`."""
    maker = _Maker(split, schema)
    match split.options.table:
        case Table.CONSUME_QUEUE:
            return maker.of_parts(_queue_file)
        case Table.INDEX:
            return maker.of_parts(_index_file)
        case Table.FILES:
            return maker.rows(_files(maker))
        case Table.TOPICS:
            return maker.rows(_topics(maker))
        case Table.CONSUMER_OFFSETS:
            return maker.rows(_offsets(maker))
        case _:
            return maker.rows(_gaps(split))


# --- queue units


def _queue_file(maker: _Maker, part: Part, file: File) -> Iterator[pa.RecordBatch]:
    kind = BATCH_UNIT if part.is_batch else QUEUE_UNIT
    empty_from = -1
    for at, units in _blocks(file, kind, part.end, maker.options.block_bytes):
        empty = is_empty(units)
        sound = is_written(units) & ~is_filler(units)
        last = int(np.flatnonzero(~empty)[-1]) + 1 if not empty.all() else 0
        if last and empty_from >= 0:
            yield from maker.rows(maker.bad(part.path, empty_from, "no unit, with units behind it"))
        problem = np.flatnonzero((empty | (~is_written(units) & ~empty))[:last])
        if len(problem):
            first = int(problem[0])
            if sound[:first].any() and maker.options.mode is Mode.FAILFAST:
                yield from _units(maker, part, units, sound & (np.arange(len(units)) < first), at)
            for row in problem[np.concatenate(([True], np.diff(problem) > 1))].tolist():
                why = "no unit, with units behind it" if empty[row] else "no unit: offset or size is negative or 0"
                yield from maker.rows(maker.bad(part.path, at + row * kind.itemsize, why))
        yield from _units(maker, part, units, sound, at)
        empty_from = (at + last * kind.itemsize if last else empty_from if empty_from >= 0 else at) if last < len(units) else -1


def _units(maker: _Maker, part: Part, units: Records, which: Mask, at: int) -> Iterator[pa.RecordBatch]:
    options = maker.options
    if options.starting_offset is not None:
        which = which & (units["physical_offset"] >= options.starting_offset)
    if options.ending_offset is not None:
        which = which & (units["physical_offset"] < options.ending_offset)
    places = units["base_offset"] if part.is_batch else (part.file_start + at) // units.dtype.itemsize + np.arange(len(units))
    low, high = maker.ranges.range_of(part.topic, part.queue_id)
    ends = places + units["batch_size"] if part.is_batch else places + 1
    which = which & (ends > low) & (places < high)
    found = units[which]
    if not len(found):
        return
    yield from maker.numbers(
        {
            "topic": part.topic,
            "queueId": part.queue_id,
            "physicalOffset": found["physical_offset"],
            "size": found["size"],
            "tagsCode": found["tags_code"],
            "queueOffset": places[which],
            "batchSize": found["batch_size"] if part.is_batch else 1,
        }
    )


def _blocks(file: File, kind: np.dtype[Any], end: int, block_bytes: int, start: int = 0) -> Iterator[tuple[int, Records]]:
    """(byte, records) of the parts of a file that hold data; a record is never cut."""
    size = kind.itemsize
    step = max(block_bytes // size, 1) * size
    done = start
    for data, hole in file.data_ranges(start):
        at = max(done, data - (data - start) % size)
        while at < min(hole, end):
            raw = file.read(at, min(step, (end - at) // size * size))
            found = records(raw, kind)
            if not len(found):
                return
            yield at, found
            at = done = at + len(found) * size


# --- index entries


def _index_file(maker: _Maker, part: Part, file: File) -> Iterator[pa.RecordBatch]:
    raw = file.read(0, INDEX_HEADER.itemsize)
    if len(raw) < INDEX_HEADER.itemsize:
        yield from maker.rows(maker.bad(part.path, 0, "no header of an index file"))
        return
    [header] = records(raw, INDEX_HEADER)
    count = int(header["index_count"])
    if count <= 1 or not _may_hold(maker.options, header):
        return
    given, size = maker.options.hash_slots, file.size()
    geometry = divided(size, given) if given else likely_geometry(file, size, Header.of(header))
    if geometry is None:
        yield from maker.rows(maker.bad(part.path, 0, "the number of its hash slots is unknown (give hashSlots)"))
        return
    end = geometry.entry_at(count)
    if end > part.end:
        yield from maker.rows(maker.bad(part.path, 0, "more entries than there is room for"))
    first = geometry.entry_at(1)  # entry 0 is never used
    for at, entries in _blocks(file, INDEX_ENTRY, min(end, part.end), maker.options.block_bytes, first):
        number = (at - first) // INDEX_ENTRY.itemsize + 1 + np.arange(len(entries))
        yield from _entries(maker, part, entries, number, header, geometry.slots, at)


def _entries(
    maker: _Maker, part: Part, entries: Records, number: Any, header: Any, slots: int, at: int
) -> Iterator[pa.RecordBatch]:
    options = maker.options
    time = int(header["begin_timestamp"]) + entries["seconds"].astype(np.int64) * 1000
    bad = (entries["key_hash"] < 0) | (entries["physical_offset"] < 0)
    for row in np.flatnonzero(bad).tolist():
        yield from maker.rows(maker.bad(part.path, at + row * INDEX_ENTRY.itemsize, "no entry: hash or offset is negative"))
    keep = ~bad
    for limit, values, is_least in (
        (options.starting_ms, time, True),
        (options.ending_ms, time, False),
        (options.starting_offset, entries["physical_offset"], True),
        (options.ending_offset, entries["physical_offset"], False),
    ):
        if limit is not None:
            keep &= (values >= limit) if is_least else (values < limit)
    found = entries[keep]
    if len(found):
        yield from maker.numbers(
            {
                "file": part.path,
                "number": number[keep],
                "keyHash": found["key_hash"],
                "phyOffset": found["physical_offset"],
                "storeTime": microseconds(time[keep]),
                "slot": found["key_hash"] % slots,
                "previous": found["previous"],
            }
        )


def _may_hold(options: Options, header: Any) -> bool:
    """By the first and last message that the header names; times as exact as a clock that is set now and then."""
    begin, end = int(header["begin_timestamp"]), int(header["end_timestamp"])
    low, high = int(header["begin_physical_offset"]), int(header["end_physical_offset"])
    return not (
        (options.starting_ms is not None and max(begin, end) + CLOCK_STEP_MS < options.starting_ms)
        or (options.ending_ms is not None and begin - CLOCK_STEP_MS >= options.ending_ms)
        or (options.starting_offset is not None and high < options.starting_offset)
        or (options.ending_offset is not None and low >= options.ending_offset)
    )


# --- small tables


def _files(maker: _Maker) -> Iterator[Row]:
    store, tree, options = maker.store, maker.tree, maker.options
    narrowed = options.topics is not None or options.queue_ids is not None
    if not narrowed:
        for log in store.log_files(tree):
            time = first_store_timestamp(tree, log.path) if "firstStoreTimestamp" in maker.schema.names else None
            micros = None if time is None else int(microseconds(np.array([time]))[0])
            yield _file("commitlog", log, startOffset=log.start, firstStoreTimestamp=micros)
    if not store.root:
        return
    every = options if narrowed else Options(options.paths, include_system_topics=True)
    for queue in store.queues(tree, every, (QUEUES, BATCH_QUEUES, EXTENSIONS)):
        for file in queue.files:
            yield _file(queue.tree, file, topic=queue.topic, queueId=queue.queue_id, startOffset=file.start)
    if narrowed:
        return
    for file in store.index_files(tree):
        yield _file("index", file)
    for directory in ("timerlog", "config"):
        for one in tree.entries(joined(store.root, directory)) or ():
            if not one.is_directory:
                yield _file(directory, LogFile(joined(store.root, directory, one.name), 0, one.size))
    for one in tree.entries(store.root) or ():
        if not one.is_directory:
            yield _file(one.name, LogFile(joined(store.root, one.name), 0, one.size))


def _file(kind: str, file: LogFile, **more: Any) -> Row:
    return {"kind": kind, "path": file.path, "size": file.size, **more}


def _config(maker: _Maker, name: str) -> Iterator[tuple[str, Any]]:
    """Path and value; nothing when there is no such file.  What is wrong with it is raised in every mode."""
    if (found := maker.store.config(maker.tree, name)) is not None:
        if not isinstance(found[1], dict):
            raise CannotRead(found[0], -1, "not the configuration of a broker")
        yield found


def _topics(maker: _Maker) -> Iterator[Row]:
    for path, value in _config(maker, "topics.json"):
        for name, topic in _table(value, "topicConfigTable").items():
            if not isinstance(topic, dict) or not all(_is_int(topic.get(key, 0)) for key in _TOPIC_NUMBERS):
                yield from maker.bad(path, -1, f"topic {name}: not the configuration of a topic")
            elif chosen(maker.options, str(name)):
                attributes = _table(topic, "attributes")
                yield {
                    "topic": str(name),
                    **{key: topic.get(key) for key in _TOPIC_NUMBERS},
                    "order": topic.get("order") is True,
                    "topicFilterType": str(topic.get("topicFilterType", "SINGLE_TAG")),
                    "attributes": [(str(key), str(held)) for key, held in attributes.items()],
                }


_TOPIC_NUMBERS: Final = ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag")


def _table(value: dict[Any, Any], name: str) -> dict[Any, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 31) <= value < 1 << 31


def _offsets(maker: _Maker) -> Iterator[Row]:
    """Sources: `ConsumerOffsetManager` (topic@group -> queue -> offset), `LmqConsumerOffsetManager` (topic@group -> offset)."""
    tables: list[tuple[str, dict[Any, Any], dict[Any, Any]]] = []
    for path, value in _config(maker, "consumerOffset.json"):
        tables.append((path, _table(value, "offsetTable"), _table(value, "pullOffsetTable")))
    for path, value in _config(maker, "lmqConsumerOffset.json"):
        light = {key: {0: offset} for key, offset in _table(value, "lmqOffsetTable").items()}
        tables.append((path, _table(value, "offsetTable"), _table(value, "pullOffsetTable")))
        tables.append((path, light, {}))
    for path, committed, pulled in tables:
        for key in {**committed, **pulled}:
            topic, at, group = str(key).partition("@")
            if not at:
                yield from maker.bad(path, -1, f"{key!r}: not topic@group")
            elif not all(isinstance(table.get(key, {}), dict) for table in (committed, pulled)):
                yield from maker.bad(path, -1, f"{key}: no offsets of queues")
            elif chosen(maker.options, topic):
                yield from _offsets_of(maker, path, topic, group, _table(committed, key), _table(pulled, key))


def _offsets_of(
    maker: _Maker, path: str, topic: str, group: str, committed: dict[Any, Any], pulled: dict[Any, Any]
) -> Iterator[Row]:
    for queue in {**committed, **pulled}:
        try:
            queue_id = _number(queue, 32)
            offset, pull_offset = (None if one is None else _number(one, 64) for one in (committed.get(queue), pulled.get(queue)))
        except (TypeError, ValueError, OverflowError):
            yield from maker.bad(path, -1, f"{topic}@{group}, queue {queue!r}: not an offset")
            continue
        if maker.options.queue_ids is None or queue_id in maker.options.queue_ids:
            yield {"group": group, "topic": topic, "queueId": queue_id, "offset": offset, "pullOffset": pull_offset}


def _number(value: Any, bits: int) -> int:
    """Raises TypeError, ValueError, OverflowError (of what is no number, too large, without end)."""
    number = int(value)
    if not -1 << bits - 1 <= number < 1 << bits - 1:
        raise OverflowError(f"{number}: more than {bits} bits")
    return number


def _gaps(split: Split) -> Iterator[Row]:
    low, high = split.options.starting_offset, split.options.ending_offset
    for one in damages(split):
        end = one.log_start + one.end - one.start
        if (low is None or end > low) and (high is None or one.log_start < high):
            size = end - one.log_start
            yield {"file": one.path, "startOffset": one.log_start, "endOffset": end, "size": size, "kind": one.kind}
