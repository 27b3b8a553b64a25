"""When a queue of an ordered pop is free again, those who wait for it hear of it.

Each blocked queue has one deadline, moved with its batch; when it comes, the table is asked once more, for the wall clock may
have been set meanwhile.

Java: `QueueLevelConsumerOrderInfoLockManager`, whose timer ticks every 100 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker_impl.config import BrokerConfig
from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.engine import Engine
from broker_impl.state.order_info import OrderInfos


class OrderReleases:
    """Of one broker.  `wake(topic, group, queue_id)` is called in a turn of its own."""

    def __init__(self, engine: Engine, config: BrokerConfig, orders: OrderInfos, wake: Callable[[str, str, int], object]) -> None:
        self._engine = engine
        self._config = config
        self._orders = orders
        self._wake = wake
        self._due: dict[tuple[str, str, int], Deadline] = {}
        orders.on_block = self.told
        for block in orders.blocks():
            self.told(*block)

    def __len__(self) -> int:
        """Queues that somebody will hear of."""
        return len(self._due)

    def told(self, topic: str, group: str, queue_id: int, free_ms: int) -> None:
        """The queue will be free at this wall time."""
        queue = (topic, group, queue_id)
        before = self._due.pop(queue, None)
        if before is not None:
            before.cancel()
        env = self._engine.env
        if free_ms > env.wall_ms and not self._config.enable_notify_after_pop_order_lock_release:
            return
        due_ms = env.mono_ms + max(free_ms - env.wall_ms, 0)
        self._due[queue] = self._engine.at(due_ms, partial(self._is_due, queue))

    def _is_due(self, queue: tuple[str, str, int]) -> None:
        self._due.pop(queue, None)
        free_ms = self._orders.free_ms(*queue)
        if free_ms > self._engine.env.wall_ms:
            self.told(*queue, free_ms)
        else:
            self._wake(*queue)
