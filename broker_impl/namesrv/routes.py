"""Where a topic is (105), spelled as the asker reads it (Java: `ClientRequestProcessor`, `ZoneRouteRPCHook`)."""

from __future__ import annotations

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, spelled
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.kv import KvTable
from broker_impl.namesrv.route_answers import RouteAnswers, near_zone
from broker_impl.remarks import FAQ
from rmq_wire.bodies.body import FASTJSON, STRICT
from rmq_wire.bodies.kv import ORDER_TOPIC_CONFIG
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import (
    GetRouteInfo,
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
