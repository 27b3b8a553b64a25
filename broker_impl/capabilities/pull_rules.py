"""Who may read what: every check of a pull before the store is asked, in the reference's order, and which messages it wants.

Java: `PullMessageProcessor.processRequest`.
"""

from __future__ import annotations

from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Reply
from broker_impl.engine.peer import Peer
from broker_impl.env import Env
from broker_impl.filtering import PropertyFilter, Unreadable, Wanted, characters_to_read, parse, retry_filter, tags
from broker_impl.remarks import FAQ
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_filters import ConsumerFilters
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_wire import names, sys_flag
from rmq_wire.bodies.groups import SubscriptionGroupConfig
from rmq_wire.bodies.heartbeat import CLUSTERING, CONSUME_ACTIVELY, CONSUME_PASSIVELY, SubscriptionData
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.headers.pull import PullMessage

BROKER_FORBIDDEN, GROUP_FORBIDDEN, TOPIC_FORBIDDEN, BROADCASTING_FORBIDDEN, SUBSCRIPTION_FORBIDDEN = 1, 2, 3, 4, 5
"""`ForbiddenType`: why reading is not allowed."""
COMPENSATED_MS: Final = 1_000
"""What a pull says of its group's subscription is noted again after this time; Java notes it at each pull."""
NO_PERMISSION: Final = ResponseCode.NO_PERMISSION


class Forbidden(Exception):
    """A pull that is not admitted; `reply` says why."""

    def __init__(self, code: int, remark: str, forbidden_type: int | None = None) -> None:
        super().__init__(remark)
        ext = {} if forbidden_type is None else {"forbiddenType": str(forbidden_type)}
        self.reply = Reply(code=code, remark=remark, ext=ext)


class PullRules:
    """The checks of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Env,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        filters: ConsumerFilters,
    ) -> None:
        self._config = config
        self._env = env
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._filters = filters

    def admit(self, asked: PullMessage, peer: Peer) -> tuple[SubscriptionGroupConfig, TopicConfig, Wanted]:
        """Every check before the read.  Raises `Forbidden`."""
        config = self._config
        if not config.broker_permission & sys_flag.PERM_READ:
            raise Forbidden(NO_PERMISSION, f"the broker[{config.broker_ip1}] pulling message is forbidden", BROKER_FORBIDDEN)
        if asked.code == RequestCode.LITE_PULL_MESSAGE and not config.lite_pull_message_enable:
            remark = f"the broker[{config.broker_ip1}] for lite pull consumer is forbidden"
            raise Forbidden(NO_PERMISSION, remark, BROKER_FORBIDDEN)
        name = asked.consumer_group
        group = self._groups.find(name)
        if group is None:
            remark = f"subscription group [{name}] does not exist, {FAQ}"
            raise Forbidden(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise Forbidden(NO_PERMISSION, f"subscription group no permission, {name}", GROUP_FORBIDDEN)
        topic = self._topics.get(asked.topic)
        if topic is None:
            raise Forbidden(ResponseCode.TOPIC_NOT_EXIST, f"topic[{asked.topic}] not exist, apply first please! {FAQ}")
        if not topic.perm & sys_flag.PERM_READ:
            raise Forbidden(NO_PERMISSION, f"the topic[{asked.topic}] pulling message is forbidden", TOPIC_FORBIDDEN)
        if not 0 <= asked.queue_id < topic.read_queue_nums:
            host, port = peer.remote
            remark = (
                f"queueId[{asked.queue_id}] is illegal, topic:[{asked.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{host}:{port}]"
            )
            raise Forbidden(ResponseCode.INVALID_PARAMETER, remark)
        wanted = self._own_words(asked) if asked.sys_flag & sys_flag.PULL_SUBSCRIPTION else self._by_heartbeat(asked, group)
        if wanted.expression_type is not None and not config.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {wanted.expression_type}"
            raise Forbidden(ResponseCode.SYSTEM_ERROR, remark)
        if wanted.expression_type is not None and config.filter_support_retry:
            wanted = wanted._replace(matches=retry_filter(asked.topic, self._filter_of) or wanted.matches)
        if config.reject_pull_consumer_enable and not self._is_known(name, peer):
            remark = f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}"
            raise Forbidden(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
        return group, topic, wanted

    def characters_to_read(self, asked: PullMessage) -> int:
        """How long the selector is that `admit` would have to read; nobody reads one that comes with no type."""
        if asked.sys_flag & sys_flag.PULL_SUBSCRIPTION:
            return characters_to_read(asked.subscription, asked.expression_type) if asked.expression_type else 0
        return self._filters.characters_to_read(asked.topic, asked.consumer_group) if self._filters.waiting else 0

    def _own_words(self, asked: PullMessage) -> Wanted:
        """The pull says itself what it wants; remembered for groups that send no heartbeat."""
        try:
            wanted = parse(asked.subscription, asked.expression_type)
        except Unreadable:
            raise Forbidden(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed") from None
        text, kind, now = asked.subscription or "*", asked.expression_type or "TAG", self._env.wall_ms
        known = self._clients.compensated(asked.consumer_group, asked.topic)
        if (
            known is not None
            and known.sub_string == text
            and known.expression_type == kind
            and 0 <= now - known.sub_version < COMPENSATED_MS
        ):
            return wanted
        said = SubscriptionData(
            topic=asked.topic,
            sub_string=text,
            tags_set=tags(text) if wanted.codes else [],
            code_set=sorted(wanted.codes or ()),
            sub_version=now,
            expression_type=kind,
        )
        self._clients.compensate(asked.consumer_group, CONSUME_PASSIVELY, CLUSTERING, said)
        return wanted

    def _by_heartbeat(self, asked: PullMessage, settings: SubscriptionGroupConfig) -> Wanted:
        """What the group's members said in their heartbeats."""
        name, topic = asked.consumer_group, asked.topic
        group = self._clients.consumer_group(name)
        if group is None:
            raise Forbidden(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        if not settings.consume_broadcast_enable and group.broadcasting:
            remark = f"the consumer group[{name}] can not consume by broadcast way"
            raise Forbidden(NO_PERMISSION, remark, BROADCASTING_FORBIDDEN)
        if self._groups.is_forbidden(name, topic):
            remark = f"the consumer group[{name}] is forbidden for topic[{topic}]"
            raise Forbidden(NO_PERMISSION, remark, SUBSCRIPTION_FORBIDDEN)
        subscription = group.subscriptions.get(topic)
        if subscription is None:
            raise Forbidden(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if subscription.sub_version < asked.sub_version:
            raise Forbidden(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        wanted = group.wanted(topic)
        if wanted.expression_type is None:
            return wanted
        found = self._filters.get(topic, name)
        if found is None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise Forbidden(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
        if found.said.client_version < asked.sub_version:
            raise Forbidden(ResponseCode.FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
        return wanted._replace(matches=found.matches)

    def _filter_of(self, topic: str, group: str) -> PropertyFilter | None:
        found = self._filters.get(topic, group)
        return None if found is None else found.matches

    def _is_known(self, name: str, peer: Peer) -> bool:
        """rejectPullConsumerEnable: push consumers, members of a group, and the system's own groups may pull."""
        group = self._clients.consumer_group(name)
        if group is not None and (group.consume_type != CONSUME_ACTIVELY or peer in group.members):
            return True
        return names.is_predefined_group(name) or names.is_system_group(name)
