"""Topics of a broker: creating, changing, deleting, listing, and who consumes them."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, BoolOrFalse, Header, Request, Role
from rmq_wire.headers.base import RpcRequest, TopicRequest


class CreateTopic(TopicRequest, code=RequestCode.UPDATE_AND_CREATE_TOPIC, to=Role.BROKER):
    """Create a topic, or change it to this.  Source: `CreateTopicRequestHeader`.

    `perm`: 4 read, 2 write, 1 inherit, added up.  `topic_filter_type`: `SINGLE_TAG` or `MULTI_TAG`.  `attributes`: changes,
    joined by commas, `+name=value` to set and `-name` to remove.  `force` is for static topics.
    """

    topic: str
    default_topic: str
    read_queue_nums: I32
    write_queue_nums: I32
    perm: I32
    topic_filter_type: str
    order: BoolOrFalse
    topic_sys_flag: I32 | None = None
    attributes: str | None = None
    force: bool = False


class CreateTopicList(RpcRequest, code=RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, to=Role.BROKER):
    """Create or change several topics at once.  The body is a `CreateTopicListRequestBody`.

    Source: `CreateTopicListRequestHeader`.
    """


class DeleteTopic(TopicRequest, code=RequestCode.DELETE_TOPIC_IN_BROKER, to=Role.BROKER):
    """Delete a topic and its messages on this broker.  Source: `DeleteTopicRequestHeader`."""

    topic: str


class GetAllTopicConfigResponse(Header):
    """How many topics there are in all, whatever part of them the body holds.  Source: `GetAllTopicConfigResponseHeader`."""

    total_topic_num: I32 | None = None


class GetAllTopicConfig(Request, code=RequestCode.GET_ALL_TOPIC_CONFIG, to=Role.BROKER, reply=GetAllTopicConfigResponse):
    """All topics of the broker, or a page of them: a `TopicConfigAndMappingSerializeWrapper`.

    `topic_seq` is where the page starts in the order of names, `max_topic_num` its length, `data_version` (as JSON) the version
    that the pages so far had: with another one the broker starts over.  Askers before 5.5 send none of them, and get all.
    Source: `GetAllTopicConfigRequestHeader`.
    """

    topic_seq: I32 | None = None
    max_topic_num: I32 | None = None
    data_version: str | None = None


class GetTopicConfig(TopicRequest, code=RequestCode.GET_TOPIC_CONFIG, to=Role.BROKER):
    """One topic's configuration: a `TopicConfigAndQueueMapping`.  Source: `GetTopicConfigRequestHeader`."""

    topic: str


class GetSystemTopicListFromBroker(Request, code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, to=Role.BROKER):
    """The broker's system topics: a `TopicList`."""


class QueryTopicConsumeByWho(TopicRequest, code=RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, to=Role.BROKER):
    """Which groups consume this topic, online or by their offsets?  The answer's body is a `GroupList`.

    Source: `QueryTopicConsumeByWhoRequestHeader`.
    """

    topic: str


class QueryTopicsByConsumer(RpcRequest, code=RequestCode.QUERY_TOPICS_BY_CONSUMER, to=Role.BROKER):
    """Which topics has this group offsets of?  The answer's body is a `TopicList`.

    Source: `QueryTopicsByConsumerRequestHeader`.
    """

    group: str


class CleanUnusedTopic(Request, code=RequestCode.CLEAN_UNUSED_TOPIC, to=Role.BROKER):
    """Remove the consume queues of topics that the topic table no longer has."""
