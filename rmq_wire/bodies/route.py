"""Where a topic's queues are and who serves them: what a client asks a name server for (code 105).

Two spellings of the same answer: strict JSON (quoted, sorted keys) for peers from 4.9.4 on and whoever asks for it, fastjson's
with bare integer keys for older ones (Java: `ClientRequestProcessor.getRouteInfoByTopic`).
"""

from __future__ import annotations

from msgspec import field

from rmq_wire import fastjson
from rmq_wire.bodies.body import Body
from rmq_wire.declare import I32, I64

MASTER_ID = 0
"""The broker id of a master (Java: `MixAll.MASTER_ID`); slaves have greater ones."""

GLOBAL_SCOPE = "__global__"
"""The scope of a static topic that is spread over all clusters (Java: `MixAll.METADATA_SCOPE_GLOBAL`)."""


class QueueData(Body, eq=True):
    """A topic's queues in one broker (`org.apache.rocketmq.remoting.protocol.route.QueueData`)."""

    broker_name: str = ""
    read_queue_nums: I32 = 0
    write_queue_nums: I32 = 0
    perm: I32 = 0
    topic_sys_flag: I32 = 0


class BrokerData(Body, eq=True):
    """The addresses (`host:port`) of a master and its slaves by broker id (`...protocol.route.BrokerData`)."""

    cluster: str = ""
    broker_name: str = ""
    broker_addrs: dict[I64, str] = field(default_factory=dict)
    zone_name: str | None = None
    enable_acting_master: bool = False

    def copy(self) -> BrokerData:
        """One whose addresses may be changed without changing these."""
        return BrokerData(
            cluster=self.cluster,
            broker_name=self.broker_name,
            broker_addrs=dict(self.broker_addrs),
            zone_name=self.zone_name,
            enable_acting_master=self.enable_acting_master,
        )


class TopicQueueMappingInfo(Body):
    """A static topic's logical queues in one broker (`...protocol.statictopic.TopicQueueMappingInfo`)."""

    topic: str | None = None
    scope: str | None = GLOBAL_SCOPE
    total_queues: I32 = 0
    bname: str | None = None
    epoch: I64 = 0
    dirty: bool = False
    curr_id_map: dict[I32, I32] = field(default_factory=dict)


class TopicRouteData(Body):
    """Answer 105 and the body of request 217 (`...protocol.route.TopicRouteData`)."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str] | None] = field(default_factory=dict)
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None

    def encode_fastjson(self) -> bytes:
        """The spelling with bare integer keys, for clients before 4.9.4."""
        return fastjson.dumps_fastjson(self.plain())
