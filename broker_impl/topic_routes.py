"""Where the queues of topics are, on this broker and on others: what is assigned to consumers (code 400).

A broker learns it as a client does.  From a name server of the same process it reads at once; one elsewhere it asks (105) when a
topic is needed first, and again every `loadBalancePollNameServerInterval` for as long as the topic is there.  Pure: whoever has
connections puts the question that is `due`, and reports what was `found`, that it is `unknown`, or that asking `failed`.

Java: `TopicRouteInfoManager` (getTopicSubscribeInfo).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from broker_impl.allocation import utf16
from broker_impl.engine.answers import Pause
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices
from rmq_wire.bodies.locks import QueueName
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import PERM_READ

TOPICS_MAX: Final = 10_000
"""Topics whose queues are known from elsewhere; of one more, the one that was asked about first is forgotten and asked again."""
QUEUES_MAX: Final = 16_384
"""Queues of one topic over all brokers.  Anybody may tell a name server of two thousand million; of a topic with more than
these nobody is assigned any.
"""
ROUTE_TIMEOUT_MS: Final = 3_000
"""What the answer may take (Java: `GET_TOPIC_ROUTE_TIMEOUT`)."""
FIRST_REFRESH_MS: Final = 1_000

Spread = tuple[tuple[str, int], ...]
"""(broker name, number of queues to read), in Java's order of names."""


class TopicRoutes:
    """`asks`: there are name servers elsewhere.  `on_due()` is called whenever something becomes due before its time."""

    def __init__(self, *, asks: bool, refresh_ms: Callable[[], int], now_ms: int) -> None:
        self.in_process: Callable[[str], Slices[TopicRouteData | None]] | None = None
        """The name server of this process."""
        self.on_due: Callable[[], None] = lambda: None
        self._asks = asks
        self._refresh_ms = refresh_ms
        self._next_ms = now_ms + FIRST_REFRESH_MS
        self._known: dict[str, Spread] = {}
        self._waiting: dict[str, list[Pause]] = {}
        """Topics that somebody waits for."""
        self._due: dict[str, None] = {}
        """Topics to ask about now."""
        self._under_way: set[str] = set()

    # -- who needs it

    def queues(self, topic: str) -> Slices[list[QueueName] | None]:
        """All queues of a topic that can be read, sorted by broker and number; None: nobody knows the topic."""
        if self.in_process is not None:
            route = yield from self.in_process(topic)
            spread = _spread(route) if route is not None else None
        else:
            if not self._known.get(topic) and self._asks:
                yield self._ask(topic)
            spread = self._known.get(topic)
        return None if spread is None else (yield from _queues(topic, spread))

    def _ask(self, topic: str) -> Pause:
        pause = Pause()
        self._waiting.setdefault(topic, []).append(pause)
        if topic not in self._under_way:
            self._due[topic] = None
            self.on_due()
        return pause

    # -- who asks

    def due(self, now_ms: int) -> list[str]:
        """The topics to ask about now; each is answered by one of the three below."""
        if now_ms >= self._next_ms:
            self._next_ms = now_ms + self._refresh_ms()
            self._due.update(dict.fromkeys(self._known))
        found = [topic for topic in self._due if topic not in self._under_way]
        self._due.clear()
        self._under_way.update(found)
        return found

    def next_due_ms(self) -> int | None:
        """When something is due next."""
        if self._due:
            return 0
        return self._next_ms if self._known else None

    def found(self, topic: str, route: TopicRouteData) -> None:
        """A name server knows the topic."""
        if topic not in self._known and len(self._known) >= TOPICS_MAX:
            del self._known[next(iter(self._known))]
        self._known[topic] = _spread(route)
        self._ended(topic)

    def unknown(self, topic: str) -> None:
        """A name server says that there is no such topic."""
        self._known.pop(topic, None)
        self._ended(topic)

    def failed(self, topic: str) -> None:
        """No name server said anything: what was known counts on."""
        self._ended(topic)

    def _ended(self, topic: str) -> None:
        self._under_way.discard(topic)
        for pause in self._waiting.pop(topic, ()):
            pause.end()


def _spread(route: TopicRouteData) -> Spread:
    numbers = {said.broker_name: said.read_queue_nums for said in route.queue_datas if said.perm & PERM_READ}
    if sum(numbers.values()) > QUEUES_MAX:
        return ()
    return tuple((broker, numbers[broker]) for broker in sorted(numbers, key=utf16))


def _queues(topic: str, spread: Sequence[tuple[str, int]]) -> Slices[list[QueueName]]:
    found: list[QueueName] = []
    for broker, count in spread:
        for queue_id in range(count):
            found.append(QueueName(topic=topic, broker_name=broker, queue_id=queue_id))
            if len(found) % (16 * ROWS_PER_SLICE) == 0:
                yield None
    return found
