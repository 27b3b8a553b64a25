"""How far a consumer is in its queues, as it knows; what is to be told to the broker, or written to a file.

An offset goes back only when somebody wants that: results of listeners that end late, in another order, do not.  One that is
being corrected is frozen: late results of what came before do not move it.
Source: `RemoteBrokerOffsetStore`, `LocalFileOffsetStore`, `ControllableOffset`.
"""

from __future__ import annotations

from collections.abc import Collection

from rmq_wire.fastjson import MessageQueue


class OffsetTable:
    """The offset to consume next, by queue."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def get(self, queue: MessageQueue) -> int | None:
        """As last updated."""
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool) -> None:
        """Consumed up to, not including, this offset.  A frozen one stays."""
        if queue not in self._frozen:
            old = self._offsets.get(queue)
            self._offsets[queue] = offset if old is None or not increase_only else max(old, offset)

    def freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set it, and let nothing move it until it is removed."""
        self._offsets[queue] = offset
        self._frozen.add(queue)

    def remove(self, queue: MessageQueue) -> None:
        """The queue is somebody else's."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def keep_only(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        """What is to be persisted of these queues; all others are forgotten."""
        for queue in self._offsets.keys() - queues:
            self.remove(queue)
        return dict(self._offsets)
