"""Heartbeats of version 2: short as long as a broker knows all, whole whenever it may not."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from rmq_client.heartbeats import fingerprint
from rmq_wire.bodies.heartbeat import ConsumerData, HeartbeatData, SubscriptionData
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.headers.clients import HeartbeatResponse
from tests.client.fake_cluster import FakeCluster, Reply, client_of
from tests.support.mock_time import pass_time

BEAT = RequestCode.HEART_BEAT


class Consuming:
    """A member with a subscription."""

    def __init__(self) -> None:
        self.wants = "*"

    def consumer_data(self) -> ConsumerData:
        wanted = SubscriptionData(topic="T", sub_string=self.wants, sub_version=7)
        return ConsumerData(group_name="G", consume_type="CONSUME_PASSIVELY", subscription_data_set=[wanted])

    def brokers(self) -> set[str]:
        return {"broker-a"}


class Broker:
    """How one answers heartbeats."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.supports = True
        self.changed = False
        self._server = cluster.a
        cluster.a.answers[BEAT] = self.answer

    def answer(self, command: Command) -> Reply:
        return 0, HeartbeatResponse(is_support_heart_beat_v2=self.supports, is_sub_change=self.changed), b""

    def heard(self) -> list[bool]:
        """Of each heartbeat since the last time, whether it was short."""
        beats = [HeartbeatData.read(command.body) for command in self._server.heard if command.code == BEAT]
        self._server.heard.clear()
        for one in beats:
            told = [row.subscription_data_set for row in one.consumer_data_set]
            assert all(not row if one.without_sub else row for row in told)
        return [one.without_sub for one in beats]


async def test_short_once_a_broker_knows_all(autojump_clock: MockClock) -> None:
    cluster = FakeCluster()
    broker = Broker(cluster)
    async with client_of(cluster, use_heartbeat_v2=True) as client:
        consuming = Consuming()
        client.members.join_consumer("G", consuming)
        await client.route("T")
        await pass_time(100)
        assert broker.heard() == [False, True, True, True]
        consuming.wants = "A"
        await pass_time(60)
        assert broker.heard() == [False, True], "another subscription is told"
        await cluster.a.hang_up()
        await pass_time(60)
        assert broker.heard() == [False, True], "who was started again knows nothing"
        await client.heartbeat(moved=True)
        assert broker.heard() == [False]
        broker.changed = True
        await pass_time(60)
        assert broker.heard() == [True, False], "somebody in the group says something else"


@pytest.mark.parametrize(("version_2", "supports"), [(False, True), (True, False)])
async def test_whole_where_it_is_not_wanted_or_not_known(autojump_clock: MockClock, version_2: bool, supports: bool) -> None:
    cluster = FakeCluster()
    broker = Broker(cluster)
    broker.supports = supports
    async with client_of(cluster, use_heartbeat_v2=version_2) as client:
        client.members.join_consumer("G", Consuming())
        await client.route("T")
        await pass_time(100)
        marks = [HeartbeatData.read(one.body).heartbeat_fingerprint for one in cluster.a.heard if one.code == BEAT]
        assert broker.heard() == [False] * 4
    assert all(bool(mark) is version_2 for mark in marks)


def test_the_fingerprint_is_of_what_is_said() -> None:
    def said(client: str, version: int, wants: str) -> HeartbeatData:
        wanted = SubscriptionData(topic="T", sub_string=wants, sub_version=version)
        return HeartbeatData(client_id=client, consumer_data_set=[ConsumerData(group_name="G", subscription_data_set=[wanted])])

    assert fingerprint(said("a", 1, "*")) == fingerprint(said("b", 2, "*")) != fingerprint(said("a", 1, "A"))
