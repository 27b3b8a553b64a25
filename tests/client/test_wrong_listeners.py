"""Listeners and strategies that answer what nobody can mean: no message counts as done for it, and the consumer goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmq_client.client import connect
from rmq_client.consuming.allocation import AllocateMessageQueueAveragely
from rmq_client.consuming.listener import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, Outcome
from rmq_client.messages import Message, MessageQueue
from tests.client.consumers import FIRST, Heard, Messages, fill
from tests.client.fake_cluster import client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

SOON = {"rebalance_interval_ms": 200, **FIRST}


async def _nothing() -> None:
    """What a plain function may hand back instead of awaiting it."""


class Wrong:
    """Answers nonsense the first time, the right thing from then on."""

    def __init__(self, answer: Any, **said: Any) -> None:
        self.heard = Heard()
        self.tries: list[int] = []
        self._answer = answer
        self._said = said

    def __call__(self, messages: Messages, context: Any) -> Any:
        self.tries.append(messages[0].reconsume_times)
        if len(self.tries) == 1:
            for name, value in self._said.items():
                setattr(context, name, value)
            return self._answer() if callable(self._answer) else self._answer
        trio.from_thread.run_sync(self.heard.add, messages)
        return None


def _cancelled() -> None:
    raise asyncio.CancelledError


def _exits() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong(False),
        Wrong("RECONSUME_LATER"),
        Wrong(_nothing),
        Wrong(_cancelled),
        Wrong(_exits),
        Wrong(ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT),
        Wrong(None, ack_index="0"),
        Wrong(ConsumeConcurrentlyStatus.RECONSUME_LATER, delay_level_when_next_consume="soon"),
        Wrong(ConsumeConcurrentlyStatus.RECONSUME_LATER, delay_level_when_next_consume=1 << 40),
    ],
    ids=["false", "text", "coroutine", "cancelled", "exits", "of-the-other-kind", "ack-index", "level", "huge-level"],
)
async def test_what_nobody_can_mean_is_not_done(ours: Subject, wrong: Wrong, request: pytest.FixtureRequest) -> None:
    topic = "wrong-" + request.node.callspec.id
    async with connect(ours.namesrv) as client:
        await fill(client, topic, 1, queues=1)
        async with client.push_consumer(f"{topic}-g", {topic: "*"}, wrong, **SOON):
            await wrong.heard.until(1)
        assert wrong.tries == [0, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        Wrong(True),
        Wrong(ConsumeConcurrentlyStatus.RECONSUME_LATER),
        Wrong(ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, suspend_current_queue_time_ms="5"),
    ],
    ids=["true", "of-the-other-kind", "pause"],
)
async def test_the_same_in_order(ours: Subject, wrong: Wrong, request: pytest.FixtureRequest) -> None:
    topic = "wrong-order-" + request.node.callspec.id
    async with connect(ours.namesrv) as client:
        await fill(client, topic, 2, queues=1)
        settings = {"orderly": True, "suspend_current_queue_time_ms": 10, **SOON}
        async with client.push_consumer(f"{topic}-g", {topic: "*"}, wrong, **settings):
            await wrong.heard.until(2)
        assert (wrong.heard.bodies, wrong.tries) == ([b"0", b"1"], [0, 1, 0])


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("wrong", [SystemExit(3), BaseExceptionGroup("of its nursery", [SystemExit(3), KeyError("k")])])
async def test_a_listener_that_wants_to_exit_has_failed_and_ends_nobody(
    autojump_clock: MockClock, wrong: BaseException, orderly: bool
) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(2)
    tries: list[bytes] = []
    others = Heard()

    async def listen(messages: Messages, context: Any) -> None:
        tries.append(messages[0].body)
        if len(tries) == 1:
            raise wrong

    async with client_of(cluster) as client:
        async with (
            client.push_consumer("Other", {"T": "*"}, others, **FIRST),
            client.push_consumer("G", {"T": "*"}, listen, orderly=orderly, **FIRST),
        ):
            await pass_time(30)
            cluster.kept["broker-b"].store("T", 0, b"more", b"", cluster.wall())
            await others.until(3)
            await pass_time(1)
        assert sorted(tries) == [b"0", b"0", b"1", b"more"]


@pytest.mark.parametrize("wrong", [KeyboardInterrupt(), BaseExceptionGroup("of its nursery", [KeyboardInterrupt()])])
async def test_who_interrupts_a_listener_ends_the_consumer(autojump_clock: MockClock, wrong: BaseException) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(1)

    async def listen(messages: Messages, context: Any) -> None:
        raise wrong

    async with client_of(cluster) as client:
        with pytest.raises(BaseExceptionGroup) as ended:
            async with client.push_consumer("G", {"T": "*"}, listen, **FIRST):
                await pass_time(30)
        assert repr(ended.value.exceptions) == repr((wrong,))
        assert not cluster.kept["broker-a"].members["G"]


async def test_a_partial_of_an_async_function_is_async(ours: Subject) -> None:
    heard = Heard()

    async def listen(where: Heard, messages: Messages, context: Any) -> Outcome:
        await trio.lowlevel.checkpoint()
        where.add(messages)
        return None

    async with connect(ours.namesrv) as client:
        await fill(client, "partial", 1, queues=1)
        async with client.push_consumer("partial-g", {"partial": "*"}, partial(listen, heard), **SOON):
            await heard.until(1)
    assert [message.reconsume_times for message in heard.messages] == [0]


class Moody(AllocateMessageQueueAveragely):
    """Raises, then hands out what is not there, then does it right."""

    def __init__(self) -> None:
        self.asked = 0

    def allocate(self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        self.asked += 1
        if self.asked == 1:
            raise RuntimeError("no idea")
        if self.asked == 2:
            return [MessageQueue("another", "nobody", 0)]
        return super().allocate(client_id, queues, members)


async def test_a_strategy_that_raises_is_asked_again(ours: Subject) -> None:
    heard, moody = Heard(), Moody()
    async with connect(ours.namesrv) as client:
        await fill(client, "moody", 1, queues=1)
        async with client.push_consumer("moody-g", {"moody": "*"}, heard, strategy=moody, **SOON):
            await heard.until(1)
            with trio.fail_after(PATIENCE_S):
                await client.producer("moody-p2").send(Message("moody", b"more"))
            await heard.until(2)
