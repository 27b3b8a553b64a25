"""A push consumer as another thread sees it, the same in both faces."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rmq_client.consuming import push_consumer
    from rmq_client.faces.loop_thread import LoopThread
    from rmq_wire.fastjson import MessageQueue


class PushConsumer:
    """As `rmq_client.consuming.push_consumer.PushConsumer`.  Nothing here waits for a broker or a listener."""

    def __init__(self, loop: LoopThread, own: push_consumer.PushConsumer) -> None:
        self._loop = loop
        self._own = own

    @property
    def queues(self) -> list[MessageQueue]:
        """Those that are this member's now."""
        return self._loop.run_sync(lambda: self._own.queues)

    @property
    def consume_thread_max(self) -> int:
        """How many listeners work at once; may be set."""
        return self._own.consume_thread_max

    @consume_thread_max.setter
    def consume_thread_max(self, most: int) -> None:
        self._loop.run_sync(lambda: setattr(self._own, "consume_thread_max", most))

    def pause(self) -> None:
        """Pull nothing more; what is here goes on."""
        self._loop.run_sync(self._own.pause)

    def resume(self) -> None:
        """Pull again."""
        self._loop.run_sync(self._own.resume)
