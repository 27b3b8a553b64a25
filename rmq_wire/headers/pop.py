"""POP consumption: the broker hands messages out for a time and delivers again what is not acknowledged.

With it come the broker-side assignment of queues to clients and the switch that says which groups consume so.  `extra_info` is
the receipt that a popped message carries.  Times are milliseconds, points in time since 1970.
"""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, NULL, BoolOrFalse, Header, I32OrZero, I64OrZero, Request, Role
from rmq_wire.headers.base import TopicQueueRequest


class PopMessageResponse(Header):
    """What was handed out and until when it is nobody else's.  Source: `PopMessageResponseHeader`.

    `revive_qid` is the queue of the revive topic that watches over it, `rest_num` how many messages are left.  The infos
    describe start offset, offsets and attempts per queue as texts.
    """

    pop_time: I64OrZero
    invisible_time: I64OrZero
    revive_qid: I32OrZero
    rest_num: I64OrZero
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class PopMessage(TopicQueueRequest, code=RequestCode.POP_MESSAGE, to=Role.BROKER, reply=PopMessageResponse):
    """Hand out up to `max_msg_nums` messages of a queue, or of any (-1), for `invisible_time`; wait `poll_time` for a first one.

    `born_time` is when the client asked.  `init_mode`: where a new group starts, 0 at the first, 1 at the last message.
    `exp_type` and `exp` filter, `order` keeps order per queue, `attempt_id` recognises an ordered attempt that is repeated.
    The answer's body is the stored messages.  Source: `PopMessageRequestHeader`.
    """

    consumer_group: str
    topic: str
    queue_id: I32OrZero
    max_msg_nums: I32OrZero
    invisible_time: I64OrZero
    poll_time: I64OrZero
    born_time: I64OrZero
    init_mode: I32OrZero
    exp_type: str | None = None
    exp: str | None = None
    order: bool = False
    attempt_id: str | None = None


class PeekMessage(TopicQueueRequest, code=RequestCode.PEEK_MESSAGE, to=Role.BROKER, reply=PopMessageResponse):
    """Show what would be popped, without handing it out.  Source: `PeekMessageRequestHeader`."""

    topic: str
    queue_id: I32OrZero
    max_msg_nums: I32OrZero
    consumer_group: str


class AckMessage(TopicQueueRequest, code=RequestCode.ACK_MESSAGE, to=Role.BROKER, unmissed={"consumer_group": NULL}):
    """This popped message is consumed.  Source: `AckMessageRequestHeader`."""

    consumer_group: str
    topic: str
    queue_id: I32
    extra_info: str
    offset: I64
    lite_topic: str | None = None


class BatchAckMessage(Request, code=RequestCode.BATCH_ACK_MESSAGE, to=Role.BROKER):
    """These popped messages are consumed.  The body is a `BatchAckMessageRequestBody`."""


class ChangeInvisibleTimeResponse(Header):
    """The new receipt's parts.  Source: `ChangeInvisibleTimeResponseHeader`."""

    pop_time: I64OrZero
    invisible_time: I64OrZero
    revive_qid: I32OrZero


class ChangeInvisibleTime(
    TopicQueueRequest,
    code=RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    to=Role.BROKER,
    reply=ChangeInvisibleTimeResponse,
    unmissed={"consumer_group": NULL},
):
    """Let this popped message be nobody else's for `invisible_time` from now; a short time means: deliver it again.

    `suspend`: the next delivery does not count as another attempt.  Source: `ChangeInvisibleTimeRequestHeader`.
    """

    consumer_group: str
    topic: str
    queue_id: I32
    extra_info: str
    offset: I64
    invisible_time: I64
    lite_topic: str | None = None
    suspend: bool = False


class NotificationResponse(Header):
    """Whether there is something to pop; `polling_full`: too many already wait.  Source: `NotificationResponseHeader`."""

    has_msg: BoolOrFalse
    polling_full: bool = False


class Notification(TopicQueueRequest, code=RequestCode.NOTIFICATION, to=Role.BROKER, reply=NotificationResponse):
    """Answer as soon as there is something to pop, at the latest after `poll_time`.  Fields as in `PopMessage`.

    Source: `NotificationRequestHeader`.
    """

    consumer_group: str
    topic: str
    queue_id: I32OrZero
    poll_time: I64OrZero
    born_time: I64OrZero
    order: bool = False
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class PollingInfoResponse(Header):
    """How many pops wait.  Source: `PollingInfoResponseHeader`."""

    polling_num: I32OrZero


class PollingInfo(TopicQueueRequest, code=RequestCode.POLLING_INFO, to=Role.BROKER, reply=PollingInfoResponse):
    """How many pops of this group wait at this queue?  Source: `PollingInfoRequestHeader`."""

    consumer_group: str
    topic: str
    queue_id: I32OrZero


class PopRollback(Request, code=RequestCode.POP_ROLLBACK, to=Role.BROKER):
    """Move POP's records out of the RocksDB store back into the revive topic; without that store there is nothing to do."""


class QueryAssignment(Request, code=RequestCode.QUERY_ASSIGNMENT, to=Role.BROKER):
    """Which queues should this client consume, and how?  Bodies: `QueryAssignmentRequestBody`, `QueryAssignmentResponseBody`."""


class SetMessageRequestMode(Request, code=RequestCode.SET_MESSAGE_REQUEST_MODE, to=Role.BROKER):
    """Let this group pull, or pop, this topic.  The body is a `SetMessageRequestModeRequestBody`."""


class GetAllMessageRequestMode(Request, code=RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, to=Role.BROKER):
    """Slave to master: who pulls and who pops?  The answer's body is a `MessageRequestModeSerializeWrapper`."""
