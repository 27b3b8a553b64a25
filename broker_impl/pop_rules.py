"""Who may pop, peek, or ask whether there is something to pop: the checks that these requests share, in the reference's order.

Java: `PopMessageProcessor`, `PeekMessageProcessor`, `NotificationProcessor`, `PollingInfoProcessor` (processRequest).
"""

from __future__ import annotations

from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Refusal
from broker_impl.engine.peer import Peer
from broker_impl.env import Env
from broker_impl.filtering import ALL, EVERYTHING, Unreadable, Wanted, is_tag_type, parse, tags
from broker_impl.remarks import FAQ
from broker_impl.state.clients import Clients
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_wire import names, sys_flag
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.heartbeat import CLUSTERING, CONSUME_POP, TAG, SubscriptionData
from rmq_wire.bodies.pop import MESSAGES_MAX
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.pop import PopMessage

LATE_MS: Final = 500
"""A pop that comes so long after its waiting time is over is not begun (`isTimeoutTooMuch`)."""
COMPENSATED_MS: Final = 60_000
"""What a group wants is written down anew this often, not at each pop."""
NO_PERMISSION: Final = ResponseCode.NO_PERMISSION
UNPARSED: Final = "parse the consumer's subscription failed"


class PopRules:
    """The checks of one broker."""

    def __init__(self, config: BrokerConfig, env: Env, topics: TopicTable, groups: GroupTable, clients: Clients) -> None:
        self._config = config
        self._env = env
        self._topics = topics
        self._groups = groups
        self._clients = clients

    def admit(
        self, peer: Peer, topic_name: str, queue_id: int, group_name: str, doing: str = "peeking"
    ) -> tuple[TopicConfig, SubscriptionGroupConfig]:
        """Of any of these requests: broker, topic, queue, group.  Raises `Refusal`."""
        if not self._config.broker_permission & sys_flag.PERM_READ:
            self.check_broker(doing)
        topic = self._topics.get(topic_name)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic_name}] not exist, apply first please! {FAQ}")
        if not topic.perm & sys_flag.PERM_READ:
            raise Refusal(NO_PERMISSION, f"the topic[{topic_name}] peeking message is forbidden")
        if queue_id >= topic.read_queue_nums:
            host, port = peer.remote
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{queue_id}] is illegal, topic:[{topic_name}] topicConfig.readQueueNums:[{topic.read_queue_nums}] "
                f"consumer:[/{host}:{port}]",
            )
        group = self._groups.find(group_name)
        if group is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group_name}] does not exist, {FAQ}")
        if not group.consume_enable:
            raise Refusal(NO_PERMISSION, f"subscription group no permission, {group_name}")
        return topic, group

    def check_broker(self, doing: str) -> None:
        """It may be read.  Raises `Refusal`."""
        if not self._config.broker_permission & sys_flag.PERM_READ:
            raise Refusal(NO_PERMISSION, f"the broker[{self._config.broker_ip1}] {doing} message is forbidden")

    def admit_pop(self, peer: Peer, asked: PopMessage) -> tuple[TopicConfig, SubscriptionGroupConfig]:
        """Of a pop, but for its expression.  Raises `Refusal`.  *Differs*: an invisible time that no timer takes is refused."""
        config, address = self._config, self._config.broker_ip1
        if asked.born_time and self._env.wall_ms - asked.born_time - asked.poll_time > LATE_MS:
            raise Refusal(ResponseCode.POLLING_TIMEOUT, f"the broker[{address}] pop message is timeout too much")
        if not config.broker_permission & sys_flag.PERM_READ:
            self.check_broker("pop")
        if asked.max_msg_nums > MESSAGES_MAX:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER, f"the broker[{address}] pop message's num is greater than {MESSAGES_MAX}"
            )
        if not config.timer_wheel_enable:
            remark = f"the broker[{address}] pop message is forbidden because timerWheelEnable is false"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        found = self.admit(peer, asked.topic, asked.queue_id, asked.consumer_group, "pop")
        self.check_invisible(asked.invisible_time)
        return found

    @staticmethod
    def check_count(messages: int) -> None:
        """Nobody asks for less than none; seen behind all else, where Java makes the list for them.  Raises `Refusal`."""
        if messages < 0:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"Illegal Capacity: {messages}")

    def check_invisible(self, invisible_ms: int) -> None:
        """A message is invisible for no less than nothing, and no longer than a timer message waits.  Raises `Refusal`."""
        most = self._config.timer_max_delay_sec * 1_000
        if not 0 <= invisible_ms <= most:
            remark = f"invisibleTime[{invisible_ms}] is illegal, it must be from 0 to {most} ms"
            raise Refusal(ResponseCode.INVALID_PARAMETER, remark)

    def wanted(self, asked: PopMessage) -> Wanted:
        """What a pop says that it wants; written down for the group.  Raises `Refusal`."""
        text, kind = asked.exp or "*", (asked.exp_type if asked.exp else None) or TAG
        wanted = self.parse(asked.exp, asked.exp_type)
        group, now = asked.consumer_group, self._env.wall_ms
        known = self._clients.compensated(group, asked.topic)
        if (
            known is None
            or known.sub_string != text
            or known.expression_type != kind
            or not 0 <= now - known.sub_version < COMPENSATED_MS
        ):
            retry = names.pop_retry_topic(asked.topic, group, v2=self._config.enable_retry_topic_v2)
            for topic, expression, codes in ((asked.topic, text, wanted.codes), (retry, "*", None)):
                said = SubscriptionData(
                    topic=topic,
                    sub_string=expression,
                    tags_set=tags(expression) if codes else [],
                    code_set=sorted(codes or ()),
                    sub_version=now,
                    expression_type=kind,
                )
                self._clients.compensate(group, CONSUME_POP, CLUSTERING, said)
        return wanted

    @staticmethod
    def parse(expression: str | None, expression_type: str | None) -> Wanted:
        """An expression that comes with a pop, or a wait for one.  Raises `Refusal`, also for a selector that is none."""
        if not expression or (expression == ALL and (not expression_type or expression_type == TAG)):
            return EVERYTHING
        try:
            wanted = parse(expression, expression_type)
        except Unreadable:
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, UNPARSED) from None
        if not is_tag_type(expression_type) and wanted.matches is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, UNPARSED)
        return wanted
