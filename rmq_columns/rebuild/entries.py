"""Queue units out of message units, many at once: which queues a message goes to, at which offset, with which tags code.

What the log implies for the consume queues by `rmq_wire.implied.queue_entries`, and nothing else: no files, no order between
parts of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from rmq_columns.decode.dtypes import Bytes, Ints, Mask
from rmq_columns.decode.implied import is_offset, is_queued, light_places, message_counts, put_due_times
from rmq_columns.decode.ragged import data_of, ragged
from rmq_columns.decode.texts import Hasher
from rmq_columns.decode.units import Units
from rmq_columns.read.pairs import Pairs
from rmq_wire import property_names as prop
from rmq_wire.implied.delay_levels import DELAY_LEVELS_MS
from rmq_wire.implied.light_queues import QUEUE_ID as LIGHT_QUEUE_ID
from rmq_wire.implied.light_queues import is_light_queue
from rmq_wire.implied.queue_entries import stored_topic
from rmq_wire.implied.topics import allows_light_queues
from rmq_wire.names import SCHEDULE_TOPIC
from rmq_wire.sys_flag import INNER_BATCH

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

    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS
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


class Maker:
    """Makes entries; knows the queues it has met, by numbers."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.queues: list[Key] = []
        self.in_no_queue = 0
        """messages whose topic, queue or offset cannot be those of a queue"""
        self._numbers: dict[tuple[bytes, int], int] = {}

    def take(self, buffer: Bytes, units: Units) -> Entries:
        """Of sound units of one buffer."""
        offset = units["queue_offset"].astype(np.int64)
        queued = is_queued(units["sys_flag"])
        sane = queued & is_offset(offset)
        self.in_no_queue += int(queued.sum() - sane.sum())
        if not sane.all():
            units, offset = units.take(sane), offset[sane]
        if not len(units):
            return Entries(*[np.empty(0, np.int64)] * len(Entries._fields))
        queue, allows_light = self._queues_of(buffer, units)
        pairs = Pairs(buffer, units)
        stored = units["store_timestamp"].astype(np.int64)
        code = tags_codes(pairs, len(units))
        is_inner = self._that(queue, lambda key: key.kind is Kind.BATCH) & ((units["sys_flag"] & INNER_BATCH) != 0)
        span = message_counts(pairs.values_of(prop.INNER_NUM), is_inner) if is_inner.any() else np.ones(len(units), np.int64)
        is_delayed = self._that(queue, lambda key: key.topic == SCHEDULE_TOPIC)
        if is_delayed.any():
            put_due_times(code, pairs.values_of(prop.DELAY), is_delayed, stored, self.rules.delay_levels_ms)
        made = Entries(
            queue, offset, units["physical_offset"].astype(np.int64), units["total_size"].astype(np.int64), code, stored, span
        )
        light = self._light(pairs, made, allows_light & ~is_inner)
        if light is not None:
            made = Entries.joined([made, light])
            made = made.take(np.argsort(made.physical, kind="stable"))
        return made if (made.queue >= 0).all() else made.take(np.flatnonzero(made.queue >= 0))

    # --- which queue

    def _queues_of(self, buffer: Bytes, units: Units) -> tuple[Ints, Mask]:
        """The number of each unit's queue, -1 for one that cannot be or is not wanted; whether it may be in light queues."""
        encoded = ragged(buffer, units.topic_at, units.topic_size).dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        both = encoded.indices.to_numpy().astype(np.int64) << 32 | units["queue_id"].astype(np.uint32)
        found, place, times = np.unique(both, return_inverse=True, return_counts=True)
        numbers, allows = [], []
        for one, repeated in zip(found.tolist(), times.tolist(), strict=True):
            topic, queue_id = topics[one >> 32], (one & 0xFFFFFFFF ^ 0x80000000) - 0x80000000
            number = self._numbers.get((topic, queue_id))
            if number is None:
                number = self._new(topic, queue_id)
            if number < _NOWHERE:
                self.in_no_queue += repeated
            numbers.append(max(number, _NOWHERE))
            allows.append(number >= _NOWHERE and allows_light_queues(topic.decode()))
        return np.array(numbers, np.int64)[place], np.array(allows, np.bool_)[place]

    def _new(self, raw: bytes, queue_id: int) -> int:
        """Of a queue met for the first time.  -1: not wanted; -2: there can be no such queue."""
        rules = self.rules
        topic = stored_topic(raw)
        if topic is None or queue_id < 0:
            number = _NOWHERE - 1
        elif (rules.topics is not None and topic not in rules.topics) or (
            rules.queue_ids is not None and queue_id not in rules.queue_ids
        ):
            number = _NOWHERE
        else:
            kind = Kind.BATCH if topic in rules.batch_topics else Kind.PLAIN
            if is_light_queue(topic):
                kind = Kind.LIGHT
            elif kind is Kind.PLAIN and (rules.extended is None or (topic, queue_id) in rules.extended):
                kind = Kind.EXTENDED
            number = len(self.queues)
            self.queues.append(Key(topic, queue_id, kind))
        self._numbers[raw, queue_id] = number
        return number

    # --- what else

    def _that(self, queue: Ints, is_one: Callable[[Key], bool]) -> Mask:
        """Which units have a queue like this."""
        found: Mask = np.array([is_one(key) for key in self.queues] + [False])[queue]
        return found

    def _light(self, pairs: Pairs, made: Entries, allows: Mask) -> Entries | None:
        """Units for the light queues that messages name, each queue once a message."""
        found: list[tuple[int, int, int]] = []
        dispatches, offsets = (pairs.values_of(name) for name in (prop.INNER_MULTI_DISPATCH, prop.INNER_MULTI_QUEUE_OFFSET))
        for row, name, offset in light_places(dispatches, offsets, allows):
            light = self._numbers.get((name.encode(), LIGHT_QUEUE_ID))
            light = self._new(name.encode(), LIGHT_QUEUE_ID) if light is None else light
            if light >= 0 and light != made.queue[row]:
                found.append((row, light, offset))
        if not found:
            return None
        which, queue, offset = np.array(found, np.int64).T
        return made.take(which)._replace(queue=queue, offset=offset, span=np.ones(len(which), np.int64))


def tags_codes(pairs: Pairs, count: int) -> Ints:
    """Java's hash of the tags of each unit, 0 without tags."""
    tags = pairs.values_of(prop.TAGS)
    found = np.zeros(count, np.int64)
    if len(tags.row):
        data, ends = data_of(ragged(tags.data, tags.starts, tags.sizes))
        found[tags.row] = Hasher(data.tobytes()).hashes(ends[:-1].astype(np.int64), np.diff(ends).astype(np.int64))
    return found
