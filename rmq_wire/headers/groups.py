"""Subscription groups of a broker: creating, changing, deleting, listing, and what they subscribe to."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, Header, Request, Role
from rmq_wire.headers.base import RpcRequest, TopicRequest


class UpdateAndCreateSubscriptionGroup(Request, code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, to=Role.BROKER):
    """Create a group, or change it to this.  The body is a `SubscriptionGroupConfig`."""


class UpdateAndCreateSubscriptionGroupList(
    Request,
    code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    to=Role.BROKER,
):
    """Create or change several groups at once.  The body is a `SubscriptionGroupList`."""


class GetAllSubscriptionGroupResponse(Header):
    """How many groups there are in all, whatever part of them the body holds.

    Source: `GetAllSubscriptionGroupResponseHeader`.
    """

    total_group_num: I32


class GetAllSubscriptionGroup(
    Request,
    code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    to=Role.BROKER,
    reply=GetAllSubscriptionGroupResponse,
):
    """All groups of the broker, or a page of them: a `SubscriptionGroupWrapper`.

    The fields page as those of `GetAllTopicConfig` do; askers before 5.5 send none of them.
    Source: `GetAllSubscriptionGroupRequestHeader`.
    """

    group_seq: I32 | None = None
    max_group_num: I32 | None = None
    data_version: str | None = None


class GetSubscriptionGroupConfig(RpcRequest, code=RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, to=Role.BROKER):
    """One group's configuration: a `SubscriptionGroupConfig`.  Source: `GetSubscriptionGroupConfigRequestHeader`."""

    group: str


class DeleteSubscriptionGroup(RpcRequest, code=RequestCode.DELETE_SUBSCRIPTIONGROUP, to=Role.BROKER):
    """Delete a group, with `clean_offset` its offsets too.  Source: `DeleteSubscriptionGroupRequestHeader`."""

    group_name: str
    clean_offset: bool = False


class UpdateGroupForbidden(TopicRequest, code=RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, to=Role.BROKER):
    """Forbid a group to read a topic, allow it again, or (`readable` absent) only ask.  The answer's body is a `GroupForbidden`.

    Source: `UpdateGroupForbiddenRequestHeader`.
    """

    group: str
    topic: str
    readable: bool | None = None


class QuerySubscriptionByConsumer(TopicRequest, code=RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, to=Role.BROKER):
    """With which filter does this group subscribe to this topic?  The answer's body is a `QuerySubscriptionResponseBody`.

    Source: `QuerySubscriptionByConsumerRequestHeader`.
    """

    group: str
    topic: str | None = None
