"""The name server's key-value configuration: one namespace on the wire, all of them in `kvConfig.json`."""

from __future__ import annotations

from msgspec import field

from rmq_wire.bodies.body import Body

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""The namespace of ordered topics (Java: `NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG`)."""


class KVTable(Body):
    """Answers 219 and 103: the entries of one namespace (`org.apache.rocketmq.remoting.protocol.body.KVTable`)."""

    table: dict[str, str] = field(default_factory=dict)


class KVConfig(Body):
    """The file `kvConfig.json`: namespace -> key -> value (`org.apache.rocketmq.namesrv.kvconfig.KVConfigSerializeWrapper`)."""

    config_table: dict[str, dict[str, str]] = field(default_factory=dict)
