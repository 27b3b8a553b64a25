"""Sends that wait for others: by number, by size, in line, and not for longer than their time-out."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rmq_client.errors import AnswerLate
from rmq_client.messages import Message
from rmq_client.producing.back_pressure import BYTES_MIN, SENDS_MIN, BackPressure
from rmq_wire.codes import RequestCode
from tests.client.fake_cluster import FakeCluster, client_of

SEND = RequestCode.SEND_MESSAGE_V2
ON = {"enable_backpressure_for_async_mode": True, "compress_msg_body_over_howmuch": 1 << 30}


@pytest.mark.parametrize(
    ("settings", "size", "at_once"),
    [
        ({"back_pressure_for_async_send_num": 12}, 1, 12),
        ({"back_pressure_for_async_send_num": 1}, 1, SENDS_MIN),
        ({"back_pressure_for_async_send_size": 2 * BYTES_MIN}, 1 << 19, 4),
        ({"back_pressure_for_async_send_size": 1}, 3 << 20, 1),
        ({}, 1, 40),
    ],
)
async def test_so_many_are_under_way(
    autojump_clock: trio.testing.MockClock, settings: dict[str, int], size: int, at_once: int
) -> None:
    cluster = FakeCluster()
    cluster.a.after_ms = cluster.b.after_ms = 100
    async with client_of(cluster) as client:
        producer = client.producer("P", **ON, **settings)
        await producer.queues("T")
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(lambda: producer.send(Message("T", b"x" * size), timeout_ms=60_000))
            await trio.testing.wait_all_tasks_blocked()
            assert cluster.a.count(SEND) + cluster.b.count(SEND) == at_once
        assert trio.current_time() - began == pytest.approx(-(-40 // at_once) * 0.1, abs=0.05)
        assert len(cluster.stored) == 40


async def test_who_waits_too_long_is_told_that_nothing_was_sent(autojump_clock: trio.testing.MockClock) -> None:
    cluster = FakeCluster()
    cluster.a.deaf = cluster.b.deaf = True
    async with client_of(cluster) as client:
        producer = client.producer("P", retry_times_when_send_failed=0, **ON, back_pressure_for_async_send_num=10)
        wrong: list[AnswerLate] = []

        async def send(timeout_ms: int) -> None:
            with pytest.raises(AnswerLate) as raised:
                await producer.send(Message("T", b"x"), timeout_ms=timeout_ms)
            wrong.append(raised.value)

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(send, 1_000)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(send, 500)
        assert "too many are under way" in str(wrong[0])
        assert [error.maybe_stored for error in wrong] == [False] + [True] * 10
        cluster.a.deaf = cluster.b.deaf = False
        await producer.send(Message("T", b"x"))


async def test_who_gives_up_lets_the_next_one_in() -> None:
    pressure = BackPressure(10, BYTES_MIN)
    held = [await pressure.begin(BYTES_MIN // 2) for _ in range(1)]
    order: list[int] = []

    async def begin(number: int, size: int, scope: trio.CancelScope) -> None:
        with scope:
            taken = await pressure.begin(size)
            order.append(number)
            pressure.end(taken)

    async with trio.open_nursery() as nursery:
        scopes = [trio.CancelScope() for _ in range(3)]
        for number, size in enumerate((BYTES_MIN, 1, 1)):
            nursery.start_soon(begin, number, size, scopes[number])
            await trio.testing.wait_all_tasks_blocked()
        assert order == [], "the small ones do not overtake the large one"
        scopes[0].cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(order) == [1, 2], "both, in any order of their tasks"
    pressure.end(held[0])
    assert (pressure.sends, pressure.size) == (0, 0)
