"""A name server's topics: the queues that each has in each broker, and the logical queues of static topics.

What always holds: who looks from the broker's side sees the same; a topic without a queue anywhere is not there.

Java: `RouteInfoManager` (topicQueueTable, topicQueueMappingInfoTable).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView

from broker_impl.namesrv.registrations import forget
from rmq_wire.bodies.route import QueueData, TopicQueueMappingInfo
from rmq_wire.bodies.topics import PERM_READ, PERM_WRITE


class TopicQueues:
    """Changed by `RouteTable` alone, which knows which brokers there are."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[str, QueueData]] = {}
        """Topic -> broker name -> its queues there."""
        self.mappings: dict[str, dict[str, TopicQueueMappingInfo]] = {}
        """Static topic -> broker name -> its logical queues there."""
        self._topics_of: dict[str, dict[str, None]] = {}
        """Broker name -> topics that have queues there."""

    def topics_of(self, name: str) -> KeysView[str]:
        """Those that have queues in the brokers of this name."""
        return self._topics_of.get(name, {}).keys()

    def count(self, name: str) -> int:
        """How many these are."""
        return len(self._topics_of.get(name, ()))

    def enter(self, topic: str, queues: QueueData) -> None:
        """A topic has these queues in a broker now."""
        name = queues.broker_name
        self.topics.setdefault(topic, {})[name] = queues
        self._topics_of.setdefault(name, {})[topic] = None

    def enter_mapping(self, topic: str, name: str, info: TopicQueueMappingInfo) -> None:
        """A static topic has these logical queues in a broker now."""
        self.mappings.setdefault(topic, {})[name] = info

    def drop(self, topic: str, names: Iterable[str]) -> None:
        """The topic has no queues in these brokers any more."""
        queues = self.topics.get(topic, {})
        for name in names:
            if queues.pop(name, None) is not None:
                forget(self._topics_of, name, topic)
        if not queues and self.topics.pop(topic, None) is not None:
            self.mappings.pop(topic, None)

    def drop_topic(self, topic: str) -> None:
        """Nor in any other."""
        for name in self.topics.pop(topic, ()):
            forget(self._topics_of, name, topic)
        self.mappings.pop(topic, None)

    def drop_brokers(self, names: Iterable[str]) -> None:
        """They are gone, with all that their topics had there."""
        topics, mappings = self.topics, self.mappings
        for name in names:
            for topic in self._topics_of.pop(name, ()):  # a connection may take `ROWS_PER_LINK_MAX` along: no call for each
                queues = topics[topic]
                del queues[name]
                if not queues:
                    del topics[topic]
                    mappings.pop(topic, None)

    def wipe_write_perm(self, name: str) -> int:
        """Nobody is to send to this broker.  Returns of how many topics."""
        return self._set_perm(name, lambda perm: perm & ~PERM_WRITE)

    def add_write_perm(self, name: str) -> int:
        """The opposite, for every topic: also those that could only be read or only be written before."""
        return self._set_perm(name, lambda _: PERM_READ | PERM_WRITE)

    def _set_perm(self, name: str, perm_of: Callable[[int], int]) -> int:
        held = [self.topics[topic][name] for topic in self._topics_of.get(name, ())]
        for queues in held:
            queues.perm = perm_of(queues.perm)
        return len(held)
