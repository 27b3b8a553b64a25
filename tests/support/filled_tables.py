"""Tables of sixty rows each, or of two thousand, by the Java class that has the same file.

Their names are such that other maps walk them in other orders: one that has grown, also where it turns chains round, one that had
room for them, and a `HashMap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from broker_impl.config import BrokerConfig, Machine
from broker_impl.env import Env
from broker_impl.state.consumer_filters import ConsumerFilters
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.light import LightConsumerOffsets
from broker_impl.state.order_info import OrderInfos
from broker_impl.state.persisted import PersistedTable
from broker_impl.state.request_modes import RequestModes
from broker_impl.state.topics import TopicTable
from broker_impl.state.transaction_metrics import TransactionMetrics
from rmq_wire.bodies.assignment import SetMessageRequestModeRequest
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.java import spread_of

ROWS: Final = 60
NAMES: Final = [f"T{number * number * 37 % 1009}" for number in range(ROWS)]
GROUPS: Final = [f"g{number * number * 41 % 1013}" for number in range(ROWS)]
MANY: Final = 5
"""The topic that all groups read, where the order of groups is told."""


class Kind(NamedTuple):
    """One file."""

    make: Callable[[BrokerConfig, Env], Any]
    fill: Callable[[Any], object]
    member: str
    """Of the document, whose order is told."""
    buckets: int
    """Of the map in which Java has what it has read."""

    def tables(self, wall_ms: int) -> tuple[PersistedTable, PersistedTable]:
        """One that is filled, and one that is not."""
        config = BrokerConfig({"brokerName": "broker-a"}, Machine())
        filled, empty = (self.make(config, Env(wall_ms=wall_ms)) for _ in range(2))
        self.fill(filled)
        return filled, empty


def _progress(table: ConsumerOffsets) -> None:
    for number in range(ROWS):
        table.commit(GROUPS[number * 7 % ROWS], NAMES[number % 13], number % 8, number)
    table.commit_pull("g", "T", 0, 1)


def _light_progress(table: LightConsumerOffsets) -> None:
    _progress(table)
    for name in NAMES:
        table.commit(f"%LMQ%{name}", f"%LMQ%{name}", 0, 7)


def _batches(table: OrderInfos) -> None:
    for number in range(ROWS):
        table.update("a", NAMES[number % 13], GROUPS[number * 7 % ROWS], number % 8, table._env.wall_ms, 60_000, [number])


def _readers() -> list[tuple[str, str]]:
    return [(topic, group) for topic in NAMES for group in (GROUPS if topic == NAMES[MANY] else GROUPS[:2])]


def _modes(table: RequestModes) -> None:
    for topic, group in _readers():
        table.put(topic, group, SetMessageRequestModeRequest(topic=topic, consumer_group=group, mode="POP"))


def _filters(table: ConsumerFilters) -> None:
    """Whose groups have gone, for each start takes them for gone at another time."""
    of_group: dict[str, list[SubscriptionData]] = {}
    for topic, group in _readers():
        said = SubscriptionData(topic=topic, sub_string="a > 1", expression_type="SQL92")
        of_group.setdefault(group, []).append(said)
    for group, subscriptions in of_group.items():
        table.register(group, subscriptions)
        table.group_gone(group)


def _topics(table: TopicTable) -> None:
    for name in NAMES:
        table.put(TopicConfig(topic_name=name))


def _groups(table: GroupTable) -> None:
    for name in GROUPS:
        table.put(SubscriptionGroupConfig(group_name=name))


KINDS: Final = {
    "offset.ConsumerOffsetManager": Kind(ConsumerOffsets, _progress, "offsetTable", 16),
    "offset.LmqConsumerOffsetManager": Kind(LightConsumerOffsets, _light_progress, "lmqOffsetTable", 16),
    "pop.orderly.QueueLevelConsumerManager": Kind(
        lambda _, env: OrderInfos(env, lambda _topic: 8, lambda _group: True), _batches, "table", 16
    ),
    "loadbalance.MessageRequestModeManager": Kind(lambda *_: RequestModes(), _modes, "messageRequestModeMap", 16),
    "filter.ConsumerFilterManager": Kind(ConsumerFilters, _filters, "filterDataByTopic", 16),
    "topic.TopicConfigManager": Kind(TopicTable, _topics, "topicConfigTable", 2048),
    "subscription.SubscriptionGroupManager": Kind(GroupTable, _groups, "subscriptionGroupTable", 2048),
}
"""By the name of its class below `org.apache.rocketmq.broker`."""
MANY_ROWS: Final = 2_000
"""More than the maps are made for: Java makes room before it copies so many."""
MANY_NAMES: Final = [f"M{number * number * 37 % 100_003}" for number in range(MANY_ROWS)]


def _many_names(table: TopicTable | GroupTable) -> list[str]:
    """Those that share no bucket with a built-in row, which a broker has before it reads its file, and a judge has not."""
    taken = {spread_of(name) % 8_192 for name in table.table}
    return [name for name in MANY_NAMES if spread_of(name) % 8_192 not in taken]


def _many_topics(table: TopicTable) -> None:
    for name in _many_names(table):
        table.put(TopicConfig(topic_name=name))


def _many_groups(table: GroupTable) -> None:
    for number, name in enumerate(_many_names(table)):
        table.put(SubscriptionGroupConfig(group_name=name))
        if number % 2:
            table.set_forbidden(name, "T", 2, forbidden=True)


def _many_counts(table: TransactionMetrics) -> None:
    for number, name in enumerate(MANY_NAMES):
        table.add(name, number, 1_700_000_000_000)


LARGE: Final = {
    "topic.TopicConfigManager": Kind(TopicTable, _many_topics, "topicConfigTable", 2048),
    "subscription.SubscriptionGroupManager": Kind(GroupTable, _many_groups, "subscriptionGroupTable", 2048),
    "transaction.TransactionMetrics": Kind(
        lambda _, env: TransactionMetrics(env.wall_ms), _many_counts, "transactionCount", 2048
    ),
}
"""Of those that are copied, with many rows."""
COPIED: Final = {name for name, kind in KINDS.items() if kind.buckets > 16}
"""Those that copy what they have read to their own maps."""
