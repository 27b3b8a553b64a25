"""A consumer that does not get to run leaves nothing behind: no member that nobody is, no broken heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmq_client.consuming.subscriptions import Subscription
from rmq_client.errors import AnswerLate, CallerError
from rmq_client.messages import Message
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command
from rmq_wire.fastjson import MessageQueue
from rmq_wire.layout.frame import FRAME_BYTES_MAX
from tests.client.consumers import FIRST, Heard
from tests.client.fake_cluster import FakeServer, client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time


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


def _be_slow(server: FakeServer) -> None:
    """Answer heartbeats after half a second."""
    beat = server.answers[RequestCode.HEART_BEAT]

    def slowly(command: Command) -> Any:
        async def heard() -> Any:
            await pass_time(0.5)
            return beat(command)

        return heard

    server.answers[RequestCode.HEART_BEAT] = slowly


@pytest.mark.parametrize("who", ["a producer comes", "a consumer goes"])
async def test_who_comes_or_goes_meanwhile_does_not_hold_up_who_starts(autojump_clock: MockClock, who: str) -> None:
    """The next heartbeat of the client is half a minute away."""
    cluster = SimCluster(1)
    async with client_of(cluster) as client, trio.open_nursery() as nursery:
        leaving = trio.CancelScope()

        async def other() -> None:
            with leaving:
                async with client.push_consumer("Other", {"T": "*"}, Heard(), **FIRST):
                    await trio.Event().wait()

        nursery.start_soon(other)
        await pass_time(5)
        for server in (cluster.a, cluster.b):
            _be_slow(server)
        nursery.start_soon(client.heartbeat)
        await pass_time(0.1)

        async def come_or_go() -> None:
            await pass_time(0.1)  # the consumer's own heartbeat waits behind that one
            if who == "a producer comes":
                client.producer("P")
            else:
                leaving.cancel()

        nursery.start_soon(come_or_go)
        async with client.push_consumer("G", {"T": "*"}, Heard(), **FIRST) as consumer:
            await pass_time(8)
            assert len(consumer.queues) == 4
        leaving.cancel()


async def test_a_question_that_cannot_be_written_is_the_callers_error_and_the_client_lives(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        for _ in range(2):
            with pytest.raises(CallerError, match="cannot be written"):
                await client.topics.create("T2", attributes={"message.type": "\ud800"})
        huge = client.producer("huge", max_message_size=2 * FRAME_BYTES_MAX, compress_msg_body_over_howmuch=4 * FRAME_BYTES_MAX)
        with pytest.raises(CallerError, match="is the most"):
            await huge.send(Message("T", bytes(FRAME_BYTES_MAX)))
        await pass_time(60)
        assert (await client.producer("P").send(Message("T", b"x"))).queue_offset == 0


async def test_a_send_that_had_to_choose_for_too_long_is_late(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        producer = client.producer("P")

        def slowly(queues: Sequence[MessageQueue], _: Message) -> MessageQueue:
            autojump_clock.jump(1)
            return queues[0]

        await producer.queues("T")
        with pytest.raises(AnswerLate):
            await producer.send_oneway(Message("T", b"x"), select=slowly, timeout_ms=100)
