"""Units of the log held against the queue units that they must have, and queue units against the log where the counts differ.

The queue units of a block's messages lie side by side (a block holds a run of each queue), so one read and one comparison per
queue settles a whole run; only what differs is looked at one by one, since only there it matters why.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from rmq_columns.checks.files import CheckedFile, is_gone
from rmq_columns.checks.findings import Findings
from rmq_columns.checks.queues import Key, LogBounds, QueueState
from rmq_columns.checks.readers import Readers
from rmq_columns.checks.report import QUEUES_MAX, Entry, Known, LogReport
from rmq_columns.checks.sequence import Grouped
from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT, Ints, Records, records
from rmq_columns.decode.queues import EXTENSION_ADDRESS_MAX, FILLER_SIZE, is_filler, is_written
from rmq_columns.errors import CannotLook
from rmq_columns.files.filesystem import File
from rmq_wire.layout import consume_queue
from rmq_wire.layout.message import BLANK_FLAT, BORN_V6, FIXED, HEAD_FLAT, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, STORE_V6
from rmq_wire.message import TOPIC_LENGTHS
from rmq_wire.names import SCHEDULE_TOPIC

LOOKED_AT_MAX: Final = 256
"""Differing units of one run that are looked at one by one; more are counted like the last of them."""
WAITING_KEPT_MAX: Final = 64
REPORTED_MAX: Final = 100_000
"""Queue units of one log file that are remembered as reported; of more some are reported twice."""
NO_PLACE: Final = 1 << 63
"""Behind every physical offset."""
EXTENSIONS_BEGIN: Final = 1 << 63
"""What an address lacks to be a place (`ConsumeQueueExt.unDecorate`)."""
_EXTENSION: Final = consume_queue.EXT_UNIT_HEAD_FLAT.packed
_HEAD: Final = HEAD_FLAT
_BLANK: Final = BLANK_FLAT.packed
_FIXED_SIZE_MAX: Final = max(layout.size for layout in FIXED.values())
_HOST_BITS: Final = BORN_V6 | STORE_V6
_TOPIC_BYTES_MAX: Final = 32767


class Row(NamedTuple):
    """The message that begins at a place of the log."""

    topic: str
    queue_id: int
    queue_offset: int
    size: int


class LogPlaces:
    """Single messages of the log by their place."""

    def __init__(self, log: Sequence[CheckedFile]) -> None:
        self._log = log
        self._starts = [file.start for file in log]
        self.readers = Readers()

    def begins_at(self, physical_offset: int) -> bool:
        """Whether a unit or the blank of a file begins here."""
        at = bisect_right(self._starts, physical_offset) - 1
        if at < 0 or physical_offset >= self._log[at].end:
            return False
        try:
            raw = self.readers.get(self._log[at]).read(physical_offset - self._starts[at], _BLANK.size)
        except CannotLook:
            return False
        is_blank = len(raw) == _BLANK.size and _BLANK.unpack(raw)[1] == MAGIC_BLANK
        return is_blank or self.row_at(physical_offset) is not None

    def is_gone(self, physical_offset: int) -> bool:
        """Whether the file of this place was deleted since it was listed."""
        at = bisect_right(self._starts, physical_offset) - 1
        return at >= 0 and physical_offset < self._log[at].end and is_gone(self._log[at])

    def row_at(self, physical_offset: int) -> Row | None:
        """The head of the unit that begins here and says so; None when none does.  Its body is not looked at."""
        at = int(np.searchsorted(self._starts, physical_offset, side="right")) - 1
        if at < 0 or physical_offset >= self._log[at].end:
            return None
        place = physical_offset - self._starts[at]
        try:
            reader = self.readers.get(self._log[at])
            raw = reader.read(place, _FIXED_SIZE_MAX)
            return _row(reader, raw, place, physical_offset)
        except CannotLook:
            return None


def _row(reader: File, raw: bytes, place: int, physical_offset: int) -> Row | None:
    if len(raw) < _HEAD.size:
        return None
    head = dict(zip(_HEAD.names, _HEAD.packed.unpack_from(raw), strict=True))
    fixed = FIXED[head["sys_flag"] & _HOST_BITS]
    if head["magic"] not in (MAGIC_V1, MAGIC_V2) or head["physical_offset"] != physical_offset or len(raw) < fixed.size:
        return None
    body_size = fixed.packed.unpack_from(raw)[-1]
    if not 0 <= body_size <= head["total_size"]:
        return None
    topic_length = TOPIC_LENGTHS[head["magic"]]
    tail = reader.read(place + fixed.size + body_size, topic_length.size + 256)
    if len(tail) < topic_length.size:
        return None
    [length] = topic_length.unpack_from(tail)
    if not 0 <= length <= _TOPIC_BYTES_MAX:
        return None
    topic = tail[topic_length.size : topic_length.size + length].decode("utf-8", "replace")
    return Row(topic, head["queue_id"], head["queue_offset"], head["total_size"])


class Places:
    """The queues, for one worker that walks one log file."""

    def __init__(
        self, queues: Mapping[Key, QueueState], extensions: Mapping[Key, Sequence[CheckedFile]], log: Sequence[CheckedFile]
    ) -> None:
        self._queues, self._extensions = queues, extensions
        self._log = LogPlaces(log)
        self._readers = Readers()
        self._delays: dict[Key, int] = {}

    def close(self) -> None:
        self._readers.close()
        self._log.readers.close()

    def compare_all(self, groups: Grouped, wanted: Entry, at: Ints, report: LogReport, known: Known) -> None:
        """Queue by queue.  wanted, at: of all units of a block."""
        for key, rows in groups.rows():
            self.compare(key, wanted.take(rows), at[rows], report, known)

    def compare(self, key: Key, wanted: Entry, at: Ints, report: LogReport, known: Known) -> None:
        """at: where the messages are in their file; findings that have no place in a queue go there."""
        state = self._queues.get(key)
        if state is None:
            if len(report.orphans) < QUEUES_MAX:
                before, _ = report.orphans.get(key, (0, -1))
                report.orphans[key] = before + len(at), int(wanted.physical_offset[-1])
            return
        if state.is_batch:
            self._compare_batches(key, state, wanted, at, report, known)
            return
        cuts = np.flatnonzero(np.diff(wanted.queue_offset) != 1) + 1
        for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(at)], strict=True):
            run = Entry(*(column[begin:end] for column in wanted))
            self._compare_run(key, state, run, at[begin:end], report, known)

    def _compare_run(self, key: Key, state: QueueState, wanted: Entry, at: Ints, report: LogReport, known: Known) -> None:
        found, file_starts = self._read(state, int(wanted.queue_offset[0]), len(at))
        placed = (found["physical_offset"] == wanted.physical_offset) & (found["size"] == wanted.size)
        counted = placed & (wanted.queue_offset < state.end)
        for start, first, last in file_starts:
            name = (*key, start)
            report.matched[name] = report.matched.get(name, 0) + int(counted[first:last].sum())
        self._tags(key, state, wanted, found, placed, report)
        if not placed.all():
            self._differ(key, state, wanted, found, np.flatnonzero(~placed), at, report, known)

    def _read(self, state: QueueState, offset: int, count: int) -> tuple[Records, list[tuple[int, int, int]]]:
        """Units from this queue offset on, zeros where there are none; (file start, first, one past last) for each file."""
        size = QUEUE_UNIT.itemsize
        pieces: list[bytes] = []
        files = []
        done = 0
        while done < count:
            position = (offset + done) * size
            file = state.file_of(position) if 0 <= position < 1 << 62 else None
            if file is None:
                following = next((one.start // size for one in state.files if one.start > position), offset + count)
                missing = max(min(following - offset, count) - done, 1)
                pieces.append(bytes(missing * size))
                done += missing
                continue
            fits = max(min(count - done, (file.end - position) // size), 1)
            data = self._read_file(file, position - file.start, fits * size)
            pieces.append(data.ljust(fits * size, b"\0"))
            files.append((file.start, done, done + fits))
            done += fits
        return records(b"".join(pieces), QUEUE_UNIT), files

    def _read_file(self, file: CheckedFile, at: int, size: int) -> bytes:
        try:
            return self._readers.get(file).read(at, size)
        except CannotLook:
            return b""

    def _tags(self, key: Key, state: QueueState, wanted: Entry, found: Records, placed: Any, report: LogReport) -> None:
        codes, expected, kind = found["tags_code"].astype(np.int64), wanted.tags_code, "queue-tags-code"
        if key[0] == SCHEDULE_TOPIC and placed.any():  # its tags codes are due times
            delay = self._delays.setdefault(key, int(np.median((codes - wanted.store_timestamp)[placed])))
            expected, kind = wanted.store_timestamp + delay, "queue-delay-time"
        bad = placed & (codes != expected) & (codes > EXTENSION_ADDRESS_MAX)
        for row in np.flatnonzero(bad)[:LOOKED_AT_MAX].tolist():
            offset = int(wanted.queue_offset[row])
            self._report(kind, key, state, offset, f"{codes[row]} instead of {expected[row]}", report, 0, 1)

        for row in np.flatnonzero(placed & (codes <= EXTENSION_ADDRESS_MAX)).tolist():
            if not self._extended(key, int(codes[row]), int(wanted.tags_code[row]), int(wanted.store_timestamp[row])):
                text = f"its extension at {int(codes[row]) + EXTENSIONS_BEGIN} is not there, or another message's"
                self._report("queue-extension", key, state, int(wanted.queue_offset[row]), text, report, 0, 1)

    def _extended(self, key: Key, address: int, tags_code: int, store_timestamp: int) -> bool:
        """Whether consumequeue_ext holds this message's tags and time there; due times of delayed messages are not looked at."""
        position = address + EXTENSIONS_BEGIN
        for file in self._extensions.get(key, []):
            if file.start <= position < file.end:
                data = self._read_file(file, position - file.start, _EXTENSION.size)
                if len(data) < _EXTENSION.size:
                    return False
                size, code, timestamp, _ = _EXTENSION.unpack(data)
                return bool(size > 0 and timestamp == store_timestamp and (code == tags_code or key[0] == SCHEDULE_TOPIC))
        return False

    def _report(
        self, code: str, key: Key, state: QueueState, offset: int, text: str, report: LogReport, at: int, count: int
    ) -> None:
        """A finding in the queue file that holds this offset, or in the log where none does."""
        position = offset * QUEUE_UNIT.itemsize
        file = state.file_of(position)
        text = f"{key[0]} queue {key[1]} offset {offset}: {text}"
        if file is None:
            report.findings.add(code, report.name, at, text, count)
        else:
            report.findings.add(code, file.name, position - file.start, text, count)

    def _differ(
        self, key: Key, state: QueueState, wanted: Entry, found: Records, rows: Ints, at: Ints, report: LogReport, known: Known
    ) -> None:
        """Say of each unit that is not in its place why it is not."""
        shifts: Counter[int] = Counter()
        wrong: list[tuple[int, str]] = []
        for number, row in enumerate(rows.tolist()):
            offset, own = int(wanted.queue_offset[row]), int(wanted.physical_offset[row])
            unit = found[row]
            place, size = int(unit["physical_offset"]), int(unit["size"])
            if size <= 0 or size == FILLER_SIZE:
                if offset >= state.end and own < state.last_physical_end:  # a former life of the topic was longer than this one
                    report.superseded += 1
                elif own >= known.dispatched_end or (offset >= state.end and known.live):
                    report.waiting_count += 1
                    if len(report.waiting) < WAITING_KEPT_MAX:
                        report.waiting.append((*key, offset, own))
                else:
                    self._report(
                        "queue-unit-missing", key, state, offset, f"no unit for the message at {own}", report, int(at[row]), 1
                    )
                continue
            there = self._log.row_at(place) if number < LOOKED_AT_MAX else None
            if there is not None and (there.topic, there.queue_id) == key:
                if there.queue_offset == offset and there.size == size:
                    self._rival(key, offset, place, own, at[row], report)
                    continue
                if there.size == size:
                    shifts[there.queue_offset - offset] += 1
            wrong.append((offset, f"it has ({place}, {size}), the message is ({own}, {wanted.size[row]})"))
        if len(report.reported) < REPORTED_MAX:
            report.reported.update((*key, offset) for offset, _ in wrong[:LOOKED_AT_MAX])
        if shifts and (most := shifts.most_common(1)[0])[1] > 1:
            self._report(
                "queue-shifted", key, state, wrong[0][0], f"from here on units stand {-most[0]:+d} beside", report, 0, len(wrong)
            )
            return
        for offset, text in wrong[:LOOKED_AT_MAX]:
            self._report("queue-unit-wrong", key, state, offset, text, report, 0, 1)

    def _rival(self, key: Key, offset: int, place: int, own: int, at: Any, report: LogReport) -> None:
        """The queue has another message with this offset: a later one when the topic was made anew; an earlier one is damage."""
        if place > own:
            report.superseded += 1
        elif (*key, offset) not in report.reported:
            text = f"{key[0]} queue {key[1]} offset {offset}: the queue has the message at {place}"
            report.findings.add("log-sequence-back", report.name, int(at), text)
            report.reported.add((*key, offset))

    # --- batch consume queues

    def _compare_batches(self, key: Key, state: QueueState, wanted: Entry, at: Ints, report: LogReport, known: Known) -> None:
        """Units are not where their offset says, but in the log's order: found by their physical offset."""
        units: dict[int, Any] = {}
        for file in state.files:
            found = self._batch_range(file, int(wanted.physical_offset[0]), int(wanted.physical_offset[-1]))
            name = (*key, file.start)
            mine = [one for one in found if int(one["physical_offset"]) in set(wanted.physical_offset.tolist())]
            report.matched[name] = report.matched.get(name, 0) + len(mine)
            units.update((int(one["physical_offset"]), one) for one in mine)
        for row, own in enumerate(wanted.physical_offset.tolist()):
            unit = units.get(own)
            text = f"{key[0]} queue {key[1]} offset {wanted.queue_offset[row]}: the message at {own}"
            if unit is None and own >= known.dispatched_end:
                report.waiting_count += 1
            elif unit is None and self._begins_anew(state, own):
                report.superseded += 1
            elif unit is None:
                report.findings.add("queue-unit-missing", report.name, int(at[row]), f"{text} has no unit")
            elif int(unit["size"]) != wanted.size[row] or int(unit["base_offset"]) != wanted.queue_offset[row]:
                report.findings.add("queue-unit-wrong", report.name, int(at[row]), f"{text}: its unit says {unit.tolist()}")
                report.reported.add((*key, int(wanted.queue_offset[row])))
            elif int(unit["tags_code"]) != wanted.tags_code[row]:
                report.findings.add("queue-tags-code", report.name, int(at[row]), f"{text}: {unit['tags_code']}")

    def _begins_anew(self, state: QueueState, own: int) -> bool:
        """Whether the queue's very first message is behind this one: its topic was deleted and made again."""
        units = records(self._read_file(state.files[0], 0, BATCH_UNIT.itemsize), BATCH_UNIT)
        return any(one["size"] > 0 and one["base_offset"] == 0 and own < one["physical_offset"] for one in units)

    def _batch_range(self, file: CheckedFile, first: int, last: int) -> Records:
        size = BATCH_UNIT.itemsize

        def bisect(value: int) -> int:
            low, high = 0, file.size // size
            while low < high:
                middle = (low + high) // 2
                unit = records(self._read_file(file, middle * size, size), BATCH_UNIT)
                if len(unit) and unit[0]["size"] > 0 and unit[0]["physical_offset"] < value:
                    low = middle + 1
                else:
                    high = middle
            return low

        begin = bisect(first)
        return records(self._read_file(file, begin * size, max(bisect(last + 1) - begin, 0) * size), BATCH_UNIT)


def find_dangling(
    key: Key,
    state: QueueState,
    file: CheckedFile,
    bounds: LogBounds,
    log: LogPlaces,
    reported: set[tuple[str, int, int]],
    gaps: list[tuple[int, int]],
    repaired: bool = False,
) -> Findings:
    """The units of this file that point at no message of their queue.

    gaps: damaged stretches of the log, ascending.  repaired: units may stand in for lost ones, and lead to the next message.
    """
    findings = Findings()
    runs: list[list[Any]] = []
    for at, unit in _inside(file, state, bounds):
        place, size = int(unit["physical_offset"]), int(unit["size"])
        offset = int(unit["base_offset"]) if state.is_batch else file.start // QUEUE_UNIT.itemsize + at
        there = log.row_at(place)
        if there is not None and there == (*key, offset, size):
            continue
        if (there is not None and key[0].startswith("%LMQ%")) or (*key, offset) in reported:
            continue
        if there is None and bounds.grows and log.is_gone(place):  # retention took it meanwhile
            continue
        if repaired and _stands_in(unit, there, key, offset):
            continue
        if runs and runs[-1][1] == at:
            runs[-1][1] += 1
        else:
            before = bisect_right(gaps, (place, NO_PLACE)) - 1
            damaged = before >= 0 and place < gaps[before][1]
            runs.append([at, at + 1, offset, place, damaged, there])
    for first, end, offset, place, damaged, there in runs:
        why = (
            "damaged bytes of the log"
            if damaged
            else "no message"
            if there is None
            else f"a message of {there.topic} queue {there.queue_id}"
        )
        text = f"{key[0]} queue {key[1]}: {end - first} unit(s) from offset {offset} on; the first points at {place}, {why}"
        findings.add(
            "queue-dangling", file.name, first * (BATCH_UNIT if state.is_batch else QUEUE_UNIT).itemsize, text, end - first
        )
    return findings


def _stands_in(unit: Any, there: Row | None, key: Key, offset: int) -> bool:
    """Whether a repair put it there (`rmq_store.recovery.queue_repair.bridge`)."""
    if there is None or (there.topic, there.queue_id) != key or there.queue_offset <= offset:
        return False
    return bool(there.size == unit["size"] and not unit["tags_code"])


def _inside(file: CheckedFile, state: QueueState, bounds: LogBounds) -> Iterator[tuple[int, Any]]:
    """(number in the file, unit) of those that point between the log's bounds."""
    dtype = BATCH_UNIT if state.is_batch else QUEUE_UNIT
    with file.open() as reader:
        for at, data in reader.chunks(chunk_bytes=dtype.itemsize << 14):
            units = records(data, dtype)
            offsets = units["physical_offset"]
            keep = is_written(units) & ~is_filler(units) & (offsets >= bounds.start) & (offsets < bounds.end)
            for row in np.flatnonzero(keep).tolist():
                yield at // dtype.itemsize + row, units[row]
