"""Which queues a consumer gets, and whether it pulls or pops them: what is asked (400) and configured (401, 402)."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.enumerations import MessageModel, MessageRequestMode
from rmq_wire.bodies.locks import QueueName
from rmq_wire.declare import I32

ANY_QUEUE = -1
"""The queue id of a pop from all queues that a broker has of the topic."""


class QueryAssignmentRequest(Body):
    """Request 400 (`QueryAssignmentRequestBody`)."""

    client_id: str | None = None
    consumer_group: str | None = None
    message_model: MessageModel | None = None
    strategy_name: str | None = None
    topic: str | None = None


class MessageQueueAssignment(Body):
    """One queue of a client and how it is to be read (`MessageQueueAssignment`)."""

    message_queue: QueueName | None = None
    mode: MessageRequestMode = "PULL"
    attachments: dict[str, str] | None = None


class QueryAssignmentResponse(Body):
    """Answer 400 (`QueryAssignmentResponseBody`).

    None: the client keeps what it has; an empty list: it has nothing any more.
    """

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class SetMessageRequestModeRequest(Body):
    """Request 401 (`SetMessageRequestModeRequestBody`).  `pop_share_queue_num`: how many others share a queue."""

    consumer_group: str | None = None
    mode: MessageRequestMode = "PULL"
    pop_share_queue_num: I32 = 0
    topic: str | None = None


class MessageRequestModeTable(Body):
    """Answer 402 and `messageRequestMode.json` (`MessageRequestModeSerializeWrapper`): by topic, then by group."""

    message_request_mode_map: dict[str, dict[str, SetMessageRequestModeRequest]] = field(default_factory=dict)
