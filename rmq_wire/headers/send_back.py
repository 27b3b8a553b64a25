"""Handing a message back that could not be consumed."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Role
from rmq_wire.headers.base import RpcRequest


class ConsumerSendMsgBack(RpcRequest, code=RequestCode.CONSUMER_SEND_MSG_BACK, to=Role.BROKER):
    """Deliver the message at this commit log offset again, later, to this group.  Source: `ConsumerSendMsgBackRequestHeader`.

    `delay_level` chooses the delay, 1 the shortest; 0 lets the number of attempts choose, a negative one sends it to the dead
    letters at once.  `origin_msg_id` and `origin_topic` are for hooks and logs.  `max_reconsume_times` counts from senders of
    `VERSION_SENDS_MAX_RECONSUME_TIMES` on.
    """

    offset: I64
    group: str
    delay_level: I32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: I32 | None = None
