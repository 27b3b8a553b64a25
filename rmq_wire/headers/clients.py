"""Who is connected: heartbeats, leaving, lists of members, and what a broker asks of its clients or notifies them of."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, NULL, Header, Request, Role, wire
from rmq_wire.headers.base import RpcRequest, TopicRequest


class HeartbeatResponse(Header):
    """Ext fields that the broker adds; Java has no header class for them.  Source: `ClientManageProcessor.heartBeat`, `MixAll`.

    `is_support_heart_beat_v2`: next time the body may leave out subscriptions that have not changed.  `is_sub_change`: this
    heartbeat changed something.
    """

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)


class Heartbeat(RpcRequest, code=RequestCode.HEART_BEAT, to=Role.BROKER, reply=HeartbeatResponse):
    """I am here, and these are my groups and subscriptions: the body is a `HeartbeatData`.  Source: `HeartbeatRequestHeader`."""


class UnregisterClient(RpcRequest, code=RequestCode.UNREGISTER_CLIENT, to=Role.BROKER):
    """This client leaves its producer group, its consumer group or both.  Source: `UnregisterClientRequestHeader`."""

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class CheckClientConfig(Request, code=RequestCode.CHECK_CLIENT_CONFIG, to=Role.BROKER):
    """Could you evaluate this filter expression?  The body is a `CheckClientRequestBody`."""


class GetConsumerListByGroup(RpcRequest, code=RequestCode.GET_CONSUMER_LIST_BY_GROUP, to=Role.BROKER):
    """Which clients consume for this group?  The answer's body is a `GetConsumerListByGroupResponseBody`.

    Source: `GetConsumerListByGroupRequestHeader`.
    """

    consumer_group: str


class GetConsumerConnectionList(RpcRequest, code=RequestCode.GET_CONSUMER_CONNECTION_LIST, to=Role.BROKER):
    """The connections and subscriptions of a consumer group.  The answer's body is a `ConsumerConnection`.

    Source: `GetConsumerConnectionListRequestHeader`.
    """

    consumer_group: str


class GetProducerConnectionList(RpcRequest, code=RequestCode.GET_PRODUCER_CONNECTION_LIST, to=Role.BROKER):
    """The connections of a producer group.  The answer's body is a `ProducerConnection`.

    Source: `GetProducerConnectionListRequestHeader`.
    """

    producer_group: str


class GetAllProducerInfo(Request, code=RequestCode.GET_ALL_PRODUCER_INFO, to=Role.BROKER):
    """Every producer of every group.  The answer's body is a `ProducerTableInfo`.  Source: `GetAllProducerInfoRequestHeader`."""


class NotifyConsumerIdsChanged(RpcRequest, code=RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, to=Role.CLIENT):
    """Broker to consumer, one-way: the members of your group have changed, share the queues out anew.

    Source: `NotifyConsumerIdsChangedRequestHeader`.
    """

    consumer_group: str


class GetConsumerRunningInfo(
    RpcRequest,
    code=RequestCode.GET_CONSUMER_RUNNING_INFO,
    to=Role.BROKER | Role.CLIENT,
):
    """What is this consumer doing?  The broker asks the client and relays its answer, a `ConsumerRunningInfo`.

    `jstack_enable`: with a dump of its threads.  Source: `GetConsumerRunningInfoRequestHeader`.
    """

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(
    TopicRequest,
    code=RequestCode.CONSUME_MESSAGE_DIRECTLY,
    to=Role.BROKER | Role.CLIENT,
):
    """Let this one consumer consume this one message, now, and say how it went: a `ConsumeMessageDirectlyResult`.

    The broker looks the message up by its offset message id, fills in the last three fields and `broker_name`, and asks the
    client with the stored message as the body.  Source: `ConsumeMessageDirectlyResultRequestHeader`.
    """

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: I32 | None = None
    group_sys_flag: I32 | None = None


class GetConsumerStatus(
    TopicRequest, code=RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, to=Role.BROKER, unmissed={"topic": NULL}
):
    """Where do this group's clients, or the one at `client_addr`, say they are?  The answer's body is a `GetConsumerStatusBody`.

    The broker asks them with `GetConsumerStatusFromClient`.  Source: `GetConsumerStatusRequestHeader`.
    """

    topic: str
    group: str
    client_addr: str | None = None


class GetConsumerStatusFromClient(TopicRequest, code=RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, to=Role.CLIENT):
    """Broker to consumer: where are you in the queues of this topic?  The answer's body is a `GetConsumerStatusBody`.

    Source: `GetConsumerStatusRequestHeader`.
    """

    topic: str
    group: str
    client_addr: str | None = None
