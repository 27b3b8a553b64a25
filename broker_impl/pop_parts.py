"""What pops, acknowledgements and the revival of messages work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    revive_queues: int
    """Queues of the revive topic that may have check points: so many as `reviveQueueNum` says, or an earlier run had."""
    has_batch_queues: Callable[[str], bool | None]

    def forgetting(self, *, topics: Iterable[str] = (), groups: Iterable[str] = ()) -> list[Iterator[None]]:
        """These were deleted with all progress: nobody has anything of them any more.

        In slices; the first of each is to be done at once.
        """
        gone_topics, gone_groups = frozenset(topics), frozenset(groups)
        self.lines.forget(gone_topics, gone_groups)
        return [self.orders.forgetting(gone_topics, gone_groups), self.buffer.forgetting(gone_topics, gone_groups)]

    def forgetting_group(self, group: str, *, clean_offset: bool) -> list[Iterator[None]]:
        """The same of one group.  Where its progress stays, so does what that does not speak for.

        Its members may have made it again already: without the check points in memory, which are stored in their time, and
        without the batches in order all would be handed out once more, also what is acknowledged.
        """
        if clean_offset:
            return self.forgetting(groups=(group,))
        self.lines.forget_all_in_flight(frozenset(), frozenset((group,)))
        return []


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
    lines = PopLines(offsets, env.wall_ms)
    records = PopRecords(engine, config, intake)
    revive_topic = topics.get(records.topic)
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
        max(config.revive_queue_num, revive_topic.read_queue_nums if revive_topic is not None else 0),
        intake.has_batch_queues,
    )
