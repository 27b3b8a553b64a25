"""Which queues a consumer gets, and whether it pulls or pops them: what is asked (400) and configured (401)."""

from __future__ import annotations

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.enumerations import MessageModel, MessageRequestMode
from rmq_wire.declare import I32


class QueryAssignmentRequest(Body):
    """Request 400 (`QueryAssignmentRequestBody`)."""

    client_id: str | None = None
    consumer_group: str | None = None
    message_model: MessageModel | None = None
    strategy_name: str | None = None
    topic: str | None = None


class SetMessageRequestModeRequest(Body):
    """Request 401 (`SetMessageRequestModeRequestBody`).  `pop_share_queue_num`: how many others share a queue."""

    consumer_group: str | None = None
    mode: MessageRequestMode = "PULL"
    pop_share_queue_num: I32 = 0
    topic: str | None = None
