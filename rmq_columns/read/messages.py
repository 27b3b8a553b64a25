"""A split of the commit log as batches of messages, and as gaps.

Rows are chosen (topic, queue, time, place) before anything else of them is decoded.  What is no sound message is met in one
place, by the mode: raised, shown, or left out.  A part must end exactly where the next one begins (`SeamMismatch` if a sound
unit reaches over its end); a break of the chain before that is damage, and the scan goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmq_columns.decode.dtypes import Mask
from rmq_columns.decode.scan import Batch, End, Ending, Gap, Seeker, scan
from rmq_columns.decode.units import bad_crcs
from rmq_columns.errors import FileGone, Malformed, SeamMismatch
from rmq_columns.files.filesystem import File, Tree
from rmq_columns.read.arrow import BODIES, Rows
from rmq_columns.read.offsets import QueueRanges
from rmq_columns.read.options import Mode, Options, Tail
from rmq_columns.read.plan import Part, Split
from rmq_columns.read.pruned import Expected, expected_of
from rmq_columns.read.schema import CORRUPT
from rmq_columns.read.stores import chosen

SMALL_SHARE = 4
"""A batch with fewer than one part in so many of the rows that it may have waits for the next."""

HELD_BYTES_MAX = 64 << 20
"""More wait for no others, however few they are: bodies may be unpacked to many times their size in the log."""

Made = tuple[pa.RecordBatch, bool]
"""Rows, and whether they are as many bytes as were asked for."""


class Damage(NamedTuple):
    """Bytes of a file that hold no message.  kind: why."""

    path: str
    start: int
    end: int
    log_start: int
    """physical offset of `start`"""
    kind: str


def read_messages(split: Split, schema: pa.Schema, batch_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of the table `messages`.  batch_bytes: as for `read_split`.

    Raises `Malformed` in mode FAILFAST, `SeamMismatch`, `CannotRead`.
    """
    options = split.options
    rows = _Messages(options, split.store.broker_name, schema, batch_bytes)
    held: list[pa.RecordBatch] = []
    count = size = 0
    for made, is_large in rows.of(split):
        if held and (is_large or count + len(made) > options.batch_rows):
            yield from _joined(held)
            held, count, size = [], 0, 0
        held.append(made)
        count += len(made)
        size += made.nbytes
        if is_large or count * SMALL_SHARE >= options.batch_rows or size >= HELD_BYTES_MAX:
            yield from _joined(held)
            held, count, size = [], 0, 0
    yield from _joined(held)


def _joined(held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """As one, mostly: of a column with more than 2 GiB Arrow makes several."""
    return pa.Table.from_batches(held).combine_chunks().to_batches() if len(held) > 1 else held


def damages(split: Split) -> Iterator[Damage]:
    """What lies between the messages of a split, and behind the last one of a log (`tail` decides about zeros)."""
    tree = split.store.tree(split.options)
    for part in split.parts:
        for item in scanned(tree, part, split.options):
            if isinstance(item, Damage):
                yield item


def scanned(tree: Tree, part: Part, options: Options) -> Iterator[Batch | Damage]:
    """One part: batches of units, and what is none.  A file that was deleted since it was listed is one `Damage`."""
    if part.missing_before and not part.start:
        before = part.file_start - part.missing_before
        yield Damage(part.path, 0, part.missing_before, before, "no file")
    try:
        opened = tree.open(part.path)
    except FileGone:
        yield Damage(part.path, part.start, part.end, part.file_start + part.start, "deleted while it was read")
        return
    with opened as file:
        if part.was_empty and _next_place(file, part, 0) > 0:
            return  # begun after the splits were planned: what came into the file before it then may have been read too early
        yield from _scanned(file, part, options)


def led_to(tree: Tree, part: Part, options: Options, expected: Expected) -> Iterator[Batch | Damage]:
    """Those bytes of one part that hold messages of some queues, and what lies close between them.  Raises `CannotRead`."""
    ranges = list(expected.ranges())
    if not ranges:
        return
    with tree.open(part.path) as file:
        for begin, end in ranges:
            piece = part._replace(start=begin - part.file_start, end=end - part.file_start, ends_file=False, missing_before=0)
            block_bytes = min(options.block_bytes, end - begin)
            yield from _scanned(file, piece, replace(options, block_bytes=block_bytes))


def _scanned(file: File, part: Part, options: Options) -> Iterator[Batch | Damage]:
    for item in _scan_part(file, part, options):
        if isinstance(item, Batch):
            yield item
        elif isinstance(item, Gap):
            kind = "zeros" if item.is_zero else item.fault.name.lower()
            yield Damage(part.path, item.start, item.end, part.file_start + item.start, kind)
        elif _was_written_meanwhile(file, part, item):
            yield from _scanned(file, part._replace(start=item.at), options)
        else:
            yield from _ending(file, part, item, options)


def _was_written_meanwhile(file: File, part: Part, end: End) -> bool:
    """Whether a broker was writing the unit that seemed to be torn, and has done so now."""
    if end.how is not Ending.TORN or not part.is_active or not part.ends_file:
        return False
    return end.at < _next_place(file, part, end.at) <= part.end


def _next_place(file: File, part: Part, at: int) -> int:
    return Seeker(file, part.file_start + part.displaced_by, file.size(), 1).next_place(at)


def _scan_part(file: File, part: Part, options: Options) -> Iterator[Batch | Gap | End]:
    limit = getattr(file, "limit", None)
    if limit is not None:
        limit(part.end)
    yield from scan(
        file,
        part.file_start,
        start=part.start,
        end=part.end if part.ends_file else None,
        stop=part.end,
        block_bytes=options.block_bytes,
        displaced_by=part.displaced_by,
    )


def _ending(file: File, part: Part, end: End, options: Options) -> Iterator[Damage]:
    """What an end means for the rows: nothing, damage, or that the split was cut in the middle of a unit."""
    if end.at == part.end or (part.ends_file and end.how in (Ending.BLANK, Ending.FULL)):
        return
    if end.how is Ending.OVER and part.ends_file:
        return  # the file has grown since: what begins behind its end of then is not ours
    if end.how is Ending.OVER:
        raise SeamMismatch(part.path, end.at, f"units lead here, over the split's end at {part.end}: none begins there")
    if part.ends_file and _next_place(file, part, end.at) > part.end:
        return  # it was appended after the splits were planned: not ours to show
    if end.how is Ending.ZEROS and part.ends_file and part.is_active:
        if options.tail is Tail.REPORT:
            yield Damage(part.path, end.at, part.end, part.file_start + end.at, "unwritten")
        return
    kind = end.how.value if end.how is not Ending.TORN else f"torn: {end.fault.name.lower()}"
    yield Damage(part.path, end.at, part.end, part.file_start + end.at, kind)


class _Messages:
    def __init__(self, options: Options, broker_name: str, schema: pa.Schema, batch_bytes: int | None) -> None:
        self._options, self._broker_name, self._schema = options, broker_name, schema
        self._ranges = QueueRanges(options.starting_offsets, options.ending_offsets)
        has_bodies = not BODIES.isdisjoint(schema.names)
        self._batch_bytes = batch_bytes if has_bodies else None
        self._verify = options.verify_crc or "crcOk" in schema.names
        self._unpack = options.decompress and has_bodies

    def of(self, split: Split) -> Iterator[Made]:
        tree = split.store.tree(split.options)
        checked_from = split.pruned.checked_from if split.pruned is not None else 0
        for part in split.parts:
            expected, items = None, scanned(tree, part, split.options)
            if split.pruned is not None:
                start, end = part.file_start + part.start, part.file_start + part.end
                expected = expected_of(tree, split.pruned, checked_from, start, end).between(self._options)
                items, checked_from = led_to(tree, part, split.options, expected), end
            for item in items:
                if isinstance(item, Batch):
                    yield from self._batches(item, part, expected)
                elif item.kind != "unwritten" and self._is_near(item):
                    yield from self._damaged(item)

    def _is_near(self, damage: Damage) -> bool:
        low, high = self._options.starting_offset, self._options.ending_offset
        size = damage.end - damage.start
        return (low is None or damage.log_start + size > low) and (high is None or damage.log_start < high)

    def _damaged(self, damage: Damage) -> Iterator[Made]:
        size = damage.end - damage.start
        if self._options.mode is Mode.FAILFAST:
            if damage.kind.startswith("deleted"):
                raise FileGone(damage.path, -1, damage.kind)
            raise Malformed(damage.path, damage.start, f"{size} bytes are no message ({damage.kind})")
        if self._options.mode is Mode.PERMISSIVE:
            shown: dict[str, Any] = {
                "brokerName": self._broker_name,
                "physicalOffset": damage.log_start,
                "storeSize": min(size, np.iinfo(np.int32).max),
                CORRUPT: f"{damage.path}, byte {damage.start}: {size} bytes are no message ({damage.kind})",
            }
            row = [pa.array([shown.get(field.name)], field.type) for field in self._schema]
            yield pa.record_batch(row, schema=self._schema), False

    def _batches(self, item: Batch, part: Part, expected: Expected | None = None) -> Iterator[Made]:
        rows = Rows(item.buffer, item.units, self._broker_name, self._unpack)
        if expected is not None:
            self._check(rows, item, part, expected)
        wanted = self._wanted(rows, item, part)
        if not wanted.any():
            return
        place = item.units.at + (item.base + part.file_start + part.displaced_by)
        wrong = item.units["physical_offset"] != place
        if not wanted.all():
            rows, wrong, place = rows.take(wanted), wrong[wanted], place[wanted]
        for begin in range(0, len(rows), self._options.batch_rows):
            chunk = slice(begin, begin + self._options.batch_rows)
            yield from self._made(rows.take(chunk), wrong[chunk], item.base, part)

    def _made(self, rows: Rows, wrong: Mask, base: int, part: Part) -> Iterator[Made]:
        try:
            problems = self._problems(rows, wrong)
        except OverflowError:
            half = len(rows) // 2
            for piece in (slice(0, half), slice(half, len(rows))):
                yield from self._made(rows.take(piece), wrong[piece], base, part)
            return
        bad = np.zeros(len(rows), np.bool_)
        for mask in problems.values():
            bad |= mask
        if bad.any():
            match self._options.mode:
                case Mode.FAILFAST:
                    first = int(np.argmax(bad))
                    why = next(why for why, mask in problems.items() if mask[first])
                    if first:
                        yield rows.take(slice(0, first)).record_batch(self._schema), False
                    raise Malformed(part.path, base + int(rows.units.at[first]), why)
                case Mode.PERMISSIVE:
                    rows.corrupt = [
                        next((why for why, mask in problems.items() if mask[row]), None) if bad[row] else None
                        for row in range(len(rows))
                    ]
                case Mode.DROPMALFORMED:
                    rows = rows.take(~bad)
        if len(rows):
            size = self._batch_bytes
            is_large = size is not None and rows.log_bytes() * SMALL_SHARE >= size
            yield from ((batch, is_large) for batch in rows.record_batches(self._schema, size))

    def _problems(self, rows: Rows, wrong: Mask) -> dict[str, Mask]:
        found: dict[str, Mask] = {}
        if wrong.any():
            found["its own offset is not where it stands"] = wrong
        if self._verify:
            found["the CRC of its body is another one"] = bad_crcs(rows.buffer.data, rows.units)
        if self._unpack:
            found["its body cannot be decompressed"] = rows.bad_bodies()
        return found

    def _check(self, rows: Rows, item: Batch, part: Part, expected: Expected) -> None:
        """Raises `SeamMismatch` when the messages of the queues are not those to which their units lead."""
        units = item.units
        of_queues: npt.NDArray[np.bool_] = np.ones(len(units), np.bool_)
        if self._options.queue_ids is not None:
            of_queues &= np.isin(units["queue_id"], list(self._options.queue_ids))
        of_queues &= self._of_topics(rows, item)
        places = units.at + (item.base + part.file_start)
        columns = (places, units["total_size"], units["queue_id"], units["queue_offset"])
        found = Expected(*(column[of_queues].astype(np.int64) for column in columns))
        expected.check(part.path, int(places[0]), int(places[-1] + units["total_size"][-1]), found)

    def _of_topics(self, rows: Rows, item: Batch) -> Mask:
        """Rows of the topics that are wanted, and of the ranges of their queues."""
        units = item.units
        rows.topic = rows.topic if rows.topic is not None else rows.topics()
        encoded = rows.topic.dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        is_chosen = [chosen(self._options, topic) for topic in topics]
        found: Mask = np.ones(len(units), np.bool_)
        if not all(is_chosen):
            found = pc.take(pa.array(is_chosen, pa.bool_()), encoded.indices).to_numpy(zero_copy_only=False)
        if self._ranges:
            codes = encoded.indices.to_numpy()
            found = found & self._ranges.wanted(topics, codes, units["queue_id"], units["queue_offset"])
        return found

    def _wanted(self, rows: Rows, item: Batch, part: Part) -> Mask:
        options, units = self._options, item.units
        wanted: npt.NDArray[np.bool_] = np.ones(len(units), np.bool_)
        if options.queue_ids is not None:
            wanted &= np.isin(units["queue_id"], list(options.queue_ids))
        if options.starting_ms is not None:
            wanted &= units["store_timestamp"] >= options.starting_ms
        if options.ending_ms is not None:
            wanted &= units["store_timestamp"] < options.ending_ms
        if options.wants_offset():
            place = units.at + (item.base + part.file_start + part.displaced_by)
            wanted &= place >= (options.starting_offset or 0)
            if options.ending_offset is not None:
                wanted &= place < options.ending_offset
        if wanted.any() and (options.topics is not None or not options.include_system_topics):
            wanted &= self._of_topics(rows, item)
        return wanted
