"""What tools are shown of a group's subscription (345), and of the entries of a queue through its eyes (321)."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.declare import I32, I64


class QuerySubscription(Body):
    """Answer 345 (`QuerySubscriptionResponseBody`).  Without `subscription_data` the group does not subscribe to the topic."""

    group: str | None = None
    subscription_data: SubscriptionData | None = None
    topic: str | None = None


class ConsumeQueueData(Body):
    """One entry of a consume queue (`ConsumeQueueData`): where the message is in the log, its bytes, the hash of its tags.

    `msg` says what is wrong with it.  The other fields belong to the queue's extension (enableConsumeQueueExt).
    """

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: I64 = 0
    physic_size: I32 = 0
    tags_code: I64 = 0


class QueryConsumeQueue(Body):
    """Answer 321 (`QueryConsumeQueueResponseBody`).  `filter_data`: a text, the group's compiled filter or why there is none."""

    filter_data: str | None = None
    max_queue_index: I64 = 0
    min_queue_index: I64 = 0
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    subscription_data: SubscriptionData | None = None
