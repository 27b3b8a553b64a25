"""How much a push consumer takes in, and how soon it asks again: of a topic together, and of a broker that has enough to do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmq_client.consuming.listener import Context
from rmq_client.consuming.process_queue import ProcessQueue
from rmq_client.errors import CallerError
from rmq_client.messages import Message
from rmq_client.settings import ConsumerSettings
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.pull import PullMessage, PullMessageResponse
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import Reply, client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

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


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_full_queue_is_pulled_as_soon_as_something_is_done_and_not_looked_at_before(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, orderly: bool
) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(4)
    looks: list[float] = []
    done: list[float] = []
    too_full = ProcessQueue.too_full

    def counted(self: ProcessQueue, **limits: Any) -> str | None:
        found = too_full(self, **limits)
        if found:
            looks.append(trio.current_time())
        return found

    async def listen(messages: Messages, context: Context) -> None:
        await pass_time(60.3)
        done.append(trio.current_time())
        cluster.done.update((message.queue.broker_name, message.unit.physical_offset) for message in messages)

    monkeypatch.setattr(ProcessQueue, "too_full", counted)
    told: dict[str, Any] = {"pull_threshold_for_queue": 1, "pull_batch_size": 2, "consume_thread_max": 1, "orderly": orderly}
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, listen, **told, **FIRST):
        await pass_time(100)
        times = [at_s for at_s, command in cluster.a.asked(PULL) if command.ext_map()["topic"] == "T"]
        assert len(done) == 1
        assert [at_s for at_s in times if at_s > 1] == [pytest.approx(done[0], abs=0.051)]
        assert len(looks) < 110
        await pass_time(200)


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


@pytest.mark.parametrize("code", [ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_NOT_FOUND, ResponseCode.SUCCESS])
async def test_a_broker_that_brings_nothing_and_goes_nowhere_is_not_asked_without_a_pause(
    autojump_clock: MockClock, code: ResponseCode
) -> None:
    """As a slave that is behind its dead master; what comes after all is there within a second."""
    cluster = SimCluster(1, queues=1)
    heard = Heard()
    usual = cluster.a.answers[PULL]

    def answer(command: Command) -> Reply:
        at = command.header(PullMessage).queue_offset
        return code, PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=at, min_offset=0, max_offset=0), b""

    for server in (cluster.a, cluster.b):
        server.answers[PULL] = answer
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, heard, **FIRST):
        await pass_time(30.1)
        times = [at_s for at_s, command in cluster.a.asked(PULL) if command.ext_map()["topic"] == "T"]
        assert 20 < len(times) < 40
        cluster.a.answers[PULL] = usual
        cluster.fill(1)
        with trio.fail_after(1.1):
            await heard.until(1)


async def test_a_pull_that_was_held_is_followed_by_the_next_at_once(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    async with client_of(cluster) as client, client.push_consumer("G", {"T": "*"}, Heard(), **FIRST):
        await pass_time(46)
        times = [at_s for at_s, command in cluster.a.asked(PULL) if command.ext_map()["topic"] == "T"]
    assert [later - before for before, later in pairwise(times)] == pytest.approx([15.0] * 3)
