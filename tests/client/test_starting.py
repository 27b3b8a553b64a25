"""A consumer that does not get to run leaves nothing behind: no member that nobody is, no broken heartbeat."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rmq_client.consuming.subscriptions import Subscription
from rmq_client.errors import CallerError
from tests.client.consumers import FIRST, Heard
from tests.client.fake_cluster import client_of, pass_time
from tests.client.sim_cluster import SimCluster


async def test_who_is_cancelled_while_it_starts_is_no_member(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        await client.route("T")
        cluster.a.deaf = True
        with trio.move_on_after(1) as scope:
            async with client.push_consumer("G", {"T": "*"}, Heard(), **FIRST):
                pytest.fail("its heartbeat was not answered yet")
        assert scope.cancelled_caught
        cluster.a.deaf = False
        await pass_time(60)
        assert not any(broker.members.get("G") for broker in cluster.kept.values()), "it would be given queues"
        async with client.push_consumer("G", {"T": "*"}, Heard(), **FIRST) as consumer:
            await pass_time(5)
            assert len(consumer.queues) == 4


async def test_an_expression_without_a_tag_is_refused_and_the_client_lives(
    autojump_clock: MockClock,
) -> None:
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        with pytest.raises(CallerError, match="tag"):
            async with client.push_consumer("G", {"T": Subscription("||")}, Heard(), **FIRST):
                pytest.fail("it wants nothing")
        await pass_time(60)
        async with client.push_consumer("G", {"T": "*"}, Heard(), **FIRST) as consumer:
            await pass_time(5)
            assert len(consumer.queues) == 4
