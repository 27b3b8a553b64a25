"""How much a push consumer takes in, and how soon it asks again: of a topic together, and of a broker that has enough to do."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from rmq_client.consuming.listener import Context
from rmq_client.errors import CallerError
from rmq_client.messages import Message
from rmq_client.settings import ConsumerSettings
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import client_of, pass_time
from tests.client.sim_cluster import SimCluster

PULL = RequestCode.PULL_MESSAGE
MIB = 1 << 20


def test_the_share_of_a_queue() -> None:
    assert ConsumerSettings().limits_of_queue(8) == (1_000, 100 * MIB)
    told = ConsumerSettings(pull_threshold_for_topic=20, pull_threshold_size_for_topic=40 * MIB)
    assert [told.limits_of_queue(count) for count in (0, 8, 50)] == [(20, 40 * MIB), (2, 5 * MIB), (1, MIB)]
    for name in ("pull_threshold_for_topic", "pull_threshold_size_for_topic"):
        with pytest.raises(CallerError, match=name):
            ConsumerSettings(**{name: 0})


async def test_no_more_of_a_topic_is_here_than_it_may_have(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=2)

    async def hang(messages: Messages, context: Context) -> None:
        await trio.Event().wait()

    told = {"pull_threshold_for_topic": 40, "pull_batch_size": 4, "await_termination_ms": 10, **FIRST}
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for number in range(400):
            await producer.send(Message("T", b"%d" % number))
        async with client.push_consumer("G", {"T": "*"}, hang, **told) as consumer:
            consumer.pause()  # until it has all its queues
            await pass_time(5)
            consumer.resume()
            await pass_time(15)
            held = [one.count for queue, one in consumer._assignment.queues.items() if queue.topic == "T"]
    assert len(held) == 4
    assert all(40 // 6 < one <= 40 // 4 + 4 for one in held), "4 queues, and 2 of retries once they are there"


@pytest.mark.parametrize(("code", "soon"), [(ResponseCode.FLOW_CONTROL, True), (ResponseCode.SYSTEM_BUSY, False)])
async def test_a_busy_broker_is_asked_again_soon(autojump_clock: MockClock, code: ResponseCode, soon: bool) -> None:
    cluster = SimCluster(1, queues=1)
    heard = Heard()
    async with client_of(cluster) as client:
        await client.producer("P").send(Message("T", b"x"))
        for server in (cluster.a, cluster.b):
            usual, refused = server.answers[PULL], iter(range(5))

            def answer(command: Command, usual=usual, refused=refused):  # type: ignore[no-untyped-def]
                return (code, None, b"") if next(refused, None) is not None else usual(command)

            server.answers[PULL] = answer
        began_s = trio.current_time()
        async with client.push_consumer("G", {"T": "*"}, heard, **FIRST):
            await heard.until(1)
        took_s = trio.current_time() - began_s
    assert (took_s < 1) is soon
    assert soon or took_s >= 6, "three seconds each time"
