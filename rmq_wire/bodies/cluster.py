"""Who belongs to whom: clusters, their brokers and one broker's members (codes 106 and 901)."""

from __future__ import annotations

from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.route import BrokerData


class ClusterInfo(Body):
    """Answer 106 (`org.apache.rocketmq.remoting.protocol.body.ClusterInfo`): by broker name, and names by cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)

    def encode_fastjson(self) -> bytes:
        """As a Java name server writes it: bare integer keys."""
        return fastjson.dumps_fastjson(self.plain())


class BrokerMemberGroup(Body):
    """A master and its slaves by broker id (`...protocol.body.BrokerMemberGroup`)."""

    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[int, str] = field(default_factory=dict)


class BrokerMemberGroupAnswer(Body):
    """Answer 901 (`...protocol.body.GetBrokerMemberGroupResponseBody`)."""

    broker_member_group: BrokerMemberGroup | None = None

    def encode_fastjson(self) -> bytes:
        """As a Java name server writes it: bare integer keys."""
        return fastjson.dumps_fastjson(self.plain())
