"""Who is connected, as tools read it: members of a consumer group, of a producer group, every producer of a broker."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body
from rmq_wire.bodies.heartbeat import SubscriptionData


class Connection(Body):
    """One connected client.  `client_addr` is `ip:port`; `language` a name of `LanguageCode`; `version` of its library."""

    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: int = 0


class ConsumerConnection(Body):
    """Answer 203."""

    connection_set: list[Connection] = field(default_factory=list)
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)


class ProducerConnection(Body):
    """Answer 204."""

    connection_set: list[Connection] = field(default_factory=list)


class ProducerInfo(Body):
    """One producer of answer 328.  `remote_ip`: Java's text of a socket address, `/ip:port`; `last_update_timestamp`: wall ms."""

    client_id: str | None = None
    language: str | None = None
    last_update_timestamp: int = 0
    remote_ip: str | None = field(name="remoteIP", default=None)
    version: int = 0


class ProducerTableInfo(Body):
    """Answer 328: the producers of every group."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class ConsumerIdList(Body):
    """Answer 38 (`GetConsumerListByGroupResponseBody`)."""

    consumer_id_list: list[str] = field(default_factory=list)
