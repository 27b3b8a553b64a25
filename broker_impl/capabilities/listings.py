"""Whole tables for tools and slaves: topics and groups in pages, progress, who consumes what (21, 201, 43, 45, 305, 300, 343).

Answers are spelled a slice at a time, for a table of thousands of rows takes tens of milliseconds.  Java: `AdminBrokerProcessor`
(getAllTopicConfig, getAllSubscriptionGroup, getAllConsumerOffset, getAllDelayOffset, getSystemTopicListFromBroker,
queryTopicConsumeByWho, queryTopicsByConsumer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, joined, spelled
from broker_impl.env import Env
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_wire import fastjson, names
from rmq_wire.bodies.body import Body, table_pieces
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.topics import GroupList, TopicList
from rmq_wire.declare import Header
from rmq_wire.headers.groups import GetAllSubscriptionGroup, GetAllSubscriptionGroupResponse
from rmq_wire.headers.replication import GetAllConsumerOffset, GetAllDelayOffset
from rmq_wire.headers.topics import (
    GetAllTopicConfig,
    GetAllTopicConfigResponse,
    GetSystemTopicListFromBroker,
    QueryTopicConsumeByWho,
    QueryTopicsByConsumer,
)

_json = msgspec.json.encode


class Listings(Capability):
    """`delay_offsets()` gives answer 45, the text of `delayOffset.json`."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Env,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        delay_offsets: Callable[[], bytes],
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._delay_offsets = delay_offsets
        self._mapping_version = DataVersion(timestamp=env.wall_ms)
        """Of the static topics' table, which is empty here."""

    @answers(GetAllTopicConfig)
    def topics(self, call: Call, asked: GetAllTopicConfig) -> Answer:
        """All topics, or a page of them for an asker that pages."""
        table: Mapping[str, Body] = self._topics.table
        if self._pages(asked.data_version, asked.topic_seq, asked.max_topic_num):
            table = self._topics.page(asked.data_version, asked.topic_seq or 0, self._page_rows(asked.max_topic_num))
        members: dict[str, bytes | Rows] = {
            "dataVersion": self._topics.data_version.encode(),
            "mappingDataVersion": self._mapping_version.encode(),
            "topicConfigTable": _rows(table, Body.encode),
            "topicQueueMappingDetailMap": b"{}",
            "topicQueueMappingInfoMap": b"{}",
        }
        return _spelled(GetAllTopicConfigResponse(total_topic_num=len(self._topics)), members)

    @answers(GetAllSubscriptionGroup)
    def groups(self, call: Call, asked: GetAllSubscriptionGroup) -> Answer:
        """All groups and what is forbidden to them, or a page."""
        table: Mapping[str, Body] = self._groups.table
        forbidden = self._groups.forbidden_table
        if self._pages(asked.data_version, asked.group_seq, asked.max_group_num):
            table = self._groups.page(asked.data_version, asked.group_seq or 0, self._page_rows(asked.max_group_num))
            forbidden = {group: row for group, row in forbidden.items() if group in table}
        members: dict[str, bytes | Rows] = {
            "dataVersion": self._groups.data_version.encode(),
            "forbiddenTable": _rows(forbidden, _json),
            "subscriptionGroupTable": _rows(table, Body.encode),
        }
        return _spelled(GetAllSubscriptionGroupResponse(total_group_num=len(self._groups)), members)

    @answers(GetAllConsumerOffset)
    def consumer_offsets(self, call: Call, asked: GetAllConsumerOffset) -> Answer:
        """All progress, for a slave."""
        topics_of, committed, handed_out = self._offsets.tables()
        members: dict[str, bytes | Rows] = {
            "dataVersion": self._offsets.data_version.encode(),
            "groupTopicMap": _rows(topics_of, lambda topics: _json(list(topics))),
            "offsetTable": _rows(committed, fastjson.dumps_fastjson),
            "pullOffsetTable": _rows(handed_out, fastjson.dumps_fastjson),
        }
        return _spelled(None, members)

    @answers(GetAllDelayOffset)
    def delay_offsets(self, call: Call, asked: GetAllDelayOffset) -> Answer:
        """The progress of the delay levels."""
        return Reply(body=self._delay_offsets())

    @answers(GetSystemTopicListFromBroker)
    def system_topics(self, call: Call, asked: GetSystemTopicListFromBroker) -> Answer:
        """Reserved names, and topics that this broker made for itself."""
        return Reply(body=TopicList(topic_list=sorted(names.SYSTEM_TOPICS | self._topics.system)).encode())

    @answers(QueryTopicConsumeByWho)
    def groups_of_topic(self, call: Call, asked: QueryTopicConsumeByWho) -> Answer:
        """Groups that are online with the topic, or have progress in it."""
        found = dict.fromkeys((*self._clients.groups_subscribed(asked.topic), *self._offsets.groups_of(asked.topic)))
        return begun(spelled(GroupList(group_list=list(found))))

    @answers(QueryTopicsByConsumer)
    def topics_of_group(self, call: Call, asked: QueryTopicsByConsumer) -> Answer:
        """Topics in which the group has progress."""
        address = f"{self._config.broker_ip1}:{self._config.listen_port}"
        return begun(spelled(TopicList(broker_addr=address, topic_list=self._offsets.topics_of(asked.group))))

    def _pages(self, *fields: object) -> bool:
        return self._config.enable_split_metadata and any(field is not None for field in fields)

    def _page_rows(self, asked: int | None) -> int:
        most = self._config.split_metadata_size
        return most if asked is None else min(most, asked)


Rows = Iterator[tuple[str, bytes]]
"""Keys, and the texts of their rows."""


def _rows(table: Mapping[str, Any], text: Callable[[Any], bytes]) -> Rows:
    """Of the rows that are there now each as it is when its turn comes, if it is still there."""
    keys = list(table)
    return ((key, text(row)) for key in keys if (row := table.get(key)) is not None)


def _spelled(header: Header | None, members: Mapping[str, bytes | Rows]) -> Slices[Reply]:
    """An object of ready members and of tables whose rows are spelled in slices."""
    return Reply(header=header, body=(yield from joined(_pieces(members))))


def _pieces(members: Mapping[str, bytes | Rows]) -> Iterator[bytes]:
    before = b"{"
    for name, member in members.items():
        yield before + _json(name) + b":"
        before = b","
        if isinstance(member, bytes):
            yield member
        else:
            yield from table_pieces(member)
    yield b"}"
