"""Who belongs to whom: clusters, their brokers and one broker's members (codes 106 and 901)."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import Body
from rmq_wire.bodies.route import BrokerData
from rmq_wire.declare import I64


class ClusterInfo(Body):
    """Answer 106 (`org.apache.rocketmq.remoting.protocol.body.ClusterInfo`): by broker name, and names by cluster."""

    odd_bytes_max: ClassVar[int] = 16 << 20
    """A Java name server answers in the dialect; only tools read this."""
    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)

    def encode_fastjson(self) -> bytes:
        """As a Java name server writes it: bare integer keys."""
        return fastjson.dumps_fastjson(self.plain())


class BrokerMemberGroup(Body):
    """A master and its slaves by broker id (`...protocol.body.BrokerMemberGroup`)."""

    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[I64, str] = field(default_factory=dict)


class BrokerMemberGroupAnswer(Body):
    """Answer 901 (`...protocol.body.GetBrokerMemberGroupResponseBody`)."""

    broker_member_group: BrokerMemberGroup | None = None

    def encode_fastjson(self) -> bytes:
        """As a Java name server writes it: bare integer keys."""
        return fastjson.dumps_fastjson(self.plain())
