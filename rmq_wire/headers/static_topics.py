"""Static topics, whose queue ids are logical and mapped to queues of several brokers."""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import Role
from rmq_wire.headers.topics import CreateTopic


class UpdateAndCreateStaticTopic(CreateTopic, code=RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, to=Role.BROKER):
    """As `CreateTopic`, for a static topic: the body is a `TopicQueueMappingDetail`."""
