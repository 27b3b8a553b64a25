"""Where every message of a generated store is, by its number: file, byte, queue offset, times, whose identity it has.

All of it is arithmetic on (round, slot), for arrays of numbers at once, so any worker can write any piece of the store.  Planted
faults are a few exceptions in sorted tables, applied here where the store must agree with them everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from planted_stores.pattern import DELAY_MS, SLOTS, Kind, Pattern, Slot
from rmq_columns.decode.dtypes import Ints, Mask
from rmq_wire.implied.tags import tags_code
from rmq_wire.message import TAIL_MIN

UNITS_A_MS: Final = 4
ROUND_MS: Final = SLOTS // UNITS_A_MS
ROUNDS_BACK: Final = -(-DELAY_MS // ROUND_MS)
"""A delivery stands so many rounds behind what it delivers: the first round in which it is due."""
BORN_MS_MAX: Final = 8
"""An ordinary message is stored less than this after it was born."""
FIRST_MS: Final = 1_760_000_000_000
"""Store time of the first message, by default."""
HASH_PRIME: Final = 2654435761


@dataclass(frozen=True)
class Sizes:
    """Of the files, under the names and with the defaults of `MessageStoreConfig`."""

    log_file_bytes: int = 1 << 30
    queue_file_bytes: int = 6_000_000
    hash_slots: int = 5_000_000
    index_entries: int = 20_000_000


@dataclass
class Changes:
    """Exceptions from the pattern, by message number.  Empty in a clean store."""

    identity: dict[int, int] = field(default_factory=dict)
    """has the unique key, business key and sequence of another"""
    key: dict[int, int] = field(default_factory=dict)
    """has the business key of another"""
    late_ms: dict[int, int] = field(default_factory=dict)
    """born so long before it was stored"""
    wait_ms: dict[int, int] = field(default_factory=dict)
    """a timed message that is due after so long, and is delivered when all are"""
    gap: dict[int, int] = field(default_factory=dict)
    """from this message on its queue has skipped so many offsets"""
    no_index: dict[int, int] = field(default_factory=dict)
    index_shift: dict[int, int] = field(default_factory=dict)
    """its business key's index entry points so many bytes beside it"""
    ordinary: dict[int, int] = field(default_factory=dict)
    """an ordinary message stands where a delivery or a commit would"""
    ends: dict[int, int] = field(default_factory=dict)
    """an op ends this half message, not its own"""


class Plan:
    """The whole store.  count: messages; seed and body_bytes choose the pattern."""

    def __init__(self, size: int, body_bytes: int, seed: int, sizes: Sizes, first_ms: int = FIRST_MS) -> None:
        self.pattern = Pattern(seed, body_bytes)
        self.sizes, self.first_ms, self.changes = sizes, first_ms, Changes()
        units = [slot.unit() for slot in self.pattern.slots]
        self.ordinary = [slot.unit() for slot in self.pattern.ordinary]
        early = [self.ordinary[number] if slot.later else units[number] for number, slot in enumerate(self.slots)]
        self.round = np.frombuffer(b"".join(units), np.uint8)
        self.early_round = np.frombuffer(b"".join(early), np.uint8)
        self.size = np.array([len(unit) for unit in units], np.int64)
        self.before = np.concatenate(([0], np.cumsum(self.size)))
        """Bytes of a round before each slot, and of all."""
        self.places = self._places(units, self.ordinary)
        self.queues = sorted({(slot.topic, slot.queue) for slot in self.slots})
        self.queue_of: Ints = np.array([self.queues.index((slot.topic, slot.queue)) for slot in self.slots], np.int64)
        self.queue_rank, self.queue_count = _ranks(self.queue_of)
        self.shard_of: Ints = np.array([slot.shard for slot in self.slots], np.int64)
        self.shard_rank, self.shard_count = _ranks(self.shard_of)
        self.file_first = self._files(size)
        self.count = int(self.file_first[-1])

    @property
    def slots(self) -> list[Slot]:
        return self.pattern.slots

    def _places(self, units: list[bytes], ordinary: list[bytes]) -> dict[str, Ints]:
        """What a unit has of its own -> where in it, by [is ordinary, slot]; -1 where it has not."""
        found: dict[str, Ints] = {}
        for row, slots, made in ((0, self.pattern.slots, units), (1, self.pattern.ordinary, ordinary)):
            for number, (slot, unit) in enumerate(zip(slots, made, strict=True)):
                for name, at in slot.places(unit).items():
                    found.setdefault(name, np.full((2, SLOTS), -1, np.int64))[row, number] = at
        return found

    def _files(self, size: int) -> Ints:
        """First message of each log file, and the count of all: each file takes what fits before its blank."""
        firsts, room = [0], self.sizes.log_file_bytes - TAIL_MIN
        if room < int(self.size.max()):
            raise ValueError(f"log files of {self.sizes.log_file_bytes} bytes: the largest message has {int(self.size.max())}")
        left = size
        while left > 0:
            done = self._bytes_before(firsts[-1])
            following = self._number_at(done + min(room, left))
            if following == firsts[-1]:
                break
            firsts.append(following)
            left -= self.sizes.log_file_bytes
        if len(firsts) == 1:
            raise ValueError(f"{size} bytes hold no message")
        return np.array(firsts, np.int64)

    def _bytes_before(self, number: int) -> int:
        rounds, slot = divmod(number, SLOTS)
        return rounds * int(self.before[-1]) + int(self.before[slot])

    def _number_at(self, bytes_: int) -> int:
        """The greatest number of messages that have not more bytes."""
        rounds, rest = divmod(bytes_, int(self.before[-1]))
        return rounds * SLOTS + int(np.searchsorted(self.before, rest, "right")) - 1

    def physical(self, numbers: Ints) -> Ints:
        """Where units begin."""
        rounds, slots = np.divmod(numbers, SLOTS)
        file = np.searchsorted(self.file_first, numbers, "right") - 1
        file = np.minimum(file, len(self.file_first) - 2)
        return file * self.sizes.log_file_bytes + rounds * self.before[-1] + self.before[slots] - self._file_bytes_before[file]

    @cached_property
    def _file_bytes_before(self) -> Ints:
        return np.array([self._bytes_before(int(first)) for first in self.file_first], np.int64)

    @property
    def log_end(self) -> int:
        """One past the last unit."""
        last = np.array([self.count - 1])
        return int(self.physical(last)[0] + self.size[(self.count - 1) % SLOTS])

    def stored_ms(self, numbers: Ints) -> Ints:
        return self.first_ms + numbers // UNITS_A_MS

    def is_early(self, numbers: Ints) -> Mask:
        """Rounds in which nothing is delivered yet."""
        return numbers < ROUNDS_BACK * SLOTS

    def is_ordinary(self, numbers: Ints) -> Mask:
        """Where the pattern's ordinary message stands and not what the slot has."""
        early = self._is_later[numbers % SLOTS] & self.is_early(numbers)
        return early | (changed(np.zeros(len(numbers), np.int64), numbers, self.changes.ordinary) == 1)

    def origin(self, numbers: Ints) -> Ints:
        """The message that each carries on; itself where it begins."""
        rounds, slots = np.divmod(numbers, SLOTS)
        moved = rounds * SLOTS + self._origin_slot[slots] - self._is_later[slots] * (ROUNDS_BACK * SLOTS)
        return changed(np.where(self.is_ordinary(numbers), numbers, moved), numbers, self.changes.ends)

    @cached_property
    def _origin_slot(self) -> Ints:
        return np.array([number if slot.origin is None else slot.origin for number, slot in enumerate(self.slots)], np.int64)

    @cached_property
    def _is_later(self) -> Mask:
        return np.array([slot.later for slot in self.slots])

    def identity(self, numbers: Ints) -> Ints:
        """Whose unique key and sequence each has."""
        return changed(self.origin(numbers), numbers, self.changes.identity)

    def key(self, numbers: Ints) -> Ints:
        """Whose business key each has."""
        return changed(self.identity(numbers), numbers, self.changes.key)

    def born_ms(self, numbers: Ints) -> Ints:
        origin = self.origin(numbers)
        age = (origin * HASH_PRIME >> 7) % BORN_MS_MAX
        return self.stored_ms(origin) - changed(age, numbers, self.changes.late_ms)

    def wait_ms(self, numbers: Ints) -> Ints:
        """After how long a timed message is due."""
        origin = self.origin(numbers)
        return changed(np.full(len(numbers), DELAY_MS, np.int64), origin, self.changes.wait_ms)

    def sequence(self, numbers: Ints) -> Ints:
        """Number of a sharded message among those of its key."""
        rounds, slots = np.divmod(self.identity(numbers), SLOTS)
        return rounds * self.shard_count[slots] + self.shard_rank[slots]

    def queue_offset(self, numbers: Ints) -> Ints:
        rounds, slots = np.divmod(numbers, SLOTS)
        found = rounds * self.queue_count[slots] + self.queue_rank[slots]
        for first, skipped in self.changes.gap.items():
            found += skipped * ((numbers >= first) & (self.queue_of[slots] == self.queue_of[first % SLOTS]))
        return found

    def queue_end(self, queue: int) -> int:
        """One past the last offset of a queue; 0 without messages."""
        rounds, slots = divmod(self.count, SLOTS)
        rows = self.queue_of == queue
        found = rounds * int(rows.sum()) + int(rows[:slots].sum())
        return found + sum(skipped for first, skipped in self.changes.gap.items() if rows[first % SLOTS])

    @cached_property
    def tags_codes(self) -> Ints:
        return np.array([tags_code(slot.tags) for slot in self.slots], np.int64)

    def queue_tags_code(self, numbers: Ints) -> Ints:
        """What queue units say: the tags' hash, of delayed messages when they are due."""
        slots = numbers % SLOTS
        return np.where(self._is_delayed[slots], self.stored_ms(numbers) + DELAY_MS, self.tags_codes[slots])

    @cached_property
    def _is_delayed(self) -> Mask:
        return self.of_kind(Kind.DELAYED)

    def of_kind(self, *kinds: Kind) -> Mask:
        """By slot."""
        return np.array([slot.kind in kinds for slot in self.slots])


def changed(values: Ints, numbers: Ints, table: dict[int, int]) -> Ints:
    """The values with those of some messages replaced.  values must be the caller's own."""
    if not table or not len(numbers):
        return values
    keys: Ints = np.fromiter(table.keys(), np.int64, len(table))
    order = np.argsort(keys)
    keys, listed = keys[order], np.fromiter(table.values(), np.int64, len(table))[order]
    at = np.minimum(np.searchsorted(keys, numbers), len(keys) - 1)
    return np.where(keys[at] == numbers, listed[at], values)


def _ranks(of: Ints) -> tuple[Ints, Ints]:
    """(how many before each are of the same, how many are of it in all)."""
    rank = np.zeros(len(of), np.int64)
    for value in np.unique(of):
        rows = np.flatnonzero(of == value)
        rank[rows] = np.arange(len(rows))
    count: npt.NDArray[np.int64] = np.array([(of == value).sum() for value in of], np.int64)
    return rank, count
