"""A small store of every kind of file, made by our own store, and ways to look up what to damage in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rmq_columns.checks.scope import Scope
from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_inspect.decode.directory import list_store
from rmq_inspect.verify.report import Report
from rmq_inspect.verify.verify import verify
from rmq_store.disk.disk import RealDisk
from rmq_store.settings import StoreSettings
from rmq_wire.layout.flat import Flat, flat
from rmq_wire.layout.index import ENTRY, HEADER
from rmq_wire.layout.message import HEAD
from rmq_wire.message import StoredMessage, read_size_and_magic, read_unit
from tests.support.store_rig import Rig, draft, small

LOG_FILE_BYTES = 8192
QUEUE_FILE_UNITS = 20
SLOTS, ENTRIES = 97, 400
MESSAGES = 300
TOPICS = {"TopicA": 3, "TopicB": 1}
_HEAD, _ENTRY, _HEADER = flat(HEAD), flat(ENTRY), flat(HEADER)


def settings_at(root: Path, **changes: object) -> StoreSettings:
    return small(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE_BYTES,
        mapped_file_size_consume_queue=QUEUE_FILE_UNITS * QUEUE_UNIT.itemsize,
        max_hash_slot_num=SLOTS,
        max_index_num=ENTRIES,
        **changes,
    )


def topic_of(number: int) -> tuple[str, int]:
    return ("TopicB", 0) if number % 4 == 3 else ("TopicA", number % 4)


def fill_soundly(root: Path) -> Path:
    """A store as a clean stop leaves it, with its tables."""
    fill(root)
    add_config(root)
    return root


def fill(root: Path, messages: int = MESSAGES, *, clean: bool = True) -> Rig:
    """A store with so many messages, each 10 ms after the one before."""
    rig = Rig(RealDisk(), settings_at(root))
    for number in range(messages):
        topic, queue_id = topic_of(number)
        rig.put(draft(number, topic, queue_id, body_bytes=20 + number * 7 % 60))
        rig.wait(10)
    rig.sync()
    if clean:
        assert rig.store.close(rig.wall_ms)
    else:
        rig.wait(2000)
        rig.sync()
    return rig


def add_config(root: Path) -> None:
    """What a broker keeps beside the store."""
    (root / "config").mkdir()
    table = {topic: {"topicName": topic, "readQueueNums": queues, "writeQueueNums": queues} for topic, queues in TOPICS.items()}
    for name in ("topics.json", "topics.json.bak"):
        (root / "config" / name).write_text(json.dumps({"dataVersion": {}, "topicConfigTable": table}))
    (root / "config" / "consumerOffset.json").write_text('{\n\t"offsetTable":{\n\t\t"TopicA@G":{0:5,1:7\n\t\t}\n\t}\n}')


@dataclass
class Subject:
    """One copy of the store, to be damaged."""

    root: Path

    def report(self, **scope: Any) -> Report:
        return verify(list_store(self.root), Scope(**{"workers": 1, **scope}))

    def path(self, name: str) -> Path:
        return self.root / name

    @property
    def log_files(self) -> list[Path]:
        return sorted((self.root / "commitlog").iterdir())

    def queue_file(self, topic: str = "TopicA", queue_id: int = 0, number: int = 0) -> Path:
        return sorted((self.root / "consumequeue" / topic / str(queue_id)).iterdir())[number]

    @property
    def index_files(self) -> list[Path]:
        return sorted((self.root / "index").iterdir())

    def units(self, number: int = 1) -> list[tuple[int, StoredMessage]]:
        """(place in the file, unit) of one log file."""
        raw = self.log_files[number].read_bytes()
        found = []
        at = 0
        while at + 8 <= len(raw):
            size, magic = read_size_and_magic(raw, at)
            if magic not in (0xDAA320A7 - (1 << 32), 0xDAA320AB - (1 << 32)):
                break
            found.append((at, read_unit(raw, at)))
            at += size
        return found

    def write(self, path: Path, at: int, data: bytes) -> None:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)

    def read(self, path: Path, at: int, size: int) -> bytes:
        return path.read_bytes()[at : at + size]

    def set_field(self, path: Path, layout: Flat, at: int, name: str, value: int) -> None:
        self.write(path, at + layout.at[name], layout.field(name).pack(value))

    def set_head(self, path: Path, at: int, name: str, value: int) -> None:
        self.set_field(path, _HEAD, at, name, value)

    def set_entry(self, path: Path, number: int, name: str, value: int) -> int:
        """Change an index entry; where it is."""
        at = 40 + 4 * SLOTS + 20 * number
        self.set_field(path, _ENTRY, at, name, value)
        return at

    def entry(self, path: Path, number: int) -> tuple[int, ...]:
        return _ENTRY.packed.unpack(self.read(path, 40 + 4 * SLOTS + 20 * number, 20))

    def set_index_header(self, path: Path, name: str, value: int) -> None:
        self.set_field(path, _HEADER, 0, name, value)

    def index_header(self, path: Path) -> dict[str, int]:
        return dict(zip(_HEADER.names, _HEADER.packed.unpack(self.read(path, 0, _HEADER.size)), strict=True))
