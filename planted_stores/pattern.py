"""The pattern that a generated store repeats: one round of messages, each with its topic, queue, body and properties.

A round has every kind of message in it: ordinary ones of several topics with skewed queues, sharded ones with a sequence, delayed
and timed ones with their deliveries, half messages with commit and op, retries, dead letters, compressed bodies, IPv6 hosts, a
topic long enough for version 2 units.  What differs from round to round has a fixed width, so a slot's unit has one size for
ever and every place in the store follows from a message's number by arithmetic.
"""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from rmq_wire import property_names as prop
from rmq_wire.java import iteration_order
from rmq_wire.layout.message import BORN_V6, FIXED
from rmq_wire.message import pack_unit
from rmq_wire.message_id import pack_host
from rmq_wire.names import (
    SCHEDULE_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
    WHEEL_TIMER_TOPIC,
    dlq_topic,
    retry_topic,
)

SLOTS: Final = 1024
"""Messages of a round."""
GROUP_SLOTS: Final = 128
"""Of so many slots each has one message of every special kind."""
ROUND_DELIVERIES: Final = SLOTS // GROUP_SLOTS
"""Delayed messages of a round."""
STORE_HOST: Final = pack_host("127.0.0.1", 10911)
BORN_HOSTS: Final = (pack_host("10.1.2.3", 51234), pack_host("2001:db8::77", 51234))
COMMIT_FLAG: Final = 0x8
COMPRESSED_FLAG: Final = 0x301
"""Compressed, by zlib (`MessageSysFlag`)."""
UNIQUE_PREFIX: Final = "7F000001053918B4AAC2"
"""Address, process, loader of every unique key; behind it the message's number in 12 hexadecimal digits."""
KEY_PREFIX: Final = "order-"
DELAY_LEVEL: Final = 2
DELAY_MS: Final = 5000
"""Of level 2; timed messages wait as long."""
LONG_TOPIC: Final = "audit-" + "x" * 134
TOPICS: Final = {"orders": 8, "payments": 4, "clicks": 4, LONG_TOPIC: 2}
"""Topic of ordinary messages -> queues."""
SHARDED_TOPIC: Final = "order-steps"
SHARDED_QUEUES: Final = 4
SHARD_COUNT: Final = 32
GROUP: Final = "GID-orders"
RETRY: Final = retry_topic(GROUP)
DEAD: Final = dlq_topic(GROUP)
SCHEDULE: Final = SCHEDULE_TOPIC
WHEEL: Final = WHEEL_TIMER_TOPIC
HALF: Final = TRANS_HALF_TOPIC
OP: Final = TRANS_OP_HALF_TOPIC
SEQUENCE: Final = "sequence"
"""User property of a sharded message: its number among those of its sharding key, from 0."""
COMMON: Final = {
    prop.MSG_REGION: "DefaultRegion",
    prop.CLUSTER: "DefaultCluster",
    prop.TRACE_ON: "true",
    prop.WAIT: "true",
}
"""Properties that every message has."""
V6_SHARE, COMPRESSED_SHARE, SHARDED_SHARE = 0.05, 0.03, 0.3
BODY_BYTES_MIN: Final = 24


class Kind(StrEnum):
    """What a slot holds."""

    PLAIN = "plain"
    SHARDED = "sharded"
    DELAYED = "delayed"
    DELIVERED = "delivered"
    TIMED = "timed"
    TIMED_DELIVERED = "timed delivered"
    HALF = "half"
    COMMIT = "commit"
    OP = "op"
    RETRY = "retry"
    DEAD = "dead"


class Var(StrEnum):
    """What a unit has of its own; the text of its place is a filler of its width."""

    UNIQUE = "0" * 12
    KEY = "1" * 10
    SEQUENCE = "2" * 10
    ORIGIN = "3" * 16
    DEAD_ORIGIN = "7" * 16
    OUT_MS = "4" * 13
    DELAY_MS = "5" * 4
    OP_OFFSET = "6" * 10


FIXED_VARS: Final = ("queue_offset", "physical_offset", "born_timestamp", "store_timestamp")


@dataclass(frozen=True)
class Slot:
    """One message of the round.  origin: slot whose message it carries on; later: so many rounds before as `ROUNDS_BACK` says."""

    kind: Kind
    topic: str
    queue: int
    tags: str
    body: bytes
    values: tuple[tuple[str, str], ...] = ()
    sys_flag: int = 0
    reconsumed: int = 0
    origin: int | None = None
    later: bool = False
    shard: int = -1

    @property
    def has_keys(self) -> bool:
        """Indexed under unique key and business key."""
        return self.kind is not Kind.OP

    def unit(self) -> bytes:
        """With zeros where each message has its own numbers, fillers where it has its own text."""
        pairs = {prop.TAGS: self.tags, **dict(self.values)}
        if self.has_keys:
            pairs |= {prop.UNIQ_KEY: UNIQUE_PREFIX + Var.UNIQUE, prop.KEYS: KEY_PREFIX + Var.KEY, **COMMON}
        text = "".join(f"{name}\x01{pairs[name]}\x02" for name in iteration_order(pairs))
        born = BORN_HOSTS[bool(self.sys_flag & BORN_V6)]
        return pack_unit(
            self.queue,
            0,
            0,
            0,
            self.sys_flag,
            0,
            born,
            0,
            STORE_HOST,
            self.reconsumed,
            0,
            self.body,
            self.topic.encode(),
            text.encode(),
        )

    def places(self, unit: bytes) -> dict[str, int]:
        """Where in the unit each thing of its own stands."""
        fixed = FIXED[self.sys_flag & BORN_V6]
        found = {name: fixed.at[name] for name in FIXED_VARS}
        if self.kind is Kind.COMMIT:
            found["prepared_transaction_offset"] = fixed.at["prepared_transaction_offset"]
        if self.kind is Kind.OP:
            found |= {"body_crc": fixed.at["body_crc"], Var.OP_OFFSET.name: fixed.size}
        behind = fixed.size + len(self.body)
        for var, mark in _MARKS.items():
            marked = mark.encode()
            at = unit.find(marked, behind)
            if at >= 0:
                found[var.name] = at + len(marked) - len(var)
        return found

    def body_at(self) -> int:
        """Within the unit."""
        return FIXED[self.sys_flag & BORN_V6].size


_HOST: Final = STORE_HOST.hex().upper()
_MARKS: Final = {
    Var.UNIQUE: f"{prop.UNIQ_KEY}\x01{UNIQUE_PREFIX}{Var.UNIQUE}",
    Var.KEY: f"{prop.KEYS}\x01{KEY_PREFIX}{Var.KEY}",
    Var.SEQUENCE: f"{SEQUENCE}\x01{Var.SEQUENCE}",
    Var.ORIGIN: f"{prop.ORIGIN_MESSAGE_ID}\x01{_HOST}{Var.ORIGIN}",
    Var.DEAD_ORIGIN: f"{prop.DLQ_ORIGIN_MESSAGE_ID}\x01{_HOST}{Var.DEAD_ORIGIN}",
    Var.OUT_MS: f"{prop.TIMER_OUT_MS}\x01{Var.OUT_MS}",
    Var.DELAY_MS: f"{prop.TIMER_DELAY_MS}\x01{Var.DELAY_MS}",
}


@dataclass
class Pattern:
    """The slots, and the ordinary messages that stand where deliveries and commits would: in the first rounds, which have nothing
    to deliver yet, and where something was planted that is still to come."""

    seed: int
    body_bytes: int
    slots: list[Slot] = field(default_factory=list)
    ordinary: list[Slot] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(f"pattern {self.seed}")
        topics = [topic for topic, queues in TOPICS.items() for _ in range(queues)]
        specials = _specials()
        for number in range(SLOTS):
            body = _body(rng, max(BODY_BYTES_MIN, round(self.body_bytes * rng.uniform(0.5, 1.5))))
            special = specials.get(number % GROUP_SLOTS)
            if special is not None:
                group = number - number % GROUP_SLOTS
                origin = None if special.origin is None else group + special.origin
                body = self.slots[origin].body if origin is not None else body
                body = f"{Var.OP_OFFSET},".encode() if special.kind is Kind.OP else body
                self.slots.append(replace(special, body=body, origin=origin))
            elif rng.random() < SHARDED_SHARE:
                shard = rng.randrange(SHARD_COUNT)
                values = ((prop.SHARDING_KEY, f"shard-{shard:04}"), (SEQUENCE, str(Var.SEQUENCE)))
                self.slots.append(Slot(Kind.SHARDED, SHARDED_TOPIC, shard % SHARDED_QUEUES, "step", body, values, shard=shard))
            else:
                topic = rng.choice(topics)
                queue = min(int(rng.expovariate(0.8)), TOPICS[topic] - 1)
                flags = BORN_V6 if rng.random() < V6_SHARE else 0
                if rng.random() < COMPRESSED_SHARE:
                    flags, body = flags | COMPRESSED_FLAG, zlib.compress(body * 3)
                self.slots.append(Slot(Kind.PLAIN, topic, queue, f"Tag{'ABCD'[rng.randrange(4)]}", body, sys_flag=flags))
        self.ordinary = [self._ordinary(slot) for slot in self.slots]

    @staticmethod
    def _ordinary(slot: Slot) -> Slot:
        """An ordinary message of the same size, of a slot that keeps a promise."""
        if not slot.later and slot.kind is not Kind.COMMIT:
            return slot
        bare = Slot(Kind.PLAIN, slot.topic, slot.queue, slot.tags, slot.body)
        return replace(bare, body=slot.body + b"." * (len(slot.unit()) - len(bare.unit())))


def _specials() -> dict[int, Slot]:
    """By their place in a group; the later of two follow the earlier."""
    real = ((prop.REAL_TOPIC, "orders"), (prop.REAL_QID, "1"))
    wait = ((prop.DELAY, str(DELAY_LEVEL)), *real)
    timed = ((prop.TIMER_OUT_MS, str(Var.OUT_MS)), (prop.TIMER_DELAY_MS, str(Var.DELAY_MS)))
    due = (*timed, (prop.REAL_TOPIC, "payments"), (prop.REAL_QID, "2"))
    half = ((prop.TRAN_MSG, "true"), (prop.PGROUP, "PID-payments"))
    moved = ((prop.ORIGIN_MESSAGE_ID, _HOST + Var.ORIGIN), (prop.RETRY_TOPIC, "orders"))
    dead_id = (prop.DLQ_ORIGIN_MESSAGE_ID, _HOST + Var.DEAD_ORIGIN)
    dead = (*moved, (prop.DLQ_ORIGIN_TOPIC, "orders"), dead_id)
    return {
        10: Slot(Kind.DELAYED, SCHEDULE, DELAY_LEVEL - 1, "TagA", b"", wait),
        20: Slot(Kind.DELIVERED, "orders", 1, "TagA", b"", wait, origin=10, later=True),
        30: Slot(Kind.TIMED, WHEEL, 0, "TagB", b"", due),
        40: Slot(Kind.TIMED_DELIVERED, "payments", 2, "TagB", b"", due, origin=30, later=True),
        50: Slot(Kind.HALF, HALF, 0, "TagC", b"", (*half, (prop.REAL_TOPIC, "payments"), (prop.REAL_QID, "1"))),
        55: Slot(Kind.COMMIT, "payments", 1, "TagC", b"", half, sys_flag=COMMIT_FLAG, origin=50),
        56: Slot(Kind.OP, OP, 0, "d", b"", origin=50),
        60: Slot(Kind.PLAIN, "orders", 0, "TagD", b""),
        70: Slot(Kind.RETRY, RETRY, 0, "TagD", b"", moved, reconsumed=1, origin=60),
        80: Slot(Kind.DEAD, DEAD, 0, "TagD", b"", dead, reconsumed=16, origin=60),
    }


_WORDS: Final = tuple(b"order customer item price total euro street city paid open 17 42 true false null".split())


def _body(rng: random.Random, size: int) -> bytes:
    """Text that compresses like JSON does."""
    words = [rng.choice(_WORDS) for _ in range(size // 4 + 1)]
    return (b"{%08x " % rng.getrandbits(32) + b" ".join(words))[:size].ljust(size, b".")
