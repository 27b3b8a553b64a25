"""Lists of topics, and single topics entered and forgotten (Java: `DefaultRequestProcessor`)."""

from __future__ import annotations

from collections.abc import Callable

from broker_impl.engine.answers import Answer, Refusal, Reply
from broker_impl.engine.call import Call
from broker_impl.engine.router import Capability, answers
from broker_impl.engine.slices import Slices, begun, spelled
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.route_answers import RouteAnswers
from broker_impl.namesrv.route_table import RouteTable
from rmq_wire.bodies.route import TopicRouteData
from rmq_wire.bodies.topics import TopicList
from rmq_wire.codes import ResponseCode
from rmq_wire.headers.naming import (
    DeleteTopicFromNamesrv,
    GetAllTopicListFromNameserver,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetSystemTopicListFromNs,
    GetTopicsByCluster,
    GetUnitTopicList,
    RegisterTopic,
)


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
