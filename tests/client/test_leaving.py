"""A consumer that leaves while something is wrong: whoever can still hear how far it is does."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from rmq_client.messages import Message
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from tests.client.consumers import FIRST, Heard
from tests.client.fake_cluster import FakeServer, client_of
from tests.client.sim_cluster import Broker, SimCluster
from tests.support.mock_time import pass_time


def _make_tables_as_java_does(server: FakeServer, broker: Broker) -> None:
    """Whoever finds no table of the topic puts one with its own queue, in place of one that came meanwhile."""
    update = server.answers[RequestCode.UPDATE_CONSUMER_OFFSET]

    def slowly(command: Command) -> Any:
        topic = command.ext_map()["topic"]
        found = any(known == topic for _, known, _ in broker.progress)

        async def put() -> Any:
            await pass_time(0.01)
            if not found:
                for key in [key for key in broker.progress if key[1] == topic]:
                    del broker.progress[key]
            return update(command)

        return put

    server.answers[RequestCode.UPDATE_CONSUMER_OFFSET] = slowly


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


async def test_a_broker_that_hears_of_a_topic_for_the_first_time_forgets_no_queue(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=8)
    for name, address in cluster.brokers.items():
        _make_tables_as_java_does(cluster.servers[address], cluster.kept[name])
    assert await _left(cluster, 160, deaf=False) == {"broker-a": 80, "broker-b": 80}
