"""Figures about topics and groups: offsets, lag, rates."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import NULL, BoolOrFalse, Request, Role
from rmq_wire.headers.base import TopicRequest


class GetTopicStatsInfo(TopicRequest, code=RequestCode.GET_TOPIC_STATS_INFO, to=Role.BROKER):
    """First and last offset of each queue of a topic, and when it was last written: a `TopicStatsTable`.

    Source: `GetTopicStatsInfoRequestHeader`.
    """

    topic: str


class GetConsumeStats(TopicRequest, code=RequestCode.GET_CONSUME_STATS, to=Role.BROKER):
    """How far is a group behind, on one topic, on `topic_list` (joined by `;`) or on all it subscribes to?  A `ConsumeStats`.

    Source: `GetConsumeStatsRequestHeader`.
    """

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None


class GetConsumeStatsInBroker(Request, code=RequestCode.GET_BROKER_CONSUME_STATS, to=Role.BROKER):
    """How far is every group behind, on its ordered topics or on all others?  The answer's body is a `ConsumeStatsList`.

    Source: `GetConsumeStatsInBrokerHeader`.
    """

    is_order: BoolOrFalse


class QueryConsumeTimeSpan(TopicRequest, code=RequestCode.QUERY_CONSUME_TIME_SPAN, to=Role.BROKER, unmissed={"group": NULL}):
    """Between which store times lies what a group has yet to consume?  The answer's body is a `QueryConsumeTimeSpanBody`.

    Source: `QueryConsumeTimeSpanRequestHeader`.
    """

    topic: str
    group: str


class ViewBrokerStatsData(Request, code=RequestCode.VIEW_BROKER_STATS_DATA, to=Role.BROKER):
    """One of the broker's counters over the last minute, hour and day: a `BrokerStatsData`.

    `stats_name` is a counter's name (`TOPIC_PUT_NUMS`), `stats_key` whom it counts (a topic, `topic@group`, a cluster).
    Source: `ViewBrokerStatsDataRequestHeader`.
    """

    stats_name: str
    stats_key: str
