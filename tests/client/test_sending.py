"""Sends among brokers that fail in every way: in memory, on trio's mock clock, so hours pass in milliseconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from rmq_client.client import Client
from rmq_client.errors import (
    AnswerLate,
    BrokerError,
    CallerError,
    ConnectionEnded,
    Unreachable,
    Unreadable,
)
from rmq_client.messages import Message, MessageQueue
from rmq_client.producing.producer import Producer
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.headers.clients import GetConsumerRunningInfo
from tests.client.fake_cluster import BROKER_A, NAMESRV, FakeCluster, client_of, refusing
from tests.support.mock_time import pass_time

Clock = trio.testing.MockClock
ROUTE, SEND, BEAT = RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT
HELLO = Message("T", b"hello")


# Sends that fail


async def test_a_dead_broker_costs_one_attempt(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.up = False
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for _ in range(10):
            result = await producer.send(HELLO)
            assert result.queue.broker_name == "broker-b"
    assert {name for name, _, _ in cluster.stored} == {"broker-b"}


async def test_all_brokers_dead_is_said_with_every_attempt(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.up = cluster.b.up = False
    async with client_of(cluster) as client:
        with pytest.raises(Unreachable, match="tried 3 times") as raised:
            await client.producer("P").send(HELLO)
    assert len(raised.value.attempts) == 3
    assert not raised.value.maybe_stored
    assert raised.value.fault == "network"


async def test_one_time_out_for_all_attempts(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.deaf = cluster.b.deaf = True
    async with client_of(cluster) as client:
        began = trio.current_time()
        with pytest.raises(AnswerLate, match="may be stored") as raised:
            await client.producer("P").send(HELLO, timeout_ms=800)
        assert trio.current_time() - began == pytest.approx(0.8, abs=0.01)
        assert raised.value.maybe_stored


async def test_a_limit_for_each_attempt_leaves_time_for_the_others(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.deaf = True
    async with client_of(cluster) as client:
        producer = client.producer("P", send_msg_max_timeout_per_request_ms=500)
        for _ in range(4):
            assert (await producer.send(HELLO)).queue.broker_name == "broker-b"


async def test_a_refusal_is_tried_elsewhere_or_not(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.answers[SEND] = cluster.b.answers[SEND] = refusing(ResponseCode.SYSTEM_BUSY)
    async with client_of(cluster) as client:
        producer = client.producer("P")
        with pytest.raises(BrokerError, match="SYSTEM_BUSY"):
            await producer.send(HELLO)
        assert cluster.a.count(SEND) + cluster.b.count(SEND) == 3
        cluster.a.answers[SEND] = cluster.b.answers[SEND] = refusing(ResponseCode.MESSAGE_ILLEGAL)
        with pytest.raises(BrokerError, match="MESSAGE_ILLEGAL"):
            await producer.send(HELLO)
        assert cluster.a.count(SEND) + cluster.b.count(SEND) == 4


async def test_success_that_cannot_be_read_is_not_sent_again(autojump_clock: Clock) -> None:
    """The broker has stored it; an answer of which not even the code can be read says nothing, and another broker is tried."""
    cluster = FakeCluster()
    for server in (cluster.a, cluster.b):
        server.answers[SEND] = lambda command: (cluster.store("broker-a", command), (ResponseCode.SUCCESS, None, b""))[1]
    async with client_of(cluster) as client:
        with pytest.raises(Unreadable, match="it may be stored nevertheless") as raised:
            await client.producer("P").send(HELLO)
    assert raised.value.maybe_stored
    assert len(cluster.stored) == 1


async def test_what_waited_for_room_and_never_left_is_not_stored(autojump_clock: Clock) -> None:
    """The broker takes no bytes: those of others fill what may wait."""

    class Stuck(trio.abc.Stream):
        async def send_all(self, data: Any) -> None:
            await trio.Event().wait()

        async def wait_send_all_might_not_block(self) -> None:
            await trio.Event().wait()

        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            await trio.Event().wait()
            raise AssertionError

        async def aclose(self) -> None:
            pass

    cluster = FakeCluster(brokers=("broker-a",))
    usual = cluster.dial

    async def dial(host: str, port: int) -> trio.abc.Stream:
        return Stuck() if f"{host}:{port}" == BROKER_A else await usual(host, port)

    cluster.dial = dial  # type: ignore[method-assign]
    async with client_of(cluster) as client, trio.open_nursery() as nursery:
        producer = client.producer("P", retry_times_when_send_failed=0, compress_msg_body_over_howmuch=1 << 30)

        async def fill() -> None:
            await producer.send(Message("T", bytes(4 << 20)), timeout_ms=60_000)

        for _ in range(3):
            nursery.start_soon(fill)
        await pass_time(0.1)
        with pytest.raises(Unreachable, match="takes nothing from us, 1000 ms long: nothing was sent") as raised:
            await producer.send(HELLO, timeout_ms=1_000)
        nursery.cancel_scope.cancel()
    assert not raised.value.maybe_stored


async def test_a_retry_has_the_same_id(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    refused: list[str] = []

    def refuse_first(command: Any) -> Any:
        refused.append(command.ext_map()["i"])
        return (2, None, b"") if len(refused) == 1 else cluster.store("broker-b", command)

    cluster.a.answers[SEND] = cluster.b.answers[SEND] = refuse_first
    async with client_of(cluster) as client:
        await client.producer("P").send(HELLO)
    assert refused[0] == refused[1]


async def test_a_connection_that_ends_before_the_answer(autojump_clock: Clock) -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    async with client_of(cluster) as client:
        producer = client.producer("P", retry_times_when_send_failed=0)
        await producer.send(HELLO)
        cluster.a.deaf = True
        async with trio.open_nursery() as nursery:

            async def cut() -> None:
                await pass_time(0.5)
                await cluster.a.hang_up()

            nursery.start_soon(cut)
            with pytest.raises(ConnectionEnded) as raised:
                await producer.send(HELLO)
        assert raised.value.maybe_stored
        cluster.a.deaf = False
        await producer.send(HELLO)
        assert cluster.a.connections == 2


async def test_a_half_open_connection_is_given_up_one_that_is_busy_is_not(autojump_clock: Clock) -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    async with client_of(cluster) as client:
        producer = client.producer("P", retry_times_when_send_failed=0)
        await producer.send(HELLO)
        cluster.a.answers[SEND] = lambda command: None
        async with trio.open_nursery() as nursery:

            async def others() -> None:
                for _ in range(8):
                    await pass_time(0.1)
                    await client.ask(BROKER_A, GetConsumerRunningInfo(consumer_group="G", client_id="c"))

            nursery.start_soon(others)
            with pytest.raises(AnswerLate):
                await producer.send(HELLO, timeout_ms=500)
        assert client.connections.open_addresses == [NAMESRV, BROKER_A]
        cluster.a.deaf = True
        with pytest.raises(AnswerLate):
            await producer.send(HELLO, timeout_ms=500)
        assert client.connections.open_addresses == [NAMESRV]


async def test_a_hanging_dial_ends_with_its_time_out(autojump_clock: Clock) -> None:
    cluster = FakeCluster()

    async def hang(host: str, port: int) -> trio.abc.Stream:
        await trio.Event().wait()
        raise AssertionError

    cluster.dial = hang  # type: ignore[method-assign]
    async with client_of(cluster, mq_client_api_timeout_ms=10_000, connect_timeout_ms=1_000) as client:
        began = trio.current_time()
        with pytest.raises(Unreachable, match="does not take a connection within 1000 ms"):
            await client.route("T")
        assert trio.current_time() - began == pytest.approx(1.0, abs=0.01)


# GO_AWAY


async def test_sent_away_once_the_question_goes_out_again_over_a_new_connection(autojump_clock: Clock) -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    seen = Counter[int]()

    def once(command: Any) -> Any:
        seen[command.opaque] += 1
        return (ResponseCode.GO_AWAY, None, b"") if sum(seen.values()) == 1 else cluster.store("broker-a", command)

    cluster.a.answers[SEND] = once
    async with client_of(cluster) as client:
        await client.producer("P").send(HELLO)
        assert cluster.a.connections == 2
        await trio.testing.wait_all_tasks_blocked()
        assert len(cluster.stored) == 1


async def test_sent_away_twice_another_broker_gets_it(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.answers[SEND] = refusing(ResponseCode.GO_AWAY)
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for _ in range(4):
            assert (await producer.send(HELLO)).queue.broker_name == "broker-b"
        assert cluster.a.connections > 1


async def test_what_the_old_connection_still_owes_is_waited_for(autojump_clock: Clock) -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    sends = 0

    def second_goes_away(command: Any) -> Any:
        nonlocal sends
        sends += 1
        return (ResponseCode.GO_AWAY, None, b"") if sends == 2 else cluster.store("broker-a", command)

    cluster.a.answers[SEND] = second_goes_away
    async with client_of(cluster) as client:
        producer = client.producer("P")
        await producer.queues("T")
        cluster.a.after_ms = 200
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(producer.send, HELLO)
    assert len(cluster.stored) == 3


# Latency fault tolerance


async def one_that_finds_a_slow(client: Client, cluster: FakeCluster) -> Producer:
    """A producer that has sent to broker a, which is slow, and keeps away from it."""
    producer = client.producer("P", send_latency_enable=True)
    while not any(name == "broker-a" for name, _, _ in cluster.stored):
        await producer.send(HELLO)
    return producer


async def test_a_slow_broker_is_left_alone_and_comes_back(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.after_ms = 700
    async with client_of(cluster) as client:
        producer = await one_that_finds_a_slow(client, cluster)
        before = Counter(name for name, _, _ in cluster.stored)["broker-a"]
        for _ in range(20):
            await producer.send(HELLO)
        assert Counter(name for name, _, _ in cluster.stored)["broker-a"] == before
        cluster.a.after_ms = 0
        await pass_time(2.1)
        for _ in range(4):
            await producer.send(HELLO)
        assert Counter(name for name, _, _ in cluster.stored)["broker-a"] == before + 2


async def test_probes_find_a_broker_that_is_back(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.up = False
    async with client_of(cluster) as client:
        producer = client.producer("P", send_latency_enable=True, start_detector_enable=True)
        for back in (False, True):
            cluster.a.up, cluster.b.after_ms = False, 0
            for _ in range(4):
                assert (await producer.send(HELLO)).queue.broker_name == "broker-b"
            cluster.a.up = back
            await pass_time(6)
            cluster.b.after_ms = 700
            seen = [(await producer.send(HELLO)).queue.broker_name for _ in range(4)]
            assert ("broker-a" in seen) is back, "both are paused: then one that a probe reached is as good"
            await pass_time(20)
        assert cluster.a.count(RequestCode.GET_MAX_OFFSET) >= 1


# Choosing


async def test_a_queue_a_selector_a_key_are_tried_once(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        producer = client.producer("P")
        queues = await producer.queues("T")
        assert (await producer.send(HELLO, queue=queues[3])).queue == queues[3]
        assert (await producer.send(HELLO, select=lambda found, message: found[1])).queue == queues[1]
        assert len({(await producer.send(HELLO, order_key="order-7")).queue for _ in range(5)}) == 1
        cluster.b.up = False
        await cluster.b.hang_up()
        with pytest.raises(Unreachable) as raised:
            await producer.send(HELLO, queue=queues[3])
        assert raised.value.attempts == ()
        with pytest.raises(CallerError, match="chose"):
            await producer.send(HELLO, select=lambda found, message: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(CallerError, match="the queue is of T"):
            await producer.send(Message("U", b"x"), queue=queues[0])
        with pytest.raises(CallerError, match="not several"):
            await producer.send(HELLO, queue=queues[0], order_key=1)


@pytest.mark.parametrize(("route_s", "selector_s"), [(0, 0), (1, 0), (0, 1), (1, 1.5)])
async def test_a_chosen_queue_has_what_is_left_of_three_seconds(autojump_clock: Clock, route_s: float, selector_s: float) -> None:
    """000-21, 000-22: the time of the route and of the selector counts, and nobody tries a second time or elsewhere."""
    cluster = FakeCluster()
    cluster.a.deaf = True
    cluster.namesrv.after_ms = int(route_s * 1e3)
    async with client_of(cluster) as client:
        producer = client.producer("P")

        def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            autojump_clock.jump(selector_s)
            return queues[0]

        began = trio.current_time()
        with pytest.raises(AnswerLate) as raised:
            await producer.send(HELLO, select=choose)
        assert trio.current_time() - began == pytest.approx(3.0, abs=0.01)
        assert raised.value.attempts == ()
        assert (cluster.a.count(SEND), cluster.b.count(SEND)) == (1, 0)


async def test_a_selector_is_shown_a_broker_that_others_are_kept_from(autojump_clock: Clock) -> None:
    """000-22: whether a broker is slow is not asked."""
    cluster = FakeCluster()
    cluster.a.after_ms = 700
    async with client_of(cluster) as client:
        producer = await one_that_finds_a_slow(client, cluster)
        shown: list[str] = []

        def choose(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            shown.extend(queue.broker_name for queue in queues)
            return queues[0]

        assert (await producer.send(HELLO)).queue.broker_name == "broker-b"
        assert (await producer.send(HELLO, select=choose)).queue.broker_name == "broker-a"
    assert Counter(shown) == {"broker-a": 2, "broker-b": 2}


async def test_a_selector_that_raises_or_takes_all_the_time_sends_nothing(autojump_clock: Clock) -> None:
    """000-23: what it raises is the caller's own; Java wraps it."""
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        producer = client.producer("P")

        def dawdle(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
            autojump_clock.jump(3.0)
            return queues[0]

        with pytest.raises(ZeroDivisionError):
            await producer.send(HELLO, select=lambda queues, message: queues[1 // 0])
        with pytest.raises(AnswerLate, match="3000 ms were over before a queue was chosen") as raised:
            await producer.send(HELLO, select=dawdle)
        assert not raised.value.maybe_stored
    assert cluster.a.count(SEND) == cluster.b.count(SEND) == 0


async def test_a_key_with_much_traffic_makes_one_queue_hot(autojump_clock: Clock) -> None:
    """000-13: nine of ten messages are of one key, and lie in one of eight queues."""
    cluster = FakeCluster(queues=4)
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for number in range(200):
            await producer.send(HELLO, order_key=f"order-{number}" if number % 10 == 0 else "hot")
    sent = Counter((name, queue) for name, queue, _ in cluster.stored)
    [(_, most), *others] = sent.most_common()
    assert most >= 180
    assert 1 < len(others) < 8
    assert sum(count for _, count in others) <= 20


async def test_a_name_space_is_invisible_to_the_caller(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.topics.add("ns%T")
    async with client_of(cluster, namespace="ns") as client:
        producer = client.producer("P")
        seen = []
        result = await producer.send(HELLO, select=lambda found, message: seen.append(found) or found[0])  # type: ignore[func-returns-value]
        assert result.queue.topic == "T"
        assert {queue.topic for queue in seen[0]} == {"T"}
        fields = cluster.stored[0][2].ext_map()
        assert (fields["b"], fields["a"]) == ("ns%T", "ns%P")


async def test_a_batch_in_parts_says_what_was_sent_before_it_failed(autojump_clock: Clock) -> None:
    cluster = FakeCluster(brokers=("broker-a",))
    code = RequestCode.SEND_BATCH_MESSAGE
    async with client_of(cluster) as client:
        producer = client.producer("P", max_message_size=1_000, retry_times_when_send_failed=0)
        messages = [Message("T", b"x" * 300)] * 7
        results = await producer.send_batch(messages)
        assert len(results) == cluster.a.count(code) == 4
        assert [len(result.message_id.split(",")) for result in results] == [2, 2, 2, 1]

        def third_fails(command: Any) -> Any:
            return (13, None, b"") if cluster.a.count(code) == 7 else cluster.store("broker-a", command)

        cluster.a.answers[code] = third_fails
        with pytest.raises(BrokerError) as raised:
            await producer.send_batch(messages)
        assert len(raised.value.sent) == 2


async def test_oneway_leaves_and_nobody_waits(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        producer = client.producer("P")
        for _ in range(3):
            await producer.send_oneway(HELLO)
        await producer.send_oneway(HELLO, order_key="k")
        await trio.testing.wait_all_tasks_blocked()
        heard = [command for server in (cluster.a, cluster.b) for command in server.heard]
        assert len(heard) == 4
        assert all(command.is_oneway for command in heard)


async def test_hooks_see_each_attempt_and_stop_none(autojump_clock: Clock) -> None:
    cluster = FakeCluster()
    cluster.a.up = False
    seen: list[tuple[str, str]] = []

    class Hook:
        def before(self, context: Any) -> None:
            seen.append(("before", context.queue.broker_name))
            raise RuntimeError("mine")

        def after(self, context: Any) -> None:
            seen.append(("after", "failed" if context.error else context.result.queue.broker_name))

    async with client_of(cluster) as client:
        producer = client.producer("P", hooks=[Hook()])
        for _ in range(4):
            await producer.send(HELLO)
    assert ("before", "broker-a") in seen
    assert seen.count(("after", "broker-b")) == 4
    assert len(seen) % 2 == 0


async def test_one_slow_broker_of_two_holds_up_who_waits_for_each_answer(autojump_clock: Clock) -> None:
    """001-6b: in turn, half of the sends wait for the slow one; with latency fault tolerance one does, now and then."""
    took = {}
    for avoid in (False, True):
        cluster = FakeCluster()
        cluster.a.after_ms = 600
        async with client_of(cluster) as client:
            producer = client.producer("P", send_latency_enable=avoid)
            began = trio.current_time()
            for _ in range(40):
                await producer.send(HELLO)
            took[avoid] = trio.current_time() - began
    assert took[False] == pytest.approx(20 * 0.6, abs=0.1)
    assert took[True] <= 2 * 0.6 + 0.1


async def test_least_latency_starves_the_slow_broker_the_reference_s_rule_does_not(autojump_clock: Clock) -> None:
    """001-7: who always takes the broker that was quickest never learns that the other one is quick again."""
    sent = {}
    for rule in ("least latency", "the reference's"):
        cluster = FakeCluster()
        async with client_of(cluster) as client:
            producer = client.producer("P", send_latency_enable=rule != "least latency")
            latency_s: dict[str, float] = {}

            def least(queues: Sequence[MessageQueue], message: Message, known: dict[str, float] = latency_s) -> MessageQueue:
                return min(queues, key=lambda queue: known.get(queue.broker_name, 0.0))

            cluster.a.after_ms = 700
            for number in range(100):
                if number == 10:
                    cluster.a.after_ms = 0
                began = trio.current_time()
                result = await producer.send(HELLO, select=least if rule == "least latency" else None)
                latency_s[result.queue.broker_name] = trio.current_time() - began
                await pass_time(0.1)
        sent[rule] = [name for name, _, _ in cluster.stored].count("broker-a")
    assert sent["least latency"] == 1
    assert sent["the reference's"] > 30


async def test_a_time_below_zero_is_the_caller_s_fault() -> None:
    cluster = FakeCluster()
    async with client_of(cluster) as client:
        with pytest.raises(CallerError, match="timeout_ms must not be below 0"):
            await client.producer("P").send(HELLO, timeout_ms=-5)
