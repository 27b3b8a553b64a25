"""Storing messages: one, in either spelling of the header, or many of one topic at once.

The three requests carry the same fields; `SendMessageV2` spells them with one letter each because they are the bulk of a
small message's frame.  All are answered alike.
"""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Header, Role, wire
from rmq_wire.headers.base import TopicQueueRequest


class SendMessageResponse(Header, fast=True):
    """Where the message was put.  Source: `SendMessageResponseHeader`.

    `msg_id` is the offset message id (for a batch: all of them, joined by commas), `recall_handle` names a delayed message that
    can still be called back, `batch_uniq_id` is only set for batch consume queues.  `msg_region` and `trace_on` are ext fields
    that the broker adds beside the header class: they say to a client whether and for which region to trace.
    """

    msg_id: str
    queue_id: I32
    queue_offset: I64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = wire("MSG_REGION", default=None)
    trace_on: bool | None = wire("TRACE_ON", default=None)


class SendMessage(TopicQueueRequest, code=RequestCode.SEND_MESSAGE, to=Role.BROKER, reply=SendMessageResponse):
    """Store one message.  The body is the message's own.  Source: `SendMessageRequestHeader`.

    `default_topic` and `default_topic_queue_nums` say what a topic that does not exist yet is modelled on, `sys_flag` holds the
    bits of `rmq_wire.sys_flag`, `born_timestamp` is milliseconds since 1970, `properties` is the joined text of
    `rmq_wire.properties`.  `reconsume_times` and `max_reconsume_times` count when the topic is a group's retry topic.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: I32 | None = None


class SendMessageV2(TopicQueueRequest, code=RequestCode.SEND_MESSAGE_V2, to=Role.BROKER, reply=SendMessageResponse, fast=True):
    """Store one message: what stock clients send.  Fields as in `SendMessage`.  Source: `SendMessageRequestHeaderV2`.

    `broker_name` is new against it and stands for `bname`.
    """

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c")
    default_topic_queue_nums: I32 = wire("d")
    queue_id: I32 = wire("e")
    sys_flag: I32 = wire("f")
    born_timestamp: I64 = wire("g")
    flag: I32 = wire("h")
    properties: str | None = wire("i", default=None)
    reconsume_times: I32 | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: I32 | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)


class SendBatchMessage(SendMessageV2, code=RequestCode.SEND_BATCH_MESSAGE, to=Role.BROKER, reply=SendMessageResponse):
    """Store several messages of one topic, all or none.  The body is the items of `rmq_wire.batch`, one after the other.

    It is a batch because `batch` says so, not because of the code.  Source: `SendMessageRequestHeaderV2`.
    """
