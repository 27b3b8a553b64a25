"""The broker shares out the queues: who reads which (400), and whether a group pulls or pops a topic (401, 402).

Java: `QueryAssignmentProcessor`, `AdminBrokerProcessor.getAllMessageRequestMode`.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker_impl.allocation import STRATEGIES, Members, Unallocatable, one_for_each_broker, pop_places, pull_places, shares_all
from broker_impl.config import BrokerConfig
from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, body_of, spelled
from broker_impl.state.clients import Clients
from broker_impl.state.groups import GroupTable
from broker_impl.state.request_modes import Modes, RequestModes
from broker_impl.state.topics import TopicTable
from broker_impl.topic_routes import TopicRoutes
from rmq_wire import names
from rmq_wire.bodies.assignment import (
    MessageQueueAssignment,
    QueryAssignmentRequest,
    QueryAssignmentResponse,
    SetMessageRequestModeRequest,
)
from rmq_wire.bodies.body import table_pieces
from rmq_wire.bodies.locks import QueueName
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.pop import GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode

LMQ_QUEUE_ID = 0
"""The only queue of a light topic (Java: `MixAll.LMQ_QUEUE_ID`)."""


class Assignment(Capability):
    """What is not said is a mistake of the asker's (Java: a `NullPointerException`, which it answers alike)."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        modes: RequestModes,
        routes: TopicRoutes,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._clients = clients
        self._modes = modes
        self._routes = routes

    @answers(QueryAssignment)
    def assignment(self, call: Call, asked: QueryAssignment) -> Answer:
        """The queues of one client."""
        question = call.read(QueryAssignmentRequest)
        topic, group = _said(question.topic, "topic"), _said(question.consumer_group, "consumerGroup")
        model = _said(question.message_model, "messageModel")
        return begun(self._assignment(topic, group, model, question))

    def _assignment(self, topic: str, group: str, model: str, question: QueryAssignmentRequest) -> Slices[Reply]:
        setting = self._setting(topic, group)
        queues = yield from self._share(topic, group, model, question, setting)
        found = None
        if queues is not None:
            found = [MessageQueueAssignment(message_queue=queue, mode=setting.mode) for queue in queues]
        return (yield from spelled(QueryAssignmentResponse(message_queue_assignments=found)))

    def _setting(self, topic: str, group: str) -> SetMessageRequestModeRequest:
        """The group's own, else the broker's; retry topics are pulled."""
        found = self._modes.get(topic, group)
        if found is not None:
            return found
        if names.is_retry_topic(topic) or self._config.default_message_request_mode != "POP":
            return SetMessageRequestModeRequest(mode="PULL")
        return SetMessageRequestModeRequest(mode="POP", pop_share_queue_num=self._config.default_pop_share_queue_num)

    def _share(
        self, topic: str, group: str, model: str, question: QueryAssignmentRequest, setting: SetMessageRequestModeRequest
    ) -> Slices[list[QueueName] | None]:
        """None: the client keeps what it has (`doLoadBalance`)."""
        clustering = model == "CLUSTERING"
        if not clustering and model != "BROADCASTING":
            return None
        if clustering and names.is_lmq(topic):
            queues: list[QueueName] | None = [QueueName(topic=topic, broker_name=self._config.broker_name, queue_id=LMQ_QUEUE_ID)]
        else:
            queues = yield from self._routes.queues(topic)
        if queues is None or not clustering or not self._config.server_load_balancer_enable:
            return queues
        consumers = self._clients.consumer_group(group)
        strategy = STRATEGIES.get(question.strategy_name or "")
        if consumers is None or strategy is None:
            return None
        members = Members([client.client_id for client in consumers.members.values()])
        client_id, share = question.client_id or "", setting.pop_share_queue_num
        try:
            if setting.mode != "POP":
                places = pull_places(strategy, len(queues), members, client_id)
            elif shares_all(members, share):
                return one_for_each_broker(queues)
            else:
                places = pop_places(strategy, len(queues), members, client_id, share)
        except Unallocatable:
            return None
        return [queues[place] for place in places]

    @answers(SetMessageRequestMode)
    def set_mode(self, call: Call, asked: SetMessageRequestMode) -> Answer:
        """From now on this group pulls, or pops, this topic."""
        setting = call.read(SetMessageRequestModeRequest)
        topic = _said(setting.topic, "topic")
        if names.is_retry_topic(topic):
            raise Refusal(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if self._topics.get(topic) is None:
            raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
        group = _said(setting.consumer_group, "consumerGroup")
        if self._groups.find(group) is None:
            raise Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "subscription group does not exist")
        call.env.log.info("group %s now reads topic %s by %s, as %s says", group, topic, setting.mode, call.peer)
        self._modes.put(topic, group, setting)
        return Reply()

    @answers(GetAllMessageRequestMode)
    def modes(self, call: Call, asked: GetAllMessageRequestMode) -> Answer:
        """All settings, for a slave."""
        return begun(body_of(_pieces(dict(self._modes.table))))


def _said(value: str | None, what: str) -> str:
    if value is None:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"no {what}")
    return value


def _pieces(table: dict[str, Modes]) -> Iterator[bytes]:
    """`MessageRequestModeSerializeWrapper`, a topic at a time."""
    yield b'{"messageRequestModeMap":'
    rows = (
        (topic, b"".join(table_pieces((group, one.encode()) for group, one in modes.items()))) for topic, modes in table.items()
    )
    yield from table_pieces(rows)
    yield b"}"
