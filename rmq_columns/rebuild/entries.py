"""Queue units out of message units, many at once: which queues a message goes to, at which offset, with which tags code.

What the log implies for the consume queues, and nothing else: no files, no order between parts of the log.  Messages that are
prepared or rolled back go nowhere; a delayed message has the time when it is due for its tags; light queues are those that the
message names; a topic of batch queues gets the wider units.
Sources: `CommitLogDispatcherBuildConsumeQueue`, `CommitLog.checkMessageAndReturnSize`, `MultiDispatchUtils`, `BatchConsumeQueue`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from rmq_columns.decode.dtypes import Bytes, Ints
from rmq_columns.decode.ragged import data_of, ragged
from rmq_columns.decode.texts import Hasher
from rmq_columns.decode.units import Units
from rmq_columns.read.pairs import Pairs
from rmq_wire import property_names as prop
from rmq_wire.names import DLQ_PREFIX, LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX, path_problem
from rmq_wire.sys_flag import INNER_BATCH, TRANSACTION_PREPARED

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""`messageDelayLevel` by default."""
UNKNOWN_LEVEL_DELAY_MS: Final = 1000
"""Without any level (`DefaultMessageStore.computeDeliverTimestamp`)."""
UNQUEUED: Final = TRANSACTION_PREPARED
"""This bit is set in the types prepared and rollback, which no queue has."""
QUEUE_OFFSET_MAX: Final = 1 << 56
"""A larger one is damage: its byte would not be a file's."""
LIGHT_QUEUE_ID: Final = 0
LIGHT_SEPARATOR: Final = ","
NOT_DISPATCHED: Final = (RETRY_PREFIX, DLQ_PREFIX, SYSTEM_TOPIC_PREFIX)
"""Topics whose messages name no light queues."""
DIGITS_MAX: Final = 18
INNER_COUNT_MAX: Final = 32_767
"""`INNER_NUM` is a short."""
_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NOWHERE: Final = -1


class Kind(StrEnum):
    """Of a queue: what its units are, and how a unit finds its place."""

    PLAIN = "plain"
    """unit k at byte 20 k"""
    LIGHT = "light"
    """the same, but a unit always goes to the queue's end, whatever offset the message says"""
    BATCH = "batch"
    """46 bytes, one after another"""
    EXTENDED = "extended"
    """as plain, but the tags code is the address of an extension, which says more"""


class Key(NamedTuple):
    """A queue of a store."""

    topic: str
    queue_id: int
    kind: Kind


@dataclass(frozen=True)
class Rules:
    """What is not in the log.  topics, queue_ids: None for all.  extended: queues with extensions, None for every plain one."""

    delay_levels_ms: tuple[int, ...] = ()
    batch_topics: frozenset[str] = frozenset()
    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    extended: frozenset[tuple[str, int]] | None = frozenset()


class Entries(NamedTuple):
    """Queue units to be, in the order of the log.  queue: number in `Maker.queues`; span: offsets that the unit takes."""

    queue: Ints
    offset: Ints
    physical: Ints
    size: Ints
    code: Ints
    stored: Ints
    span: Ints

    def take(self, which: Ints | slice) -> Entries:
        """Some rows."""
        return Entries(*[column[which] for column in self])

    @staticmethod
    def joined(parts: list[Entries]) -> Entries:
        """One after another."""
        return parts[0] if len(parts) == 1 else Entries(*map(np.concatenate, zip(*parts, strict=True)))


def delay_levels(text: str) -> tuple[int, ...]:
    """`messageDelayLevel` in ms, level 1 first.  Raises ValueError."""
    try:
        return tuple(int(one[:-1]) * _MS[one[-1]] for one in text.split())
    except (KeyError, ValueError, IndexError) as reason:
        raise ValueError(f"{text!r} are no delay levels: such as {DELAY_LEVELS!r}") from reason


class Maker:
    """Makes entries; knows the queues it has met, by numbers."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.queues: list[Key] = []
        self.strangers = 0
        """messages whose topic, queue or offset cannot be those of a queue"""
        self._numbers: dict[tuple[bytes, int], int] = {}

    def take(self, buffer: Bytes, units: Units) -> Entries:
        """Of sound units of one buffer."""
        offset = units["queue_offset"].astype(np.int64)
        queued = (units["sys_flag"] & UNQUEUED) == 0
        sane = queued & (offset >= 0) & (offset < QUEUE_OFFSET_MAX)
        self.strangers += int(queued.sum() - sane.sum())
        if not sane.all():
            units, offset = units.take(sane), offset[sane]
        if not len(units):
            return Entries(*[np.empty(0, np.int64)] * len(Entries._fields))
        queue = self._queues_of(buffer, units)
        pairs = Pairs(buffer, units)
        stored = units["store_timestamp"].astype(np.int64)
        code = tags_codes(pairs, len(units))
        kinds = np.array([key.kind is Kind.BATCH for key in self.queues] + [False])
        count = np.ones(len(units), np.int64)
        if (is_batch := kinds[queue]).any():
            self._count_inner(pairs, units, is_batch, count)
        if (delayed := self._delayed(queue)).any():
            self._due(pairs, delayed, stored, code)
        made = Entries(
            queue, offset, units["physical_offset"].astype(np.int64), units["total_size"].astype(np.int64), code, stored, count
        )
        light = self._light(pairs, made)
        if light is not None:
            made = Entries.joined([made, light])
            made = made.take(np.argsort(made.physical, kind="stable"))
        return made if (made.queue >= 0).all() else made.take(np.flatnonzero(made.queue >= 0))

    # --- which queue

    def _queues_of(self, buffer: Bytes, units: Units) -> Ints:
        """The number of each unit's queue; -1 for one that cannot be or is not wanted."""
        encoded = ragged(buffer, units.topic_at, units.topic_size).dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        both = encoded.indices.to_numpy().astype(np.int64) << 32 | units["queue_id"].astype(np.uint32)
        found, place, times = np.unique(both, return_inverse=True, return_counts=True)
        numbers = []
        for one, repeated in zip(found.tolist(), times.tolist(), strict=True):
            topic, queue_id = topics[one >> 32], (one & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
            number = self._numbers.get((topic, queue_id))
            if number is None:
                number = self._new(topic, queue_id)
            if number < _NOWHERE:
                self.strangers += repeated
            numbers.append(max(number, _NOWHERE))
        return np.array(numbers, np.int64)[place]

    def _new(self, raw: bytes, queue_id: int, is_light: bool = False) -> int:
        """Of a queue met for the first time.  -1: not wanted; -2: there can be no such queue."""
        rules = self.rules
        try:
            topic = raw.decode()
        except UnicodeDecodeError:
            topic = ""
        if not topic or path_problem(topic) is not None or queue_id < 0:
            number = _NOWHERE - 1
        elif (rules.topics is not None and topic not in rules.topics) or (
            rules.queue_ids is not None and queue_id not in rules.queue_ids
        ):
            number = _NOWHERE
        else:
            kind = Kind.BATCH if topic in rules.batch_topics else Kind.PLAIN
            if topic.startswith(LMQ_PREFIX) or is_light:
                kind = Kind.LIGHT
            elif kind is Kind.PLAIN and (rules.extended is None or (topic, queue_id) in rules.extended):
                kind = Kind.EXTENDED
            number = len(self.queues)
            self.queues.append(Key(topic, queue_id, kind))
        self._numbers[raw, queue_id] = number
        return number

    # --- what else

    def _delayed(self, queue: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        is_delay = np.array([key.topic == SCHEDULE_TOPIC for key in self.queues] + [False])
        found: np.ndarray[tuple[int], np.dtype[np.bool_]] = is_delay[queue]
        return found

    def _due(self, pairs: Pairs, delayed: np.ndarray[tuple[int], np.dtype[np.bool_]], stored: Ints, code: Ints) -> None:
        raw, rows, starts, sizes = pairs.spans(prop.DELAY)
        levels = self.rules.delay_levels_ms
        for row, start, size in zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            level = _number(raw[start : start + size].tobytes()) if delayed[row] else 0
            if level > 0:
                code[row] = stored[row] + (levels[min(level, len(levels)) - 1] if levels else UNKNOWN_LEVEL_DELAY_MS)

    def _count_inner(self, pairs: Pairs, units: Units, is_batch: np.ndarray[tuple[int], np.dtype[np.bool_]], count: Ints) -> None:
        inner = is_batch & ((units["sys_flag"] & INNER_BATCH) != 0)
        raw, rows, starts, sizes = pairs.spans(prop.INNER_NUM)
        for row, start, size in zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            if inner[row] and 0 < (number := _number(raw[start : start + size].tobytes())) <= INNER_COUNT_MAX:
                count[row] = number

    def _light(self, pairs: Pairs, made: Entries) -> Entries | None:
        """Units for the light queues that messages name, each queue once a message."""
        raw, rows, starts, sizes = pairs.spans(prop.INNER_MULTI_DISPATCH)
        if not len(rows):
            return None
        raw2, rows2, starts2, sizes2 = pairs.spans(prop.INNER_MULTI_QUEUE_OFFSET)
        offsets = {
            row: raw2[start : start + size].tobytes()
            for row, start, size in zip(rows2.tolist(), starts2.tolist(), sizes2.tolist(), strict=True)
        }
        found: list[tuple[int, int, int]] = []
        for row, start, size in zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            number = int(made.queue[row])
            topic = self.queues[number].topic if number >= 0 else ""
            if row not in offsets or topic == SCHEDULE_TOPIC or topic.startswith(NOT_DISPATCHED):
                continue
            for name, offset in light_places(raw[start : start + size].tobytes(), offsets[row]).items():
                light = self._numbers.get((name.encode(), LIGHT_QUEUE_ID))
                light = self._new(name.encode(), LIGHT_QUEUE_ID, True) if light is None else light
                if light >= 0:
                    found.append((row, light, offset))
        if not found:
            return None
        which, queue, offset = np.array(found, np.int64).T
        return made.take(which)._replace(queue=queue, offset=offset)


def light_places(dispatch: bytes, offsets: bytes) -> dict[str, int]:
    """Light queue -> the offset that the message says it has there; a name that is there twice counts once."""
    found = dispatch.decode("utf-8", "replace").rstrip(LIGHT_SEPARATOR).split(LIGHT_SEPARATOR)
    said = offsets.decode("utf-8", "replace").split(LIGHT_SEPARATOR)
    if len(found) != len(said):
        return {}
    places: dict[str, int] = {}
    for name, text in zip(found, said, strict=True):
        if name.startswith(LMQ_PREFIX) and path_problem(name) is None and (number := _number(text.encode())) >= 0:
            places.setdefault(name, number)
    return places


def tags_codes(pairs: Pairs, count: int) -> Ints:
    """Java's hash of the tags of each unit, 0 without tags."""
    raw, rows, starts, sizes = pairs.spans(prop.TAGS)
    found = np.zeros(count, np.int64)
    if len(rows):
        data, ends = data_of(ragged(raw, starts, sizes))
        found[rows] = Hasher(data.tobytes()).hashes(ends[:-1].astype(np.int64), np.diff(ends).astype(np.int64))
    return found


@lru_cache(4096)
def _number(text: bytes) -> int:
    return int(text) if text.isdigit() and len(text) <= DIGITS_MAX else -1
