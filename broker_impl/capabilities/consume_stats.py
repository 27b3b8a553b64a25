"""How far groups are behind: one group (208), every group of the broker (317), and since when (303).

Java: `AdminBrokerProcessor` (getConsumeStats, getTopicsForCollectingConsumeStats, fetchAllConsumeStatsInBroker,
queryConsumeTimeSpan).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Protocol

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Pause, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, body_of, joined, spelled
from broker_impl.env import Env
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_wire import names
from rmq_wire.bodies.body import FASTJSON
from rmq_wire.bodies.locks import QueueName
from rmq_wire.bodies.stats import (
    ConsumeStats,
    ConsumeTimeSpans,
    OffsetWrapper,
    QueueTimeSpan,
    progress_begins,
    progress_ends,
    progress_of,
)
from rmq_wire.codes import ResponseCode
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.stats import GetConsumeStats, GetConsumeStatsInBroker, QueryConsumeTimeSpan
from rmq_wire.times import tool_time

QUEUES_PER_SLICE = 32
SEPARATOR = ";"
"""Between the names of `topicList`."""


class ProgressStore(Protocol):
    """What is asked of the store here."""

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...
    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int: ...
    def earliest_store_time(self, topic: str, queue_id: int) -> int: ...


class ConsumeProgress(Capability):
    """Compares the table of progress with the ends of the queues."""

    def __init__(
        self,
        env: Env,
        reads: ColdReads,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        stats: Stats,
        store: ProgressStore,
    ) -> None:
        self._env = env
        self._reads = reads
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._stats = stats
        self._store = store

    @answers(GetConsumeStats)
    def of_group(self, call: Call, asked: GetConsumeStats) -> Answer:
        """One group, on the topics that it asks for, or on all in which it has progress."""
        listed = asked.topic_list or ""
        named = listed.strip(SEPARATOR)  # of what lies between two separators no topic has the name
        return self._of_group(asked.consumer_group, listed.split(SEPARATOR) if named else self._topics_to_show(asked))

    @answers(GetConsumeStatsInBroker)
    def of_all(self, call: Call, asked: GetConsumeStatsInBroker) -> Answer:
        """Every group; only its ordered topics when asked so."""
        return body_of(self._of_all(asked.is_order))

    @answers(QueryConsumeTimeSpan)
    def time_spans(self, call: Call, asked: QueryConsumeTimeSpan) -> Answer:
        """Between which times a topic's queues were written, and how old is what the group reads next."""
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        return begun(self._time_spans(asked.topic, asked.group, topic.write_queue_nums))

    def _time_spans(self, topic: str, group: str, queues: int) -> Slices[Reply]:
        body = ConsumeTimeSpans()
        for queue_id in range(queues):
            if queue_id and queue_id % QUEUES_PER_SLICE == 0:
                yield None
            body.consume_time_span_set.append((yield from self._time_span(topic, group, queue_id)))
        return (yield from spelled(body))

    def _time_span(self, topic: str, group: str, queue_id: int) -> Slices[QueueTimeSpan]:
        """As in Java a group without progress reads next what is before the first message: its age is the time since 1970."""
        end = self._store.queue_bounds(topic, queue_id)[1]
        consumed = self._offsets.query(group, topic, queue_id)
        first_ms = yield from self._reads.warmed(partial(self._store.earliest_store_time, topic, queue_id))
        last_ms = yield from self._stored(topic, queue_id, end - 1)
        read_ms = first_ms if consumed <= 0 else (yield from self._stored(topic, queue_id, consumed - 1))
        zone = self._env.zone
        span = QueueTimeSpan(
            message_queue=QueueName(broker_name=self._config.broker_name, queue_id=queue_id, topic=topic),
            min_time_stamp=first_ms,
            min_time_stamp_str=tool_time(first_ms, zone),
            max_time_stamp=last_ms,
            max_time_stamp_str=tool_time(last_ms, zone),
            consume_time_stamp=read_ms,
            consume_time_stamp_str=tool_time(read_ms, zone),
        )
        if consumed < end:
            span.delay_time = self._env.wall_ms - (yield from self._stored(topic, queue_id, consumed))
        return span

    def _stored(self, topic: str, queue_id: int, offset: int) -> Slices[int]:
        return (yield from self._reads.warmed(partial(self._store.store_time_at, topic, queue_id, offset)))

    def _topics_to_show(self, asked: GetConsumeStats) -> Iterator[str]:
        """In place of a topic that the online members do not subscribe to comes a name that no topic has: it is passed over."""
        group = asked.consumer_group
        found = self._offsets.topics_of(group) if names.is_blank(asked.topic) else [asked.topic or ""]
        return (name if self._subscribed(group, name) else "" for name in found)

    def _subscribed(self, group: str, topic: str) -> bool:
        online = self._clients.consumer_group(group)
        return online is None or not online.subscriptions or self._clients.subscription(group, topic) is not None

    def _of_group(self, group: str, topics: Iterable[str]) -> Generator[Pause | None, None, Reply]:
        body = ConsumeStats()
        rows = 0
        for name in topics:
            rows += 1
            topic = self._topics.get(name)
            if topic is not None:
                yield from self._add(body, group, name, topic.read_queue_nums, with_pulled=True)
                body.consume_tps += self._stats.group_get_tps(group, name)
                rows += topic.read_queue_nums
            if rows >= QUEUES_PER_SLICE:
                rows = 0
                yield None
        return (yield from spelled(body, FASTJSON))

    def _of_all(self, is_order: bool) -> Iterator[bytes | Pause | None]:
        """The text of a `ConsumeStatsList` in pieces: with thousands of groups its rows are not kept."""
        total_diff = inflight_diff = queues = 0
        before = progress_begins(f"{self._config.broker_ip1}:{self._config.listen_port}")
        for group in list(self._groups.table):
            rows: list[bytes] = []
            for name in self._offsets.topics_of(group):
                queues += 1
                if queues >= QUEUES_PER_SLICE:
                    queues = 0
                    yield None
                topic = self._topics.get(name)
                if topic is None or (is_order and not topic.order) or not self._subscribed(group, name):
                    continue
                row = ConsumeStats(consume_tps=self._stats.group_get_tps(group, name))
                yield from self._add(row, group, name, topic.write_queue_nums, with_pulled=False)
                total_diff += row.total_diff()
                inflight_diff += row.inflight_diff()
                rows.append((yield from joined(row.pieces(FASTJSON))))
                queues += topic.write_queue_nums
            yield before + progress_of(group, b",".join(rows))
            before = b","
        yield (b"" if before == b"," else before) + progress_ends(total_diff, inflight_diff)

    def _add(
        self, body: ConsumeStats, group: str, topic: str, queues: int, *, with_pulled: bool
    ) -> Generator[Pause | None, None, None]:
        for queue_id in range(queues):
            consumed = max(0, self._offsets.query(group, topic, queue_id))
            row = OffsetWrapper(
                broker_offset=max(0, self._store.queue_bounds(topic, queue_id)[1]),
                consumer_offset=consumed,
                pull_offset=max(consumed, self._offsets.query_pull(group, topic, queue_id)) if with_pulled else 0,
            )
            if consumed > 0:
                stored_ms = yield from self._reads.warmed(partial(self._store.store_time_at, topic, queue_id, consumed - 1))
                row.last_timestamp = max(0, stored_ms)
            body.offset_table[MessageQueue(topic, self._config.broker_name, queue_id)] = row
            if queue_id % QUEUES_PER_SLICE == QUEUES_PER_SLICE - 1:
                yield None
