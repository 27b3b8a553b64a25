"""Defects in the files of a store, made on a copy of what they change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from conformance.controls import frames
from conformance.controls.defect import Defect, enter
from conformance.controls.shadow import Shadow, Spoil
from rmq_wire.layout.checkpoint import FIELDS
from rmq_wire.layout.consume_queue import UNIT
from rmq_wire.layout.flat import flat
from rmq_wire.layout.index import ENTRY, HEADER, SLOT

QUEUE_ENTRY: Final = flat(UNIT).packed
INDEX_ENTRY: Final = flat(ENTRY).packed
INDEX_HEADER: Final = flat(HEADER).packed
CHECKPOINT: Final = flat(FIELDS).packed
BODY_AT: Final = frames.BODY_AT
LOG, INDEX, CONFIG = "commitlog", "index", "config"
AGES_MS: Final = 60 * 365 * 24 * 3_600_000

Entries = list[tuple[int, ...]]


def store(name: str, wrong: str, *caught_by: str) -> Callable[[Spoil], Spoil]:
    """Declare the function below as what is wrong with the files."""

    def declare(spoil: Spoil) -> Spoil:
        enter(Defect(f"store.{name}", wrong, caught_by, spoil=spoil))
        return spoil

    return declare


def each_queue(shadow: Shadow, edit: Callable[[Entries], Entries]) -> None:
    """Edit the entries of the new topics' queues: (place, size, tags code)."""

    def changed(data: bytes) -> bytes:
        entries: Entries = [entry for entry in QUEUE_ENTRY.iter_unpack(data) if entry[1]]
        written = b"".join(QUEUE_ENTRY.pack(*entry) for entry in edit(entries))
        return written + bytes(len(data) - len(written))

    for file in shadow.new_queues():
        shadow.change(file, changed)


@store("entry-place-off", "leads a queue entry to a place beside the message", "store.queue-entries", "store.batch")
def place_off(shadow: Shadow) -> None:
    """One byte behind its start."""
    each_queue(shadow, lambda entries: [(place + 1, size, code) for place, size, code in entries])


@store("entry-size-off", "tells another size in the queue entry", "store.queue-entries")
def size_off(shadow: Shadow) -> None:
    """4 bytes less: without the length field."""
    each_queue(shadow, lambda entries: [(place, size - 4, code) for place, size, code in entries])


@store("tags-code-wrong", "hashes tags in another way", "store.queue-entries", "store.batch")
def tags_code(shadow: Shadow) -> None:
    """The hash's sign is lost, and everything else."""
    each_queue(shadow, lambda entries: [(place, size, code * 31) for place, size, code in entries])


@store("entry-missing", "leaves the last message out of its queue", "store.queue-entries")
def entry_missing(shadow: Shadow) -> None:
    """Of each queue."""
    each_queue(shadow, lambda entries: entries[:-1])


@store("entries-swapped", "stores queue entries in another order", "store.queue-entries")
def swapped(shadow: Shadow) -> None:
    """From the newest to the oldest."""
    each_queue(shadow, lambda entries: entries[::-1])


@store("batch-one-entry", "makes one queue entry of a batch", "store.batch")
def batch_one(shadow: Shadow) -> None:
    """Of its first message."""
    each_queue(shadow, lambda entries: entries[:1])


@store("unit-flipped", "stores one bit of a body otherwise than it brings it", "store.unit")
def unit_flipped(shadow: Shadow) -> None:
    """In all messages of new topics."""
    places = [entry for file in shadow.new_queues() for entry in QUEUE_ENTRY.iter_unpack((shadow.root / file).read_bytes())]
    for file in shadow.files(LOG):
        start, size = int(file.name), (shadow.root / file).stat().st_size
        here = [place - start for place, unit_size, _ in places if unit_size and start <= place < start + size]
        if here:
            shadow.change(file, partial(_flip, here))


def _flip(places: list[int], data: bytes) -> bytes:
    """Changes the body's first byte of the units at these places."""
    changed = bytearray(data)
    for place in places:
        changed[place + BODY_AT] ^= 1
    return bytes(changed)


def each_index(shadow: Shadow, edit: Callable[[tuple[int, ...]], tuple[int, ...]]) -> None:
    """Edit every entry of every index file: (hash, place, seconds, previous)."""

    def changed(data: bytes) -> bytes:
        *_, count = INDEX_HEADER.unpack_from(data)
        first = INDEX_HEADER.size + shadow.slots * flat(SLOT).packed.size
        edited = bytearray(data)
        for number in range(min(count, (len(data) - first) // INDEX_ENTRY.size)):
            at = first + number * INDEX_ENTRY.size
            INDEX_ENTRY.pack_into(edited, at, *edit(INDEX_ENTRY.unpack_from(edited, at)))
        return bytes(edited)

    for file in shadow.files(INDEX):
        shadow.change(file, changed)


@store("index-entry-missing", "indexes no keys", "store.index-entries")
def index_missing(shadow: Shadow) -> None:
    """Every entry is 0."""
    each_index(shadow, lambda entry: (0, 0, 0, 0))


@store("index-place-off", "leads a key to a place beside the message", "store.index-entries")
def index_off(shadow: Shadow) -> None:
    """One byte behind its start."""
    each_index(shadow, lambda entry: (entry[0], entry[1] + 1, *entry[2:]))


@store("abort-missing", "does not mark that it runs", "store.marks")
def abort_missing(shadow: Shadow) -> None:
    """A crash would be taken for an orderly end."""
    shadow.remove(Path("abort"))


@store("abort-empty", "does not say which process runs", "store.marks")
def abort_empty(shadow: Shadow) -> None:
    """The file is there, and empty."""
    shadow.change(Path("abort"), lambda data: b"")


@store("checkpoint-short", "writes a checkpoint without padding", "store.marks")
def checkpoint_short(shadow: Shadow) -> None:
    """The reference maps 4 KiB."""
    shadow.change(Path("checkpoint"), lambda data: data[: CHECKPOINT.size])


@store("checkpoint-of-the-future", "writes times to come into the checkpoint", "store.checkpoint-order")
def checkpoint_future(shadow: Shadow) -> None:
    """Sixty years ahead: recovery would begin behind everything."""

    def ahead(data: bytes) -> bytes:
        return CHECKPOINT.pack(*(at + AGES_MS for at in CHECKPOINT.unpack_from(data))) + data[CHECKPOINT.size :]

    shadow.change(Path("checkpoint"), ahead)


def rows(shadow: Shadow, file: str, table: str, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Edit the table of a configuration file; one that is just being written stays as it is."""

    def changed(data: bytes) -> bytes:
        text = re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', data.decode())
        try:
            read = json.loads(text)
        except ValueError:
            return data
        read[table] = edit(read.get(table, {}))
        return json.dumps(read).encode()

    path = Path(CONFIG, file)
    if (shadow.root / path).exists():
        shadow.change(path, changed)


@store("topic-row-missing", "does not keep topics", "store.topics-file")
def topic_missing(shadow: Shadow) -> None:
    """New ones are not in config/topics.json."""
    rows(
        shadow, "topics.json", "topicConfigTable", lambda table: {name: row for name, row in table.items() if "CONF_" not in name}
    )


@store("topic-row-wrong", "keeps another number of queues", "store.topics-file")
def topic_wrong(shadow: Shadow) -> None:
    """One more to read from."""
    rows(
        shadow,
        "topics.json",
        "topicConfigTable",
        lambda table: {name: {**row, "readQueueNums": row["readQueueNums"] + 1} for name, row in table.items()},
    )


@store("progress-missing", "does not keep the progress of groups", "store.offsets-file")
def progress_missing(shadow: Shadow) -> None:
    """config/consumerOffset.json is empty."""
    rows(shadow, "consumerOffset.json", "offsetTable", lambda table: {})


@store("log-file-short", "makes log files of another size", "store.file-names")
def log_short(shadow: Shadow) -> None:
    """4 KiB less than it was told."""
    for file in shadow.files(LOG):
        shadow.change(file, lambda data: data[:-4096])


@store("log-file-name", "names log files without leading zeros", "store.file-names")
def log_name(shadow: Shadow) -> None:
    """Only the last of several."""
    [*_, last] = shadow.files(LOG)
    shadow.rename(last, str(int(last.name)))


@store("queue-file-short", "makes queue files of another size", "store.file-names")
def queue_short(shadow: Shadow) -> None:
    """One entry less than it was told."""
    for file in shadow.new_queues():
        shadow.change(file, lambda data: data[: -QUEUE_ENTRY.size])


@store("index-file-name", "names index files in another way", "store.file-names")
def index_name(shadow: Shadow) -> None:
    """With a dash behind the day."""
    for file in shadow.files(INDEX):
        shadow.rename(file, f"{file.name[:8]}-{file.name[8:]}")
