"""A consumer gives a message back (36): a copy goes into its group's retry topic, through a delay level, or to the dead letters.

The consumer names the message by its place in the log.  The copy keeps everything of the original and counts one attempt more;
where it first came from is written down once and survives all further attempts.  The place is a number that anybody can send, so
it counts only when a queue entry points back to it, and when the message is one that this group may have been given (*differs*:
Java copies whatever decodes at that place).

Java: `AbstractSendMessageProcessor.consumerSendMsgBack`.
"""

from __future__ import annotations

from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Durable, Refusal, Reply, Settled
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.router import Capability, answers
from broker_impl.env import Env
from broker_impl.intake import Intake, Message, NotTaken, copy_of, not_taken
from broker_impl.retries import Retries
from broker_impl.state.clients import Clients
from broker_impl.state.groups import GroupTable
from broker_impl.state.stats import Stats
from broker_impl.state.topics import TopicTable
from rmq_store.errors import StoreError
from rmq_wire import names, properties, sys_flag
from rmq_wire import property_names as prop
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.send_back import ConsumerSendMsgBack
from rmq_wire.message import read_unit
from rmq_wire.message_id import offset_message_id

FIRST_LEVEL: Final = 3
"""The delay level of the first retry (10 s) when the consumer leaves it to us; one more for each attempt."""


class SendBack(Capability):
    """Code 36."""

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        retries: Retries,
        clients: Clients,
        stats: Stats,
        intake: Intake,
        reads: ColdReads,
    ) -> None:
        self._env = env
        self._config = config
        self._topics = topics
        self._groups = groups
        self._retries = retries
        self._clients = clients
        self._stats = stats
        self._intake = intake
        self._store = intake.store
        self._reads = reads

    @answers(ConsumerSendMsgBack, stages=True)
    def send_back(self, call: Call, asked: ConsumerSendMsgBack) -> Answer:
        """Store the copy.  Refused: 1, 16, 26 with the reference's texts; 16 for a message that is none of the group's."""
        group = self._retries.group(asked.group)
        config = self._config
        if not config.broker_permission & sys_flag.PERM_WRITE:
            raise Refusal(ResponseCode.NO_PERMISSION, f"the broker[{config.broker_ip1}] sending message is forbidden")
        if group.retry_queue_nums <= 0:
            return Reply()
        flags = sys_flag.topic_sys_flag(unit=False, subscribed=True) if asked.unit_mode else 0
        name = names.retry_topic(asked.group)
        retry = self._retries.make_topic(name, group.retry_queue_nums, flags)
        self._topics.require_saved(name)
        if not retry.perm & sys_flag.PERM_WRITE:
            raise Refusal(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
        version = call.command.version
        return self._reads.answer(call, lambda: self._copy(asked, group, version))

    def _copy(self, asked: ConsumerSendMsgBack, group: SubscriptionGroupConfig, version: int) -> Durable:
        """Look the message up and put its copy.  Raises `Refusal`, `Cold`, `Unsaved`."""
        found = self._store.lookup(asked.offset, checked=True)
        if found is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {asked.offset}")
        original = read_unit(found)
        values = properties.decode(original.properties.decode("utf-8", "replace"))
        topic = original.topic.decode("utf-8", "replace")
        self._check_belongs(asked, topic, values)
        times = original.reconsume_times + 1
        given_up = asked.delay_level < 0
        dead = self._retries.is_dead_letter(group, times, version, asked.max_reconsume_times, given_up=given_up)
        if dead and asked.origin_topic is None:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "a message that becomes a dead letter needs its originTopic")
        values.setdefault(prop.RETRY_TOPIC, topic)
        values[prop.WAIT] = "false"
        values[prop.DELAY] = "0" if dead else str(asked.delay_level or FIRST_LEVEL + original.reconsume_times)
        if names.is_blank(values.get(prop.ORIGIN_MESSAGE_ID)):
            values[prop.ORIGIN_MESSAGE_ID] = offset_message_id(original.store_host, original.physical_offset)
        if dead:
            destination, queue_id = self._retries.dead_letters(asked.group)
        else:
            destination = names.retry_topic(asked.group)
            retry = self._topics.get(destination)
            queues = group.retry_queue_nums if retry is None else min(group.retry_queue_nums, retry.read_queue_nums)
            queue_id = self._env.rng.randrange(max(queues, 1))
        message = copy_of(original, destination, queue_id, values)
        message.reconsume_times = times
        return self._put(asked, message, dead=dead)

    def _put(self, asked: ConsumerSendMsgBack, message: Message, *, dead: bool) -> Durable:
        values = message.values
        first_topic = values[prop.RETRY_TOPIC]
        try:
            placed = self._intake.put(message, self._env.wall_ms)
        except NotTaken as no:
            raise Refusal(ResponseCode.SYSTEM_ERROR, no.status.name) from None
        if message.topic == names.SCHEDULE_TOPIC:
            self._stats.add_put(message.topic, message.queue_id, 1, placed.size)
        self._stats.add_send_back(asked.group, first_topic)
        if dead:
            self._env.log.info(
                "message %s of topic %s given up by group %s, now in %s",
                values.get(prop.UNIQ_KEY),
                first_topic,
                asked.group,
                message.topic,
            )
        return Durable(Reply(), placed.end_offset, False, None, _undone)

    def _check_belongs(self, asked: ConsumerSendMsgBack, topic: str, values: dict[str, str]) -> None:
        """Could this group have been given this message?  Raises `Refusal`."""
        config = self._topics.get(topic)
        group = asked.group
        lawful = config is not None and config.perm & sys_flag.PERM_READ and not self._groups.is_forbidden(group, topic)
        origin = asked.origin_topic
        if topic in _retry_topics(group, origin):
            lawful = lawful and origin in (None, "", topic, values.get(prop.RETRY_TOPIC, origin))
        elif origin:
            lawful = lawful and topic == origin
        else:
            lawful = lawful and self._clients.subscription(group, topic) is not None
        if not lawful:
            remark = f"the message at {asked.offset} is none that group {group} may send back"
            raise Refusal(ResponseCode.NO_PERMISSION, remark)


def _retry_topics(group: str, origin: str | None) -> tuple[str, ...]:
    """Where a message waits that this group is to be given once more, by pulling or by POP."""
    if not origin:
        return (names.retry_topic(group),)
    return (
        names.retry_topic(group),
        names.pop_retry_topic(origin, group),
        names.pop_retry_topic(origin, group, v2=True),
    )


def _undone(error: BaseException) -> Settled:
    status = not_taken(error).status.name if isinstance(error, StoreError) else "SERVICE_NOT_AVAILABLE"
    return Reply(code=ResponseCode.SYSTEM_ERROR, remark=status)
