"""Routes of topics, and lists of topics (Java: `ClientRequestProcessor`, `DefaultRequestProcessor`, `ZoneRouteRPCHook`)."""

from __future__ import annotations

from collections.abc import Callable

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, spelled
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.kv import KvTable
from broker_impl.namesrv.route_answers import RouteAnswers, near_zone
from broker_impl.namesrv.routes import RouteTable
from broker_impl.remarks import FAQ
from rmq_wire.bodies.body import FASTJSON, STRICT
from rmq_wire.bodies.kv import ORDER_TOPIC_CONFIG
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import TopicList
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import (
    DeleteTopicFromNamesrv,
    GetAllTopicListFromNameserver,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteInfo,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
    RegisterTopic,
)

V4_9_4 = 401
"""`MQVersion`: the first whose route answers are strict JSON."""
MS_PER_S = 1000


class Routes(Capability):
    """Where a topic is.  `started_ms`: mono time of the start, for `needWaitForService`."""

    def __init__(self, route_answers: RouteAnswers, kv: KvTable, config: NamesrvConfig, started_ms: int) -> None:
        self.route_answers = route_answers
        self.kv = kv
        self.config = config
        self.started_ms = started_ms

    @answers(GetRouteInfo)
    def route(self, call: Call, asked: GetRouteInfo) -> Answer:
        """A topic's queues and brokers, spelled as the asker's version reads it."""
        if self.config.need_wait_for_service and not self._waited(call.env.mono_ms):
            raise Refusal(ResponseCode.SYSTEM_ERROR, "name server not ready")
        strict = call.command.version >= V4_9_4 or bool(asked.accept_standard_json_only)
        return begun(self._route(asked, call.peer.local[0], strict))

    def _route(self, asked: GetRouteInfo, asker_host: str, strict: bool) -> Slices[Reply]:
        route = yield from self.route_answers.finding_route(asked.topic, asker_host)
        if route is None:
            remark = f"No topic route info in name server for the topic: {asked.topic}{FAQ}"
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        if self.config.order_message_enable:
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_CONFIG, asked.topic)
        if asked.zone_mode and asked.zone_name and not asked.zone_name.isspace():
            return (yield from spelled(near_zone(route, asked.zone_name), FASTJSON))
        return (yield from spelled(route, STRICT if strict else FASTJSON))

    def _waited(self, mono_ms: int) -> bool:
        return mono_ms - self.started_ms >= self.config.wait_seconds_for_service * MS_PER_S


class TopicLists(Capability):
    """Which topics there are; and single topics entered and forgotten."""

    def __init__(self, table: RouteTable, route_answers: RouteAnswers, config: NamesrvConfig) -> None:
        self.table = table
        self.route_answers = route_answers
        self.config = config

    @answers(GetAllTopicListFromNameserver)
    def all_topics(self, call: Call, _: GetAllTopicListFromNameserver) -> Answer:
        """Every topic."""
        if not self.config.enable_all_topic_list:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")
        return begun(spelled(self.route_answers.all_topics()))

    @answers(GetTopicsByCluster)
    def of_cluster(self, call: Call, asked: GetTopicsByCluster) -> Answer:
        """A cluster's topics."""
        return self._listed(lambda: self.route_answers.topics_of_cluster(asked.cluster))

    @answers(GetUnitTopicList)
    def of_unit(self, call: Call, _: GetUnitTopicList) -> Answer:
        """This unit's topics."""
        return self._listed(self.route_answers.unit_topics)

    @answers(GetHasUnitSubTopicList)
    def subscribed_by_units(self, call: Call, _: GetHasUnitSubTopicList) -> Answer:
        """Topics that units subscribe."""
        return self._listed(self.route_answers.unit_sub_topics)

    @answers(GetHasUnitSubUnunitTopicList)
    def subscribed_by_units_of_none(self, call: Call, _: GetHasUnitSubUnunitTopicList) -> Answer:
        """Topics that units subscribe and that are of none."""
        return self._listed(self.route_answers.unit_sub_ununit_topics)

    @answers(GetSystemTopicListFromNs)
    def system(self, call: Call, _: GetSystemTopicListFromNs) -> Answer:
        """Names of clusters and brokers."""
        return begun(spelled(self.route_answers.system_topics(call.peer.local[0])))

    @answers(RegisterTopic)
    def register_topic(self, call: Call, asked: RegisterTopic) -> Answer:
        """One topic's queues, from a broker that registers topics one by one."""
        if call.body:
            self.table.register_topic(asked.topic, call.read(TopicRouteData).queue_datas)
        return Reply()

    @answers(DeleteTopicFromNamesrv)
    def delete_topic(self, call: Call, asked: DeleteTopicFromNamesrv) -> Answer:
        """Forget a topic."""
        self.table.delete_topic(asked.topic, asked.cluster_name)
        call.env.log.info("%s:%d deleted topic %s", *call.peer.remote, asked.topic)
        return Reply()

    def _listed(self, made: Callable[[], Slices[TopicList]]) -> Answer:
        if not self.config.enable_topic_list:
            raise Refusal(ResponseCode.SYSTEM_ERROR, "disable")
        return begun(_spelled(made()))


def _spelled(made: Slices[TopicList]) -> Slices[Reply]:
    return (yield from spelled((yield from made)))
