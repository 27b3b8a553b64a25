"""`rmq tail` over brokers that are busy, or away for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmq_cli import tailing
from rmq_cli.message_lines import Where
from rmq_cli.tailing import LOOK_AGAIN_S, Tail
from rmq_client.consuming.pull_result import PullResult
from rmq_client.consuming.subscriptions import EVERYTHING
from rmq_client.errors import BrokerError, ClientError, NoRoute
from rmq_client.messages import Message
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.headers.pull import PullMessageResponse
from tests.client.fake_cluster import Reply, client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

START = Where("offset", 0)


@pytest.fixture(autouse=True)
def read_by_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tailing, "until_unread", trio.sleep_forever)


def refuse(cluster: SimCluster, request: RequestCode, code: ResponseCode, times: int) -> None:
    """The first answers of both brokers together, from now on."""
    left = iter(range(times))

    def refusing(usual: Callable[[Command], Reply]) -> Callable[[Command], Reply]:
        return lambda command: (code, None, b"") if next(left, None) is not None else usual(command)

    for server in (cluster.a, cluster.b):
        server.answers[request] = refusing(server.answers[request])


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL])
async def test_a_busy_broker_is_waited_for(autojump_clock: MockClock, code: ResponseCode) -> None:
    cluster = SimCluster(1, queues=1)
    shown: list[bytes] = []
    async with client_of(cluster) as client:
        await client.producer("P").send(Message("T", b"x"))
        tail = Tail(client.puller(), EVERYTHING, 1000, lambda message: shown.append(message.body))
        refuse(cluster, RequestCode.PULL_MESSAGE, code, 5)
        await tail.run("T", begin=START, count=1, follow=True)
        refuse(cluster, RequestCode.PULL_MESSAGE, code, 1)
        with pytest.RaisesGroup(pytest.RaisesExc(BrokerError, match=code.name), flatten_subgroups=True):
            await tail.run("T", begin=START, count=None, follow=False)
    assert shown[:1] == [b"x"]


async def test_brokers_that_are_all_away_are_waited_for(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server has forgotten them."""
    cluster = SimCluster(1, queues=1)
    shown: list[bytes] = []
    async with client_of(cluster) as client:
        await client.producer("P").send(Message("T", b"x"))
        puller = client.puller()
        usual, left = puller.pull, iter(range(3))

        async def pull(*args: Any, **options: Any) -> PullResult:
            if next(left, None) is not None:
                raise NoRoute("no route info of T")
            return await usual(*args, **options)

        monkeypatch.setattr(puller, "pull", pull)
        tail = Tail(puller, EVERYTHING, 1000, lambda message: shown.append(message.body))
        await tail.run("T", begin=START, count=1, follow=True)
    assert shown == [b"x"]


@pytest.mark.parametrize("hold_ms", [250, 15_000])
async def test_an_answer_at_once_that_leads_nowhere_is_not_asked_for_without_end(autojump_clock: MockClock, hold_ms: int) -> None:
    """A pull that is held is asked for again at once; one that is not when it would have been, or after a second."""
    cluster = SimCluster(1, queues=1)
    stays = PullMessageResponse(suggest_which_broker_id=0, next_begin_offset=5, min_offset=5, max_offset=5)
    answers = iter([(ResponseCode.PULL_OFFSET_MOVED, stays, b"")] * 1_000)  # no more: the clock has to go on
    for server in (cluster.a, cluster.b):
        server.answers[RequestCode.PULL_MESSAGE] = lambda command: next(answers, None)
    pulls = int(60 / min(hold_ms / 1e3, 1.0))
    async with client_of(cluster) as client:
        puller = client.puller()
        with trio.move_on_after(60):
            await Tail(puller, EVERYTHING, hold_ms, print).run("T", begin=Where("offset", 5), count=None, follow=True)
        assert cluster.a.count(RequestCode.PULL_MESSAGE) == cluster.b.count(RequestCode.PULL_MESSAGE) == pulls
        [queue, _] = await puller.queues("T")
        with trio.move_on_after(60):
            await puller.reading(queue, 5, hold_ms=hold_ms).next()
        assert cluster.a.count(RequestCode.PULL_MESSAGE) == 2 * pulls
        with trio.fail_after(1):
            await Tail(puller, EVERYTHING, hold_ms, print).run("T", begin=Where("offset", 4), count=None, follow=False)


async def test_what_comes_just_after_a_held_pull_is_shown_at_once(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    shown: list[float] = []
    async with client_of(cluster) as client, trio.open_nursery() as nursery:
        tail = Tail(client.puller(), EVERYTHING, 1_500, lambda message: shown.append(trio.current_time()))
        nursery.start_soon(lambda: tail.run("T", begin=START, count=1, follow=True))
        await pass_time(1.6)
        cluster.fill(1)
    assert shown == [pytest.approx(1.6)]


async def test_what_does_not_pass_ends_it(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    async with client_of(cluster) as client:
        await client.producer("P").send(Message("T", b"x"))
        refuse(cluster, RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION, 1)
        with pytest.RaisesGroup(pytest.RaisesExc(BrokerError, match="NO_PERMISSION"), flatten_subgroups=True):
            await Tail(client.puller(), EVERYTHING, 1000, print).run("T", begin=START, count=1, follow=True)


async def test_a_look_for_new_queues_that_fails_ends_nothing(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimCluster(1, queues=1)
    shown: list[bytes] = []
    looks: list[float] = []
    async with client_of(cluster) as client, trio.open_nursery() as nursery:
        producer, puller = client.producer("P"), client.puller()
        await producer.send(Message("T", b"x"))
        usual = puller.queues

        async def queues(topic: str):  # type: ignore[no-untyped-def]
            looks.append(trio.current_time())
            if len(looks) in (2, 3):
                raise BrokerError(ResponseCode.SYSTEM_BUSY, "busy", "10.0.0.1:9876")
            return await usual(topic)

        monkeypatch.setattr(puller, "queues", queues)
        tail = Tail(puller, EVERYTHING, 1000, lambda message: shown.append(message.body))
        nursery.start_soon(lambda: tail.run("T", begin=START, count=2, follow=True))
        await pass_time(3.5 * LOOK_AGAIN_S)
        await producer.send(Message("T", b"y"))
    assert shown == [b"x", b"y"]
    assert len(looks) == 4


def test_only_what_may_pass_is_waited_for() -> None:
    assert not ClientError("wrong").may_pass
    assert not BrokerError(ResponseCode.NO_PERMISSION, "no", "10.0.0.1:10911").may_pass
