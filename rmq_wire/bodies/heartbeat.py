"""What a client says about itself every 30 s: its groups and what they subscribe to (`HeartbeatData`, `CheckClientRequestBody`).

An enumeration's name that nobody knows counts as absent, as in Java: it is no reason to refuse a client.
"""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.enumerations import ConsumeFromWhere, ConsumeType, MessageModel
from rmq_wire.declare import I32, I64

CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
CONSUME_POP = "CONSUME_POP"
"""Names of `ConsumeType`."""
BROADCASTING = "BROADCASTING"
CLUSTERING = "CLUSTERING"
"""Names of `MessageModel`."""
TAG = "TAG"
"""The expression type of an ordinary subscription (Java: `ExpressionType.TAG`)."""


class SubscriptionData(Body):
    """What a group wants of one topic.  `code_set` are the Java hashes of `tags_set`; `sub_version` is wall milliseconds."""

    topic: str = ""
    sub_string: str | None = None
    tags_set: list[str] = field(default_factory=list)
    code_set: list[I32] = field(default_factory=list)
    sub_version: I64 = 0
    expression_type: str = TAG
    class_filter_mode: bool = False


class ConsumerData(Body):
    """One consumer group of a client."""

    group_name: str = ""
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    consume_from_where: ConsumeFromWhere | None = None
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str = ""


class HeartbeatData(Body):
    """Request 34.  `heartbeat_fingerprint` 0 is version 1 of the heartbeat: subscriptions are sent in full each time."""

    client_id: str | None = field(name="clientID", default=None)
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)
    heartbeat_fingerprint: I32 = 0
    without_sub: bool = False


class CheckClientRequest(Body):
    """Request 46: may this subscription be made here?"""

    client_id: str | None = None
    group: str | None = None
    namespace: str | None = None
    subscription_data: SubscriptionData | None = None
