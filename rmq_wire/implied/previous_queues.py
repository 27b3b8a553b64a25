"""What a rebuild is given beside the log: queues that are made anew had files before, and those know things that no message says.

When delayed messages were due under levels that are configured no more, which extensions had bit maps, which of two messages with
one offset was the queue's.  `PreviousQueues` knows nothing, as at a broker's start: what is lost is lost.  Whoever has the old
files (`rmq inspect repair`) says what they hold, and hears in turn what the log's walk meets.
"""

from __future__ import annotations

from typing import NamedTuple

from rmq_wire.message import StoredMessage


class Place(NamedTuple):
    """A message, and the place in a queue that it says it has.  `expected`: the queue's next offset, -1 in a new queue."""

    topic: str
    queue_id: int
    offset: int
    physical_offset: int
    size: int
    expected: int = -1


class PreviousQueues:
    """None are known."""

    extended: frozenset[tuple[str, int]] = frozenset()
    """(topic, queue id) of queues whose entries have extensions"""

    def due_time(self, place: Place, store_timestamp: int) -> int:
        """When this delayed message was to be delivered, ms; 0 when that is not known."""
        return 0

    def bit_map(self, place: Place, store_timestamp: int) -> bytes:
        """Of the extension of this message's entry."""
        return b""

    def has(self, place: Place) -> bool:
        """Whether this message had this place."""
        return False

    def accepts(self, place: Place) -> bool:
        """Whether a message may have an offset that is not the queue's next one.  If not it is in no queue."""
        return True

    def skipped(self, unit: StoredMessage, why: str) -> None:
        """Called with messages that no queue can hold."""

    def walked(self, position: int) -> None:
        """Called with how far the log is read."""


NOTHING_KNOWN = PreviousQueues()
