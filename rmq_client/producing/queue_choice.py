"""Which queue the next message goes to: round robin, avoiding the broker that just failed, and those that are slow.

The counter begins anywhere, so that many producers do not all begin with the same broker.  With latency fault tolerance: the
next queue of a broker that is available, else of one that is reachable, else just the next.  Never "the fastest": a slow broker
gets its share again when its pause is over.  Pure: chance and time are handed in.
Source: `TopicPublishInfo.selectOneMessageQueue`, `MQFaultStrategy.selectOneMessageQueue`, `ThreadLocalIndex`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from rmq_client.producing.latency import LatencyFaults
from rmq_wire.fastjson import MessageQueue

_POSITIVE: Final = 0x7FFF_FFFF
TOPICS_MAX: Final = 10_000
"""Counters that are kept; beyond it all begin anew, anywhere."""

Wanted = Callable[[str], bool]
"""Of a broker's name."""


class QueueChooser:
    """One producer's counters, a counter for each topic.  faults: None without latency fault tolerance."""

    def __init__(self, rng: random.Random, faults: LatencyFaults | None = None) -> None:
        self._rng = rng
        self._faults = faults
        self._counters: dict[str, int] = {}

    def choose(self, topic: str, queues: Sequence[MessageQueue], now_ms: int, *, last_broker: str | None = None) -> MessageQueue:
        """One of the queues, of which there is at least one.  last_broker: where the attempt before this one failed."""

        def another(broker: str) -> bool:
            return broker != last_broker

        faults = self._faults
        if faults is None:
            return self._next_of(topic, queues, another) or self._next(topic, queues)
        if last_broker is not None:
            self._counters[topic] = self._rng.randrange(_POSITIVE)
        return (
            self._next_of(topic, queues, lambda broker: another(broker) and faults.is_available(broker, now_ms))
            or self._next_of(topic, queues, lambda broker: another(broker) and faults.is_reachable(broker))
            or self._next(topic, queues)
        )

    def _next_of(self, topic: str, queues: Sequence[MessageQueue], wanted: Wanted) -> MessageQueue | None:
        for _ in range(len(queues)):
            queue = self._next(topic, queues)
            if wanted(queue.broker_name):
                return queue
        return None

    def _next(self, topic: str, queues: Sequence[MessageQueue]) -> MessageQueue:
        counter = self._counters.get(topic)
        if counter is None:
            if len(self._counters) >= TOPICS_MAX:
                self._counters.clear()
            counter = self._rng.randrange(_POSITIVE)
        counter = self._counters[topic] = counter + 1 & _POSITIVE
        return queues[counter % len(queues)]
