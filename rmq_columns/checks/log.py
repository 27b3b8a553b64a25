"""Commit log files: units, check sums, chain, and every unit held against its queue and its index entries.

One call looks at one file or a part of one, so that they can be looked at side by side; what goes over an edge (the sequence of
queue offsets) comes back as `Edge`s, to be joined by the caller.  All is done for a block of units at once.  A unit whose queue
unit is empty is damage only when a later message of the log has one already: queues are filled in the log's order, so behind the
last message that any queue has, units merely wait.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from rmq_columns.checks.entries import IndexCheck
from rmq_columns.checks.findings import NOWHERE
from rmq_columns.checks.meeting import Recorded, RecordedKeys
from rmq_columns.checks.places import Places
from rmq_columns.checks.report import QUEUES_MAX, Entry, Known, LogPart, LogReport
from rmq_columns.checks.sequence import Grouped, Sequences, grouped
from rmq_columns.checks.topics import Topics
from rmq_columns.decode import implied, texts
from rmq_columns.decode import units as columns
from rmq_columns.decode.dtypes import Bytes, Ints, gather
from rmq_columns.decode.scan import Batch, End, Ending, Gap, scan
from rmq_columns.decode.texts import Hasher, Properties, Spans
from rmq_columns.decode.units import Units
from rmq_columns.errors import CannotLook, FileGone
from rmq_columns.files.filesystem import File
from rmq_wire import property_names as prop
from rmq_wire.checksum import MASK
from rmq_wire.errors import BadRecord
from rmq_wire.implied.filler import FILLER_TOPIC
from rmq_wire.implied.light_queues import QUEUE_ID as LIGHT_QUEUE_ID
from rmq_wire.implied.light_queues import is_own
from rmq_wire.implied.topics import allows_light_queues
from rmq_wire.message import CRC32_PROPERTY_SIZE, parse_crc32_property
from rmq_wire.properties import NAME_END
from rmq_wire.sys_flag import INNER_BATCH, TRANSACTION_ROLLBACK

BLOCK_BYTES: Final = 8 << 20
"""Larger than the scan's own: the cost of a look into a queue is per block."""
GAPS_KEPT_MAX: Final = 1000
FILLERS_KEPT_MAX: Final = 100_000
_CRC_NAME: Final = (prop.CRC32 + NAME_END).encode()
_CRC_VALUE_FROM_END: Final = CRC32_PROPERTY_SIZE - len(_CRC_NAME)


def check_log(part: LogPart, known: Known) -> LogReport:
    """Everything about one file or a part of it.  Never raises for what is in it."""
    file = part.file
    report = LogReport(file.name, file.start, part.size, part.begin)
    check = _LogCheck(part, known, report)
    try:
        with file.open() as reader:
            check.run(reader)
    except CannotLook as reason:
        report.is_gone = isinstance(reason, FileGone)
        report.findings.add("file-unreadable", file.name, NOWHERE, str(reason))
    finally:
        check.close()
    check.record(report)
    return report


class _LogCheck:
    def __init__(self, part: LogPart, known: Known, report: LogReport) -> None:
        self._part, self._file, self._is_last, self._known, self._report = part, part.file, part.is_last, known, report
        self.sequences = Sequences(part.file.name, report)
        self._places = (
            Recorded(known.queue_file_bytes, known.apart)
            if known.queue_file_bytes
            else Places(known.queues, known.extensions, known.log)
        )
        self._index = (
            RecordedKeys(known.index_told, known.settled)
            if known.queue_file_bytes
            else IndexCheck(known.index_told, known.index, known.settled)
        )
        self._topics = Topics()
        self._names: list[str] = []
        self._counts = np.zeros(0, np.int64)
        """of the messages of each of these topics"""

    def record(self, report: LogReport) -> None:
        """What was summed up, and what `meeting` compares elsewhere."""
        report.edges = self.sequences.edges()
        self._tell_counts()
        if isinstance(self._places, Recorded):
            report.wanted = list(self._places.rows())
        if isinstance(self._index, RecordedKeys):
            report.keys = self._index.rows

    def close(self) -> None:
        self._places.close()
        self._index.close()

    def run(self, reader: File) -> None:
        report, findings, name = self._report, self._report.findings, self._file.name
        part = self._part
        if part.end is not None and (limit := getattr(reader, "limit", None)) is not None:
            limit(part.end)
        for item in scan(
            reader, self._file.start, start=part.begin, stop=part.end, block_bytes=BLOCK_BYTES, displaced_by=part.displaced_by
        ):
            if isinstance(item, Batch):
                self._batch(item)
            elif isinstance(item, Gap):
                self._gap(item)
            else:
                report.end_at, report.how, report.displaced_by = item.at, item.how, item.displaced_by
                report.bytes_checked = report.size
                if item.displaced_by and not part.begin:
                    text = f"its messages say that they begin at {self._file.start + item.displaced_by}"
                    findings.add("log-displaced", name, 0, text)
                self._end(item, reader)

    # --- what lies between units

    def _gap(self, gap: Gap) -> None:
        code = "log-zeroed" if gap.is_zero else "log-unit-broken"
        text = f"{gap.end - gap.start} bytes up to {gap.end} ({'zeros' if gap.is_zero else gap.fault.name.lower() + ' is wrong'})"
        self._report.findings.add(code, self._file.name, gap.start, text)
        if len(self._report.gaps) < GAPS_KEPT_MAX:
            self._report.gaps.append((gap.start, gap.end))

    def _end(self, end: End, reader: File) -> None:
        findings, name = self._report.findings, self._file.name
        self._report.misses_seam = self._part.end is not None and end.how is Ending.OVER
        if end.how is Ending.BLANK_SIZE:
            findings.add("log-blank-size", name, end.at, "the filler's size does not lead to the end of the file")
        elif end.how is Ending.HOPELESS:
            findings.add("log-hopeless", name, end.at, f"{len(self._report.gaps)} places and more")
        elif self._part.end is not None:
            return  # the file goes on in another part
        elif end.how is Ending.TORN and self._is_last:
            if not self._is_being_written(end, reader):
                findings.add("log-torn", name, end.at, f"behind the last message; {end.fault.name.lower()} is wrong")
        elif not self._is_last and end.how in (Ending.TORN, Ending.ZEROS):
            findings.add("log-cut", name, end.at, f"{self._file.size - end.at} bytes to the file's end hold no message")
            self._report.gaps.append((end.at, self._file.size))

    def _is_being_written(self, end: End, reader: File) -> bool:
        """On a live store a block may have been read in the midst of a write: what is there now is read again."""
        if not self._known.live:
            return False
        for item in scan(reader, self._file.start + end.displaced_by, start=end.at):
            return isinstance(item, Batch) or (isinstance(item, End) and item.how is not Ending.TORN)
        return False

    # --- units

    def _batch(self, batch: Batch) -> None:
        units, report = batch.units, self._report
        view = batch.buffer.data
        report.units += len(units)
        at = units.at + batch.base
        if self._known.with_crc:
            self._sums(view, units, at)
        own = self._file.start + batch.displaced_by + at
        wrong = units["physical_offset"] != own
        if wrong.any():
            for row in np.flatnonzero(wrong)[:1].tolist():
                text = f"says {units['physical_offset'][row]}, is at {own[row]}"
                report.findings.add("log-own-offset", self._file.name, int(at[row]), text, int(wrong.sum()))
        times = units["store_timestamp"]
        if report.first_timestamp < 0:
            report.first_timestamp = int(times[0])
        report.last_timestamp = int(times[-1])
        report.times_seen.update(time for time in self._known.times if (times == time).any())
        ids = self._topics.numbers(batch.buffer, units)
        self._fillers(units, at, ids)
        self._count(ids)
        if self._known.with_queues or self._known.with_index:
            self._against_the_rest(view, units, at, own, ids)
        elif self._known.with_sequence:
            self._by_itself(batch.buffer, units, at, ids)

    def _count(self, ids: Ints) -> None:
        """Messages of each topic."""
        if self._names is not self._topics.names:  # topics are numbered anew
            self._tell_counts()
        counts = np.bincount(ids, minlength=len(self._topics.names))
        counts[: len(self._counts)] += self._counts
        self._names, self._counts = self._topics.names, counts

    def _tell_counts(self) -> None:
        topics = self._report.topics
        for number in np.flatnonzero(self._counts).tolist():
            topic = self._names[number]
            if topic in topics or len(topics) < QUEUES_MAX:
                topics[topic] = topics.get(topic, 0) + int(self._counts[number])
        self._counts = self._counts[:0]

    def _fillers(self, units: Units, at: Ints, ids: Ints) -> None:
        """What a repair put into the place of lost units (`rmq_wire.implied.filler.is_filler`)."""
        rolled_back = (units["sys_flag"] == TRANSACTION_ROLLBACK) & (units.properties_size == 0)
        for row in np.flatnonzero(rolled_back).tolist():
            size, begin = int(units["total_size"][row]), int(at[row])
            is_named = FILLER_TOPIC.startswith(self._topics.names[int(ids[row])])
            if not is_named or units["queue_id"][row] or units["queue_offset"][row]:
                continue
            fillers = self._report.fillers
            self._report.filler_bytes += size
            self._report.filler_units += 1
            if fillers and fillers[-1][1] == begin:
                fillers[-1] = fillers[-1][0], begin + size
            elif len(fillers) < FILLERS_KEPT_MAX:
                fillers.append((begin, begin + size))

    def _sums(self, view: memoryview, units: Units, at: Ints) -> None:
        bad = columns.bad_crcs(view, units)
        for row in np.flatnonzero(bad)[:64].tolist():
            topic = bytes(view[units.topic_at[row] : units.topic_at[row] + units.topic_size[row]]).decode("utf-8", "replace")
            place = f"{topic} queue {units['queue_id'][row]} offset {units['queue_offset'][row]}"
            text = f"{place}: body of {units.body_size[row]} bytes"
            self._report.findings.add("log-body-crc", self._file.name, int(at[row]), text)
        if (more := int(bad.sum()) - 64) > 0:
            self._report.findings.add("log-body-crc", self._file.name, int(at[np.flatnonzero(bad)[64]]), "and more", more)

    def _against_the_rest(self, view: memoryview, units: Units, at: Ints, own: Ints, ids: Ints) -> None:
        texts_of = list(columns.slices(view, units.properties_at, units.properties_size))
        properties = texts.properties_of(texts_of, units.properties_size)
        hasher = Hasher(properties.data)
        tags = properties.values(prop.TAGS.encode())
        if self._known.with_crc:
            spans = properties.values(prop.CRC32.encode())
            rows = np.flatnonzero(spans.present)
            self._property_sums(view, units, at, rows, [_value(properties.data, spans, row) for row in rows.tolist()])
        if self._known.with_queues:
            codes = hasher.hashes(tags.starts, tags.sizes).astype(np.int64)
            self._queues(units, at, own, ids, codes, properties)
        if self._known.with_index:
            self._entries(units, own, ids, properties, hasher, tags)

    def _by_itself(self, buffer: Bytes, units: Units, at: Ints, ids: Ints) -> None:
        """What can be said without cutting the properties of every unit."""
        if self._known.with_crc:
            rows = sealed(buffer, units)
            ends = units.end[rows].tolist()
            values = [bytes(buffer.data[end - _CRC_VALUE_FROM_END : end - 1]) for end in ends]
            self._property_sums(buffer.data, units, at, rows, values)
        inner = np.flatnonzero(units["sys_flag"] & INNER_BATCH)
        steps = None
        if len(inner):
            few = units.take(inner)
            texts_of = list(columns.slices(buffer.data, few.properties_at, few.properties_size))
            steps = np.ones(len(units), np.int64)
            steps[inner] = self._steps(few, texts.properties_of(texts_of, few.properties_size))
        self.sequences.check(self._grouped(units, ids), units["queue_offset"], at, steps)

    def _property_sums(self, view: memoryview, units: Units, at: Ints, rows: Ints, values: list[bytes]) -> None:
        """`__CRC32#`: over the unit up to that property, which is its last.  values: of the rows that have one."""
        for row, value in zip(rows.tolist(), values, strict=True):
            begin, end = int(units.at[row]), int(units.end[row])
            try:
                good = (
                    parse_crc32_property(value.decode("utf-8", "replace"))
                    == zlib.crc32(view[begin : end - CRC32_PROPERTY_SIZE]) & MASK
                )
            except BadRecord:
                good = False
            if not good:
                self._report.findings.add("log-property-crc", self._file.name, int(at[row]), "its __CRC32# property differs")

    # --- queues

    def _queues(self, units: Units, at: Ints, own: Ints, ids: Ints, codes: Ints, properties: Properties) -> None:
        groups = self._grouped(units, ids)
        self.sequences.check(groups, units["queue_offset"], at, self._steps(units, properties))
        sizes = units["total_size"].astype(np.int64)
        wanted = Entry(units["queue_offset"], own, sizes, codes, units["store_timestamp"])
        self._places.compare_all(groups, wanted, at, self._report, self._known)
        for row, topic, queue_offset in self._light_places(units, ids, properties):
            if is_own(topic, self._topics.names[int(ids[row])], int(units["queue_id"][row])):
                continue
            one = np.array([row])
            light = wanted.take(one)._replace(queue_offset=np.array([queue_offset]))
            self._places.compare((topic, LIGHT_QUEUE_ID), light, at[one], self._report, self._known)

    def _light_places(self, units: Units, ids: Ints, properties: Properties) -> Iterator[tuple[int, str, int]]:
        dispatches, offsets = (
            implied.values_of(properties.data, properties.values(name.encode()))
            for name in (prop.INNER_MULTI_DISPATCH, prop.INNER_MULTI_QUEUE_OFFSET)
        )
        if not len(dispatches.row):
            return iter(())
        allows = np.array([allows_light_queues(topic) for topic in self._topics.names], np.bool_)[ids]
        return implied.light_places(dispatches, offsets, allows & implied.is_queued(units["sys_flag"]))

    def _grouped(self, units: Units, ids: Ints) -> Grouped:
        return grouped(
            np.flatnonzero(implied.is_queued(units["sys_flag"])),
            ids,
            units["queue_id"],
            self._topics.names,
            self._topics.generation,
        )

    def _steps(self, units: Units, properties: Properties) -> Ints:
        """How many queue offsets each unit takes: more than one for an inner batch."""
        is_inner = (units["sys_flag"] & INNER_BATCH) != 0
        if not is_inner.any():
            return np.ones(len(units), np.int64)
        return implied.message_counts(implied.values_of(properties.data, properties.values(prop.INNER_NUM.encode())), is_inner)

    # --- index

    def _entries(self, units: Units, own: Ints, ids: Ints, properties: Properties, hasher: Hasher, tags: Spans) -> None:
        unique, keys = (properties.values(name.encode()) for name in (prop.UNIQ_KEY, prop.KEYS))
        topic_hashes = self._topics.hashes()[ids]
        wanted = implied.index_entries(hasher, unique, keys, tags, topic_hashes, implied.is_indexed(units["sys_flag"]))
        self._index.compare(own, own + units["total_size"], units["store_timestamp"], wanted, self._report, self._file)


def sealed(buffer: Bytes, units: Units) -> Ints:
    """The units whose last property is `__CRC32#`, as its size says."""
    at = units.end - CRC32_PROPERTY_SIZE
    rows = np.flatnonzero(units.properties_size >= CRC32_PROPERTY_SIZE)
    found = gather(buffer, at[rows], np.dtype(f"V{len(_CRC_NAME)}"))
    return rows[found == np.void(_CRC_NAME)]


def _value(data: bytes, spans: Spans, row: int) -> bytes:
    return data[int(spans.starts[row]) : int(spans.starts[row] + spans.sizes[row])]
