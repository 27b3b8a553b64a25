"""What follows the body in stored units, for many units: the length of the topic, then topic and properties, to the end.

A unit's body is as long as that of the last unit of its size, mostly.  So a struct is kept for each size, which takes the head,
the size of the body and what follows it in one step; magic and sysFlag tell whether that was right.  Whatever else a unit may be,
of version 2, with wide hosts, with lengths that lead out of it, gets the properties that `stored_properties` finds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rmq_wire.layout.message import BORN_V6, FIXED, MAGIC_V1, MAGIC_V2
from rmq_wire.message import PROPERTIES_LENGTH, TOPIC_LENGTHS, stored_properties

V2_BYTE: Final = MAGIC_V2 & 0xFF
"""Of the magic, its lowest byte."""
FLAGS_END: Final = BORN_V6
"""Of a sysFlag's lowest byte: from here on it may have wide hosts."""
LENGTH_BYTES: Final = PROPERTIES_LENGTH.size
"""Between topic and properties."""
SIZES_MAX: Final = 1_024
"""Structs that are kept, half a KiB each."""
NOBODY: Final = -(1 << 40)
"""No body is so long."""

Unpack = Callable[[memoryview, int], tuple[Any, ...]]
Tail = tuple[int, bytes]
"""(bytes of the topic, what begins with it)"""
_LOW_BYTES: Final = ("magic", "sys_flag")
_FIXED_BYTES: Final = FIXED[0].size
_TOPIC_LENGTH: Final = TOPIC_LENGTHS[MAGIC_V1]


class Tails(dict[int, tuple[Unpack, int]]):
    """Size of a unit -> what takes of it (lowest byte of the magic, that of the sysFlag, body size, topic size, tail), and the
    body size for which the last two are right.

    Who finds none calls `learn`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._bodies: dict[int, int] = {}
        """Size -> the body size that was met last where another one was expected."""

    def learn(self, unit: memoryview) -> tuple[Unpack, int]:
        """For units of this one's size."""
        size = len(unit)
        behind = size - _FIXED_BYTES - _TOPIC_LENGTH.size
        if behind < LENGTH_BYTES:
            return _nothing, NOBODY
        [body_size] = FIXED[0].field("body_size").unpack_from(unit, FIXED[0].at["body_size"])
        if not 0 <= body_size <= behind - LENGTH_BYTES:
            return _nothing, NOBODY
        return self._keep(size, body_size)

    def _keep(self, size: int, body_size: int) -> tuple[Unpack, int]:
        if len(self) >= SIZES_MAX:
            self.clear()
        behind = size - _FIXED_BYTES - _TOPIC_LENGTH.size - body_size
        known = self[size] = FIXED[0].and_behind(_LOW_BYTES, body_size, _TOPIC_LENGTH, behind).unpack_from, body_size
        return known

    def cut(self, unit: memoryview, magic: int, flags: int, body_size: int) -> Tail:
        """Of a unit whose body has another size, or which is none of the usual ones.  Raises BadRecord."""
        size = len(unit)
        topic_at = _FIXED_BYTES + body_size + _TOPIC_LENGTH.size
        is_usual = body_size >= 0 and topic_at + LENGTH_BYTES <= size
        if not is_usual or flags >= FLAGS_END or magic == V2_BYTE:
            return as_tail(unit)
        if self._bodies.get(size) == body_size:
            self._keep(size, body_size)
        else:
            if len(self._bodies) >= SIZES_MAX:
                self._bodies.clear()
            self._bodies[size] = body_size
        [topic_size] = _TOPIC_LENGTH.unpack_from(unit, topic_at - _TOPIC_LENGTH.size)
        return topic_size, bytes(unit[topic_at:])


def as_tail(unit: memoryview) -> Tail:
    """Of any unit: its properties, behind a topic that is empty.  Raises BadRecord."""
    return 0, bytes(LENGTH_BYTES) + stored_properties(unit)


def _nothing(_log: memoryview, _at: int) -> tuple[Any, ...]:
    return 0, 0, -1, 0, b""


TAILS: Final = Tails()
