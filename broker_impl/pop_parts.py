"""What pops, acknowledgements and the revival of messages work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker_impl.config import BrokerConfig
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.engine import Engine
from broker_impl.env import Env
from broker_impl.intake import Intake
from broker_impl.pop_buffer import PopBuffer
from broker_impl.pop_records import PopRecords
from broker_impl.pop_rules import PopRules
from broker_impl.pop_walk import PopWalk
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.order_info import OrderInfos
from broker_impl.state.pop_lines import PopLines
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_store.store import Store


@dataclass(frozen=True, slots=True)
class PopParts:
    """Of one broker."""

    engine: Engine
    env: Env
    config: BrokerConfig
    topics: TopicTable
    groups: GroupTable
    offsets: ConsumerOffsets
    orders: OrderInfos
    lines: PopLines
    stats: Stats
    store: Store
    intake: Intake
    reads: ColdReads
    records: PopRecords
    buffer: PopBuffer
    rules: PopRules
    walk: PopWalk
    has_batch_queues: Callable[[str], bool | None]

    def forget(self, *, topics: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """These were deleted: nobody has anything of them any more."""
        gone_topics, gone_groups = frozenset(topics), frozenset(groups)
        self.lines.forget(gone_topics, gone_groups)
        if len(self.buffer):
            self.engine.in_background(self.buffer.forgetting(gone_topics, gone_groups))


def pop_parts(
    engine: Engine,
    config: BrokerConfig,
    topics: TopicTable,
    groups: GroupTable,
    clients: Clients,
    offsets: ConsumerOffsets,
    orders: OrderInfos,
    stats: Stats,
    intake: Intake,
    reads: ColdReads,
) -> PopParts:
    """Put them together."""
    env, store = engine.env, intake.store
    lines = PopLines(offsets)
    records = PopRecords(engine, config, intake)
    return PopParts(
        engine,
        env,
        config,
        topics,
        groups,
        offsets,
        orders,
        lines,
        stats,
        store,
        intake,
        reads,
        records,
        PopBuffer(engine, config, lines, records),
        PopRules(config, env, topics, groups, clients),
        PopWalk(config, env, topics, offsets, lines, orders, store),
        intake.has_batch_queues,
    )
