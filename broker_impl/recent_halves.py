"""The half messages that came last, as the store was given them: who ends one of these soon need not have it read and decoded.

A local transaction takes milliseconds, so almost every end finds its half message here.  What is here has been committed, at the
place under which it is kept; that it has ended since, or was put back, is not known here.  The oldest go when there are too many
bytes; an end of one of those reads the log.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from rmq_store.log.draft import Draft

BYTES_MAX: Final = 8 << 20
"""Of all together."""
BYTES_OF_ONE_MAX: Final = 64 << 10
"""Larger ones are read from the log: that costs little beside what their bodies do."""
OVERHEAD_BYTES: Final = 1_024
"""Of one: objects, keys, its place in the table."""


class RecentHalf(Struct, gc=False):
    """A half message for this topic and queue, of this producer group, that has this offset in its queue.

    `draft`: as it was staged, with a body of its own; whoever takes the half message may change it.
    """

    draft: Draft
    topic: str
    queue_id: int
    group: str
    queue_offset: int
    size: int
    """Bytes in the log."""


class RecentHalves:
    """Half messages by their places in the log, oldest first."""

    def __init__(self) -> None:
        self._kept: dict[int, RecentHalf] = {}
        self.size = 0
        """Bytes of all, about."""
        self.find = self._kept.get
        """The half message at a place in the log, or None."""

    def keep(self, physical_offset: int, half: RecentHalf) -> None:
        """It is written at this place."""
        if half.size <= BYTES_OF_ONE_MAX:
            self._kept[physical_offset] = half
            self.size += half.size + OVERHEAD_BYTES
            while self.size > BYTES_MAX:
                self.take(next(iter(self._kept)))

    def take(self, physical_offset: int) -> RecentHalf:
        """One that `find` has found, which is not kept any longer."""
        half = self._kept.pop(physical_offset)
        self.size -= half.size + OVERHEAD_BYTES
        return half
