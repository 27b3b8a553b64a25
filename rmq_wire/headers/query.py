"""Looking single messages up: by key, by commit log offset, by queue entry."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Header, Request, Role, wire
from rmq_wire.headers.base import TopicQueueRequest, TopicRequest


class QueryMessageResponse(Header):
    """How far the index reaches: the store time (milliseconds since 1970) and commit log offset of its last message.

    Source: `QueryMessageResponseHeader`.
    """

    index_last_update_timestamp: I64
    index_last_update_phyoffset: I64


class QueryMessage(TopicRequest, code=RequestCode.QUERY_MESSAGE, to=Role.BROKER, reply=QueryMessageResponse):
    """Find messages of a topic by an index key, stored between two times.  The answer's body is the stored messages.

    `index_type`: `K` (also when absent) for a key, `U` for the unique key, `T` for tags.  `last_key` goes on after an earlier
    answer's last message (RocksDB index only).  `unique_key_query` is an ext field beside the header class, by which clients
    before 5.5 ask for the unique key.  Source: `QueryMessageRequestHeader`, `MixAll.UNIQUE_MSG_QUERY_FLAG`.
    """

    topic: str
    key: str
    max_num: I32
    begin_timestamp: I64
    end_timestamp: I64
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)


class ViewMessage(Request, code=RequestCode.VIEW_MESSAGE_BY_ID, to=Role.BROKER):
    """Read the message at a commit log offset.  The answer's body is the stored message.  Source: `ViewMessageRequestHeader`."""

    offset: I64
    topic: str | None = None


class QueryConsumeQueue(TopicQueueRequest, code=RequestCode.QUERY_CONSUME_QUEUE, to=Role.BROKER):
    """Look at `count` raw entries of a consume queue from `index` on, with the eyes of a group when one is named.

    The answer's body is a `QueryConsumeQueueResponseBody`.  Source: `QueryConsumeQueueRequestHeader`.
    """

    topic: str | None = None
    queue_id: I32 = 0
    index: I64 = 0
    count: I32 = 0
    consumer_group: str | None = None
