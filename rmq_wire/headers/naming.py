"""What name servers answer: who has which topic, who is alive, and a small key-value table.

Brokers register and keep themselves alive here; clients and tools ask for routes.
"""

from __future__ import annotations

from rmq_wire.codes import RequestCode
from rmq_wire.declare import I32, I64, Header, Request, Role, wire
from rmq_wire.headers.base import TopicRequest


class GetRouteInfo(TopicRequest, code=RequestCode.GET_ROUTEINFO_BY_TOPIC, to=Role.NAME_SERVER):
    """Which brokers have this topic, and where are they?  The answer's body is a `TopicRouteData`.

    `accept_standard_json_only`: spell map keys as strings whatever the asker's version is.  `zone_name` and `zone_mode` are ext
    fields beside the header class: with `zone_mode` the answer is cut down to brokers of that zone.
    Source: `GetRouteInfoRequestHeader`, `ZoneRouteRPCHook`.
    """

    topic: str
    accept_standard_json_only: bool | None = None
    zone_name: str | None = wire("__ZONE_NAME", default=None)
    zone_mode: bool | None = wire("__ZONE_MODE", default=None)


class GetBrokerClusterInfo(Request, code=RequestCode.GET_BROKER_CLUSTER_INFO, to=Role.NAME_SERVER):
    """All clusters and brokers that are registered: a `ClusterInfo`."""


class RegisterBrokerResponse(Header):
    """For a slave: where its master is, for clients and for replication.  Source: `RegisterBrokerResponseHeader`."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class RegisterBroker(Request, code=RequestCode.REGISTER_BROKER, to=Role.NAME_SERVER, reply=RegisterBrokerResponse):
    """This broker is here, with the topics in the body (a `RegisterBrokerBody`, in JSON or, when `compressed`, packed).

    `broker_id`: 0 is the master.  `heartbeat_timeout_millis`: how long without a word until it counts as gone.  `body_crc32`: of
    the body, 0 for unchecked.  `zone_name` is an ext field beside the header class.  The answer's body is the `KVTable` of
    ordered topics, when the name server is set to give it.  Source: `RegisterBrokerRequestHeader`.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: I64
    heartbeat_timeout_millis: I64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: I32 = 0
    zone_name: str | None = wire("__ZONE_NAME", default=None)


class UnregisterBroker(Request, code=RequestCode.UNREGISTER_BROKER, to=Role.NAME_SERVER):
    """This broker stops.  Source: `UnRegisterBrokerRequestHeader`."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class RegisterTopic(TopicRequest, code=RequestCode.REGISTER_TOPIC_IN_NAMESRV, to=Role.NAME_SERVER):
    """Register one topic without the rest of a broker's table.  The body is a `TopicRouteData` whose queue data count.

    Source: `RegisterTopicRequestHeader`.
    """

    topic: str


class DeleteTopicFromNamesrv(TopicRequest, code=RequestCode.DELETE_TOPIC_IN_NAMESRV, to=Role.NAME_SERVER):
    """Forget a topic's route, with `cluster_name` only on that cluster's brokers.

    Source: `DeleteTopicFromNamesrvRequestHeader`.
    """

    topic: str
    cluster_name: str | None = None


class QueryDataVersionResponse(Header):
    """Whether the version that the broker holds differs from the registered one.  Source: `QueryDataVersionResponseHeader`."""

    changed: bool


class QueryDataVersion(Request, code=RequestCode.QUERY_DATA_VERSION, to=Role.NAME_SERVER, reply=QueryDataVersionResponse):
    """Do you have this version of my topics?  Body and answer's body are a `DataVersion`; asking also keeps the broker alive.

    Source: `QueryDataVersionRequestHeader`.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class BrokerHeartbeat(Request, code=RequestCode.BROKER_HEARTBEAT, to=Role.NAME_SERVER):
    """This broker is still alive.  The fields from `epoch` on are read by controllers only.

    Java spells `heartbeat_timeout_mills` so.  Source: `BrokerHeartbeatRequestHeader`.
    """

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: I64 | None = None
    epoch: I32 | None = None
    max_offset: I64 | None = None
    confirm_offset: I64 | None = None
    heartbeat_timeout_mills: I64 | None = None
    election_priority: I32 | None = None


class GetBrokerMemberGroup(Request, code=RequestCode.GET_BROKER_MEMBER_GROUP, to=Role.NAME_SERVER):
    """The brokers that share this broker's name: a `GetBrokerMemberGroupResponseBody`.

    Source: `GetBrokerMemberGroupRequestHeader`.
    """

    cluster_name: str
    broker_name: str


class WipeWritePermOfBrokerResponse(Header):
    """How many topics were changed.  Source: `WipeWritePermOfBrokerResponseHeader`."""

    wipe_topic_count: I32


class WipeWritePermOfBroker(
    Request, code=RequestCode.WIPE_WRITE_PERM_OF_BROKER, to=Role.NAME_SERVER, reply=WipeWritePermOfBrokerResponse
):
    """Let nobody find this broker's queues for writing any more.  Source: `WipeWritePermOfBrokerRequestHeader`."""

    broker_name: str


class AddWritePermOfBrokerResponse(Header):
    """How many topics were changed.  Source: `AddWritePermOfBrokerResponseHeader`."""

    add_topic_count: I32


class AddWritePermOfBroker(
    Request, code=RequestCode.ADD_WRITE_PERM_OF_BROKER, to=Role.NAME_SERVER, reply=AddWritePermOfBrokerResponse
):
    """Undo `WipeWritePermOfBroker`.  Source: `AddWritePermOfBrokerRequestHeader`."""

    broker_name: str


class GetAllTopicListFromNameserver(Request, code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, to=Role.NAME_SERVER):
    """All topics that have a route: a `TopicList`."""


class GetTopicsByCluster(Request, code=RequestCode.GET_TOPICS_BY_CLUSTER, to=Role.NAME_SERVER):
    """The topics of a cluster's brokers: a `TopicList`.  Source: `GetTopicsByClusterRequestHeader`."""

    cluster: str


class GetSystemTopicListFromNs(Request, code=RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, to=Role.NAME_SERVER):
    """The names of clusters and brokers, each of which is a topic: a `TopicList`."""


class GetUnitTopicList(Request, code=RequestCode.GET_UNIT_TOPIC_LIST, to=Role.NAME_SERVER):
    """The topics whose flag says that they are of a unit: a `TopicList`."""


class GetHasUnitSubTopicList(Request, code=RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, to=Role.NAME_SERVER):
    """The topics to which a unit subscribes: a `TopicList`."""


class GetHasUnitSubUnunitTopicList(Request, code=RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, to=Role.NAME_SERVER):
    """The topics to which a unit subscribes and which are of no unit: a `TopicList`."""


class PutKVConfig(Request, code=RequestCode.PUT_KV_CONFIG, to=Role.NAME_SERVER):
    """Set a value in the name server's key-value table.  Source: `PutKVConfigRequestHeader`."""

    namespace: str
    key: str
    value: str


class GetKVConfigResponse(Header):
    """The value.  Source: `GetKVConfigResponseHeader`."""

    value: str | None = None


class GetKVConfig(Request, code=RequestCode.GET_KV_CONFIG, to=Role.NAME_SERVER, reply=GetKVConfigResponse):
    """Read a value of the key-value table.  Source: `GetKVConfigRequestHeader`."""

    namespace: str
    key: str


class DeleteKVConfig(Request, code=RequestCode.DELETE_KV_CONFIG, to=Role.NAME_SERVER):
    """Remove a value from the key-value table.  Source: `DeleteKVConfigRequestHeader`."""

    namespace: str
    key: str


class GetKVListByNamespace(Request, code=RequestCode.GET_KVLIST_BY_NAMESPACE, to=Role.NAME_SERVER):
    """All keys and values of a name space: a `KVTable`.  Source: `GetKVListByNamespaceRequestHeader`."""

    namespace: str


class UpdateNamesrvConfig(Request, code=RequestCode.UPDATE_NAMESRV_CONFIG, to=Role.NAME_SERVER):
    """Change the name server's configuration.  The body is the text of a Java properties file."""


class GetNamesrvConfig(Request, code=RequestCode.GET_NAMESRV_CONFIG, to=Role.NAME_SERVER):
    """The name server's configuration: the text of a Java properties file."""
