"""Ordered POP: what a stored batch says of its messages (`rmq_wire.bodies.order_info`).

A queue is blocked for a group until every message of its last batch is acknowledged or visible again; the next pop begins at the
first that is not acknowledged, whatever is acknowledged behind it.

Source: `QueueLevelConsumerManager.OrderInfo` (needBlock, isNotAck, getNextOffset, getQueueOffset).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rmq_wire import names
from rmq_wire.bodies.order_info import OrderInfo

_BITS: Final = 63
"""`1L << i` looks at the low six bits of i."""


def place_of(key: str) -> tuple[str, str]:
    """(topic, group) of a row's key."""
    topic, _, group = key.partition(names.GROUP_SEPARATOR)
    return topic, group


def offsets_of(info: OrderInfo) -> list[int]:
    """The queue offsets of all its messages."""
    said = info.offsets or [0]
    return [said[0], *(said[0] + distance for distance in said[1:])]


def bit_of(at: int) -> int:
    """What stands for the message number `at` in `acked`, before it is a Java `long`."""
    return 1 << (at & _BITS)


def is_acked(info: OrderInfo, at: int) -> bool:
    """Of the message number `at`."""
    return bool(info.acked & bit_of(at))


def open_until(info: OrderInfo) -> Iterator[tuple[int, int]]:
    """(queue offset, when it is visible again, wall time in ms) of each message that is not acknowledged."""
    if not info.offsets:
        return
    ends = info.pop_time + (info.invisible_time or 0)
    for at, offset in enumerate(offsets_of(info)):
        if not is_acked(info, at):
            yield offset, (info.visible or {}).get(offset, ends)
