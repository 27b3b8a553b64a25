"""Lite topics: a great many small queues under one parent topic, to which clients subscribe one by one."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, Header, I32OrZero, I64OrZero, Request, Role
from rmq_wire.headers.base import RpcRequest


class PopLiteMessageResponse(Header):
    """As `PopMessageResponse`, without a rest.  Source: `PopLiteMessageResponseHeader`."""

    pop_time: I64OrZero
    invisible_time: I64OrZero
    revive_qid: I32OrZero
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PopLiteMessage(RpcRequest, code=RequestCode.POP_LITE_MESSAGE, to=Role.BROKER, reply=PopLiteMessageResponse):
    """Hand out messages of whatever lite topics this client subscribes to.  Fields as in `PopMessage`; the answer's body too.

    Source: `PopLiteMessageRequestHeader`.
    """

    client_id: str
    consumer_group: str
    topic: str
    max_msg_num: I32OrZero
    invisible_time: I64OrZero
    poll_time: I64OrZero
    born_time: I64OrZero
    attempt_id: str | None = None


class LiteSubscriptionCtl(RpcRequest, code=RequestCode.LITE_SUBSCRIPTION_CTL, to=Role.BROKER):
    """Subscribe clients to lite topics, or end it.  The body is a `LiteSubscriptionCtlRequestBody`.

    Source: `LiteSubscriptionCtlRequestHeader`.
    """


class NotifyUnsubscribeLite(RpcRequest, code=RequestCode.NOTIFY_UNSUBSCRIBE_LITE, to=Role.CLIENT):
    """Broker to consumer: you are no longer subscribed to this lite topic.  Source: `NotifyUnsubscribeLiteRequestHeader`."""

    lite_topic: str
    consumer_group: str
    client_id: str


class GetBrokerLiteInfo(Request, code=RequestCode.GET_BROKER_LITE_INFO, to=Role.BROKER):
    """How many lite queues and subscriptions are there?  The answer's body is a `GetBrokerLiteInfoResponseBody`."""


class GetParentTopicInfo(Request, code=RequestCode.GET_PARENT_TOPIC_INFO, to=Role.BROKER):
    """Which groups are bound to this parent topic?  The answer's body is a `GetParentTopicInfoResponseBody`.

    Source: `GetParentTopicInfoRequestHeader`.
    """

    topic: str


class GetLiteTopicInfo(Request, code=RequestCode.GET_LITE_TOPIC_INFO, to=Role.BROKER):
    """Who subscribes to this lite topic, and what is in it?  The answer's body is a `GetLiteTopicInfoResponseBody`.

    Source: `GetLiteTopicInfoRequestHeader`.
    """

    parent_topic: str | None = None
    lite_topic: str | None = None


class GetLiteClientInfo(Request, code=RequestCode.GET_LITE_CLIENT_INFO, to=Role.BROKER):
    """To which lite topics, at most `max_count`, does this client subscribe?  A `GetLiteClientInfoResponseBody`.

    Source: `GetLiteClientInfoRequestHeader`.
    """

    parent_topic: str | None = None
    group: str | None = None
    client_id: str | None = None
    max_count: I32 = 1000


class GetLiteGroupInfo(Request, code=RequestCode.GET_LITE_GROUP_INFO, to=Role.BROKER):
    """How far is this group behind, with its `top_k` slowest lite topics?  A `GetLiteGroupInfoResponseBody`.

    Source: `GetLiteGroupInfoRequestHeader`.
    """

    group: str
    lite_topic: str | None = None
    top_k: I32 = 0


class TriggerLiteDispatch(Request, code=RequestCode.TRIGGER_LITE_DISPATCH, to=Role.BROKER):
    """Look again what there is for this group, or for one of its clients.  Source: `TriggerLiteDispatchRequestHeader`."""

    group: str
    client_id: str | None = None
