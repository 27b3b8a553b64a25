"""Looking up single messages: by key through the index (12), by their place in the log (33).

Java: `QueryMessageProcessor`.  *Differs*: a place counts only when a queue entry points back to it, so that nobody reads bytes of
a body as if they were a message.
"""

from __future__ import annotations

from typing import Final

from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.cold_reads import ColdReads
from broker_impl.engine.engine import Engine
from broker_impl.engine.router import Capability, answers
from rmq_store.results import IndexType
from rmq_store.store import Store
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.query import QueryMessage, QueryMessageResponse, ViewMessage

_TYPES: Final = {kind.value: kind for kind in IndexType}


class Query(Capability):
    """Codes 12 and 33."""

    def __init__(self, engine: Engine, config: BrokerConfig, store: Store, reads: ColdReads) -> None:
        self._engine = engine
        self._config = config
        self._store = store
        self._reads = reads

    @answers(QueryMessage, bulky=True)
    def query_message(self, call: Call, asked: QueryMessage) -> Answer:
        """The messages of a topic under a key, stored between two times.  None: 22."""
        self._engine.one_query()
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
                self._engine.queried(len(found.units))
                self._engine.afford(sum(map(len, found.units)))
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
            self._engine.afford(len(unit))
            return Reply(body=unit)

        return self._reads.answer(call, look)
