"""Where queues begin and end, and which offset they had at a time (29 to 32).

Asking never makes a queue: one that is not there is empty.  Java: `AdminBrokerProcessor` (searchOffsetByTimestamp, getMaxOffset,
getMinOffset, getEarliestMsgStoretime).  Left out: static topics.
"""

from __future__ import annotations

from broker_impl.engine.answers import Answer, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.router import Capability, answers
from rmq_store.results import Boundary
from rmq_store.store import Store
from rmq_wire.headers.positions import (
    GetEarliestMsgStoretime,
    GetEarliestMsgStoretimeResponse,
    GetMaxOffset,
    GetMaxOffsetResponse,
    GetMinOffset,
    GetMinOffsetResponse,
    SearchOffset,
    SearchOffsetResponse,
)


class Positions(Capability):
    """Codes 29 to 32."""

    def __init__(self, store: Store, reads: ColdReads) -> None:
        self._store = store
        self._reads = reads

    @answers(SearchOffset)
    def search_offset(self, call: Call, asked: SearchOffset) -> Answer:
        """The offset of the first (or last) message stored at or after a time."""
        boundary = Boundary.UPPER if (asked.boundary_type or "").lower() == Boundary.UPPER.value else Boundary.LOWER
        topic, queue_id, timestamp = asked.topic, asked.queue_id, asked.timestamp
        return self._reads.answer(
            call, lambda: SearchOffsetResponse(offset=self._store.offset_by_time(topic, queue_id, timestamp, boundary))
        )

    @answers(GetMaxOffset)
    def max_offset(self, call: Call, asked: GetMaxOffset) -> GetMaxOffsetResponse:
        """The offset behind the last message that consumers may see."""
        return GetMaxOffsetResponse(offset=self._store.queue_bounds(asked.topic, asked.queue_id)[1])

    @answers(GetMinOffset)
    def min_offset(self, call: Call, asked: GetMinOffset) -> Reply:
        """The offset of the oldest message.  With an empty remark, as the reference's path through `RpcResponse` gives it."""
        return Reply(GetMinOffsetResponse(offset=self._store.queue_bounds(asked.topic, asked.queue_id)[0]), remark="")

    @answers(GetEarliestMsgStoretime)
    def earliest_store_time(self, call: Call, asked: GetEarliestMsgStoretime) -> Answer:
        """When the oldest message was stored; -1 for an empty queue."""
        topic, queue_id = asked.topic, asked.queue_id
        return self._reads.answer(
            call, lambda: GetEarliestMsgStoretimeResponse(timestamp=self._store.earliest_store_time(topic, queue_id))
        )
