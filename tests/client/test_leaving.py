"""A consumer that leaves while something is wrong: whoever can still hear how far it is does."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from rmq_client.messages import Message
from tests.client.consumers import FIRST, Heard
from tests.client.fake_cluster import client_of
from tests.client.sim_cluster import SimCluster


async def _left(cluster: SimCluster, messages: int, *, deaf: bool, **settings: Any) -> dict[str, int]:
    """Consume all and leave, broker a deaf by then: how much of each broker's queues is told."""
    heard = Heard()
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for number in range(messages):
            await producer.send(Message("T", b"%d" % number))
        told = {"persist_consumer_offset_interval_ms": 3_600_000, **FIRST, **settings}
        async with client.push_consumer("G", {"T": "*"}, heard, **told):
            await heard.until(messages)
            for broker in cluster.kept.values():
                broker.progress.clear()
            cluster.a.deaf = deaf
    return {
        name: sum(at for (_, topic, _), at in broker.progress.items() if topic == "T") for name, broker in cluster.kept.items()
    }


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_broker_that_does_not_answer_keeps_no_other_from_hearing(autojump_clock: MockClock, orderly: bool) -> None:
    cluster = SimCluster(1, queues=8)
    assert await _left(cluster, 160, deaf=True, orderly=orderly) == {"broker-a": 0, "broker-b": 80}
    assert not cluster.kept["broker-b"].locks


async def test_who_waits_for_no_listener_still_tells(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=2)
    assert await _left(cluster, 40, deaf=False, await_termination_ms=0) == {"broker-a": 20, "broker-b": 20}
