"""Storing what producers send (10, 310, 320): one message or a batch, into its topic or the long way round.

Checks come in the reference's order with its codes and texts, since a client decides by them whether to try another broker.  A
send to a topic that was seen before, with nothing special in header or properties, takes the short way: one look at the topic,
the properties rewritten by a remembered plan, one draft, one formatted answer.  Everything else goes through `_checked` step by
step; both store the same bytes (a test compares them).

Java: `SendMessageProcessor`, `AbstractSendMessageProcessor` (msgCheck, buildMsgContext).  Differences: half messages and timers
are refused as by a broker that has them switched off; `rmq_sys_wheel_timer` and `rmq_sys_REVIVE_LOG_…` take no sends; a broken
batch is illegal (13) as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from broker_impl.batches import batch_drafts
from broker_impl.capabilities.send_answers import SendAnswers, human_time, topic_text
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import LATER, Answer, Durable, Refusal, Reply, Settled
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.env import Env
from broker_impl.intake import (
    HOST_FLAGS,
    TIMERS,
    Intake,
    Message,
    NotTaken,
    PutStatus,
    check_inner_batch,
    check_names,
    delay_level,
    has_other_type,
    inner_batch,
    is_timer,
    not_taken,
)
from broker_impl.remarks import FAQ
from broker_impl.state.attributes import BATCH_QUEUES, QUEUE_TYPE
from broker_impl.state.groups import GroupTable
from broker_impl.state.locks import QueueLocks
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_store.errors import Illegal, StoreError, Unwritable
from rmq_store.log.draft import Draft, Placed
from rmq_wire import names, properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import VERSION_SENDS_MAX_RECONSUME_TIMES, ResponseCode
from rmq_wire.command import ONE_WAY
from rmq_wire.errors import BadBody
from rmq_wire.headers.send import SendBatchMessage, SendMessage, SendMessageV2
from rmq_wire.implied.index_keys import index_keys
from rmq_wire.implied.tags import tags_code
from rmq_wire.message_id import UniqueKeyMaker
from rmq_wire.property_shapes import Shapes

Sent = SendMessage | SendMessageV2

DLQ_QUEUES: Final = 1
"""`DLQ_NUMS_PER_GROUP`."""
RANDOM_QUEUE_MAX: Final = 99_999_999
"""`randomQueueId` takes a number below this modulo the queues."""
RETRY_PERM: Final = sys_flag.PERM_READ | sys_flag.PERM_WRITE
MULTI_TAG: Final = "MULTI_TAG"
CLEANUP_POLICY: Final = "cleanup.policy"
COMPACTION: Final = "COMPACTION"
LANES_MAX: Final = 4_096
"""Topics on the short way at once; beyond it all are looked up anew, a microsecond each."""
TAGS_MAX: Final = 4_096
TAG_CHARACTERS_MAX: Final = 128
"""Tags whose hashes are remembered: applications have dozens of short ones."""
SPECIAL: Final = frozenset({prop.DELAY, *TIMERS, prop.TRAN_MSG, prop.INNER_NUM, prop.LITE_TOPIC, prop.PRIORITY})
"""Properties that make a send more than an append."""


class Lane:
    """What a send to one topic needs to know, settled at the first one.  Valid while `config` is the topic's."""

    __slots__ = ("config", "flags", "queues")

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.queues = max(config.write_queue_nums, config.read_queue_nums)
        self.flags = sys_flag.MULTI_TAGS if config.topic_filter_type == MULTI_TAG else 0


class Send(Capability):
    """Codes 10, 310, 320.  `rewriter` and `unique_keys` are the broker's own; `disk_use()` gives the text of the used ratios."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        locks: QueueLocks,
        stats: Stats,
        intake: Intake,
        unique_keys: UniqueKeyMaker,
        disk_use: Callable[[], str],
    ) -> None:
        self._env = env
        self._config = config
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._stats = stats
        self._intake = intake
        self._store = intake.store
        self._store_host = intake.store_host
        self._make_key = lambda: unique_keys.make(env.wall_ms)
        self._rewriter = properties.Rewriter(
            cluster=config.broker_cluster_name, region=config.region_id, trace_on=config.trace_on
        )
        self._answers = SendAnswers(
            intake.store_host,
            region=config.region_id,
            trace_on=config.trace_on,
            max_message_size=lambda: config.max_message_size,
            disk_use=disk_use,
        )
        self._shapes = Shapes(self._rewriter, SPECIAL)
        self._sync_flush = config.flush_disk_type == "SYNC_FLUSH"
        self._lanes: dict[str, Lane] = {}
        self._tags: dict[str, tuple[int, str]] = {}

    @answers(SendMessage, SendMessageV2, SendBatchMessage, stages=True)
    def send(self, call: Call, asked: Sent) -> Answer:
        """Store the body.  Refused: 1, 13, 14, 16, 17, 26, 29 with the reference's texts."""
        topic = asked.topic
        lane = self._lanes.get(topic)
        if lane is None or asked.batch or lane.config is not self._topics.get(topic) or not 0 <= asked.queue_id < lane.queues:
            return self._checked(call, asked)
        config = self._config
        body = call.command.body
        wall_ms = self._env.wall_ms
        if (
            not body
            or wall_ms < config.start_accept_send_request_time_stamp
            or not config.broker_permission & sys_flag.PERM_WRITE
        ):
            return self._checked(call, asked)
        if asked.sys_flag & sys_flag.INNER_BATCH:
            return self._checked(call, asked)
        plain = self._shapes.rewrite(asked.properties)
        if plain is not None:
            encoded, unique_key, keys, tags, wait = plain
        else:
            encoded, values = self._rewriter.rewrite(asked.properties, self._make_key)
            if not SPECIAL.isdisjoint(values):
                return self._checked(call, asked)
            unique_key, wait = values["UNIQ_KEY"], values.get("WAIT", "")
            keys, tags = values.get("KEYS", ""), values.get("TAGS", "")
        code = 0
        if not tags:
            indexed = index_keys(unique_key, keys, None)
        else:
            code, tag_key = self._tags.get(tags) or self._learn(tags)
            indexed = (unique_key, keys, tag_key) if keys and " " not in keys else index_keys(unique_key, keys, tags)
        try:
            placed = self._store.stage(
                Draft(
                    topic,
                    asked.queue_id,
                    body,
                    encoded,
                    asked.born_timestamp,
                    call.peer.remote_packed,
                    self._store_host,
                    asked.flag,
                    asked.sys_flag & ~HOST_FLAGS | lane.flags,
                    asked.reconsume_times or 0,
                    0,
                    code,
                    indexed,
                ),
                wall_ms,
            )
        except (Illegal, Unwritable) as error:
            return self._answers.refusal(not_taken(error).status)
        self._stats.add_put(topic, asked.queue_id, 1, placed.size)
        return self._one_stored(call, asked.queue_id, placed, unique_key, wait)

    def _learn(self, tags: str) -> tuple[int, str]:
        """Tag code and index key of tags.  Remembered while few: applications have dozens."""
        learned = (tags_code(tags), f"T#{tags}")
        if len(self._tags) >= TAGS_MAX:
            self._tags.clear()
        if len(tags) <= TAG_CHARACTERS_MAX:
            self._tags[tags] = learned
        return learned

    # The long way: every check, in order

    def _checked(self, call: Call, asked: Sent) -> Answer:
        body = call.body
        if not body:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: the request has no body")
        _, values = self._rewriter.rewrite(asked.properties, self._make_key)
        try:
            topic = self._admit(call, asked)
            if len(asked.properties or "") > properties.HOPELESS_CHARACTERS:
                raise NotTaken(PutStatus.PROPERTIES_SIZE_EXCEEDED, "nobody read them")
            if asked.batch:
                return self._batch(call, asked, topic, body, values)
            if not names.is_retry_topic(asked.topic):
                self._open_lane(topic)
            return self._single(call, asked, topic, body, values)
        except Refusal as no:
            return Reply(code=no.code, remark=no.remark, ext=self._answers.ext)
        except NotTaken as no:
            return self._answers.refusal(no.status)

    def _open_lane(self, topic: TopicConfig) -> None:
        if len(self._lanes) >= LANES_MAX:
            self._lanes.clear()
        if topic.attributes.get(CLEANUP_POLICY) != COMPACTION:
            self._lanes[topic.topic_name] = Lane(topic)

    def _admit(self, call: Call, asked: Sent) -> TopicConfig:
        """`preSend` and `msgCheck`: the topic, made if it may be.  Raises `Refusal`."""
        config = self._config
        starts_ms = config.start_accept_send_request_time_stamp
        if self._env.wall_ms < starts_ms:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {human_time(starts_ms, self._env.zone)}")
        name = asked.topic
        if not config.broker_permission & sys_flag.PERM_WRITE and self._topics.is_order(name):
            raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{config.broker_ip1}] sending message is forbidden")
        problem = names.topic_problem(name)
        if problem is not None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, problem)
        if names.is_not_sendable(name) or name == names.WHEEL_TIMER_TOPIC or name.startswith(names.REVIVE_LOG_PREFIX):
            raise Refusal(ResponseCode.NO_PERMISSION, names.not_sendable_remark(name))
        remote = f"{call.peer.remote[0]}:{call.peer.remote[1]}"
        topic = self._topics.get(name) or self._made(asked, remote)
        self._topics.require_saved(name)
        if asked.queue_id >= max(topic.write_queue_nums, topic.read_queue_nums):
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{asked.queue_id}] is illegal, {topic_text(topic)} Producer: {remote}",
            )
        return topic

    def _made(self, asked: Sent, remote: str) -> TopicConfig:
        """A topic that is not there: made after the template, or because it is a group's retry topic.  Raises `Refusal`."""
        retry = names.is_retry_topic(asked.topic)
        flags = sys_flag.topic_sys_flag(unit=not retry, subscribed=retry) if asked.unit_mode else 0
        made = self._topics.create_in_send(asked.topic, asked.default_topic, asked.default_topic_queue_nums, remote, flags)
        if made is None and retry:
            made = self._topics.create_in_send_back(asked.topic, 1, RETRY_PERM, flags)
        if made is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist, apply first please!{FAQ}")
        return made

    def _single(self, call: Call, asked: Sent, topic: TopicConfig, body: bytes | memoryview, values: dict[str, str]) -> Answer:
        queue_id = asked.queue_id if asked.queue_id >= 0 else self._random_queue(topic.write_queue_nums)
        message = Message(
            asked.topic,
            queue_id,
            body,
            values,
            flag=asked.flag,
            sys_flag=asked.sys_flag,
            born_timestamp=asked.born_timestamp,
            born_host=call.peer.remote_packed,
            reconsume_times=asked.reconsume_times or 0,
        )
        if names.is_retry_topic(asked.topic):
            topic = self._give_up_or_retry(call, asked, topic, message)
        if topic.topic_filter_type == MULTI_TAG:
            message.sys_flag |= sys_flag.MULTI_TAGS
        queue_id = self._by_properties(topic, message, queue_id)
        if topic.attributes.get(CLEANUP_POLICY) == COMPACTION and not values.get(prop.KEYS, "").strip():
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
        if values.get(prop.TRAN_MSG, "").lower() == "true" and not (message.reconsume_times > 0 and delay_level(values) > 0):
            remark = f"the broker[{self._config.broker_ip1}] sending transaction message is forbidden"
            raise Refusal(ResponseCode.NO_PERMISSION, remark)
        placed = self._intake.put(message, self._env.wall_ms)
        self._stats.add_put(message.topic, message.queue_id, 1, placed.size)
        return self._one_stored(call, queue_id, placed, values[prop.UNIQ_KEY], values.get(prop.WAIT, ""))

    def _give_up_or_retry(self, call: Call, asked: Sent, topic: TopicConfig, message: Message) -> TopicConfig:
        """A consumer that could not give a message back sends it itself (`handleRetryAndDLQ`): one time too often means dead."""
        group = names.group_of_retry_topic(asked.topic)
        settings = self._groups.find(group)
        if settings is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group} {FAQ}")
        most = settings.retry_max_times
        if call.command.version >= VERSION_SENDS_MAX_RECONSUME_TIMES and asked.max_reconsume_times is not None:
            most = asked.max_reconsume_times
        if message.reconsume_times <= most and self._locks.all_expired(group):
            return topic
        message.values[prop.DELAY] = "-1"
        message.topic = names.dlq_topic(group)
        message.queue_id = self._random_queue(DLQ_QUEUES)
        self._topics.create_in_send_back(message.topic, DLQ_QUEUES, RETRY_PERM)
        self._topics.require_saved(message.topic)
        return topic

    def _by_properties(self, topic: TopicConfig, message: Message, queue_id: int) -> int:
        """What `__LITE_TOPIC` adds, and the queue that a priority decides.  Returns the queue id to answer with."""
        values = message.values
        lite = values.get(prop.LITE_TOPIC)
        if lite:
            cluster = values.pop(prop.CLUSTER)
            values[prop.INNER_MULTI_DISPATCH] = f"{names.LMQ_PREFIX}${message.topic}${lite}"
            values[prop.CLUSTER] = cluster
        priority = values.get(prop.PRIORITY)
        if priority is None or not re.fullmatch(r"[0-9]{1,64}", priority) or int(priority) >= 1 << 31:
            return queue_id
        if has_other_type(values):
            del values[prop.PRIORITY]
            return queue_id
        message.queue_id = min(int(priority), topic.write_queue_nums - 1)
        return message.queue_id

    def _random_queue(self, queues: int) -> int:
        if queues <= 0:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.ArithmeticException: / by zero")
        return self._env.rng.randrange(RANDOM_QUEUE_MAX) % queues

    # Batches

    def _batch(self, call: Call, asked: Sent, topic: TopicConfig, body: bytes | memoryview, values: dict[str, str]) -> Answer:
        queue_id = asked.queue_id if asked.queue_id >= 0 else self._random_queue(topic.write_queue_nums)
        if len(asked.topic) > names.TOPIC_CHARACTERS_MAX:
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"message topic length too long {len(asked.topic)}")
        if names.is_retry_topic(asked.topic):
            raise Refusal(ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {asked.topic}")
        common = properties.decode(asked.properties or "")
        check_names(asked.topic)
        is_inner = prop.UNIQ_KEY in common and topic.attributes.get(QUEUE_TYPE) == BATCH_QUEUES
        check_inner_batch(common, asked.sys_flag, has_batch_queues=is_inner)
        if delay_level(common) > 0 or sys_flag.transaction_type(asked.sys_flag) != sys_flag.TRANSACTION_NOT:
            raise NotTaken(PutStatus.MESSAGE_ILLEGAL, "a batch with a delay or a transaction")
        if is_timer(asked.topic, common):
            raise NotTaken(PutStatus.WHEEL_TIMER_NOT_ENABLE)
        if len(body) > self._config.max_message_size:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.RuntimeException: message body size exceeded")
        flags = asked.sys_flag & ~HOST_FLAGS | (sys_flag.MULTI_TAGS if topic.topic_filter_type == MULTI_TAG else 0)
        if is_inner:
            return self._inner_batch(call, asked, queue_id, flags, body, values)
        try:
            drafts = batch_drafts(asked, body, queue_id, flags, call.peer.remote_packed, self._store_host)
            placed = self._store.stage_batch(drafts, self._env.wall_ms)
        except BadBody as broken:
            raise NotTaken(PutStatus.MESSAGE_ILLEGAL, broken) from None
        except (Illegal, Unwritable) as error:
            raise not_taken(error) from None
        self._stats.add_put(asked.topic, queue_id, len(placed), sum([one.size for one in placed]))
        ids = ",".join([self._answers.message_id(one.physical_offset) for one in placed])
        first = placed[0]
        last = placed[-1]
        whole = Placed(first.physical_offset, first.queue_offset, last.end_offset - first.physical_offset, last.end_offset)
        return self._batch_stored(call, queue_id, whole, ids, common)

    def _inner_batch(
        self, call: Call, asked: Sent, queue_id: int, flags: int, body: bytes | memoryview, values: dict[str, str]
    ) -> Answer:
        """A batch for a batch queue is stored as it came, in one unit that takes as many offsets as it has messages."""
        message = inner_batch(asked, queue_id, flags, body, values, call.peer.remote_packed)
        placed = self._intake.put(message, self._env.wall_ms)
        self._stats.add_put(asked.topic, queue_id, int(values[prop.INNER_NUM]), placed.size)
        if call.command.flag & ONE_WAY:
            return LATER
        message_id = self._answers.message_id(placed.physical_offset)
        said = (call.command.form, call.command.opaque, message_id, queue_id, placed.queue_offset, values[prop.UNIQ_KEY])
        late = partial(self._answers.late_inner, *said)
        return Durable(self._answers.inner(*said), placed.end_offset, _waits(values.get(prop.WAIT, "")), late, self._undone)

    # Answers

    def _one_stored(self, call: Call, queue_id: int, placed: Placed, unique_key: str, wait: str) -> Answer:
        command = call.command
        if command.flag & ONE_WAY:
            return LATER
        said = (command.form, command.opaque, placed.physical_offset, queue_id, placed.queue_offset, unique_key)
        frame = self._answers.one(*said)
        if not self._sync_flush:
            return Durable(frame, placed.end_offset, True, None, self._undone)
        return Durable(frame, placed.end_offset, _waits(wait), partial(self._answers.late_one, *said), self._undone)

    def _batch_stored(self, call: Call, queue_id: int, placed: Placed, ids: str, common: dict[str, str]) -> Answer:
        command = call.command
        if command.flag & ONE_WAY:
            return LATER
        said = (command.form, command.opaque, ids, queue_id, placed.queue_offset, common.get(prop.UNIQ_KEY))
        late = partial(self._answers.late, *said)
        waits = _waits(common.get(prop.WAIT, ""))
        return Durable(self._answers.stored(*said), placed.end_offset, waits, late, self._undone)

    def _undone(self, error: BaseException) -> Settled:
        """The turn was not written, or the disk refused to say that it has it."""
        status = not_taken(error).status if isinstance(error, StoreError) else PutStatus.SERVICE_NOT_AVAILABLE
        return self._answers.refusal(status)


def _waits(wait: str) -> bool:
    """`Message.isWaitStoreMsgOK`."""
    return not wait or wait.lower() == "true"
