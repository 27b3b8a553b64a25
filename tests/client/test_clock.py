"""Wall clocks that jump by hours, and a consumer that pauses for long: locks, queues and time-outs do not care."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rmq_client.consuming.listener import Context
from rmq_client.messages import Message
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

HOUR_MS = 3_600_000


async def test_a_clock_that_is_set_back_keeps_no_lock_alive(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    called: list[float] = []

    async def listen(messages: Messages, context: Context) -> None:
        called.append(trio.current_time())
        await pass_time(1)

    async with client_of(cluster) as client:
        producer = client.producer("P")
        for number in range(400):
            await producer.send(Message("T", b"%d" % number))
        async with client.push_consumer("G", {"T": "*"}, listen, orderly=True, **FIRST):
            await pass_time(10)
            cluster.skew_ms -= 5 * HOUR_MS
            cluster.a.deaf = cluster.b.deaf = True
            deaf_s = trio.current_time()
            await pass_time(120)
            assert called[-1] - deaf_s <= 31, "nobody has renewed the locks: they may be somebody else's"
            cluster.a.deaf = cluster.b.deaf = False
            back = len(called)
            await pass_time(60)
            assert len(called) > back + 20


async def _slow_once(cluster: SimCluster, seconds: float, *, pause: bool = False) -> list[bytes]:
    """What a listener got that takes so long with its first message, while something happens."""
    heard = Heard()

    async def listen(messages: Messages, context: Context) -> None:
        heard.add(messages)
        await pass_time(seconds)

    async with client_of(cluster) as client:
        await client.producer("P").send(Message("T", b"slow"))
        async with client.push_consumer("G", {"T": "*"}, listen, rebalance_interval_ms=500, **FIRST) as consumer:
            await heard.until(1)
            if pause:
                consumer.pause()
                await pass_time(seconds)
                consumer.resume()
            else:
                cluster.skew_ms += 5 * HOUR_MS
            await pass_time(seconds + 60)
            await client.producer("P2").send(Message("T", b"next"))
            await heard.until(2)
    return heard.bodies


async def test_a_clock_that_is_set_on_takes_no_queue_away(autojump_clock: MockClock) -> None:
    assert await _slow_once(SimCluster(1, queues=1), 5) == [b"slow", b"next"]


async def test_a_consumer_may_pause_for_long(autojump_clock: MockClock) -> None:
    assert await _slow_once(SimCluster(1, queues=1), 400, pause=True) == [b"slow", b"next"]


async def test_a_time_that_nobody_named_is_half_an_hour_ago(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    async with client_of(cluster) as client:
        async with client.push_consumer("G", {"T": "*"}, Heard(), consume_from_where="CONSUME_FROM_TIMESTAMP"):
            await pass_time(5)
        asked = [int(command.ext_map()["timestamp"]) for command in cluster.a.heard if command.code == 29]
    assert asked
    assert all(abs(cluster.wall() - HOUR_MS // 2 - one) < 60_000 for one in asked)
