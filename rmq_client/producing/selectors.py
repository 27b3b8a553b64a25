"""A queue by what the message belongs to: selectors for `Producer.send(select=…)`.

A selector gets the topic's queues and the message, and returns one of the queues.  Your own is any function of that shape.
Source: `SelectMessageQueueByHash`, `SelectMessageQueueByRandom`, `SelectMessageQueueByMachineRoom` (which chooses nothing there).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Final

from rmq_client.errors import NoQueue
from rmq_client.messages import Message
from rmq_wire.fastjson import MessageQueue
from rmq_wire.java import string_hash

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
ROOM_SEPARATOR: Final = "@"
"""A broker named `room@name` is in that machine room."""
_INT_MAX: Final = 2**31 - 1
_LONG_MASK: Final = 2**64 - 1


def java_hash(key: str | int) -> int:
    """`hashCode` of a String, an Integer, or for what does not fit one of a Long."""
    if isinstance(key, str):
        return string_hash(key)
    if -_INT_MAX - 1 <= key <= _INT_MAX:
        return key
    if not -(2**63) <= key < 2**63:
        raise NoQueue(f"the key {key} is larger than Java's long: make it a text")
    folded = ((key & _LONG_MASK) ^ ((key & _LONG_MASK) >> 32)) & 0xFFFF_FFFF
    return folded - 2**32 if folded > _INT_MAX else folded


def by_hash(key: str | int) -> Selector:
    """All messages of one key into one queue, the one that a Java producer with the same key chooses."""
    place = abs(java_hash(key))

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return queues[place % len(queues)]

    return select


def by_random(rng: random.Random | None = None) -> Selector:
    """Any queue."""
    chance = rng or random.Random()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return chance.choice(queues)

    return select


def by_machine_room(rooms: Collection[str], rng: random.Random | None = None) -> Selector:
    """Any queue of the brokers in these rooms."""
    chance = rng or random.Random()

    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        near = [queue for queue in queues if queue.broker_name.partition(ROOM_SEPARATOR)[0] in rooms]
        if not near:
            raise NoQueue(f"{message.topic} has no queue in {', '.join(sorted(rooms))}")
        return chance.choice(near)

    return select
