"""Topics by the hand of a tool: create, change, delete, look at (17, 18, 215, 351, 202).

Names are checked before anything else, for they become directories.  A change is on disk before its answer leaves and before the
registration hears of it; when it cannot be written it is taken back and the answer is 1.  A deleted topic whose progress cannot
be written stays deleted, and the answer is 1.  Java: `AdminBrokerProcessor` (updateAndCreateTopic, …List, deleteTopic,
getTopicConfig, getTopicStatsInfo).  Differences: queue numbers have a limit; a name to delete exists, or is lawful.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import LATER, Answer, Pause, Refusal, Reply
from broker_impl.engine.call import Call, PendingAnswer
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, begun, in_turn, spelled
from broker_impl.remarks import UNTOUCHED
from broker_impl.state.attributes import MESSAGE_TYPE, MIXED, BadAttribute, parse_modification
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.persisted import saving
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_wire import names
from rmq_wire.bodies.body import FASTJSON
from rmq_wire.bodies.stats import TopicOffset, TopicStatsTable
from rmq_wire.bodies.topics import TopicConfig, TopicConfigAndQueueMapping, TopicConfigList
from rmq_wire.codes import ResponseCode
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.stats import GetTopicStatsInfo
from rmq_wire.headers.topics import CreateTopic, CreateTopicList, DeleteTopic, GetTopicConfig

QUEUES_MAX = 16_384
"""Queues of one topic.  Java has no limit, and loops over as many as it was given; the largest built-in topic has 1,024."""
DELETED_AT_ONCE_MAX = 1_024
"""Retry topics that go with a topic: what a failed write takes back at once is bounded."""
TOPICS_PER_REQUEST_MAX = 2_000
"""Topics of one list, which are made all or none, at once."""
QUEUES_PER_SLICE = 32
GONE = object()
FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")


class TopicStore(Protocol):
    """What is asked of the store here."""

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...
    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int: ...
    def deleting_topics(self, topics: Collection[str]) -> Generator[None, None, int]: ...


class Topics(Capability):
    """`broker_name` of the answers is the configuration's.

    `forget(topics)`: what else goes with those that were deleted, in slices of which the first is done at once.
    """

    def __init__(
        self,
        engine: Engine,
        reads: ColdReads,
        config: BrokerConfig,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        stats: Stats,
        store: TopicStore,
        forget: Callable[[Sequence[str]], Iterable[Iterator[None]]],
    ) -> None:
        self._engine, self._reads = engine, reads
        self._config = config
        self._topics = topics
        self._offsets = offsets
        self._stats = stats
        self._store = store
        self._forget = forget

    @answers(CreateTopic)
    def create(self, call: Call, asked: CreateTopic) -> Answer:
        """Create the topic, or make it as asked for; attributes are changes to what it has."""
        self._check_name(asked.topic)
        if asked.topic_filter_type not in FILTER_TYPES:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"topicFilterType = [{asked.topic_filter_type}] value invalid")
        try:
            attributes = parse_modification(asked.attributes)
        except BadAttribute as wrong:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(wrong)) from None
        topic = TopicConfig(
            topic_name=asked.topic,
            read_queue_nums=asked.read_queue_nums,
            write_queue_nums=asked.write_queue_nums,
            topic_filter_type=asked.topic_filter_type,
            perm=asked.perm,
            topic_sys_flag=asked.topic_sys_flag or 0,
            order=asked.order,
            attributes=attributes,
        )
        self._check_content(topic)
        self._engine.shares.one_creation()
        call.env.log.info("topic %s is made or changed by %s", asked.topic, call.peer)
        if topic.plain() != _plain(self._topics.get(asked.topic)):
            self._put((topic,))
        else:
            self._topics.leaned_on()
        return Reply(remark=UNTOUCHED)

    @answers(CreateTopicList)
    def create_list(self, call: Call, asked: CreateTopicList) -> Answer:
        """Create or change several; one that is as asked for already ends the request without any change, as in Java."""
        topics = call.read(TopicConfigList).topic_config_list
        if len(topics) > TOPICS_PER_REQUEST_MAX:
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"More than {TOPICS_PER_REQUEST_MAX} topics in one request.")
        for topic in topics:
            self._check_name(topic.topic_name)
            self._check_content(topic)
            if topic.plain() == _plain(self._topics.get(topic.topic_name)):
                self._topics.leaned_on()
                return Reply(remark=UNTOUCHED)
        call.env.log.info("%d topics are made or changed by %s", len(topics), call.peer)
        if topics:
            self._put(topics)
        return Reply(remark=UNTOUCHED)

    @answers(DeleteTopic)
    def delete(self, call: Call, asked: DeleteTopic) -> Answer:
        """Delete the topic, its messages' queues and all progress in it, its POP retry topics too."""
        if asked.topic not in self._topics:
            self._check_name(asked.topic)
        self._check_not_system(asked.topic)
        call.env.log.info("topic %s is deleted by %s", asked.topic, call.peer)
        asker, doomed = call.detach(), begun(self._with_retry_topics(asked.topic))
        if isinstance(doomed, list):
            self._delete(asker, doomed, None)
        else:
            self._engine.in_background(doomed, partial(self._delete, asker))
        return LATER

    def _with_retry_topics(self, topic: str) -> Slices[list[str]]:
        doomed, groups = [topic], self._offsets.groups_of(topic) if self._config.clear_retry_topic_when_delete_topic else []
        for count, group in enumerate(groups, 1):
            retries = (names.pop_retry_topic(topic, group, v2=True), names.pop_retry_topic(topic, group, v2=False))
            doomed += [name for name in retries if name in self._topics]
            if count % ROWS_PER_SLICE == 0:
                yield None
        return doomed

    def _delete(self, asker: PendingAnswer, doomed: list[str] | None, error: BaseException | None) -> None:
        if doomed is None:
            asker.acknowledge(None, error)
            return
        now, later = doomed[-DELETED_AT_ONCE_MAX:], doomed[:-DELETED_AT_ONCE_MAX]  # the topic itself goes last
        try:
            self._topics.delete(*now)
        except Refusal as no:
            asker.answer(no)
        else:
            self._topics.when_saved(partial(self._clear, asker, now, later))

    def _clear(self, asker: PendingAnswer, doomed: list[str], later: list[str], no: Refusal | None) -> None:
        """The topics are gone for good: what belongs to them goes too.  Or they are not, and nothing goes."""
        if no is not None:
            asker.answer(no)
            return
        works: list[Iterator[None]] = [self._store.deleting_topics(doomed), *self._offsets.dropping_topics(doomed)]
        works += [*map(self._stats.dropping_topic, doomed), *self._forget(doomed)]
        # After the first step nobody sees them any more: before a topic of this name can come back.
        left = [work for work in works if next(work, GONE) is not GONE]
        if left:
            self._engine.in_background(in_turn(left), partial(self._cleared, asker, later))
        else:
            self._cleared(asker, later, None, None)

    def _cleared(self, asker: PendingAnswer, later: list[str], _result: object, error: BaseException | None) -> None:
        if later and error is None:
            self._delete(asker, later, None)
        elif error is not None:
            asker.acknowledge(None, error)
        else:  # a topic of this name that comes must not find the progress in this one after a crash
            self._engine.in_background(saving(self._offsets), partial(self._saved, asker))

    @staticmethod
    def _saved(asker: PendingAnswer, result: object, error: BaseException | None) -> None:
        """Nothing brings the topic back: who hears that something has failed hears what has not."""
        if isinstance(error, Refusal):
            but = "the topic is deleted, but a start before the file is written finds the progress in it"
            asker.answer(Refusal(error.code, f"{but}: {error.remark}"))
        else:
            asker.acknowledge(result, error)

    @answers(GetTopicConfig)
    def config(self, call: Call, asked: GetTopicConfig) -> Answer:
        """One topic."""
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {asked.topic}")
        return Reply(body=TopicConfigAndQueueMapping.from_plain(topic.plain()).encode())

    @answers(GetTopicStatsInfo)
    def stats(self, call: Call, asked: GetTopicStatsInfo) -> Answer:
        """The ends of every queue, and when it was last written."""
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist")
        return self._stats_of(topic)

    def _stats_of(self, topic: TopicConfig) -> Generator[Pause | None, None, Reply]:
        name = topic.topic_name
        table = TopicStatsTable(topic_put_tps=self._stats.topic_put_tps(name))
        for queue_id in range(topic.queues):
            least, most = (max(0, bound) for bound in self._store.queue_bounds(name, queue_id))
            written_ms = 0
            if most > 0:
                written_ms = yield from self._reads.warmed(partial(self._store.store_time_at, name, queue_id, most - 1))
            queue = MessageQueue(topic=name, broker_name=self._config.broker_name, queue_id=queue_id)
            table.offset_table[queue] = TopicOffset(min_offset=least, max_offset=most, last_update_timestamp=written_ms)
            if queue_id % QUEUES_PER_SLICE == QUEUES_PER_SLICE - 1:
                yield None
        return (yield from spelled(table, FASTJSON))

    def _check_name(self, name: str) -> None:
        _refuse(name_problem(name, self._config, self._topics))

    def _check_not_system(self, name: str) -> None:
        _refuse(system_problem(name, self._config, self._topics))

    def _check_content(self, topic: TopicConfig) -> None:
        _refuse(content_problem(topic, self._config))

    def _put(self, topics: Sequence[TopicConfig]) -> None:
        new = [topic for topic in topics if topic.topic_name not in self._topics]
        try:
            self._topics.put_all(topics)
        except BadAttribute as wrong:
            raise Refusal(ResponseCode.SYSTEM_ERROR, str(wrong)) from None
        self._topics.report_uncompacted(new)
        self._topics.announce_saved(topics)


def name_problem(name: str, config: BrokerConfig, topics: TopicTable) -> str | None:
    """Why no tool may make a topic of this name, or change it."""
    return names.topic_problem(name) or system_problem(name, config, topics)


def system_problem(name: str, config: BrokerConfig, topics: TopicTable) -> str | None:
    """That the topic is the broker's own, where that is looked at."""
    if config.validate_system_topic_when_update_topic and topics.is_system(name):
        return f"The topic[{name}] is conflict with system topic."
    return None


def content_problem(topic: TopicConfig, config: BrokerConfig) -> str | None:
    """Why a topic may not be made or changed like this; its attributes are a change (`+key`)."""
    if not config.enable_mixed_message_type and topic.attributes.get("+" + MESSAGE_TYPE) == MIXED:
        return "MIXED message type is not supported."
    for what, count in (("readQueueNums", topic.read_queue_nums), ("writeQueueNums", topic.write_queue_nums)):
        if not 0 <= count <= QUEUES_MAX:
            return f"{what} {count} is not in range(0, {QUEUES_MAX})"
    return None


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise Refusal(ResponseCode.INVALID_PARAMETER, problem)


def _plain(topic: TopicConfig | None) -> dict[str, object] | None:
    return topic.plain() if topic is not None else None
