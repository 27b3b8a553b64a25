"""Counts of a whole store in one pass over its log: topics, queues, rates over time, sizes, keys, and what the files take.

Memory does not grow with the log.  Tables of names have a limit, behind which everything counts as "(others)"; time is counted in
buckets that double their width whenever there are too many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rmq_inspect.decode.directory import StoreDirectory
from rmq_inspect.decode.log import Spoilt, Unit, pieces
from rmq_inspect.decode.records import TRANSACTIONS, compression_of
from rmq_inspect.explain.ordered import Batch
from rmq_inspect.explain.outlook import STILL_TO_COME, Outlook, Outlooks, State
from rmq_inspect.progress import Progress, quiet
from rmq_wire import property_names as prop
from rmq_wire import sys_flag as flags
from rmq_wire.properties import find

TOPICS_MAX: Final = 10_000
QUEUES_MAX: Final = 100_000
TAGS_MAX: Final = 10_000
BUCKETS_MAX: Final = 240
BUCKET_MS: Final = 1000
"""The narrowest bucket."""
OTHERS: Final = "(others)"
BLOCK_BYTES: Final = 512
"""Of `st_blocks`."""
_TAGS, _KEYS, _UNIQUE = prop.TAGS.encode(), prop.KEYS.encode(), prop.UNIQ_KEY.encode()


@dataclass(slots=True)
class Count:
    """Messages and the bytes of their units, and when they were stored."""

    messages: int = 0
    bytes: int = 0
    first_ms: int = -1
    last_ms: int = -1

    def add(self, size: int, stored_ms: int) -> None:
        self.messages += 1
        self.bytes += size
        if self.first_ms < 0 or stored_ms < self.first_ms:
            self.first_ms = stored_ms
        if stored_ms > self.last_ms:
            self.last_ms = stored_ms


@dataclass(slots=True)
class StillToCome:
    """Messages for which the broker has something to do at a time, wall time in ms; -1: none has one."""

    messages: int = 0
    first_due_ms: int = -1
    last_due_ms: int = -1

    def add(self, due_ms: int | None) -> None:
        self.messages += 1
        if due_ms is not None:
            self.first_due_ms = due_ms if self.first_due_ms < 0 else min(due_ms, self.first_due_ms)
            self.last_due_ms = max(due_ms, self.last_due_ms)


class Buckets:
    """Counts over time: bucket k has what was stored from k * width_ms on."""

    def __init__(self) -> None:
        self.width_ms = BUCKET_MS
        self.counts: dict[int, tuple[int, int]] = {}
        self._first, self._last = 1 << 64, -(1 << 64)

    def add(self, stored_ms: int, size: int) -> None:
        at = stored_ms // self.width_ms
        messages, total = self.counts.get(at, (0, 0))
        self.counts[at] = (messages + 1, total + size)
        if at < self._first or at > self._last:
            self._first, self._last = min(at, self._first), max(at, self._last)
            while self._last - self._first >= BUCKETS_MAX:
                self._widen()

    def _widen(self) -> None:
        self.width_ms *= 2
        wider: dict[int, tuple[int, int]] = {}
        for at, (messages, size) in self.counts.items():
            before = wider.get(at // 2, (0, 0))
            wider[at // 2] = (before[0] + messages, before[1] + size)
        self.counts = wider
        self._first, self._last = min(wider), max(wider)

    def rows(self) -> list[tuple[int, int, int]]:
        """(begin in ms, messages, bytes) of every bucket from the first to the last, empty ones too."""
        if not self.counts:
            return []
        return [(at * self.width_ms, *self.counts.get(at, (0, 0))) for at in range(self._first, self._last + 1)]


@dataclass
class Stats:
    """Everything that was counted."""

    total: Count = field(default_factory=Count)
    body_bytes: int = 0
    log_start: int = 0
    log_end: int = 0
    """behind the last message"""
    spoilt: int = 0
    spoilt_bytes: int = 0
    topics: dict[str, Count] = field(default_factory=dict)
    queues: dict[tuple[str, int], Count] = field(default_factory=dict)
    tags: dict[str, int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """power of two that is not below the unit's size -> messages"""
    with_keys: int = 0
    keys: int = 0
    with_unique_key: int = 0
    with_tags: int = 0
    compressed: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    inner_batches: int = 0
    still_to_come: dict[str, StillToCome] = field(default_factory=dict)
    """kind -> delayed, timed, half and popped messages that wait, and what recalls timed ones"""
    ordered_pops: list[Batch] = field(default_factory=list)
    ordered_pops_unread: str | None = None
    """why their file cannot be read"""
    buckets: Buckets = field(default_factory=Buckets)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    """kind -> files, bytes, allocated bytes"""

    def as_json(self) -> dict[str, Any]:
        """Ready for JSON."""
        queues: dict[str, list[dict[str, Any]]] = {}
        for (topic, queue_id), one in sorted(self.queues.items(), key=_first):
            queues.setdefault(topic, []).append({"queueId": queue_id, **_count(one)})
        return {
            "messages": self.total.messages,
            "bytes": self.total.bytes,
            "bodyBytes": self.body_bytes,
            "firstStoreTimestamp": self.total.first_ms,
            "lastStoreTimestamp": self.total.last_ms,
            "logStart": self.log_start,
            "logEnd": self.log_end,
            "spoiltStretches": self.spoilt,
            "spoiltBytes": self.spoilt_bytes,
            "topics": [{"topic": name, **_count(one), "queues": queues.get(name, [])} for name, one in self.by_size()],
            "tags": dict(sorted(self.tags.items(), key=_second, reverse=True)),
            "sizes": [{"atMost": 1 << power, "messages": count} for power, count in sorted(self.sizes.items())],
            "withKeys": self.with_keys,
            "keys": self.keys,
            "withUniqKey": self.with_unique_key,
            "withTags": self.with_tags,
            "compressed": self.compressed,
            "transactions": self.transactions,
            "innerBatches": self.inner_batches,
            "stillToCome": {
                kind: {"messages": one.messages, "firstDue": one.first_due_ms, "lastDue": one.last_due_ms}
                for kind, one in self.still_to_come.items()
            },
            "orderedPops": [batch.as_json() for batch in self.ordered_pops],
            "orderedPopsUnread": self.ordered_pops_unread,
            "bucketMs": self.buckets.width_ms,
            "rates": [{"from": begin, "messages": count, "bytes": size} for begin, count, size in self.buckets.rows()],
            "files": self.files,
        }

    def by_size(self) -> Sequence[tuple[str, Count]]:
        """Topics, the largest first."""
        return sorted(self.topics.items(), key=lambda pair: pair[1].bytes, reverse=True)


def _first(pair: tuple[tuple[str, int], Count]) -> tuple[str, int]:
    return pair[0]


def _second(pair: tuple[str, int]) -> int:
    return pair[1]


def _count(one: Count) -> dict[str, int]:
    return {"messages": one.messages, "bytes": one.bytes, "first": one.first_ms, "last": one.last_ms}


def collect(store: StoreDirectory, progress: Progress = quiet) -> Stats:
    """Walk the log once.  Raises `CannotLook`."""
    stats = Stats()
    _count_files(store, stats)
    if store.commit_log:
        stats.log_start = store.commit_log[0].start
    outlooks = Outlooks(store)
    ordered = outlooks.ordered_pops()
    stats.ordered_pops, stats.ordered_pops_unread = ordered.batches, ordered.unread
    for piece in pieces(store.commit_log, progress=progress):
        if isinstance(piece, Unit):
            _take(stats, piece, outlooks.of(piece.message))
        elif isinstance(piece, Spoilt):
            stats.spoilt += 1
            stats.spoilt_bytes += piece.end - piece.at
    outlooks.close()
    return stats


def _take(stats: Stats, unit: Unit, outlook: Outlook | None) -> None:
    message = unit.message
    if outlook is not None and outlook.state is State.WAITING and outlook.kind in STILL_TO_COME:
        stats.still_to_come.setdefault(str(outlook.kind), StillToCome()).add(outlook.due_ms)
    size, stored = message.total_size, message.store_timestamp
    stats.total.add(size, stored)
    stats.body_bytes += len(message.body)
    stats.log_end = message.physical_offset + size
    stats.buckets.add(stored, size)
    power = (size - 1).bit_length()
    stats.sizes[power] = stats.sizes.get(power, 0) + 1
    topic = message.topic.decode("utf-8", "replace")
    if topic not in stats.topics and len(stats.topics) >= TOPICS_MAX:
        topic = OTHERS
    stats.topics.setdefault(topic, Count()).add(size, stored)
    key = (topic, message.queue_id)
    if key in stats.queues or len(stats.queues) < QUEUES_MAX:
        stats.queues.setdefault(key, Count()).add(size, stored)
    _take_properties(stats, message.properties)
    flag = message.sys_flag
    if packed := compression_of(message):
        stats.compressed[packed] = stats.compressed.get(packed, 0) + 1
    kind = TRANSACTIONS[flags.transaction_type(flag)]
    stats.transactions[kind] = stats.transactions.get(kind, 0) + 1
    stats.inner_batches += bool(flag & flags.INNER_BATCH)


def _take_properties(stats: Stats, properties: bytes) -> None:
    if tags := find(properties, _TAGS):
        stats.with_tags += 1
        text = tags.decode("utf-8", "replace")
        if text not in stats.tags and len(stats.tags) >= TAGS_MAX:
            text = OTHERS
        stats.tags[text] = stats.tags.get(text, 0) + 1
    if keys := find(properties, _KEYS):
        stats.with_keys += 1
        stats.keys += sum(map(bool, keys.split(prop.KEY_SEPARATOR.encode())))
    stats.with_unique_key += find(properties, _UNIQUE) is not None


def _count_files(store: StoreDirectory, stats: Stats) -> None:
    for file in store.files():
        kind = stats.files.setdefault(str(file.kind), {"files": 0, "bytes": 0, "allocated": 0})
        kind["files"] += 1
        kind["bytes"] += file.size
        try:
            kind["allocated"] += file.path.lstat().st_blocks * BLOCK_BYTES
        except OSError:
            continue  # gone in the meantime
