"""Who is connected, as tools read it: members of a consumer group, of a producer group, every producer of a broker."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.enumerations import ConsumeFromWhere, ConsumeType, MessageModel
from rmq_wire.bodies.heartbeat import SubscriptionData
from rmq_wire.declare import I32, I64


class Connection(Body):
    """One connected client.  `client_addr` is `ip:port`; `language` a name of `LanguageCode`; `version` of its library."""

    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: I32 = 0


class ConsumerConnection(Body):
    """Answer 203."""

    connection_set: list[Connection] = field(default_factory=list)
    consume_from_where: ConsumeFromWhere | None = None
    consume_type: ConsumeType | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


class ProducerConnection(Body):
    """Answer 204."""

    connection_set: list[Connection] = field(default_factory=list)


class ProducerInfo(Body):
    """One producer of answer 328.  `remote_ip`: Java's text of a socket address, `/ip:port`; `last_update_timestamp`: wall ms."""

    client_id: str | None = None
    language: str | None = None
    last_update_timestamp: I64 = 0
    remote_ip: str | None = field(name="remoteIP", default=None)
    version: I32 = 0


class ProducerTableInfo(Body):
    """Answer 328: the producers of every group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class ConsumerIdList(Body):
    """Answer 38 (`GetConsumerListByGroupResponseBody`)."""

    consumer_id_list: list[str] = field(default_factory=list)
