"""Brokers with a slave: who is asked while the master is slow, busy or gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from rmq_client.consuming.received import ReceivedMessage
from rmq_client.consuming.subscriptions import SQL92, Subscription
from rmq_client.errors import BrokerError, CallerError, NoBroker, Unreachable
from rmq_client.messages import Message, MessageQueue
from rmq_wire import sys_flag
from rmq_wire.bodies.connections import ConsumerIdList
from rmq_wire.bodies.route import BrokerData
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.offsets import QueryConsumerOffsetResponse
from rmq_wire.headers.pull import PullMessageResponse
from tests.client.fake_cluster import BROKER_A, FakeCluster, FakeServer, Reply, client_of, refusing
from tests.support.mock_time import pass_time

Clock = trio.testing.MockClock
SLAVE = "10.0.1.2:10911"
PULL, QUERY, UPDATE = RequestCode.PULL_MESSAGE, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.UPDATE_CONSUMER_OFFSET
QUEUE = MessageQueue("T", "broker-a", 0)


class WithSlave(FakeCluster):
    """One broker, which has a slave.  `addresses`: those that are known; `suggests`: where its answers say one should read."""

    def __init__(self) -> None:
        super().__init__(brokers=("broker-a",), queues=1)
        self.slave = self.servers[SLAVE] = FakeServer(SLAVE)
        self.addresses = {0: BROKER_A, 1: SLAVE}
        self.suggests = 0
        for server in (self.a, self.slave):
            server.answers[PULL] = self.nothing_new
            server.answers[QUERY] = lambda command: (ResponseCode.SUCCESS, QueryConsumerOffsetResponse(offset=7), b"")
            server.answers[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = self.members

    def broker_datas(self) -> list[BrokerData]:
        return [BrokerData(cluster="C", broker_name="broker-a", broker_addrs=dict(self.addresses))]

    def nothing_new(self, command: Command) -> Reply | None:
        held, offset = int(command.ext_map()["suspendTimeoutMillis"]), int(command.ext_map()["queueOffset"])
        if held and offset == 7:
            passed = PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=8, min_offset=0, max_offset=8)
            return ResponseCode.PULL_RETRY_IMMEDIATELY, passed, b""
        if held:
            return None
        header = PullMessageResponse(suggest_which_broker_id=self.suggests, next_begin_offset=7, min_offset=0, max_offset=7)
        return ResponseCode.PULL_NOT_FOUND, header, b""

    def members(self, command: Command) -> Reply:
        return ResponseCode.SUCCESS, None, ConsumerIdList(consumer_id_list=[self.client_id]).encode()

    client_id = ""


def flags_of(server: FakeServer) -> list[int]:
    """Of the pulls that it heard."""
    return [int(command.ext_map()["sysFlag"]) for command in server.heard if command.code == PULL]


async def test_the_next_pull_goes_where_the_last_answer_said(autojump_clock: Clock) -> None:
    cluster = WithSlave()
    async with client_of(cluster) as client:
        puller = client.puller("G")
        cluster.suggests = 1
        await puller.pull(QUEUE, 7, commit_offset=5)
        assert (cluster.a.count(PULL), cluster.slave.count(PULL)) == (1, 0)
        assert flags_of(cluster.a)[0] & sys_flag.PULL_COMMIT_OFFSET
        cluster.suggests = 0
        await puller.pull(QUEUE, 7, commit_offset=5)
        assert (cluster.a.count(PULL), cluster.slave.count(PULL)) == (1, 1)
        assert not flags_of(cluster.slave)[0] & sys_flag.PULL_COMMIT_OFFSET, "a slave keeps no progress that a pull takes along"
        await puller.pull(QUEUE, 7)
        assert (cluster.a.count(PULL), cluster.slave.count(PULL)) == (2, 1)


async def test_a_suggested_slave_that_is_gone_is_the_master_again(autojump_clock: Clock) -> None:
    cluster = WithSlave()
    async with client_of(cluster) as client:
        puller = client.puller("G")
        cluster.suggests = 1
        await puller.pull(QUEUE, 7)
        del cluster.addresses[1]
        await pass_time(31)
        await puller.pull(QUEUE, 7)
        assert (cluster.a.count(PULL), cluster.slave.count(PULL)) == (2, 0)


async def test_without_a_master_the_slave_is_read_and_keeps_progress(autojump_clock: Clock) -> None:
    """As `RemoteBrokerOffsetStore` does, which asks whichever broker of the name is there."""
    cluster = WithSlave()
    del cluster.addresses[0]
    async with client_of(cluster) as client:
        puller = client.puller("G")
        await puller.pull(QUEUE, 7, commit_offset=5)
        assert await puller.committed_offset(QUEUE) == 7
        await puller.commit_offset(QUEUE, 9)
        assert (cluster.slave.count(PULL), cluster.slave.count(QUERY), cluster.slave.count(UPDATE)) == (1, 1, 1)
        assert not cluster.a.connections
        with pytest.raises(NoBroker, match="no route names a master"):
            await puller.max_offset(QUEUE)
        with pytest.raises(NoBroker, match="no broker of it has a master now"):
            await client.producer("P").send(Message("T", b"x"))


async def test_a_member_of_a_group_begins_and_goes_on_without_a_master(autojump_clock: Clock) -> None:
    cluster = WithSlave()
    del cluster.addresses[0]

    async def listen(messages: Sequence[ReceivedMessage], context: Any) -> None:
        raise AssertionError

    async with client_of(cluster) as client:
        cluster.client_id = client.client_id
        async with client.push_consumer("G", {"T": "*"}, listen):
            await pass_time(12)
            assert cluster.slave.count(PULL) > 0
            asked = [command for command in cluster.slave.heard if command.code == PULL]
            assert [int(command.ext_map()["queueOffset"]) for command in asked] == [7, 8]
            before = cluster.slave.count(UPDATE)
            assert before, "every five seconds"
        told = [command.ext_map()["commitOffset"] for command in cluster.slave.heard if command.code == UPDATE]
        assert set(told) == {"8"}
        assert len(told) > before, "it says how far it is when it leaves"
        assert not cluster.a.connections


async def test_an_old_broker_is_not_asked_to_filter_by_properties(autojump_clock: Clock) -> None:
    """Source: `PullAPIWrapper.pullKernelImpl`, which knows versions by the answers to heartbeats, as we do."""
    cluster = WithSlave()
    by_price = Subscription("price > 10", SQL92)
    async with client_of(cluster) as client:
        client.producer("P")
        puller = client.puller("G")
        await puller.pull(QUEUE, 7, subscription=by_price)
        assert client.broker_versions == {}, "nobody has told it yet"
        await pass_time(2)
        assert client.broker_versions == {BROKER_A: 513}
        client.broker_versions[BROKER_A] = 231
        with pytest.raises(CallerError, match=r"older than 4\.1\.0"):
            await puller.pull(QUEUE, 7, subscription=by_price)
        await puller.pull(QUEUE, 7, subscription=Subscription("A"))
        await pass_time(31)
        await puller.pull(QUEUE, 7, subscription=by_price)


async def test_a_subscription_is_checked_by_a_broker_that_answers(autojump_clock: Clock) -> None:
    cluster = FakeCluster(queues=1)
    cluster.a.up = False
    asked = RequestCode.CHECK_CLIENT_CONFIG
    cluster.b.answers[asked] = refusing(ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    async with client_of(cluster) as client:

        async def begin(subscription: Subscription) -> None:
            async with client.push_consumer("G", {"T": subscription}, lambda messages, context: None):
                raise AssertionError("it joined")

        with pytest.raises(BrokerError, match="SUBSCRIPTION_PARSE_FAILED"):
            await begin(Subscription("price >", SQL92))
        assert cluster.b.count(asked) == 1
        cluster.b.up = False
        await cluster.b.hang_up()
        with pytest.raises(Unreachable):
            await begin(Subscription("price > 1", SQL92))
        with pytest.raises(AssertionError, match="it joined"):
            await begin(Subscription("A"))
