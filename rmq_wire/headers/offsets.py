"""How far groups have consumed: querying, updating, resetting, copying."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, NULL, BoolOrFalse, Header, I64OrZero, Role
from rmq_wire.headers.base import RpcRequest, TopicQueueRequest, TopicRequest


class QueryConsumerOffsetResponse(Header):
    """The queue offset to consume next.  Source: `QueryConsumerOffsetResponseHeader`."""

    offset: I64


class QueryConsumerOffset(
    TopicQueueRequest, code=RequestCode.QUERY_CONSUMER_OFFSET, to=Role.BROKER, reply=QueryConsumerOffsetResponse
):
    """How far has this group read this queue?  Source: `QueryConsumerOffsetRequestHeader`.

    `set_zero_if_not_found`: false asks for QUERY_NOT_FOUND where the broker would otherwise guess 0 for a young queue.
    """

    consumer_group: str
    topic: str
    queue_id: I32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(TopicQueueRequest, code=RequestCode.UPDATE_CONSUMER_OFFSET, to=Role.BROKER):
    """This group has consumed this queue up to, not including, `commit_offset`.  Source: `UpdateConsumerOffsetRequestHeader`."""

    consumer_group: str
    topic: str
    queue_id: I32
    commit_offset: I64


class ResetOffset(TopicQueueRequest, code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, to=Role.BROKER, unmissed={"group": NULL}):
    """Set a group back, or forward, on a topic.  The answer's body is a `ResetOffsetBody`.  Source: `ResetOffsetRequestHeader`.

    To `offset` where one is given, otherwise to what was stored at `timestamp` (milliseconds since 1970, -1 for the end); on one
    queue, or on all when `queue_id` is -1.  `is_force`: also where that would skip messages.
    """

    group: str
    topic: str
    timestamp: I64OrZero
    is_force: BoolOrFalse
    queue_id: I32 = -1
    offset: I64 | None = None


class ResetConsumerClientOffset(TopicQueueRequest, code=RequestCode.RESET_CONSUMER_CLIENT_OFFSET, to=Role.CLIENT):
    """Broker to consumer, one-way: go on from the offsets in the body, a `ResetOffsetBody`.

    Only sent when resetting is not done on the server's side.  Source: `ResetOffsetRequestHeader`.
    """

    group: str
    topic: str
    timestamp: I64OrZero
    is_force: BoolOrFalse
    queue_id: I32 = -1
    offset: I64 | None = None


class CloneGroupOffset(RpcRequest, code=RequestCode.CLONE_GROUP_OFFSET, to=Role.BROKER, unmissed={"dest_group": NULL}):
    """Copy one group's offsets, of one topic or of all, to another group.  Source: `CloneGroupOffsetRequestHeader`.

    `offline`: nobody of the other group is online.
    """

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class QueryCorrectionOffset(
    TopicRequest, code=RequestCode.QUERY_CORRECTION_OFFSET, to=Role.BROKER, unmissed={"compare_group": NULL}
):
    """The smallest offset per queue of the groups with a tighter filter (`filter_groups`, joined by commas).

    The answer's body is a `QueryCorrectionOffsetBody`.  Source: `QueryCorrectionOffsetHeader`.
    """

    compare_group: str
    topic: str
    filter_groups: str | None = None
