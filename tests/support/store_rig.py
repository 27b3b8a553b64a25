"""A small store with its own clock, for the tests of `rmq_store`: tiny files, messages by number, no threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import lru_cache
from typing import Any

from rmq_store.disk.disk import Disk, RealDisk
from rmq_store.errors import Cold, CommitFailed
from rmq_store.log.draft import Draft, Placed
from rmq_store.results import Arrived
from rmq_store.settings import FlushDiskType, StoreSettings
from rmq_store.store import Store
from rmq_wire import property_names as prop
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import StoredMessage, read_unit
from tests.support.memory_disk import MemoryDisk

START_MS = 1_700_000_000_000
HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
HOST_V6 = bytes.fromhex("20010db8000000000000000000000001") + (1234).to_bytes(4, "big")
ROOT = "/store"
LIGHT_QUEUES_ON = {"enable_lmq": True, "enable_multi_dispatch": True}


def small(**changes: object) -> StoreSettings:
    """Files of a few hundred messages, queues of 10, an index of 64."""
    values: dict[str, object] = {
        "store_path_root_dir": ROOT,
        "mapped_file_size_commit_log": 8 * 4096,
        "mapped_file_size_consume_queue": 10 * 20,
        "max_hash_slot_num": 97,
        "max_index_num": 64,
        "max_message_size": 8192,
        "disk_space_warning_level_ratio": None,
        **changes,
    }
    return StoreSettings(**values)  # type: ignore[arg-type]


def open_store(settings: StoreSettings, wall_ms: int = START_MS, *, disk: Disk | None = None, pid: int = 1, **more: Any) -> Store:
    """A start of a store, on the real disk unless another is given."""
    return Store.open(disk or RealDisk(), settings, wall_ms, pid=pid, **more)


def stage_batch(store: Store, drafts: Sequence[Draft], wall_ms: int) -> Sequence[Placed]:
    """Messages of one queue as one batch. Raises Illegal, Unwritable."""
    batch = store.open_batch(drafts[0].topic, drafts[0].queue_id)
    for one in drafts:
        batch.add(one)
    return store.stage_batch(batch, wall_ms)


def draft(
    number: int, topic: str = "TopicA", queue_id: int = 0, body_bytes: int = 40, tags: str | None = None, **more: object
) -> Draft:
    """Message `number`: body, unique key and key say which it is."""
    properties, code, keys = _described(number, f"Tag{number % 3}" if tags is None else tags)
    body = (b"%d:" % number).ljust(body_bytes, b".")
    values: dict[str, object] = {"tags_code": code, "keys": keys, **more}
    return Draft(topic, queue_id, body, properties, START_MS, HOST, HOST, **values)  # type: ignore[arg-type]


@lru_cache(1024)
def _described(number: int, tags: str) -> tuple[bytes, int, tuple[str, ...]]:
    """Properties, code of the tags and keys: every simulated life begins with the same numbers."""
    unique, keys = f"7F0000010007AAAA{number:016X}", f"key{number} shared"
    properties = f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02TAGS\x01{tags}\x02".encode()
    return properties, tags_code(tags), index_keys(unique, keys, tags)


def lit(number: int, names: str, topic: str = "TopicA", queue_id: int = 0) -> Draft:
    """The same, which names further queues."""
    one = draft(number, topic, queue_id)
    one.properties += f"{prop.INNER_MULTI_DISPATCH}\x01{names}\x02".encode()
    return one


def number_of(unit_body: bytes | bytearray | memoryview) -> int:
    return int(bytes(unit_body).split(b":", 1)[0])


@dataclass(slots=True)
class Stored:
    """A committed message."""

    number: int
    topic: str
    queue_id: int
    placed: Placed
    keys: tuple[str, ...]
    wall_ms: int
    body: bytes
    properties: bytes
    batch: int
    acked: bool = False


@dataclass
class Rig:
    """A store on a disk, with a hand-driven clock."""

    disk: Disk = field(default_factory=MemoryDisk)
    settings: StoreSettings = field(default_factory=small)
    wall_ms: int = START_MS
    mono_ms: int = 0

    def __post_init__(self) -> None:
        self.store = self.open()

    def open(self) -> Store:
        if isinstance(self.disk, MemoryDisk):
            self.disk.wall_ms = self.wall_ms
        self.store = open_store(self.settings, self.wall_ms, disk=self.disk, pid=4711, zone=UTC)
        self.store.next_due(self.mono_ms)
        self.store.retention.next_due(self.mono_ms)
        return self.store

    def put(self, *drafts: Draft) -> list[Placed]:
        """One turn: stage all, commit, dispatch."""
        placed = [self.store.stage(one, self.wall_ms) for one in drafts]
        self.store.commit()
        self.arrived: list[Arrived] = self.store.dispatch(self.wall_ms)
        return placed

    def try_put(self, *drafts: Draft) -> list[Placed] | None:
        try:
            return self.put(*drafts)
        except CommitFailed:
            return None

    def sync(self) -> None:
        """Everything the flusher wants now, inline."""
        while (ticket := self.store.begin_sync(self.mono_ms, True)) is not None:
            try:
                ticket.run()
            except OSError as reason:
                self.store.end_sync(ticket, reason)
            else:
                self.store.end_sync(ticket, None)

    def sync_queues(self) -> None:
        """The log, and a whole round of queues and index, whatever the time."""
        self.sync()
        self.store._flusher._round_due_ms = 0
        self.sync()

    def wait(self, ms: int) -> None:
        """Time passes; what is due is done."""
        self.mono_ms += ms
        self.wall_ms += ms
        if isinstance(self.disk, MemoryDisk):
            self.disk.wall_ms = self.wall_ms
        self.store.tick(self.mono_ms, self.wall_ms)

    def retain(self, ms: int) -> None:
        """Time passes, in steps as retention wants them; what it wants to have done in a thread is done inline."""
        end = self.mono_ms + ms
        while (due := max(self.store.retention.next_due(self.mono_ms), self.mono_ms)) <= end:
            self.wait(due - self.mono_ms)
            while (chore := self.store.retention.begin(self.mono_ms, self.wall_ms)) is not None:
                try:
                    chore.run()
                except OSError as reason:
                    self.store.retention.end(chore, reason, self.mono_ms)
                else:
                    self.store.retention.end(chore, None, self.mono_ms)
        self.wait(end - self.mono_ms)

    def reopen(self) -> Store:
        assert self.store.close(self.wall_ms)
        return self.open()

    def numbers(self, topic: str = "TopicA", queue_id: int = 0) -> list[int]:
        """Message numbers of a queue, read as a consumer does."""
        found: list[int] = []
        offset, end = self.store.queue_bounds(topic, queue_id)
        while offset < end:
            try:
                read = self.store.read_queue(topic, queue_id, offset, 32, 1 << 20)
            except Cold as cold:
                cold.run()
                continue
            assert read.message_count, read
            found += [number_of(unit.body) for unit in units_of(read.chunks)]
            offset = read.next_offset
        return found


def units_of(chunks: object) -> list[StoredMessage]:
    data = b"".join(chunks)  # type: ignore[arg-type]
    units = []
    at = 0
    while at < len(data):
        units.append(read_unit(data, at))
        at += units[-1].total_size
    return units


def sync_settings(**changes: object) -> StoreSettings:
    return small(flush_disk_type=FlushDiskType.SYNC_FLUSH, **changes)
