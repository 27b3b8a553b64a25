"""Looking up single messages: by key through the index (12), by their place in the log (33); and queue entries (321).

Java: `QueryMessageProcessor`, `AdminBrokerProcessor.queryConsumeQueue`.  *Differs*: a place counts only when a queue entry points
back to it, so that nobody reads bytes of a body as if they were a message.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.shares import Shares
from broker_impl.engine.slices import ROWS_PER_SLICE, Slices, begun, joined
from broker_impl.remarks import UNTOUCHED
from broker_impl.state.clients import Clients
from broker_impl.state.consumer_filters import ConsumerFilters
from rmq_store.results import IndexType
from rmq_store.store import Store
from rmq_wire.bodies.subscriptions import ConsumeQueueData
from rmq_wire.bodies.subscriptions import QueryConsumeQueue as QueueEntries
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.query import QueryConsumeQueue, QueryMessage, QueryMessageResponse, ViewMessage
from rmq_wire.layout.consume_queue import EXT_ADDRESS_LAST

_TYPES: Final = {kind.value: kind for kind in IndexType}


ENTRIES_MAX: Final = 65_536
"""Queue entries of one answer, 120 bytes each; tools ask for ten."""


class Query(Capability):
    """Codes 12, 33 and 321."""

    def __init__(
        self,
        shares: Shares,
        config: BrokerConfig,
        clients: Clients,
        store: Store,
        reads: ColdReads,
        filters: ConsumerFilters,
    ) -> None:
        self._shares = shares
        self._config = config
        self._clients = clients
        self._store = store
        self._reads = reads
        self._filters = filters

    @answers(QueryMessage, bulky=True)
    def query_message(self, call: Call, asked: QueryMessage) -> Answer:
        """The messages of a topic under a key, stored between two times.  None: 22."""
        self._shares.one_query()
        most = asked.max_num
        kind = _TYPES.get(asked.index_type or IndexType.KEY.value, IndexType.KEY)
        if asked.unique_key_query:
            most, kind = self._config.default_query_max_num, IndexType.UNIQUE_KEY

        def look() -> Reply:
            found = self._store.query(asked.topic, asked.key, most, asked.begin_timestamp, asked.end_timestamp, kind)
            header = QueryMessageResponse(
                index_last_update_timestamp=found.index_last_update_timestamp,
                index_last_update_phyoffset=found.index_last_update_phyoffset,
            )
            if found.units:
                self._shares.queried(len(found.units))
                self._shares.afford(sum(map(len, found.units)))
                return Reply(header, body=found.units)
            remark = "can not find message, maybe time range not correct"
            return Reply(header, code=ResponseCode.QUERY_NOT_FOUND, remark=remark)

        return self._reads.answer(call, look)

    @answers(ViewMessage, bulky=True)
    def view_message(self, call: Call, asked: ViewMessage) -> Answer:
        """The message at a place of the log.  None there: 1."""

        def look() -> Reply:
            unit = self._store.lookup(asked.offset, checked=True)
            if unit is None:
                return Reply(code=ResponseCode.SYSTEM_ERROR, remark=f"can not find message by the offset, {asked.offset}")
            self._shares.afford(len(unit))
            return Reply(body=unit)

        return self._reads.answer(call, look)

    @answers(QueryConsumeQueue)
    def queue_entries(self, call: Call, asked: QueryConsumeQueue) -> Answer:
        """Entries of a consume queue from an index on, and what a group that is named subscribes to."""
        topic, queue_id, index = asked.topic or "", asked.queue_id, asked.index
        least, most = self._store.queue_bounds(topic, queue_id)
        if not most:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        if not least <= index < most:
            return Reply(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
        body = QueueEntries(max_queue_index=most, min_queue_index=least)
        group = asked.consumer_group
        if group is not None:
            body.subscription_data = self._clients.subscription(group, topic)
            is_online = body.subscription_data is not None
            body.filter_data = self._filters.text(topic, group) if is_online else f"{group}@{topic} is not online!"
        return begun(self._queue_entries(topic, queue_id, range(index, min(most, index + max(0, asked.count))), body))

    def _queue_entries(self, topic: str, queue_id: int, offsets: range, body: QueueEntries) -> Slices[Reply]:
        """The remark is what Java's response says that nobody gave one."""
        if len(offsets) > ENTRIES_MAX:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"{len(offsets)} entries, at most {ENTRIES_MAX} are answered")
        for offset in offsets:
            if len(body.queue_data) % ROWS_PER_SLICE == ROWS_PER_SLICE - 1:
                yield None
            try:
                place, size, tags_code = yield from self._reads.warmed(partial(self._store.queue_unit, topic, queue_id, offset))
            except IndexError:  # its file was deleted meanwhile
                continue
            one = ConsumeQueueData(physic_offset=place, physic_size=size, tags_code=tags_code)
            if tags_code <= EXT_ADDRESS_LAST:
                one.msg = f"Cq extend not exist!addr: {tags_code}"
            body.queue_data.append(one)
        found = yield from joined(body.pieces())
        return Reply(remark=UNTOUCHED, body=found)
