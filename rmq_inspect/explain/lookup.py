"""One look-up, step by step: each step names the file, the byte, the bytes that stand there, and what they mean.

The steps are those of the reference, in its order; nothing is skipped because it is known already.  Where a step leads nowhere,
the last one says why.  Sources: `IndexService.queryOffset`, `IndexFile.selectPhyOffset`, `ConsumeQueue.getIndexBuffer`,
`CommitLog.getMessage`, `MessageDecoder.decodeMessageId` of the reference.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self

from rmq_inspect.decode import queues
from rmq_inspect.decode.directory import StoreDirectory, StoreFile
from rmq_inspect.decode.fields import Field, flat_fields, hex_text, unit_fields
from rmq_inspect.decode.files import tags_meaning
from rmq_inspect.decode.index_file import ENTRY, HEADER, SLOT, Entry, IndexReader
from rmq_inspect.decode.log import Log, Unit
from rmq_inspect.decode.records import host_text, light_offsets, printable, topic_of
from rmq_inspect.errors import CannotLook
from rmq_inspect.explain.outlook import Outlooks
from rmq_inspect.times import text_of
from rmq_wire.errors import BadHeader, BadRecord
from rmq_wire.implied.index_keys import index_hash, stored_index_keys, tags_key
from rmq_wire.implied.tags import stored_tags_code
from rmq_wire.java import string_hash
from rmq_wire.message_id import parse_offset_message_id, parse_unique_key

CHAIN_SHOWN: Final = 20
"""Entries of one chain that become steps."""
HITS_SHOWN: Final = 5
"""Messages that are taken apart."""


@dataclass(slots=True)
class Step:
    """title: what is done.  says: what it means, line by line.  fields: the record that stands there, taken apart."""

    title: str
    says: list[str] = field(default_factory=list)
    file: str = ""
    byte: int = -1
    raw: bytes = b""
    fields: list[Field] = field(default_factory=list)
    found: bool | None = None
    """of the last step: whether the look-up led to a message"""

    def as_json(self) -> dict[str, Any]:
        made: dict[str, Any] = {"title": self.title}
        if self.file:
            made |= {"file": self.file, "byte": self.byte, "raw": self.raw.hex()}
        made["says"] = self.says
        if self.fields:
            made["fields"] = [one.as_json() for one in self.fields]
        return made if self.found is None else {**made, "found": self.found}


class _Look(Log):
    """The log of a store, and what becomes of its messages."""

    def __init__(self, store: StoreDirectory) -> None:
        super().__init__(store.commit_log)
        self.outlooks = Outlooks(store)

    def __enter__(self) -> Self:
        return self

    def close(self) -> None:
        self.outlooks.close()
        super().close()


# By key


def by_key(store: StoreDirectory, topic: str, key: str, *, is_tag: bool = False, slots: int | None = None) -> Iterator[Step]:
    """Key, unique key or tags -> index -> log."""
    text = tags_key(key) if is_tag else key
    yield from _hash_steps(topic, text, is_tag)
    if not store.index:
        yield Step(
            "No index", ["The directory index/ holds no file: this store can only be searched by reading the log."], found=False
        )
        return
    wanted = index_hash(topic, text)
    hits = 0
    with _Look(store) as log:
        for file in reversed(store.index):
            for step in _index_steps(store, log, file, slots, wanted, text, topic):
                hits += bool(step.found)
                step.found = None
                if hits > HITS_SHOWN:
                    yield Step(
                        "And so on", [f"More than {HITS_SHOWN} messages have it; rmq inspect find lists them all."], found=True
                    )
                    return
                yield step
    if hits:
        yield Step("Found", [f"{hits} message{'s' if hits > 1 else ''}, newest file first."], found=True)
    else:
        yield Step("Not found", ["No entry of any index file leads to a message with this text."], found=False)


def _hash_steps(topic: str, text: str, is_tag: bool) -> Iterator[Step]:
    whole = f"{topic}#{text}"
    how = "topic, #, T#, tags" if is_tag else "topic, #, key"
    yield Step("The text that is hashed", [f"{printable(whole)}   ({how})"])
    value = string_hash(whole)
    says = [
        f"h = 31 * h + c over its {len(whole)} UTF-16 units, as a signed 32-bit number: {value}",
        f"without its sign: {index_hash(topic, text)}",
    ]
    yield Step("Java's String.hashCode()", says)


def _index_steps(
    store: StoreDirectory, log: _Look, file: StoreFile, slots: int | None, wanted: int, text: str, topic: str
) -> Iterator[Step]:
    with IndexReader(file, slots) as reader:
        header = reader.header
        raw = HEADER.packed.pack(*header)
        says = [
            f"messages stored from {text_of(header.begin_timestamp)} to {text_of(header.end_timestamp)},",
            f"{header.slot_count} slots in use, next entry is number {header.index_count}",
        ]
        yield Step("The header of an index file", says, file.name, 0, raw, flat_fields(HEADER, raw, 0))
        if not reader.slots:
            yield Step("Unknown number of slots", [f"{file.name}: {reader.no_slots}"])
            return
        slot = wanted % reader.slots
        value = reader.slot(slot)
        at = reader.slot_at(slot)
        reach = 0 < value < max(reader.count, 1)
        said = (
            f"its newest entry is number {value}" if reach else f"{value}: no entry" if value <= 0 else f"{value}: beyond the end"
        )
        says = [f"{wanted} % {reader.slots} = {slot}", f"at byte {HEADER.size} + {SLOT.size} * {slot} = {at}: {said}"]
        yield Step(f"Slot {slot}", says, file.name, at, SLOT.packed.pack(value))
        seen: set[int] = set()
        for entry in reader.chain(slot):
            if len(seen) == CHAIN_SHOWN:
                yield Step("A long chain", [f"More than {CHAIN_SHOWN} entries; the others are not shown."])
                return
            seen.add(entry.number)
            yield _entry_step(file, reader, entry, wanted)
            if entry.key_hash == wanted:
                yield _hit_step(log, entry, topic, text)
        if reader.slots_may_lag(store):
            yield from _lagging_steps(log, file, reader, seen, wanted, text, topic)


def _lagging_steps(
    log: _Look, file: StoreFile, reader: IndexReader, seen: set[int], wanted: int, text: str, topic: str
) -> Iterator[Step]:
    """Entries that are written while their slots are still in a broker's memory."""
    says = ["The store is open or was not closed in order, so slots may lag behind the entries: those were looked at one by one."]
    others = (entry for entry in reader.with_hashes((wanted,)) if entry.number not in seen)
    for number, entry in enumerate(others):
        if number == 0:
            yield Step("Entries to which no slot leads yet", [*says, "A broker that starts mends the slots."])
        if number == CHAIN_SHOWN:
            yield Step("And more", [f"More than {CHAIN_SHOWN} entries; the others are not shown."])
            return
        yield _entry_step(file, reader, entry, wanted)
        yield _hit_step(log, entry, topic, text)


def _entry_step(file: StoreFile, reader: IndexReader, entry: Entry, wanted: int) -> Step:
    same = entry.key_hash == wanted
    before = f"then entry {entry.previous}" if entry.previous > 0 else "the chain ends here"
    if entry.previous >= entry.number:
        before = f"then {entry.previous}: a chain must lead to lower numbers, so it ends here"
    if not same:
        says = [f"hash {entry.key_hash}: another key of the same slot, passed over; {before}"]
        return Step(f"Entry {entry.number}", says, file.name, entry.at, entry.raw)
    says = [
        f"at byte {HEADER.size} + {SLOT.size} * {reader.slots} + {ENTRY.size} * {entry.number} = {entry.at}",
        f"hash {entry.key_hash}: the same",
        f"stored {entry.seconds} s after the file's first message: {text_of(entry.store_time(reader.header))}",
        before,
    ]
    return Step(f"Entry {entry.number}", says, file.name, entry.at, entry.raw, flat_fields(ENTRY, entry.raw, entry.at))


def _hit_step(log: _Look, entry: Entry, topic: str, text: str) -> Step:
    try:
        unit = log.unit(entry.physical_offset)
    except BadRecord as reason:
        return Step(f"Commit log at {entry.physical_offset}", [f"No message can be read there: {reason}"])
    keys = stored_index_keys(unit.message.properties)
    is_it = topic_of(unit.message) == topic and text in keys
    step = _unit_step(log, unit)
    step.says.append(
        "it has the text: found" if is_it else "it has another topic or other texts: the hashes only happen to agree"
    )
    step.found = is_it
    return step


# By place


def by_queue(store: StoreDirectory, topic: str, queue_id: int, queue_offset: int) -> Iterator[Step]:
    """Topic, queue, offset -> queue file -> log."""
    if (batch := store.batch_queues.get((topic, queue_id))) is not None:
        yield from _batch_steps(store, batch, topic, queue_id, queue_offset)
        return
    if not (files := store.queues.get((topic, queue_id))):
        known = sorted(number for name, number in store.queues if name == topic)
        have = f"queues {', '.join(map(str, known))}" if known else "no queue at all"
        yield Step("No such queue", [f"consumequeue/{printable(topic)} has {have}."], found=False)
        return
    unit = yield from _queue_unit_steps(files, queue_offset)
    if unit is None:
        return
    with _Look(store) as log:
        yield from _log_steps(log, unit.physical_offset, topic, queue_id, queue_offset, unit)


def _queue_unit_steps(files: list[StoreFile], queue_offset: int) -> Generator[Step, None, queues.QueueUnit | None]:
    size = queues.UNIT.size
    byte = queue_offset * size
    low, end = queues.bounds(files)
    says = [f"{queue_offset} * {size} = byte {byte} of the queue; the queue has the offsets {low} to {end - 1}"]
    if low == end:
        says = [f"{queue_offset} * {size} = byte {byte} of the queue; it has no messages"]
    file = queues.file_of(files, queue_offset)
    if file is None:
        have = f"from byte {files[0].start} to {files[-1].end}"
        yield Step("Which file", [*says, f"no file holds that byte: they go {have}"], found=False)
        return None
    at = byte - file.start
    says.append(f"the file named {file.parts[-1]} begins at byte {file.start}: there it is at {byte} - {file.start} = {at}")
    yield Step("Which file", says)
    unit = queues.unit_at(files, queue_offset)
    if unit is None:
        yield Step("The unit", ["the file is too short for it"], file.name, at, found=False)
        return None
    fields = flat_fields(queues.UNIT, unit.raw, at)
    if unit.is_filler or not unit.is_written:
        why = "a filler: the queue begins behind it" if unit.is_filler else "zeros or no valid unit: nothing was written here"
        yield Step("The unit", [why], file.name, at, unit.raw, fields, found=False)
        return None
    says = [f"the message is at {unit.physical_offset} of the log and has {unit.size} bytes", _code_text(unit)]
    yield Step("The unit", says, file.name, at, unit.raw, fields)
    return unit


def _batch_steps(store: StoreDirectory, files: list[StoreFile], topic: str, queue_id: int, queue_offset: int) -> Iterator[Step]:
    """A batch queue has no place for an offset: the unit is the one whose span holds it."""
    last = None
    for unit in queues.batch_units(files):
        if not unit.is_written or unit.base_offset > queue_offset:
            break
        last = unit
    if last is None or queue_offset >= last.base_offset + last.batch_size:
        yield Step("The unit of a batch queue", ["no unit's span holds this offset"], found=False)
        return
    raw = queues.BATCH.packed.pack(*last[2:])
    says = [
        f"it covers the offsets {last.base_offset} to {last.base_offset + last.batch_size - 1}",
        f"their unit is at {last.physical_offset} of the log and has {last.size} bytes",
    ]
    fields = flat_fields(queues.BATCH, raw, last.at)
    yield Step("The unit of a batch queue", says, last.file.name, last.at, raw, fields)
    with _Look(store) as log:
        yield from _log_steps(log, last.physical_offset, topic, queue_id, last.base_offset, None)


def _code_text(unit: queues.QueueUnit) -> str:
    meaning = tags_meaning(unit)
    return f"tags code {unit.tags_code}" + (f": {meaning}" if meaning else ": the hash of its tags")


def _log_steps(
    log: _Look, offset: int, topic: str | None, queue_id: int, queue_offset: int, unit: queues.QueueUnit | None
) -> Iterator[Step]:
    yield _file_step(log, offset)
    try:
        message = log.unit(offset)
    except BadRecord as reason:
        yield Step(f"Commit log at {offset}", [f"No message can be read there: {reason}"], found=False)
        return
    step = _unit_step(log, message)
    wrong = []
    if topic is not None:
        stored = message.message
        place = (topic_of(stored), stored.queue_id, stored.queue_offset)
        light = light_offsets(stored).get(topic)
        if light is not None:
            step.says.append(f"its properties name this light queue; its offset there is {light}")
        if place != (topic, queue_id, queue_offset) and (light, queue_id) != (queue_offset, 0):
            wrong.append(f"it says it is {printable(place[0])} [{place[1]}] @{place[2]}: NOT the message that was asked for")
        if unit is not None and unit.size != stored.total_size:
            wrong.append(f"it has {stored.total_size} bytes, the queue says {unit.size}: THEY DISAGREE")
        if unit is not None and -(1 << 31) <= unit.tags_code < 1 << 31:
            own = stored_tags_code(stored.properties)
            same = "the same hash" if own == unit.tags_code else "THEY DISAGREE"
            step.says.append(f"its tags hash to {own}, the queue says {unit.tags_code}: {same}")
    step.says += wrong or ["found"]
    step.found = not wrong
    yield step


def _file_step(log: _Look, offset: int) -> Step:
    file = log.file_of(offset)
    if file is None:
        return Step("Which log file", [f"none holds byte {offset}"])
    at = offset - file.start
    return Step(
        "Which log file", [f"{file.parts[-1]} begins at byte {file.start}: there it is at {offset} - {file.start} = {at}"]
    )


def _unit_step(log: _Look, unit: Unit) -> Step:
    message = unit.message
    says = [f"{printable(topic_of(message))} [{message.queue_id}] @{message.queue_offset}, {message.total_size} bytes"]
    if (outlook := log.outlooks.of(message)) is not None:
        says.append(f"{outlook.kind}, {outlook.state}: {outlook.says}")
    return Step(f"Commit log at {message.physical_offset}", says, unit.file.name, unit.at, unit.raw[:32], unit_fields(unit))


def by_id(store: StoreDirectory, text: str) -> Iterator[Step]:
    """Offset message id -> log.  Raises `CannotLook` for a text that is none."""
    try:
        parsed = parse_offset_message_id(text)
    except BadHeader:
        raise CannotLook(f"{text!r} is no offset message id: those have 32 or 56 hexadecimal digits") from None
    raw = bytes.fromhex(text)
    says = [
        f"store host {hex_text(parsed.host)} = {host_text(parsed.host)}",
        f"offset of the log {hex_text(raw[-8:])} = {parsed.physical_offset}",
    ]
    yield Step("The id taken apart", says)
    with _Look(store) as log:
        steps = list(_log_steps(log, parsed.physical_offset, None, -1, -1, None))
        if steps[-1].found:
            stored = log.unit(parsed.physical_offset).message.store_host
            if stored != parsed.host:
                steps[-1].says[-1] = f"a message is there, but {host_text(stored)} stored it: the id is another broker's"
                steps[-1].found = False
        yield from steps
        if not steps[-1].found:
            yield from _maybe_unique(text)


def _maybe_unique(text: str) -> Iterator[Step]:
    key = parse_unique_key(text)
    says = [f"as one it was made by process {key.pid}, {key.span_ms} ms into its month, as number {key.serial}"]
    yield Step("It may be a unique key", [*says, "look it up with --topic NAME --key ID"], found=False)


def by_offset(store: StoreDirectory, offset: int) -> Iterator[Step]:
    """Offset of the log -> unit."""
    with _Look(store) as log:
        yield from _log_steps(log, offset, None, -1, -1, None)


def by_time(store: StoreDirectory, topic: str, queue_id: int, time_ms: int) -> Iterator[Step]:
    """Topic, queue, time -> the first message stored then or later, by halving the queue."""
    if (batch := store.batch_queues.get((topic, queue_id))) is not None:
        yield from _batch_time_steps(store, batch, topic, queue_id, time_ms)
        return
    if not (files := store.queues.get((topic, queue_id))):
        yield from by_queue(store, topic, queue_id, 0)
        return
    low, end = queues.bounds(files)
    yield Step("The queue", [f"it has the offsets {low} to {end - 1}" if end > low else "it has no messages"])
    probes: list[Step] = []

    def probe(unit: queues.QueueUnit, stored: int | None) -> None:
        said = "its message cannot be read: look elsewhere" if stored is None else f"stored {text_of(stored)}"
        turn = "" if stored is None else ": too early, go right" if stored < time_ms else ": late enough, go left"
        probes.append(Step(f"Look at offset {unit.queue_offset}", [said + turn], unit.file.name, unit.at, unit.raw))

    with _Look(store) as log:
        found = queues.first_stored_at(files, log, time_ms, probe)
    yield from probes
    if found >= end:
        yield Step(
            "Behind the last", [f"nothing was stored at or after {text_of(time_ms)}; the next offset is {end}"], found=False
        )
        return
    yield Step("The first at or after the time", [f"offset {found}"])
    yield from by_queue(store, topic, queue_id, found)


def _batch_time_steps(store: StoreDirectory, files: list[StoreFile], topic: str, queue_id: int, time_ms: int) -> Iterator[Step]:
    """Units of a batch queue carry the time themselves."""
    for unit in queues.batch_units(files):
        if unit.is_written and unit.store_timestamp >= time_ms:
            raw = queues.BATCH.packed.pack(*unit[2:])
            said = f"offset {unit.base_offset}, stored {text_of(unit.store_timestamp)}"
            yield Step("The first unit at or after the time", [said], unit.file.name, unit.at, raw)
            yield from by_queue(store, topic, queue_id, unit.base_offset)
            return
    yield Step("Behind the last", [f"nothing was stored at or after {text_of(time_ms)}"], found=False)
