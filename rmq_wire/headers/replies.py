"""Request and reply: a consumer answers a message, and the broker takes the answer to the producer that waits for it."""

from __future__ import annotations

from typing import Final

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, I64OrZero, Role
from rmq_wire.headers.base import TopicQueueRequest
from rmq_wire.headers.send import SendMessage, SendMessageResponse, SendMessageV2

_UNMISSED: Final = {
    "producer_group": "",
    "topic": "",
    "default_topic": "",
    "default_topic_queue_nums": 4,
    "sys_flag": 0,
}
"""Mostly only handed on.  A topic that is not there is made with as many queues as stock producers ask for."""


class SendReplyMessage(
    SendMessage, code=RequestCode.SEND_REPLY_MESSAGE, to=Role.BROKER, reply=SendMessageResponse, unmissed=_UNMISSED
):
    """Take this message to the producer that its property `REPLY_TO_CLIENT` names, and store it too if so configured.

    Fields as in `SendMessage`.
    """


class SendReplyMessageV2(
    SendMessageV2, code=RequestCode.SEND_REPLY_MESSAGE_V2, to=Role.BROKER, reply=SendMessageResponse, unmissed=_UNMISSED
):
    """As `SendReplyMessage`, with the fields of `SendMessageV2`: what stock clients send."""


class PushReplyMessageToClient(TopicQueueRequest, code=RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, to=Role.CLIENT):
    """Broker to producer: here is the reply that you wait for, its body as the body.  Source: `ReplyMessageRequestHeader`.

    Hosts are `address:port` texts, times milliseconds since 1970.
    """

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: I32
    queue_id: I32
    sys_flag: I32
    born_timestamp: I64
    flag: I32
    born_host: str
    store_host: str
    store_timestamp: I64OrZero
    properties: str | None = None
    reconsume_times: I32 | None = None
    unit_mode: bool = False
