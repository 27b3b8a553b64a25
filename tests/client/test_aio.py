"""The asyncio face: what is cancelled on one side ends on the other, and nothing goes on when a block has been left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from rmq_client import aio
from rmq_client.consuming.listener import Context
from rmq_client.errors import CallerError, ClientClosed, ClientError
from rmq_client.messages import Message
from tests.client.consumers import FIRST, Messages
from tests.support.client_faces import OnAsyncio, no_thread_is_left
from tests.support.subject import Subject
from tests.support.talk import PATIENCE_S

FACE = OnAsyncio()


def played(test: Callable[[Subject], Awaitable[None]]) -> Callable[[Subject], None]:
    """On a loop of its own, which has nothing left to do afterwards."""

    def play(ours: Subject) -> None:
        async def whole() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await test(ours)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(whole())
        no_thread_is_left()

    play.__name__, play.__doc__ = getattr(test, "__name__", "play"), test.__doc__
    return play


def tasks_of(client: aio.Client) -> int:
    """That run in the client's own loop."""
    loop = client._loop
    return loop.run_sync(lambda: len(loop.client.nursery.child_tasks))


@played
async def test_who_is_cancelled_ends_the_call(ours: Subject) -> None:
    async with aio.connect(ours.namesrv) as client:
        await client.topics.create("aio-cancel", queues=1)
        puller = client.puller()
        [queue] = await puller.queues("aio-cancel")
        assert (await puller.pull(queue, 0)).messages == ()
        before = tasks_of(client)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await puller.pull(queue, 0, hold_ms=60_000)
        assert tasks_of(client) == before
        pulls = [asyncio.create_task(puller.pull(queue, 0, hold_ms=60_000)) for _ in range(5)]
        await FACE.until(lambda: tasks_of(client) == before + 5, "five pulls")
        pulls[0].cancel()
        pulls[0].cancel()
        await asyncio.wait(pulls[:1])
        assert pulls[0].cancelled()
        assert tasks_of(client) == before + 4
        await client.producer("aio-cancel-p").send(Message("aio-cancel", b"x"))
        found = await asyncio.gather(*pulls[1:])
        assert [message.body for result in found for message in result.messages] == [b"x"] * 4
        await FACE.until(lambda: tasks_of(client) == before, "their ends")


@played
async def test_who_waits_when_the_client_is_left_is_told(ours: Subject) -> None:
    async with aio.connect(ours.namesrv) as client:
        await client.topics.create("aio-left", queues=1)
        puller = client.puller()
        [queue] = await puller.queues("aio-left")
        await puller.pull(queue, 0)
        waiting = asyncio.create_task(puller.pull(queue, 0, hold_ms=60_000))
        before = tasks_of(client)
        await FACE.until(lambda: tasks_of(client) != before, "the pull")
    with pytest.raises(ClientError):
        await waiting
    with pytest.raises(ClientClosed):
        await puller.pull(queue, 0)
    with pytest.raises(ClientClosed):
        client.puller()


@played
async def test_a_block_that_is_cancelled_is_left_properly(ours: Subject) -> None:
    left: list[str] = []

    async def consume() -> None:
        async with aio.connect(ours.namesrv) as client:
            await client.topics.create("aio-block", queues=1)
            async with client.push_consumer("aio-block-g", {"aio-block": "*"}, print):
                entered.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    left.append("block")
            left.append("never")

    entered = asyncio.Event()
    task = asyncio.create_task(consume())
    await entered.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert left == ["block"]
    async with aio.connect(ours.namesrv) as client, client.push_consumer("aio-block-g", {"aio-block": "*"}, print) as consumer:
        await FACE.until(lambda: consumer.queues, "its queue: the member before has said goodbye, or it would be shared")


@pytest.mark.parametrize("turns", range(12))
def test_cancelled_while_it_connects(turns: int) -> None:
    """At any moment: the thread ends all the same."""

    async def connect() -> None:
        async with aio.connect("127.0.0.1:1"):
            await asyncio.Event().wait()

    async def whole() -> None:
        task = asyncio.create_task(connect())
        for _ in range(turns):
            await FACE.pause(0.001 if turns > 6 else 0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(whole())
    no_thread_is_left()


@played
async def test_a_listener_that_is_waited_for_no_more_is_cancelled(ours: Subject) -> None:
    ended: list[str] = []
    began = asyncio.Event()

    async def listen(messages: Messages, context: Context) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(threading.current_thread().name)
            raise

    async with aio.connect(ours.namesrv) as client:
        await client.topics.create("aio-hangs", queues=1)
        await client.producer("aio-hangs-p").send(Message("aio-hangs", b"x"))
        async with client.push_consumer("aio-hangs-g", {"aio-hangs": "*"}, listen, await_termination_ms=10, **FIRST):
            await began.wait()
        assert ended == [threading.current_thread().name]
        puller = client.puller("aio-hangs-g")
        [queue] = await puller.queues("aio-hangs")
        assert not await puller.committed_offset(queue), "it is not done"


@pytest.mark.parametrize("wrong", [asyncio.CancelledError, SystemExit])
def test_a_listener_that_cancels_itself_or_exits_has_failed(ours: Subject, wrong: type[BaseException]) -> None:
    played(partial(_failed, wrong))(ours)


async def _failed(wrong: type[BaseException], ours: Subject) -> None:
    topic = f"aio-{wrong.__name__}"
    seen: list[int] = []
    again = asyncio.Event()

    async def listen(messages: Messages, context: Context) -> None:
        seen.append(messages[0].reconsume_times)
        if len(seen) > 1:
            again.set()
            return
        raise wrong

    async with aio.connect(ours.namesrv) as client:
        await client.topics.create(topic, queues=1)
        await client.producer(f"{topic}-p").send(Message(topic, b"x"))
        async with client.push_consumer(f"{topic}-g", {topic: "*"}, listen, **FIRST):
            await again.wait()
    assert seen == [0, 1]


def test_what_is_wrong_with_a_client_is_said_at_once() -> None:
    async def whole() -> None:
        for address, options in (("nowhere", {}), ("127.0.0.1:1", {"colour": "blue"})):
            with pytest.raises(CallerError):
                async with aio.connect(address, **options):
                    pass

    asyncio.run(whole())
    no_thread_is_left()
