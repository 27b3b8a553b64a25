"""Where a queue begins and ends, and which offset it had at some time."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Header, Role
from rmq_wire.headers.base import TopicQueueRequest


class SearchOffsetResponse(Header):
    """The queue offset that was looked for.  Source: `SearchOffsetResponseHeader`."""

    offset: I64


class SearchOffset(TopicQueueRequest, code=RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, to=Role.BROKER, reply=SearchOffsetResponse):
    """Which message of this queue was stored at `timestamp` (milliseconds since 1970), or next to it?

    `boundary_type`: `LOWER` (also when absent) for the first such message, `UPPER` for the last; Java takes either in any case.
    Source: `SearchOffsetRequestHeader`.
    """

    topic: str
    queue_id: I32
    timestamp: I64
    boundary_type: str | None = None
    lite_topic: str | None = None


class GetMaxOffsetResponse(Header):
    """The offset after the queue's last message.  Source: `GetMaxOffsetResponseHeader`."""

    offset: I64


class GetMaxOffset(TopicQueueRequest, code=RequestCode.GET_MAX_OFFSET, to=Role.BROKER, reply=GetMaxOffsetResponse):
    """Where will this queue's next message go?  Source: `GetMaxOffsetRequestHeader`.

    `committed`: count only what consumers may see; only static topics differ.
    """

    topic: str
    queue_id: I32
    committed: bool = True


class GetMinOffsetResponse(Header):
    """The offset of the queue's oldest message.  Source: `GetMinOffsetResponseHeader`."""

    offset: I64


class GetMinOffset(TopicQueueRequest, code=RequestCode.GET_MIN_OFFSET, to=Role.BROKER, reply=GetMinOffsetResponse):
    """Which is the oldest message that this queue still has?  Source: `GetMinOffsetRequestHeader`."""

    topic: str
    queue_id: I32


class GetEarliestMsgStoretimeResponse(Header):
    """Milliseconds since 1970, or -1 when the queue is empty.  Source: `GetEarliestMsgStoretimeResponseHeader`."""

    timestamp: I64


class GetEarliestMsgStoretime(
    TopicQueueRequest,
    code=RequestCode.GET_EARLIEST_MSG_STORETIME,
    to=Role.BROKER,
    reply=GetEarliestMsgStoretimeResponse,
):
    """When was this queue's oldest message stored?  Source: `GetEarliestMsgStoretimeRequestHeader`."""

    topic: str
    queue_id: I32
