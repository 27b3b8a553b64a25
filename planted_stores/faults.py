"""Faults for a generated store: chosen by seed, written into the plan or over finished files, each with a row for the ledger.

What would be consistent in a real store is changed in the plan before anything is written (a doubled unique key is doubled in the
index, too); what is damage is bytes written over the finished files.  No two faults are near each other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from planted_stores.pattern import GROUP_SLOTS, KEY_PREFIX, SLOTS, UNIQUE_PREFIX, Kind
from planted_stores.plan import ROUNDS_BACK, Plan
from planted_stores.units import Opened, log_file, pack, queue_file, sent_row, write_at
from rmq_columns.decode.dtypes import QUEUE_UNIT
from rmq_wire.layout.flat import Packed
from rmq_wire.layout.message import HEAD_FLAT

DISTANCE: Final = 12
"""Messages between two faults, at least."""
TRIES_MAX: Final = 20_000
LATE_MS: Final = 90_000
TIMER_WAIT_MS: Final = 50
GAP: Final = 3
AHEAD: Final = 1000
SIZE_CHANGE: Final = 1001
LOST_NUMBER: Final = 1 << 44
"""Messages that were never stored have numbers from here."""
_HEAD: Final = HEAD_FLAT
_OFFSET: Final = _HEAD.field("queue_offset")
_SIZE: Final = _HEAD.field("total_size")
_QUEUE_AT: Final = {name: at for name, (_, at, *_) in (QUEUE_UNIT.fields or {}).items()}


@dataclass
class Fault:
    """A row of the ledger.  file: within the store; '' where the fault is not at one place of a file."""

    kind: str
    topic: str
    queueId: int
    queueOffset: int
    physicalOffset: int
    file: str
    fileOffset: int
    uniqKey: str
    what: str


@dataclass
class Planted:
    """The ledger and what is still to be done when the files are written."""

    faults: list[Fault] = field(default_factory=list)
    patches: list[tuple[str, int, bytes]] = field(default_factory=list)
    """file within the store, place in it, bytes to be added to what is there (each modulo 256)"""
    zeros: list[tuple[str, int, int]] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    """rows of sends that were never stored"""
    ahead: dict[tuple[str, int], int] = field(default_factory=dict)
    """committed positions: (topic, queue) -> so far behind the queue's end; below 0 before it"""
    tail: bytes = b""


class NoPlace(ValueError):
    """The store is too small for so many faults."""


class Planter:
    """Chooses places and plants."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.rng, self.done = plan, random.Random(f"faults {seed}"), Planted()
        self.used: set[int] = set()
        self.gaps: list[int] = []
        followed = {slot.origin for slot in plan.slots}
        self.plain = [s.kind is Kind.PLAIN and not s.sys_flag and n not in followed for n, s in enumerate(plan.slots)]
        self.sharded = [s.kind is Kind.SHARDED for s in plan.slots]
        self.timed = [s.kind is Kind.TIMED for s in plan.slots]
        self.delayed = [s.kind is Kind.DELAYED for s in plan.slots]
        self.half = [s.kind is Kind.HALF for s in plan.slots]

    def plant(self, wanted: Mapping[str, int]) -> Planted:
        """So many of each kind.  Raises NoPlace, KeyError for an unknown kind."""
        for kind in KINDS:  # the order of the table, so that the ledger does not depend on that of the arguments
            for _ in range(wanted.get(kind, 0)):
                KINDS[kind](self, kind)
            for number in self.gaps if kind == "gap" else ():  # when all are known
                self._plant(kind, number, f"{GAP} queue offsets before this message are nowhere")
        return self.done

    def _pick(self, eligible: list[bool], behind: int = 0) -> int:
        low, high = self.plan.count // 16, self.plan.count - self.plan.count // 16 - behind
        for _ in range(TRIES_MAX if high > low else 0):
            number = self.rng.randrange(low, high)
            if eligible[number % SLOTS] and self._is_free(number):
                return self._use(number)
        raise NoPlace(f"no place for another fault among {self.plan.count} messages")

    def _is_free(self, number: int) -> bool:
        return self.used.isdisjoint(range(number - DISTANCE, number + DISTANCE + 1))

    def _use(self, number: int) -> int:
        self.used.add(number)
        return number

    def _plant(
        self, kind: str, number: int, what: str, *, unique: int | None = None, place: tuple[str, int] | None = None
    ) -> Fault:
        plan, one = self.plan, np.array([number])
        topic, queue_id = plan.queues[int(plan.queue_of[number % SLOTS])]
        physical = int(plan.physical(one)[0])
        identity = int(plan.identity(one)[0]) if unique is None else unique
        name = f"commitlog/{log_file(Path(), plan, physical).name}"
        file, at = place or (name, physical % plan.sizes.log_file_bytes)
        fault = Fault(
            kind, topic, queue_id, int(plan.queue_offset(one)[0]), physical, file, at, f"{UNIQUE_PREFIX}{identity:012X}", what
        )
        self.done.faults.append(fault)
        return fault

    def _queue_place(self, number: int) -> tuple[str, int]:
        plan = self.plan
        offset = int(plan.queue_offset(np.array([number]))[0])
        path = queue_file(Path(), plan, int(plan.queue_of[number % SLOTS]), offset)
        return str(path), offset * QUEUE_UNIT.itemsize % plan.sizes.queue_file_bytes

    def gap(self, kind: str) -> None:
        number = self._pick(self.plain)
        self.plan.changes.gap[number] = GAP
        self.gaps.append(number)

    def lost(self, kind: str) -> None:
        number = self._pick(self.plain)
        identity = LOST_NUMBER + number
        fault = self._plant(kind, number, "acknowledged, not in the log; another message has its place", unique=identity)
        born = int(self.plan.born_ms(np.array([number]))[0])
        key = f"{KEY_PREFIX}{identity % 10**10:010}"
        self.done.sent.append(sent_row(fault.topic, fault.queueId, fault.uniqKey, key, fault.queueOffset, born))

    def duplicate(self, kind: str) -> None:
        number, other = self._pair()
        changes = self.plan.changes
        (changes.identity if kind == "duplicate" else changes.key)[number] = other
        what = "unique key" if kind == "duplicate" else "business key"
        self._plant(kind, number, f"has the {what} of the message at {int(self.plan.physical(np.array([other]))[0])}")

    def _pair(self) -> tuple[int, int]:
        """A message and an earlier one of its topic."""
        for _ in range(TRIES_MAX):
            number = self._pick(self.plain)
            topic = self.plan.slots[number % SLOTS].topic
            for other in range(number - 1, max(number - SLOTS, 0), -1):
                slot = other % SLOTS
                if self.plain[slot] and self.plan.slots[slot].topic == topic and all(abs(other - one) > 2 for one in self.used):
                    return number, self._use(other)
        raise NoPlace("no two messages of one topic")

    def reorder(self, kind: str) -> None:
        for _ in range(TRIES_MAX):
            number = self._pick(self.sharded, 2 * SLOTS if self.plan.count > 4 * SLOTS else 0)
            shard = self.plan.shard_of[number % SLOTS]
            limit = min(number + SLOTS + 1, self.plan.count)
            other = next((n for n in range(number + 1, limit) if self.plan.shard_of[n % SLOTS] == shard), None)
            if other is not None and other not in self.used:
                break
        else:
            raise NoPlace("no two messages of one sharding key")
        self._use(other)
        self.plan.changes.identity |= {number: other, other: number}
        key = dict(self.plan.slots[number % SLOTS].values)["__SHARDINGKEY"]
        behind = int(self.plan.physical(np.array([other]))[0])
        self._plant(kind, number, f"of sharding key {key}, stands before its predecessor, which is at {behind}")

    def late(self, kind: str) -> None:
        number = self._pick(self.plain)
        late = LATE_MS + self.rng.randrange(LATE_MS)
        self.plan.changes.late_ms[number] = late
        self._plant(kind, number, f"stored {late} ms after it was born")

    def timer_late(self, kind: str) -> None:
        number, delivered = self._delivery(self.timed, Kind.TIMED_DELIVERED)
        self.plan.changes.wait_ms[number] = TIMER_WAIT_MS
        stored = self.plan.stored_ms(np.array([delivered, number])).tolist()
        self._plant(kind, delivered, f"delivered {stored[0] - stored[1] - TIMER_WAIT_MS} ms after it was due")

    def _delivery(self, eligible: list[bool], kind: Kind) -> tuple[int, int]:
        """A message that waits, and the one that carries it on."""
        behind = ROUNDS_BACK * SLOTS + GROUP_SLOTS
        number = self._pick(eligible, behind)
        return number, self._use(self._next(kind, number + ROUNDS_BACK * SLOTS))

    def _next(self, kind: Kind, begin: int) -> int:
        """Of the same group."""
        return next(n for n in range(begin, begin + GROUP_SLOTS) if self.plan.slots[n % SLOTS].kind is kind)

    def _at(self, number: int) -> int:
        """Where it is."""
        return int(self.plan.physical(np.array([number]))[0])

    def undelivered(self, kind: str) -> None:
        is_delayed = kind == "delay-pending"
        eligible, copy = (self.delayed, Kind.DELIVERED) if is_delayed else (self.timed, Kind.TIMED_DELIVERED)
        number, delivered = self._delivery(eligible, copy)
        self.plan.changes.ordinary[delivered] = 1
        self._plant(kind, number, f"due, and never delivered: another message is at {self._at(delivered)}, in its copy's place")

    def open(self, kind: str) -> None:
        """The op names the half message before it once more, as an op may; the broker's position waits for the first."""
        for _ in range(TRIES_MAX):
            number = self._pick(self.half)
            before = number - GROUP_SLOTS
            if self._is_free(before):
                break
            self.used.remove(number)
        else:
            raise NoPlace("no two half messages")
        self._use(before)
        op, commit = self._next(Kind.OP, number), self._next(Kind.COMMIT, number)
        self.plan.changes.ends[op] = before
        what = f"no op names it, the one at {self._at(op)} names another"
        if kind == "half-open":
            self.plan.changes.ordinary[commit] = 1
            what += f"; it was not committed, another message is at {self._at(commit)}"
        fault = self._plant(kind, number, what)
        end = self.plan.queue_end(self.plan.queues.index((fault.topic, fault.queueId)))
        key = (fault.topic, fault.queueId)
        self.done.ahead[key] = min(fault.queueOffset - end, self.done.ahead.get(key, 0))

    def index(self, kind: str) -> None:
        number = self._pick(self.plain)
        if kind == "index-missing":
            self.plan.changes.no_index[number] = 1
            self._plant(kind, number, "has no index entries")
        else:
            self.plan.changes.index_shift[number] = 4
            self._plant(kind, number, "the index entry of its business key points 4 bytes beside it")

    def queue(self, kind: str) -> None:
        number = self._pick(self.plain)
        place = self._queue_place(number)
        if kind == "queue-missing":
            self.done.zeros.append((*place, QUEUE_UNIT.itemsize))
            what = "its queue unit is zeros"
        elif kind == "queue-wrong":
            field_at, shift = _QUEUE_AT["physical_offset"], int(self.plan.size[number % SLOTS])
            here = int(self.plan.physical(np.array([number]))[0])
            self.done.patches.append((place[0], place[1] + field_at, _difference(here, here + shift)))
            what = "its queue unit points to the message behind it"
        else:
            self.done.patches.append((place[0], place[1] + _QUEUE_AT["tags_code"] + 7, b"\x01"))
            what = "its queue unit has another tags code"
        self._plant(kind, number, what, place=place)

    def unit(self, kind: str) -> None:
        number = self._pick(self.plain)
        slot = self.plan.slots[number % SLOTS]
        match kind:
            case "corrupt-body":
                at, change, what = slot.body_at() + len(slot.body) // 2, b"\x15", "one byte of its body is another"
            case "corrupt-size":
                size = int(self.plan.size[number % SLOTS])
                at, what = _HEAD.at["total_size"], f"its size says {SIZE_CHANGE} bytes more"
                change = _difference(size, size + SIZE_CHANGE, _SIZE)
            case "corrupt-magic":
                at, change, what = _HEAD.at["magic"], b"\x01\x02", "no magic number"
            case _:
                offset = int(self.plan.queue_offset(np.array([number]))[0])
                at, what = _HEAD.at["queue_offset"], f"its queue offset says {AHEAD} more"
                change = _difference(offset, offset + AHEAD)
        fault = self._plant(kind, number, what)
        self.done.patches.append((fault.file, fault.fileOffset + at, change))

    def tail(self, kind: str) -> None:
        plan = self.plan
        end = plan.log_end
        if self.done.tail:
            raise NoPlace("one log has one end")
        data = pack(plan, plan.count, plan.count + 1).tobytes()
        slot = plan.slots[plan.count % SLOTS]
        room = plan.sizes.log_file_bytes - end % plan.sizes.log_file_bytes
        self.done.tail = data[: min(slot.body_at() + len(slot.body) // 2, room)]
        name = log_file(Path(), plan, end).name
        what = f"{len(self.done.tail)} bytes of a message whose write was interrupted"
        self.done.faults.append(Fault(kind, "", -1, -1, end, f"commitlog/{name}", end % plan.sizes.log_file_bytes, "", what))

    def ahead(self, kind: str) -> None:
        free = [key for key in self.plan.queues if key[0] in ("orders", "payments", "clicks") and key not in self.done.ahead]
        if not free:
            raise NoPlace("no queue is left whose position could be wrong")
        topic, queue_id = self.rng.choice(free)
        self.done.ahead[topic, queue_id] = AHEAD
        end = self.plan.queue_end(self.plan.queues.index((topic, queue_id))) + AHEAD
        what = f"the committed position is {AHEAD} behind the end of the queue"
        self.done.faults.append(Fault(kind, topic, queue_id, end, -1, "config/consumerOffset.json", -1, "", what))


KINDS: Final[dict[str, Callable[[Planter, str], None]]] = {
    "gap": Planter.gap,
    "lost": Planter.lost,
    "duplicate": Planter.duplicate,
    "duplicate-key": Planter.duplicate,
    "reorder": Planter.reorder,
    "late": Planter.late,
    "timer-late": Planter.timer_late,
    "index-missing": Planter.index,
    "index-wrong": Planter.index,
    "queue-missing": Planter.queue,
    "queue-wrong": Planter.queue,
    "queue-tags": Planter.queue,
    "corrupt-body": Planter.unit,
    "corrupt-size": Planter.unit,
    "corrupt-magic": Planter.unit,
    "queue-offset": Planter.unit,
    "torn-tail": Planter.tail,
    "position-ahead": Planter.ahead,
    "delay-pending": Planter.undelivered,
    "timer-pending": Planter.undelivered,
    "half-open": Planter.open,
    "half-committed": Planter.open,
}
"""Gaps come first: they move the queue offsets of all that follow."""


def _difference(old: int, new: int, field: Packed = _OFFSET) -> bytes:
    """What to add to each byte of the old number."""
    pairs = zip(field.pack(old), field.pack(new), strict=True)
    return bytes((after - before) % 256 for before, after in pairs)


def damage(store: Path, plan: Plan, planted: Planted) -> None:
    """Write over the finished files what was planted."""
    for name, at, size in planted.zeros:
        with Opened(store / name) as file:
            write_at(file, bytes(size), at)
    for name, at, change in planted.patches:
        data = (store / name).open("rb")
        with data:
            data.seek(at)
            old = data.read(len(change))
        with Opened(store / name) as file:
            write_at(file, bytes((one + more) % 256 for one, more in zip(old, change, strict=True)), at)
    if planted.tail:
        with Opened(log_file(store, plan, plan.log_end)) as file:
            write_at(file, planted.tail, plan.log_end % plan.sizes.log_file_bytes)
        (store / "abort").write_text("1")


def ledger_lines(faults: list[Fault]) -> list[str]:
    """JSON, one fault a line."""
    made: list[dict[str, Any]] = [asdict(fault) for fault in faults]
    return [json.dumps(one, separators=(",", ":")) for one in made]
