"""A route that lacks a broker for one poll, as that of a name server that was started again: the broker lives, and must hear."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from rmq_client.consuming.listener import Context
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.fastjson import MessageQueue
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import Reply, client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
MINE = ("G", "T", 0)


def _hide(cluster: SimCluster, name: str) -> None:
    """From now on no route names this broker."""

    def route(command: Command) -> Reply:
        address = cluster.brokers.pop(name)
        try:
            return SimCluster.route(cluster, command)
        finally:
            cluster.brokers[name] = address

    cluster.namesrv.answers[ROUTE] = route


@pytest.mark.parametrize("orderly", [False, True])
async def test_its_progress_and_locks_are_not_lost(autojump_clock: MockClock, orderly: bool) -> None:
    """Polls are at 30 and 60 s; progress is told by itself at 27.5 and 32.5 s."""
    cluster = SimCluster(1, queues=1)
    heard = Heard()

    async def listen(messages: Messages, context: Context) -> None:
        await pass_time(0.1)  # the next pull is under way, and says nothing of these
        heard.add(messages)

    told: Any = {"orderly": orderly, "consume_message_batch_max_size": 32, **FIRST}
    async with client_of(cluster) as client:
        await pass_time(2.5)
        async with client.push_consumer("G", {"T": "*"}, listen, **told) as consumer:
            await pass_time(27)
            broker = cluster.kept["broker-b"]
            for number in range(7):
                broker.store("T", 0, b"%d" % number, b"", cluster.wall())
            cluster.done.update(("broker-b", place) for place in range(7))
            await heard.until(7)
            _hide(cluster, "broker-b")
            await pass_time(2.4)
            assert consumer.queues == [MessageQueue("T", "broker-a", 0)]
            assert broker.progress[MINE] == 7
            assert MINE not in broker.locks
            cluster.namesrv.answers[ROUTE] = cluster.route
            await pass_time(30)
            assert len(consumer.queues) == 2
        assert sorted(heard.bodies) == [b"%d" % number for number in range(7)], "nothing comes twice"


async def test_its_address_is_kept_for_as_long_as_a_queue_of_it_is_held(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, Heard(), **FIRST):
        await pass_time(29.5)
        _hide(cluster, "broker-b")
        await pass_time(25)
        assert client.routes.master("broker-b") is not None
        await pass_time(30)
        assert client.routes.master("broker-b") is None
        assert "10.0.2.1:10911" not in client.connections.open_addresses


async def test_a_broker_that_is_gone_is_asked_nothing_more(autojump_clock: MockClock) -> None:
    """Its queues would each wait for it, and those of others behind them."""
    cluster = SimCluster(1, queues=1)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, Heard(), **FIRST):
        await pass_time(29.5)
        cluster.b.up = False
        await cluster.b.hang_up()
        _hide(cluster, "broker-b")
        await pass_time(1)
        assert client.routes.master("broker-b") is None
