"""One broker takes connections and answers nothing: queues of the others do not wait for it."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.client.consumers import FIRST, Heard
from tests.client.fake_cluster import client_of
from tests.client.sim_cluster import SimCluster


@pytest.mark.parametrize("orderly", [False, True])
async def test_the_others_are_consumed_at_once_and_it_is_when_it_is_back(autojump_clock: MockClock, orderly: bool) -> None:
    cluster = SimCluster(3, queues=32)
    for broker in cluster.kept.values():
        for queue_id in range(32):
            broker.store("T", queue_id, b"%s-%d" % (broker.name.encode(), queue_id), b"", cluster.wall())
    cluster.a.deaf = True
    heard = Heard()
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, heard, orderly=orderly, **FIRST):
        with trio.fail_after(10):  # two questions of three seconds: who is a member, where to begin
            await heard.until(32)
        assert all(body.startswith(b"broker-b") for body in heard.bodies)
        cluster.a.deaf = False
        with trio.fail_after(10):
            await heard.until(64)
