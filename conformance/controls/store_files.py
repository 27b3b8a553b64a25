"""Defects in the files of a store, made on a copy of what they change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from conformance.controls import frames
from conformance.controls.defect import Row
from conformance.controls.shadow import Shadow, Spoil
from rmq_wire.layout.checkpoint import FIELDS
from rmq_wire.layout.consume_queue import UNIT
from rmq_wire.layout.flat import flat
from rmq_wire.layout.index import ENTRY, HEADER, SLOT

QUEUE_ENTRY: Final = flat(UNIT).packed
INDEX_ENTRY: Final = flat(ENTRY).packed
INDEX_HEADER: Final = flat(HEADER).packed
CHECKPOINT: Final = flat(FIELDS).packed
LOG, INDEX, CONFIG = "commitlog", "index", "config"
TOPICS: Final = ("topics.json", "topicConfigTable")
AGES_MS: Final = 60 * 365 * 24 * 3_600_000

Entries = list[tuple[int, ...]]
Edit = Callable[[bytes], bytes]


def file(name: str, edit: Edit) -> Spoil:
    """One file has other content."""
    return lambda shadow: shadow.change(Path(name), edit)


def files(directory: str, edit: Edit) -> Spoil:
    """All files of a directory have."""

    def spoil(shadow: Shadow) -> None:
        for file in shadow.files(directory):
            shadow.change(file, edit)

    return spoil


def queue_files(edit: Edit) -> Spoil:
    """The queues of new topics have."""

    def spoil(shadow: Shadow) -> None:
        for file in shadow.new_queues():
            shadow.change(file, edit)

    return spoil


def queues(edit: Callable[[Entries], Entries]) -> Spoil:
    """Their entries: (place, size, tags code)."""

    def changed(data: bytes) -> bytes:
        entries: Entries = [entry for entry in QUEUE_ENTRY.iter_unpack(data) if entry[1]]
        written = b"".join(QUEUE_ENTRY.pack(*entry) for entry in edit(entries))
        return written + bytes(len(data) - len(written))

    return queue_files(changed)


def index(edit: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Spoil:
    """Every entry of every index file: (hash, place, seconds, previous)."""

    def changed(slots: int, data: bytes) -> bytes:
        *_, count = INDEX_HEADER.unpack_from(data)
        first = INDEX_HEADER.size + slots * flat(SLOT).packed.size
        edited = bytearray(data)
        for number in range(min(count, (len(data) - first) // INDEX_ENTRY.size)):
            at = first + number * INDEX_ENTRY.size
            INDEX_ENTRY.pack_into(edited, at, *edit(INDEX_ENTRY.unpack_from(edited, at)))
        return bytes(edited)

    return lambda shadow: files(INDEX, partial(changed, shadow.slots))(shadow)


def rows(name: str, table: str, edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Spoil:
    """The table of a configuration file; one that is just being written stays as it is."""

    def changed(data: bytes) -> bytes:
        text = re.sub(r"([{,]\s*)(-?\d+)(\s*:)", r'\1"\2"\3', data.decode())
        try:
            read = json.loads(text)
        except ValueError:
            return data
        read[table] = edit(read.get(table, {}))
        return json.dumps(read).encode()

    path = Path(CONFIG, name)
    return lambda shadow: shadow.change(path, changed) if (shadow.root / path).exists() else None


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
        changed[place + frames.BODY_AT] ^= 1
    return bytes(changed)


def future(data: bytes) -> bytes:
    """Sixty years ahead: recovery would begin behind everything."""
    return CHECKPOINT.pack(*(at + AGES_MS for at in CHECKPOINT.unpack_from(data))) + data[CHECKPOINT.size :]


def log_name(shadow: Shadow) -> None:
    """Only the last of several."""
    [*_, last] = shadow.files(LOG)
    shadow.rename(last, str(int(last.name)))


def index_name(shadow: Shadow) -> None:
    """With a dash behind the day."""
    for file in shadow.files(INDEX):
        shadow.rename(file, f"{file.name[:8]}-{file.name[8:]}")


DEFECTS: Final = {
    "store.entry-place-off": Row(
        "leads a queue entry to a place beside the message",
        "store.queue-entries store.batch",
        spoil=queues(lambda entries: [(place + 1, size, code) for place, size, code in entries]),
    ),
    "store.entry-size-off": Row(
        "states another size in the queue entry",
        "store.queue-entries",
        spoil=queues(lambda entries: [(place, size - 4, code) for place, size, code in entries]),
    ),
    "store.tags-code-wrong": Row(
        "hashes tags in another way",
        "store.queue-entries store.batch",
        spoil=queues(lambda entries: [(place, size, code * 31) for place, size, code in entries]),
    ),
    "store.entry-missing": Row(
        "leaves the last message out of its queue", "store.queue-entries", spoil=queues(lambda entries: entries[:-1])
    ),
    "store.entries-swapped": Row(
        "stores queue entries in another order", "store.queue-entries", spoil=queues(lambda entries: entries[::-1])
    ),
    "store.batch-one-entry": Row("makes one queue entry of a batch", "store.batch", spoil=queues(lambda entries: entries[:1])),
    "store.unit-flipped": Row("stores one bit of a body otherwise than it brings it", "store.unit", spoil=unit_flipped),
    "store.index-entry-missing": Row("indexes no keys", "store.index-entries", spoil=index(lambda entry: (0, 0, 0, 0))),
    "store.index-place-off": Row(
        "leads a key to a place beside the message",
        "store.index-entries",
        spoil=index(lambda entry: (entry[0], entry[1] + 1, *entry[2:])),
    ),
    "store.abort-missing": Row("does not mark that it runs", "store.marks", spoil=lambda shadow: shadow.remove(Path("abort"))),
    "store.abort-empty": Row("does not say which process runs", "store.marks", spoil=file("abort", lambda data: b"")),
    "store.checkpoint-short": Row(
        "writes a checkpoint without padding", "store.marks", spoil=file("checkpoint", lambda data: data[: CHECKPOINT.size])
    ),
    "store.checkpoint-of-the-future": Row(
        "writes times to come into the checkpoint", "store.checkpoint-order", spoil=file("checkpoint", future)
    ),
    "store.topic-row-missing": Row(
        "does not keep topics",
        "store.topics-file",
        spoil=rows(*TOPICS, lambda table: {name: row for name, row in table.items() if "CONF_" not in name}),
    ),
    "store.topic-row-wrong": Row(
        "keeps another number of queues",
        "store.topics-file",
        spoil=rows(
            *TOPICS, lambda table: {name: {**row, "readQueueNums": row["readQueueNums"] + 1} for name, row in table.items()}
        ),
    ),
    "store.progress-missing": Row(
        "does not keep the progress of groups",
        "store.offsets-file",
        spoil=rows("consumerOffset.json", "offsetTable", lambda table: {}),
    ),
    "store.log-file-short": Row(
        "makes log files of another size", "store.file-names", spoil=files(LOG, lambda data: data[:-4096])
    ),
    "store.log-file-name": Row("names log files without leading zeros", "store.file-names", spoil=log_name),
    "store.queue-file-short": Row(
        "makes queue files of another size", "store.file-names", spoil=queue_files(lambda data: data[: -QUEUE_ENTRY.size])
    ),
    "store.index-file-name": Row("names index files in another way", "store.file-names", spoil=index_name),
}
