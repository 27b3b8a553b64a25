"""A client among servers that fail in every way: in memory, on trio's mock clock, so hours pass in milliseconds."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
import trio
import trio.testing

from rmq_client.client import connect
from rmq_client.core import UNUSED_MS
from rmq_client.errors import (
    BrokerError,
    CallerError,
    ClientClosed,
    NoRoute,
    Unreachable,
)
from rmq_client.messages import Message
from rmq_client.name_servers import addresses_of
from rmq_client.signing import Credentials
from rmq_wire.bodies.heartbeat import HeartbeatData
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.headers.clients import GetConsumerRunningInfo, NotifyConsumerIdsChanged
from rmq_wire.headers.topics import GetTopicConfig
from tests.client.fake_cluster import BROKER_A, BROKER_B, NAMESRV, FakeCluster, client_of
from tests.support.mock_time import pass_time

Clock = trio.testing.MockClock
ROUTE, SEND, BEAT = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT
HELLO = Message("T", b"hello")


# Routes


async def test_nothing_is_dialled_before_somebody_needs_it(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        client.producer("P")
        await trio.testing.wait_all_tasks_blocked()
        assert not any(server.connections for server in cluster.servers.values())


async def test_a_route_is_asked_for_once_and_then_every_thirty_seconds(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        producer = client.producer("P")
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(producer.send, HELLO)
        assert cluster.namesrv.count(ROUTE) == 1, "twenty tasks wait for one answer"
        await pass_time(95)
        assert cluster.namesrv.count(ROUTE) == 4
        cluster.queues = 3
        await pass_time(30)
        assert len(await producer.queues("T")) == 6


async def test_a_route_that_nobody_uses_is_not_asked_for_any_more(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        await client.producer("P").send(HELLO)
        await pass_time(UNUSED_MS / 1e3 + 60)
        asked = cluster.namesrv.count(ROUTE)
        await pass_time(600)
        assert cluster.namesrv.count(ROUTE) == asked
        assert client.routes.topics == []
        assert client.connections.open_addresses == [NAMESRV], "nor is a connection kept to brokers that no route names"


async def test_nothing_is_kept_of_topics_without_a_route(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.topics.discard("TBW102")
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for number in range(3):
            with pytest.raises(NoRoute):
                await producer.send(Message(f"no-{number}", b"x"))
        await producer.send(HELLO)
        assert client._used_ms.keys() == {"T"}


async def test_a_topic_that_is_new_takes_the_queues_of_its_model(autojump_clock: Clock) -> None:
    cluster = FakeCluster(queues=8)
    async with client_of(cluster) as client:
        producer = client.producer("P", default_topic_queue_nums=3)
        assert len(await producer.queues("new")) == 6
        await producer.send(Message("new", b"x"))
        cluster.topics.discard("TBW102")
        with pytest.raises(NoRoute, match="no broker would make it"):
            await producer.send(Message("other", b"x"))


async def test_the_next_name_server_is_asked_when_one_fails(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    second = cluster.servers["10.0.0.2:9876"] = type(cluster.namesrv)("10.0.0.2:9876")
    second.answers = cluster.namesrv.answers
    cluster.namesrv.up = False
    async with client_of(cluster, name_servers=f"{NAMESRV};10.0.0.2:9876") as client:
        for topic in ("T", "TBW102"):
            await client.route(topic)
        assert second.count(ROUTE) == 2
        second.deaf, cluster.namesrv.up = True, True
        began = trio.current_time()
        await client.route("T", fresh=True)
        assert trio.current_time() - began == pytest.approx(1.5, abs=0.1), "the deaf one gets half of the time"
        second.deaf, second.up, cluster.namesrv.up = False, False, False
        await cluster.namesrv.hang_up()
        await second.hang_up()
        with pytest.raises(Unreachable, match=r"no name server answers: .*refused.*; .*refused"):
            await client.route("T", fresh=True)


async def test_an_old_route_stays_while_no_name_server_answers(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        producer = client.producer("P")
        await producer.send(HELLO)
        cluster.namesrv.up = False
        await cluster.namesrv.hang_up()
        await pass_time(300)
        await producer.send(HELLO)
        assert len(cluster.stored) == 2


async def test_garbage_for_a_route_is_the_server_s_fault(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.namesrv.answers[ROUTE] = lambda command: (0, None, b"[")
    async with client_of(cluster) as client:
        with pytest.raises(BrokerError, match="cannot be read"):
            await client.route("T")


@pytest.mark.parametrize("text", ["", ";", "host", "host:0", "host:70000", "host:x", None, ":9876"])
async def test_what_names_no_name_server(autojump_clock: Clock, text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(CallerError, match="name server"):
        async with connect(text):
            pass


def test_lists_of_name_servers() -> None:
    assert addresses_of("a:1;b:2, a:1") == ("a:1", "b:2")
    assert addresses_of(["[::1]:9876"]) == ("[::1]:9876",)


# Heartbeats, notices, leaving


async def test_brokers_hear_of_the_groups_each_thirty_seconds_and_a_goodbye(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster, instance_name="me") as client:
        producer = client.producer("P")
        with pytest.raises(CallerError, match="has a producer of the group P"):
            client.producer("P")
        await producer.send(HELLO)
        await pass_time(95)
        assert cluster.a.count(BEAT) == cluster.b.count(BEAT) == 4
        beat = next(command for command in cluster.a.heard if command.code == BEAT)
        said = HeartbeatData.read(beat.body)
        assert said.client_id == "10.9.8.7@me"
        assert [one.group_name for one in said.producer_data_set] == ["P"]
        assert beat.language_name == "PYTHON"
    for server in (cluster.a, cluster.b):
        [goodbye] = [command for command in server.heard if command.code == RequestCode.UNREGISTER_CLIENT]
        assert goodbye.ext_map() == {"clientID": "10.9.8.7@me", "producerGroup": "P"}


async def test_a_client_without_groups_sends_no_heartbeat(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        await client.route("T")
        await pass_time(100)
        assert cluster.a.count(BEAT) == 0


async def test_what_a_broker_asks_is_heeded_or_refused(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        heard: list[str] = []
        client.on_members_change.append(heard.append)
        await client.producer("P").send(HELLO, select=lambda queues, message: queues[0])
        await cluster.a.ask(NotifyConsumerIdsChanged(consumer_group="G"), oneway=True)
        await cluster.a.ask(GetConsumerRunningInfo(consumer_group="G", client_id="c"))
        await cluster.a.ask(GetTopicConfig(topic="T"))
        await trio.testing.wait_all_tasks_blocked()
        assert heard == ["G"]
        nobody, unknown = [command for command in cluster.a.heard if command.is_response]
        assert (nobody.code, nobody.remark) == (ResponseCode.SYSTEM_ERROR, "The Consumer Group <G> not exist in this consumer")
        assert (unknown.code, unknown.opaque) == (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, 77)


async def test_leaving_ends_what_waits_and_nothing_goes_on(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.deaf = cluster.b.deaf = True
    async with client_of(cluster) as client:
        producer = client.producer("P")
        await producer.queues("T")
    with pytest.raises(ClientClosed):
        await producer.send(HELLO, timeout_ms=100)


async def test_an_error_of_the_block_comes_out_as_it_is(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    with pytest.RaisesGroup(KeyError):  # the one group is that of the test's own nursery
        async with client_of(cluster):
            raise KeyError("mine")


# Signatures


async def test_every_request_is_signed_over_its_fields_and_body(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    credentials = Credentials("me", "secret", "token")
    assert "secret" not in repr(credentials)
    async with client_of(cluster, credentials=credentials) as client:
        await client.producer("P").send(HELLO)
        await client.heartbeat()
    heard = [command for server in cluster.servers.values() for command in server.heard]
    assert {command.code for command in heard} >= {ROUTE, SEND, BEAT}
    for command in heard:
        fields = dict(command.ext_map())
        signature = fields.pop("Signature")
        content = "".join(value for _, value in sorted(fields.items())).encode() + bytes(command.body)
        assert signature == base64.b64encode(hmac.new(b"secret", content, hashlib.sha1).digest()).decode()
        assert (fields["AccessKey"], fields["SecurityToken"]) == ("me", "token")


async def test_two_servers_two_connections(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for _ in range(8):
            await producer.send(HELLO)
        assert sorted(client.connections.open_addresses) == sorted([NAMESRV, BROKER_A, BROKER_B])
        assert [server.connections for server in cluster.servers.values()] == [1, 1, 1]
