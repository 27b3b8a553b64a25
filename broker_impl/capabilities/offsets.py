"""How far a group has read: queried (14) and updated (15).

Java takes any queue id and any offset; here a commit must name a queue that the topic or the store has, and an offset that can
have been read, so that the table cannot be made to grow from outside (*differs*, code 29).  A question never makes a queue.

Java: `ConsumerManageProcessor`.  Left out: static topics.
"""

from __future__ import annotations

from typing import Protocol

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.state.consumer_offsets import FULL, ConsumerOffsets
from broker_impl.state.groups import GroupTable
from broker_impl.state.topics import TopicTable
from rmq_store.errors import Cold
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.offsets import QueryConsumerOffset, QueryConsumerOffsetResponse, UpdateConsumerOffset


class QueueStore(Protocol):
    """What is asked of the store here."""

    def queue_bounds(self, topic: str, queue_id: int) -> tuple[int, int]: ...
    def store_time_at(self, topic: str, queue_id: int, offset: int) -> int: ...


class Offsets(Capability):
    """Answers from the table of progress, with a look at what the topic and its queues are."""

    def __init__(
        self, config: BrokerConfig, topics: TopicTable, groups: GroupTable, offsets: ConsumerOffsets, store: QueueStore
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store

    @answers(QueryConsumerOffset)
    def query(self, call: Call, asked: QueryConsumerOffset) -> Answer:
        """The stored progress.  A group without any starts at 0 where the first message ever is still there and in memory."""
        found = self._offsets.query(asked.consumer_group, asked.topic, asked.queue_id)
        if found >= 0:
            return QueryConsumerOffsetResponse(offset=found)
        if asked.set_zero_if_not_found is False:
            raise Refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, do not set to zero, maybe this group boot first")
        least, most = self._store.queue_bounds(asked.topic, asked.queue_id)
        if least <= 0 < most and self._in_memory(asked.topic, asked.queue_id):
            return QueryConsumerOffsetResponse(offset=0)
        raise Refusal(ResponseCode.QUERY_NOT_FOUND, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def _in_memory(self, topic: str, queue_id: int) -> bool:
        """Is the queue's very first message there, and can be read without the disk (`checkInMemByConsumeOffset`)?"""
        try:
            return self._store.store_time_at(topic, queue_id, 0) >= 0
        except Cold:
            return False

    @answers(UpdateConsumerOffset)
    def update(self, call: Call, asked: UpdateConsumerOffset) -> Answer:
        """The group has read so far.  While a reset by the server waits to be found, it is answered and not kept."""
        group, name, queue_id, offset = asked.consumer_group, asked.topic, asked.queue_id, asked.commit_offset
        if group not in self._groups:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        topic = self._topics.get(name)
        if topic is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {name} not exist!")
        if self._config.use_server_side_reset_offset and self._offsets.has_reset(group, name, queue_id):
            return Reply(remark="Offset has been previously reset")
        most = self._store.queue_bounds(name, queue_id)[1]
        # A queue that was taken from the topic a moment ago has messages, and members who have read them.
        if not 0 <= queue_id < topic.queues and most <= 0 and not self._offsets.knows(group, name, queue_id):
            raise Refusal(ResponseCode.INVALID_PARAMETER, f"QueueId {queue_id} does not exist, topic is {name}")
        if not 0 <= offset <= most:
            raise Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"Offset {offset} is not in range(0, {most}), topic is {name}, queueId is {queue_id}",
            )
        if self._offsets.is_full(group) and not self._offsets.knows(group, name, queue_id):
            raise Refusal(ResponseCode.SYSTEM_ERROR, FULL)
        host, port = call.peer.remote
        self._offsets.commit(group, name, queue_id, offset, f"{host}:{port}")
        return Reply()
