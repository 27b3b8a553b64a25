"""Which messages: the ways to get at them, and what is asked of each.

A key is looked up in the index, a topic goes by its consume queues, everything else walks the log.  What the index or the queues
do not cover is walked; hashes only propose, texts decide.  Whoever asks hears which way was taken and what could not be read.
Clocks are set back: where a time is searched for in what should ascend, it is one that is earlier by `CLOCK_STEP_MS`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_inspect.decode.files import config_value
from rmq_inspect.decode.index_file import CHAIN_STEPS_MAX, IndexReader
from rmq_inspect.decode.log import Log, Spoilt, Unit, pieces
from rmq_inspect.decode.records import light_offsets, properties_of, topic_of
from rmq_inspect.errors import CannotLook
from rmq_inspect.progress import Progress, quiet
from rmq_wire import property_names as prop
from rmq_wire.errors import BadHeader, BadRecord
from rmq_wire.implied.index_keys import index_hash
from rmq_wire.implied.tags import tags_code
from rmq_wire.message_id import offset_message_id, parse_offset_message_id
from rmq_wire.names import LMQ_PREFIX

MERGED_QUEUES_MAX: Final = 64
"""A topic with more is read from the log: each queue that is merged holds a file open."""
LATER_MAX: Final = 1000
"""Messages one after another that were stored behind the wanted time, until all behind them count as such: a single one may have
a spoilt store time, and clocks are set back."""
CLOCK_STEP_MS: Final = 60_000
"""So far may a clock be set back without a message being missed by a range of time, as for columns."""
NAMING_TABLES: Final = {"topics.json": "topicConfigTable", "consumerOffset.json": "offsetTable"}
"""Whose names begin with that of a topic; positions of groups outlive their topic."""
Note = Callable[[str], None]
"""Called with one line: what was skipped or which way was taken."""


def _silent(_line: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class Wanted:
    """Everything that is given must hold.  Times in ms, ends included; offsets: from there on."""

    topic: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    key: str | None = None
    """one piece of KEYS, or the unique key"""
    tag: str | None = None
    message_id: str | None = None
    """an offset message id or a unique key"""
    from_ms: int | None = None
    to_ms: int | None = None
    from_offset: int | None = None
    """physical"""

    def __post_init__(self) -> None:
        for name in ("topic", "key", "tag", "message_id"):
            if getattr(self, name) == "":
                raise CannotLook(f"an empty text for {name.replace('_', ' ')}: no message has that")

    def accepts(self, unit: Unit) -> bool:
        """Whether this is one of them."""
        message = unit.message
        topic, queue_id, queue_offset = topic_of(message), message.queue_id, message.queue_offset
        if self.topic is not None and topic != self.topic:
            if not self.topic.startswith(LMQ_PREFIX) or (offset := light_offsets(message).get(self.topic)) is None:
                return False
            queue_id, queue_offset = 0, offset
        if self.queue_id is not None and queue_id != self.queue_id:
            return False
        if self.queue_offset is not None and queue_offset < self.queue_offset:
            return False
        if self.from_ms is not None and message.store_timestamp < self.from_ms:
            return False
        if self.to_ms is not None and message.store_timestamp > self.to_ms:
            return False
        if self.from_offset is not None and message.physical_offset < self.from_offset:
            return False
        if self.key is None and self.tag is None and self.message_id is None:
            return True
        return self._texts_agree(unit)

    def _texts_agree(self, unit: Unit) -> bool:
        values = properties_of(unit.message)
        if self.tag is not None and values.get(prop.TAGS) != self.tag:
            return False
        unique = values.get(prop.UNIQ_KEY)
        if self.key is not None and self.key != unique and self.key not in values.get(prop.KEYS, "").split(prop.KEY_SEPARATOR):
            return False
        if self.message_id is None or self.message_id == unique:
            return True
        own = offset_message_id(unit.message.store_host, unit.message.physical_offset)
        return self.message_id.upper() == own


def messages(
    store: StoreDirectory,
    wanted: Wanted,
    *,
    scan: bool = False,
    slots: int | None = None,
    progress: Progress = quiet,
    note: Note = _silent,
) -> Iterator[Unit]:
    """The messages in the order of the log (queues with a number: in theirs).  scan: read the log, trust nothing derived.

    slots: of the index files, when they differ from what is found out.  Raises `CannotLook`.
    """
    with Log(store.commit_log) as log:
        if store.is_fresh:
            return
        if not store.commit_log:
            raise CannotLook(f"{store.root}: no commit log file, so there are no messages (--commit-log DIR, if it is elsewhere)")
        if wanted.message_id is not None and (unit := _by_offset_id(log, wanted)) is not None:
            note("found by the offset in the id")
            yield unit
            return
        key = wanted.message_id or wanted.key
        if key is not None and not scan and store.index:
            yield from _by_index(store, log, wanted, key, slots, progress, note)
        elif not scan and (chosen := _queues_of(store, wanted)):
            yield from _by_queues(log, store, chosen, wanted, note)
        else:
            if wanted.topic is not None and not scan:
                note(f"{_why_no_queues(store, wanted)}: the log itself is read")
            yield from _by_walk(log, wanted, 0, None, progress, note)


def _why_no_queues(store: StoreDirectory, wanted: Wanted) -> str:
    ids = sorted(queue_id for topic, queue_id in store.queues if topic == wanted.topic)
    if any(topic == wanted.topic for topic, _ in store.batch_queues):
        return f"{wanted.topic} has batch consume queues"
    if not ids:
        return f"no consume queue of {wanted.topic} is here"
    if wanted.queue_id is not None:
        return f"{wanted.topic} has no consume queue {wanted.queue_id}, but {len(ids)} from {ids[0]} to {ids[-1]}"
    return f"{wanted.topic} has {len(ids)} consume queues"


def _by_offset_id(log: Log, wanted: Wanted) -> Unit | None:
    assert wanted.message_id is not None
    try:
        unit = log.unit(parse_offset_message_id(wanted.message_id).physical_offset)
    except (BadHeader, BadRecord):
        return None
    return unit if wanted.accepts(unit) else None


# By key


def topics_of(store: StoreDirectory, note: Note = _silent) -> list[str]:
    """Every name that the store has for a topic: of its queues and in its tables.  Raises `NotPermitted`."""
    names = {topic for topic, _ in (*store.queues, *store.batch_queues)}
    for table, rows in NAMING_TABLES.items():
        for file in (store.config[name] for name in (table, f"{table}.bak") if name in store.config):
            try:
                value = config_value(file)
            except CannotLook as reason:
                note(str(reason))
                continue
            found = value.get(rows) if isinstance(value, dict) else None
            names.update(name.partition("@")[0] for name in (found if isinstance(found, dict) else ()))
    return sorted(names)


def _by_index(
    store: StoreDirectory, log: Log, wanted: Wanted, key: str, slots: int | None, progress: Progress, note: Note
) -> Iterator[Unit]:
    """The index has the key with its topic: of a topic that nothing in the store names any more only the log knows."""
    if wanted.topic is not None and not wanted.topic.startswith(LMQ_PREFIX):  # light queues: under their own topics
        topics, is_sure = [wanted.topic], True
    else:
        topics, is_sure = topics_of(store, note), False
        if not store.queues and not store.batch_queues:
            note("no queue names a topic, and the index has keys by topic: the log itself is read")
            yield from _by_walk(log, wanted, 0, None, progress, note)
            return
    spans = [span for file in store.index if (span := _span(file, slots, note)) is not None]
    if not spans:
        yield from _by_walk(log, wanted, 0, None, progress, note)
        return
    begin, end = min(span.begin for span in spans), max(span.end for span in spans)
    under = "" if is_sure else f" under the {len(topics)} topics that queues and tables name"
    note(f"by the index{under}, which covers the log from {begin} to {end}; what lies outside is walked (--scan: all)")
    is_found = False
    for unit in _indexed(store, log, wanted, spans, {index_hash(topic, key) for topic in topics}, progress, note):
        is_found = True
        yield unit
    if not is_found and not is_sure:
        note(f"there it is under none of these: the log from {begin} to {end} is read, too")
        yield from _by_walk(log, wanted, begin, end, progress, note)


def _indexed(
    store: StoreDirectory,
    log: Log,
    wanted: Wanted,
    spans: list[_Span],
    hashes: set[int],
    progress: Progress,
    note: Note,
) -> Iterator[Unit]:
    """What these index files have under these hashes, and what of the log none of them covers."""
    last, position = -1, 0
    for span in [*spans, None]:  # one file at a time: a key that every message has is as long as the file
        # What no file covers: before the first, where one between two others is gone, behind the last. The messages at its ends
        # may have the rest of their entries in what is gone.
        for unit in _by_walk(log, wanted, position, None if span is None else span.begin + 1, progress, note):
            if unit.message.physical_offset > last:
                last = unit.message.physical_offset
                yield unit
        for offset in () if span is None else _offsets(store, span.file, span.slots, hashes, note):
            if offset <= last:
                continue
            last = offset
            try:
                unit = log.unit(offset)
            except BadRecord as reason:
                note(f"the index leads to {offset}, where no message can be read: {reason}")
                continue
            if wanted.accepts(unit):
                yield unit
        position = position if span is None else max(position, span.end)


class _Span(NamedTuple):
    """An index file that can be used, and the physical offsets of its first and last message."""

    file: StoreFile
    slots: int | None
    """as they were given"""
    begin: int
    end: int


def _span(file: StoreFile, slots: int | None, note: Note) -> _Span | None:
    with IndexReader(file, slots) as reader:
        if not reader.slots:
            if reader.header.index_count > 1:
                note(f"{file.name}: {reader.no_slots}; not used")
            return None
        if reader.count < 2:
            return None
        return _Span(file, slots, reader.header.begin_physical_offset, reader.header.end_physical_offset)


def _offsets(store: StoreDirectory, file: StoreFile, slots: int | None, hashes: set[int], note: Note) -> list[int]:
    """Where messages with these hashes may be, ascending."""
    found: set[int] = set()
    with IndexReader(file, slots) as reader:
        if reader.slots_may_lag(store):
            note(f"{file.name}: the store is open or was not closed in order, so its slots may lag: every entry was looked at")
            return sorted({entry.physical_offset for entry in reader.with_hashes(hashes)})
        for key_hash in hashes:
            steps = 0
            for steps, entry in enumerate(reader.chain(key_hash % reader.slots), 1):  # noqa: B007
                if entry.key_hash == key_hash:
                    found.add(entry.physical_offset)
            if steps >= CHAIN_STEPS_MAX:
                note(f"{file.name}: a chain of more than {CHAIN_STEPS_MAX} entries was not followed to its end (--scan: all)")
    return sorted(found)


# By queue


def _queues_of(store: StoreDirectory, wanted: Wanted) -> list[tuple[str, int]]:
    if wanted.topic is None:
        return []
    found = [key for key in store.queues if key[0] == wanted.topic and (wanted.queue_id is None or key[1] == wanted.queue_id)]
    return sorted(found) if len(found) <= MERGED_QUEUES_MAX else []


def _by_queues(log: Log, store: StoreDirectory, chosen: list[tuple[str, int]], wanted: Wanted, note: Note) -> Iterator[Unit]:
    note(f"by the consume queue{'s' if len(chosen) > 1 else ''} of {wanted.topic} (--scan: by the log)")
    code = None if wanted.tag is None else tags_code(wanted.tag)
    rows = [_written(log, store, key, wanted, code) for key in chosen]
    last = -1
    is_over = _ending(log, wanted)
    for row in heapq.merge(*rows, key=_physical):
        if row.physical_offset == last:
            continue
        last = row.physical_offset
        try:
            unit = log.unit(row.physical_offset, row.size)
        except BadRecord as reason:
            note(f"{row.file.name}: queue offset {row.queue_offset} leads to {row.physical_offset}: {reason}")
            continue
        if is_over(unit):
            return
        if wanted.accepts(unit):
            yield unit


def _written(
    log: Log, store: StoreDirectory, key: tuple[str, int], wanted: Wanted, code: int | None
) -> Iterator[queues.QueueUnit]:
    files = store.queues[key]
    first = wanted.queue_offset or 0
    if wanted.from_ms is not None:
        first = max(first, queues.first_stored_at(files, log, wanted.from_ms - CLOCK_STEP_MS))
    for unit in queues.written(files, first):
        # Of a delayed message the code is the time when it is due: the text decides there.
        if code is None or unit.tags_code == code or not -(1 << 31) <= unit.tags_code < 1 << 31:
            yield unit


def _physical(unit: queues.QueueUnit) -> int:
    return unit.physical_offset


# By the log


def _by_walk(log: Log, wanted: Wanted, start: int, end: int | None, progress: Progress, note: Note) -> Iterator[Unit]:
    if wanted.from_offset is not None:
        start = max(start, wanted.from_offset)
    if wanted.from_ms is not None:
        start = max(start, log.first_file_since(wanted.from_ms - CLOCK_STEP_MS))
    is_over = _ending(log, wanted)
    for piece in pieces(log.files, start, end, progress):
        if isinstance(piece, Unit):
            if is_over(piece):
                return
            if wanted.accepts(piece):
                yield piece
        elif isinstance(piece, Spoilt):
            note(f"{piece.file.name}: {piece.end - piece.at} bytes from {piece.at} on are no messages: {piece.why}")


def _ending(log: Log, wanted: Wanted) -> Callable[[Unit], bool]:
    """Whether from this message on, the next in the order of the log, all count as stored behind the wanted time."""
    if (to_ms := wanted.to_ms) is None:
        return lambda _unit: False
    least = log.last_file_until(to_ms)
    later = 0

    def is_over(unit: Unit) -> bool:
        nonlocal later
        later = later + 1 if unit.message.store_timestamp > to_ms else 0
        return later >= LATER_MAX and unit.file.start >= least

    return is_over
