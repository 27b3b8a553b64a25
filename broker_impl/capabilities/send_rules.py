"""What is asked of every send, check by check, in the reference's order and with its codes and texts: clients decide by them
whether to try another broker.

Java: `SendMessageProcessor`, `AbstractSendMessageProcessor` (msgCheck, buildMsgContext).  Differences: a batch takes no time;
`rmq_sys_wheel_timer` and `rmq_sys_REVIVE_LOG_…` take no sends; a broken batch is illegal (13) as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from broker_impl.capabilities.batches import Batches
from broker_impl.capabilities.send_answers import SendAnswers, human_time, topic_text
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.env import Env
from broker_impl.half_messages import HalfMessages
from broker_impl.intake import (
    Intake,
    Message,
    NotTaken,
    PutStatus,
    check_inner_batch,
    check_key,
    check_names,
    delay_level,
    has_other_type,
)
from broker_impl.remarks import FAQ
from broker_impl.retries import Retries
from broker_impl.state.attributes import BATCH_QUEUES, QUEUE_TYPE
from broker_impl.state.locks import QueueLocks
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_wire import names, properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.send import SendMessage, SendMessageV2
from rmq_wire.implied.timers import is_timer
from rmq_wire.implied.transactions import is_half
from rmq_wire.message_id import UniqueKeyMaker
from rmq_wire.recall_handle import handle_of

Sent = SendMessage | SendMessageV2

RANDOM_QUEUE_MAX: Final = 99_999_999
"""`randomQueueId` takes a number below this modulo the queues."""


class SendRules:
    """Answers a send; `admit` is for replies too.  `disk_use()` gives the text of the used ratios."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        topics: TopicTable,
        retries: Retries,
        locks: QueueLocks,
        stats: Stats,
        intake: Intake,
        halves: HalfMessages,
        unique_keys: UniqueKeyMaker,
        disk_use: Callable[[], str],
    ) -> None:
        self.env = env
        self.config = config
        self.topics = topics
        self.stats = stats
        self.intake = intake
        self.halves = halves
        self._retries = retries
        self._locks = locks
        self.make_key = lambda: unique_keys.make(env.wall_ms)
        self.rewriter = properties.Rewriter(cluster=config.broker_cluster_name, region=config.region_id, trace_on=config.trace_on)
        self.answers = SendAnswers(
            intake.store_host,
            region=config.region_id,
            trace_on=config.trace_on,
            sync_flush=config.flush_disk_type == "SYNC_FLUSH",
            max_message_size=lambda: config.max_message_size,
            disk_use=disk_use,
            timer_limits=lambda: (config.timer_max_delay_sec, config.timer_congest_num_each_slot),
        )
        self._batches = Batches(env, intake, stats, self.answers)

    def answer(self, call: Call, asked: Sent, on_plain: Callable[[TopicConfig], None]) -> Answer:
        """Check and store.  `on_plain(topic)` hears of a topic that takes ordinary messages, before one is stored in it."""
        body = call.body
        if not body:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.NullPointerException: the request has no body")
        _, values = self.rewriter.rewrite(asked.properties, self.make_key)
        try:
            topic = self.admit(call, asked)
            if len(asked.properties or "") > properties.HOPELESS_CHARACTERS:
                raise NotTaken(PutStatus.PROPERTIES_SIZE_EXCEEDED, "nobody read them")
            if asked.batch:
                return self._batch(call, asked, topic, body, values)
            if not names.is_retry_topic(asked.topic):
                on_plain(topic)
            return self._single(call, asked, topic, body, values)
        except Refusal as no:
            return Reply(code=no.code, remark=no.remark, ext=self.answers.ext)
        except NotTaken as no:
            return self.answers.refusal(no.status)

    def admit(self, call: Call, asked: Sent) -> TopicConfig:
        """`preSend` and `msgCheck`: the topic, made if it may be.  Raises `Refusal`."""
        config = self.config
        starts_ms = config.start_accept_send_request_time_stamp
        if self.env.wall_ms < starts_ms:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"broker unable to service, until {human_time(starts_ms, self.env.zone)}")
        name = asked.topic
        if not config.broker_permission & sys_flag.PERM_WRITE and self.topics.is_order(name):
            raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{config.broker_ip1}] sending message is forbidden")
        problem = names.topic_problem(name)
        if problem is not None:
            raise Refusal(ResponseCode.INVALID_PARAMETER, problem)
        if names.takes_no_sends(name):
            raise Refusal(ResponseCode.NO_PERMISSION, names.not_sendable_remark(name))
        remote = f"{call.peer.remote[0]}:{call.peer.remote[1]}"
        topic = self.topics.get(name) or self._made(asked, remote)
        self.topics.require_saved(name)
        if asked.queue_id >= topic.queues:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{asked.queue_id}] is illegal, {topic_text(topic)} Producer: {remote}",
            )
        return topic

    def _made(self, asked: Sent, remote: str) -> TopicConfig:
        """A topic that is not there: made after the template, or because it is a group's retry topic.  Raises `Refusal`."""
        retry = names.is_retry_topic(asked.topic)
        flags = sys_flag.topic_sys_flag(unit=not retry, subscribed=retry) if asked.unit_mode else 0
        made = self.topics.create_in_send(asked.topic, asked.default_topic, asked.default_topic_queue_nums, remote, flags)
        if made is None and retry:
            made = self._retries.make_topic(asked.topic, 1, flags)
        if made is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist, apply first please!{FAQ}")
        return made

    def _single(self, call: Call, asked: Sent, topic: TopicConfig, body: bytes | memoryview, values: dict[str, str]) -> Answer:
        queue_id = asked.queue_id if asked.queue_id >= 0 else random_queue(self.env, topic.write_queue_nums)
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
            self._give_up_or_retry(call, asked, message)
        message.sys_flag |= filter_flags(topic)
        queue_id = self._by_properties(topic, message, queue_id)
        check_key(topic.attributes, values)
        if values.get(prop.TRAN_MSG) and is_half(values, message.reconsume_times, delay_level(values)):
            if self.config.reject_transaction_message:
                remark = f"the broker[{self.config.broker_ip1}] sending transaction message is forbidden"
                raise Refusal(ResponseCode.NO_PERMISSION, remark)
            placed = self.halves.prepare(message)
        else:
            placed = self.intake.put(message, self.env.wall_ms)
        self.stats.add_put(message.topic, message.queue_id, 1, placed.size)
        handle = handle_of(values, self.config.broker_name) if prop.TIMER_OUT_MS in values else None
        return self.answers.one_stored(call, queue_id, placed, values[prop.UNIQ_KEY], values.get(prop.WAIT, ""), handle)

    def _give_up_or_retry(self, call: Call, asked: Sent, message: Message) -> None:
        """A consumer that could not give a message back sends it itself (`handleRetryAndDLQ`)."""
        name = names.group_of_retry_topic(asked.topic)
        group = self._retries.group(name)
        times, version = message.reconsume_times, call.command.version
        given_up = not self._locks.all_expired(name)
        if self._retries.is_dead_letter(group, times, version, asked.max_reconsume_times, given_up=given_up):
            message.values[prop.DELAY] = "-1"
            message.topic, message.queue_id = self._retries.dead_letters(name)

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

    # Batches

    def _batch(self, call: Call, asked: Sent, topic: TopicConfig, body: bytes | memoryview, values: dict[str, str]) -> Answer:
        queue_id = asked.queue_id if asked.queue_id >= 0 else random_queue(self.env, topic.write_queue_nums)
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
            raise NotTaken(PutStatus.WHEEL_TIMER_MSG_ILLEGAL, "a batch with a time")
        if len(body) > self.config.max_message_size:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.RuntimeException: message body size exceeded")
        flags = asked.sys_flag | filter_flags(topic)
        if is_inner:
            return self._batches.inner_answer(call, asked, body, queue_id, flags, values)
        return self._batches.answer(call, asked, body, queue_id, flags)


def filter_flags(topic: TopicConfig) -> int:
    """What a topic's kind of filter adds to the sysFlag of its messages."""
    return sys_flag.MULTI_TAGS if topic.topic_filter_type == "MULTI_TAG" else 0


def random_queue(env: Env, queues: int) -> int:
    """`randomQueueId`: a queue for who names none.  Raises `Refusal` where there are none, as Java fails there."""
    if queues <= 0:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "java.lang.ArithmeticException: / by zero")
    return env.rng.randrange(RANDOM_QUEUE_MAX) % queues
