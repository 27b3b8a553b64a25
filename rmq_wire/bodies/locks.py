"""Queue locks of ordered consumption: which queues a member asks for, which it got."""

from __future__ import annotations

import msgspec
from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.declare import I32


class QueueName(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """One queue of one broker, Java's `MessageQueue` as a value."""

    broker_name: str | None = None
    queue_id: I32 = 0
    topic: str = ""


class LockBatchRequest(Body):
    """Requests 41 and 42 (`LockBatchRequestBody`, `UnlockBatchRequestBody`)."""

    client_id: str | None = None
    consumer_group: str | None = None
    mq_set: list[QueueName] = field(default_factory=list)
    only_this_broker: bool = False


class LockBatchResponse(Body):
    """Answer 41: the queues that the member holds now."""

    lock_ok_mq_set: list[QueueName] = field(name="lockOKMQSet", default_factory=list)
