"""The broker shares out queues (400) and knows who pops (401, 402): what members are given, and what stays in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.assignment import Assignment
from broker_impl.engine.slices import finished
from broker_impl.env import Env
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.registrations import Registration
from broker_impl.namesrv.server import create_name_server
from broker_impl.topic_routes import QUEUES_MAX, TOPICS_MAX, TopicRoutes
from rmq_wire.bodies.assignment import QueryAssignmentResponse
from rmq_wire.bodies.data_version import DataVersion
from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmq_wire.bodies.route import QueueData, TopicRouteData
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.command import Command
from rmq_wire.headers.clients import Heartbeat
from rmq_wire.headers.pop import GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode
from tests.support.driver import Client
from tests.support.engine import Harness
from tests.support.memory_disk import MemoryDisk

SYSTEM_ERROR, NO_PERMISSION, NO_TOPIC, NO_GROUP = 1, 16, 17, 26
MODE_FILE = "config/messageRequestMode.json"


class Cluster:
    """A broker with a topic of four queues, a name server in the same process, and members of group G."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.broker = Harness(root, **settings)
        self.broker.topic("T", queues=4)
        self.names = create_name_server(self.broker.env, NamesrvConfig({}), MemoryDisk())
        self.register()

    def register(self) -> None:
        finished(self.broker.node.register_with(self.names))

    def member(self, client_id: str, group: str = "G") -> Client:
        """Somebody who has sent a heartbeat."""
        client = self.broker.connect()
        said = ConsumerData(
            group_name=group,
            consume_type="CONSUME_PASSIVELY",
            message_model="CLUSTERING",
            subscription_data_set=[SubscriptionData(topic="T", sub_version=1)],
        )
        client.ask(Heartbeat(), HeartbeatData(client_id=client_id, consumer_data_set=[said]).encode())
        return client

    def asked(self, client: Client, client_id: str, **changed: Any) -> Command:
        question = {
            "clientId": client_id,
            "consumerGroup": "G",
            "topic": "T",
            "strategyName": "AVG",
            "messageModel": "CLUSTERING",
        }
        question |= changed
        body = {name: value for name, value in question.items() if value is not None}
        return client.ask(QueryAssignment(), json.dumps(body).encode())

    def given(self, client: Client, client_id: str, **changed: Any) -> list[tuple[str | None, int, str]] | None:
        """(broker, queue, mode) of each; None: keep what you have."""
        answer = self.asked(client, client_id, **changed)
        assert answer.code == 0, answer.remark
        found = QueryAssignmentResponse.read(answer.body).message_queue_assignments
        if found is None:
            return None
        queues = [(one.message_queue, one.mode) for one in found]
        return [(queue.broker_name, queue.queue_id, mode) for queue, mode in queues if queue is not None]

    def ids(self, client: Client, client_id: str, **changed: Any) -> list[int]:
        found = self.given(client, client_id, **changed)
        assert found is not None
        return [queue_id for _, queue_id, _ in found]

    def set_mode(self, client: Client, **changed: Any) -> Command:
        said = {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 0} | changed
        return client.ask(SetMessageRequestMode(), json.dumps(said).encode())


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "store")
    yield made
    made.broker.stop()


def test_queues_move_when_members_come_and_go(cluster: Cluster) -> None:
    a = cluster.member("a")
    assert cluster.given(a, "a") == [("broker-a", queue_id, "PULL") for queue_id in range(4)]
    b = cluster.member("b")
    assert (cluster.ids(a, "a"), cluster.ids(b, "b")) == ([0, 1], [2, 3])
    assert (cluster.ids(a, "a", strategyName="AVG_BY_CIRCLE"), cluster.ids(b, "b", strategyName="AVG_BY_CIRCLE")) == (
        [0, 2],
        [1, 3],
    )
    a.close()
    assert cluster.ids(b, "b") == [0, 1, 2, 3]


def test_five_queues_for_three(cluster: Cluster) -> None:
    cluster.broker.topic("T", queues=5)
    cluster.register()
    members = {name: cluster.member(name) for name in "abc"}
    assert [cluster.ids(member, name) for name, member in members.items()] == [[0, 1], [2, 3], [4]]


def test_a_broadcast_gets_all_queues_and_a_stranger_none(cluster: Cluster) -> None:
    a = cluster.member("a")
    assert cluster.ids(a, "nobody", messageModel="BROADCASTING") == [0, 1, 2, 3]
    assert cluster.ids(a, "nobody") == []


def test_what_cannot_be_shared_out_leaves_a_client_what_it_has(cluster: Cluster) -> None:
    a = cluster.member("a")
    for wrong in (
        {"strategyName": "CONSISTENT_HASH"},
        {"strategyName": None},
        {"topic": "unknown"},
        {"consumerGroup": "nobody here"},
        {"messageModel": "LITE_SELECTIVE"},
        {"clientId": ""},
    ):
        answer = cluster.asked(a, "a", **wrong)
        assert (answer.code, bytes(answer.body)) == (0, b"{}"), wrong


def test_what_is_not_said_is_an_error(cluster: Cluster) -> None:
    a = cluster.member("a")
    for missing in ("topic", "consumerGroup", "messageModel"):
        assert cluster.asked(a, "a", **{missing: None}).code == SYSTEM_ERROR
    assert a.ask(QueryAssignment()).code == SYSTEM_ERROR


def test_a_group_that_pops_gets_any_queue_or_shares_some(cluster: Cluster) -> None:
    members = {name: cluster.member(name) for name in "abcd"}
    assert cluster.set_mode(members["a"]).code == 0
    for name, member in members.items():
        assert cluster.given(member, name) == [("broker-a", -1, "POP")]
    assert cluster.set_mode(members["a"], popShareQueueNum=1).code == 0
    assert [cluster.ids(member, name) for name, member in members.items()] == [[0, 1], [1, 2], [2, 3], [3, 0]]
    late = cluster.member("e")
    assert cluster.ids(late, "e") == [0], "more members than queues: one queue each"
    assert cluster.given(members["a"], "a", topic="%RETRY%G") is not None
    assert cluster.set_mode(members["a"], mode="PULL").code == 0
    assert cluster.given(members["b"], "b") == [("broker-a", 1, "PULL")]


def test_a_share_with_all_others_is_any_queue(cluster: Cluster) -> None:
    members = {name: cluster.member(name) for name in "abc"}
    cluster.set_mode(members["a"], popShareQueueNum=2)
    assert [cluster.ids(member, name) for name, member in members.items()] == [[-1], [-1], [-1]]


def test_settings_are_refused_as_the_reference_does(cluster: Cluster) -> None:
    a = cluster.member("a")
    assert cluster.set_mode(a, topic="unknown").code == NO_TOPIC
    assert cluster.set_mode(a, topic="%RETRY%G").code == NO_PERMISSION
    assert cluster.set_mode(a, consumerGroup="no group").code == NO_GROUP
    assert cluster.set_mode(a, topic=None).code == SYSTEM_ERROR
    assert not Path(cluster.broker.root, MODE_FILE).exists()


def test_settings_outlive_a_kill_in_javas_file(cluster: Cluster) -> None:
    a = cluster.member("a")
    cluster.set_mode(a, popShareQueueNum=2)
    cluster.set_mode(a, consumerGroup="H", mode="PULL")
    file = Path(cluster.broker.root, MODE_FILE)
    assert file.read_text() == (
        '{\n\t"messageRequestModeMap":{\n\t\t"T":{\n'
        '\t\t\t"G":{\n\t\t\t\t"consumerGroup":"G",\n\t\t\t\t"mode":"POP",\n\t\t\t\t"popShareQueueNum":2,\n\t\t\t\t"topic":"T"\n\t\t\t},\n'
        '\t\t\t"H":{\n\t\t\t\t"consumerGroup":"H",\n\t\t\t\t"mode":"PULL",\n\t\t\t\t"popShareQueueNum":0,\n\t\t\t\t"topic":"T"\n\t\t\t}\n'
        "\t\t}\n\t}\n}"
    )
    cluster.broker.restart(kill=True)
    listed = json.loads(bytes(cluster.broker.connect().ask(GetAllMessageRequestMode()).body))
    assert listed == json.loads(file.read_text())


def test_the_brokers_own_defaults(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "store", defaultMessageRequestMode="POP", defaultPopShareQueueNum="1")
    members = {name: cluster.member(name) for name in "abcd"}
    assert cluster.given(members["b"], "b") == [("broker-a", 1, "POP"), ("broker-a", 2, "POP")]
    retry = cluster.given(members["a"], "a", topic="%RETRY%G")
    assert retry == [("broker-a", 0, "PULL")], "what failed is pulled, whatever the default"
    cluster.broker.stop()


def test_without_a_load_balancer_everybody_gets_all(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "store", serverLoadBalancerEnable="false")
    a = cluster.member("a")
    cluster.member("b")
    assert cluster.ids(a, "a") == [0, 1, 2, 3]
    cluster.broker.stop()


def test_queues_of_other_brokers_are_shared_out_too(cluster: Cluster) -> None:
    shared = {name: TopicConfig(topic_name=name, read_queue_nums=2, write_queue_nums=2) for name in ("T", "U")}
    address = "127.0.0.1:20911"
    cluster.names.embed(
        Registration("DefaultCluster", "broker-B", 0, address, address, shared, DataVersion(), acting_master=False)
    )
    a, b = cluster.member("a"), cluster.member("b")
    assert cluster.given(a, "a") == [("broker-B", 0, "PULL"), ("broker-B", 1, "PULL"), ("broker-a", 0, "PULL")]
    cluster.set_mode(a)
    assert cluster.given(b, "b") == [("broker-B", -1, "POP"), ("broker-a", -1, "POP")]


# -- name servers elsewhere


@pytest.fixture
def env() -> Env:
    return Env(wall_ms=1, mono_ms=1_000)


def routes(env: Env) -> TopicRoutes:
    return TopicRoutes(asks=True, refresh_ms=lambda: 30_000, now_ms=env.mono_ms)


def route(queues: int = 2, perm: int = 6) -> TopicRouteData:
    return TopicRouteData(queue_datas=[QueueData(broker_name="b", read_queue_nums=queues, write_queue_nums=1, perm=perm)])


def known(found: TopicRoutes, topic: str) -> list[int] | None:
    queues = finished(found.queues(topic))
    return None if queues is None else [queue.queue_id for queue in queues]


def test_a_name_server_elsewhere_is_asked_once_and_again_later(env: Env) -> None:
    found = routes(env)
    asking = [found.queues("T"), found.queues("T")]
    for one in asking:
        assert next(one) is not None
    assert found.next_due_ms() == 0
    assert found.due(env.mono_ms) == ["T"]
    assert found.due(env.mono_ms) == [], "it is under way"
    found.found("T", route())
    for one in asking:
        with pytest.raises(StopIteration) as end:
            next(one)
        assert [queue.queue_id for queue in end.value.value] == [0, 1]
    due_ms = found.next_due_ms()
    assert due_ms is not None
    assert due_ms > env.mono_ms
    assert found.due(due_ms) == ["T"]
    found.failed("T")
    assert known(found, "T") == [0, 1], "what was known counts on"
    found.due(due_ms + 30_000)
    found.unknown("T")
    assert known(found, "T") is None


def test_everybody_who_waits_for_a_route_goes_on(env: Env) -> None:
    found = routes(env)
    pauses = [next(found.queues("T")) for _ in range(3)]
    ended: list[int] = []
    for number, pause in enumerate(pauses):
        assert pause is not None
        pause.then(lambda number=number: ended.append(number))
    found.found("T", route())
    assert ended == [0, 1, 2]


def test_what_cannot_be_read_is_no_queue_and_too_many_are_none(env: Env) -> None:
    found = routes(env)
    found.found("silent", route(perm=2))
    found.found("vast", route(queues=2**31 - 1))
    found.found("large", route(queues=QUEUES_MAX))
    assert known(found, "silent") == []
    assert known(found, "vast") == []
    assert known(found, "large") == list(range(QUEUES_MAX))


def test_only_so_many_topics_are_remembered(env: Env) -> None:
    found = routes(env)
    for number in range(TOPICS_MAX + 1):
        found.found(f"T{number}", route())
    assert known(found, "T1") == [0, 1]
    assert next(found.queues("T0")) is not None, "it is asked about again"


def test_a_broker_without_name_servers_knows_no_queues(tmp_path: Path) -> None:
    broker = Harness(tmp_path / "store")
    broker.topic("T")
    body = {"topic": "T", "consumerGroup": "G", "clientId": "a", "strategyName": "AVG", "messageModel": "BROADCASTING"}
    assert bytes(broker.connect().ask(QueryAssignment(), json.dumps(body).encode()).body) == b"{}"
    assert isinstance(broker.capability(400), Assignment)
    broker.stop()
