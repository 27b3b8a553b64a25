"""What brokers hear of a consumer that ends, however it does: by a cancel, half-way through a request, or by a bug of ours."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rmq_client.client import connect
from rmq_client.consuming.listener import Context
from rmq_client.consuming.queue_locks import QueueLocks
from rmq_client.messages import Message
from rmq_client.own_tasks import own_nursery
from rmq_net.connection import Connection
from rmq_wire.bodies.offsets import ResetOffset
from rmq_wire.codes import RequestCode
from rmq_wire.command import Command, encode_request
from rmq_wire.fastjson import MessageQueue
from rmq_wire.headers.offsets import ResetConsumerClientOffset
from rmq_wire.headers.positions import GetMaxOffset
from tests.client.consumers import FIRST, Heard, Messages
from tests.client.fake_cluster import NAMESRV, FakeServer, client_of
from tests.client.sim_cluster import SimCluster
from tests.support.mock_time import pass_time

LOCK, GOODBYE, UPDATE = RequestCode.LOCK_BATCH_MQ, RequestCode.UNREGISTER_CLIENT, RequestCode.UPDATE_CONSUMER_OFFSET
MINE = ("G", "T", 0)


def consumed(cluster: SimCluster) -> None:
    """All that is there may count as done."""
    for broker in cluster.kept.values():
        cluster.done.update((broker.name, place) for place in range(len(broker.log)))


async def _cancelled(cluster: SimCluster, takes_s: float, *, inside: bool, **settings: Any) -> list[str]:
    """Cancel a scope round the consumer, or one round its client, after three and a half seconds; how calls of listeners went."""
    ended: list[str] = []

    async def listen(messages: Messages, context: Context) -> None:
        try:
            await pass_time(takes_s)
            ended.append("done")
        except trio.Cancelled:
            ended.append("cut off")
            raise

    told = {"consume_thread_max": 1, **FIRST, **settings}
    async with trio.open_nursery() as nursery:
        cluster.nursery = nursery
        with trio.CancelScope() as outer:
            async with connect(NAMESRV, world=cluster.world()) as client:
                with trio.CancelScope() as inner:
                    async with client.push_consumer("G", {"T": "*"}, listen, **told):
                        await pass_time(3.5)
                        (inner if inside else outer).cancel()
                        await trio.Event().wait()
        assert (inner if inside else outer).cancelled_caught
        nursery.cancel_scope.cancel()
    return ended


@pytest.mark.parametrize("inside", [True, False], ids=["the consumer", "the client"])
@pytest.mark.parametrize("orderly", [False, True])
async def test_a_cancel_waits_for_listeners_tells_progress_and_says_goodbye(
    autojump_clock: MockClock, inside: bool, orderly: bool
) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(10)
    consumed(cluster)
    ended = await _cancelled(cluster, 1.0, inside=inside, orderly=orderly)
    assert ended == ["done"] * 4
    broker = cluster.kept["broker-a"]
    assert broker.progress[MINE] == 4
    assert not broker.locks
    assert not broker.members["G"]
    assert [cluster.a.count(GOODBYE), cluster.b.count(GOODBYE)] == [1, 1]


async def test_a_cancel_ends_in_time_though_listeners_hang_and_a_broker_is_silent(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1, queues=1)
    cluster.fill(10)
    consumed(cluster)

    async def fall_silent() -> None:
        await pass_time(3.2)
        cluster.b.deaf = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fall_silent)
        ended = await _cancelled(cluster, 600, inside=False, orderly=True)
    assert ended == ["cut off"]
    assert trio.current_time() < 3.5 + 10 + 10 + 1 + 1
    assert not cluster.kept["broker-a"].locks
    assert not cluster.kept["broker-a"].members["G"]


async def test_many_groups_have_ten_seconds_for_their_goodbyes(autojump_clock: MockClock) -> None:
    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        for number in range(30):
            await client.producer(f"P{number}").send(Message("T", b"x"))
        await client.heartbeat()
        cluster.a.deaf = cluster.b.deaf = True
        left_s = trio.current_time()
    assert cluster.a.count(GOODBYE) > 5
    assert trio.current_time() - left_s == pytest.approx(10)


async def test_an_error_of_a_task_ends_the_block_and_comes_out() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("a bug of ours")

    async def run(block: Callable[[], Awaitable[None]], task: Callable[[], Awaitable[None]]) -> None:
        async with own_nursery() as nursery:
            nursery.start_soon(task)
            await block()

    with pytest.raises(ExceptionGroup) as failed:
        await run(trio.sleep_forever, fail)
    assert [type(error) for error in failed.value.exceptions] == [ZeroDivisionError]
    with pytest.raises(ZeroDivisionError):
        await run(fail, trio.sleep_forever)


@pytest.mark.parametrize("attempt", range(20))
async def test_a_task_that_fails_is_no_lost_connection_to_who_asks(attempt: int) -> None:
    """Ctrl-C comes in any task: what is asked then is cancelled.  The order of tasks is drawn by lot."""
    outcomes: list[BaseException] = []

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def run(stream: trio.SocketStream) -> None:
        async with own_nursery() as nursery:
            connection = await Connection.over(stream, nursery=nursery)
            try:
                nursery.start_soon(interrupted)
                await connection.ask(GetMaxOffset(topic="T", queue_id=0))
            except BaseException as error:
                outcomes.append(error)
                raise

    server, client = socket.socketpair()
    with server, pytest.raises(BaseExceptionGroup) as failed:
        await run(trio.SocketStream(trio.socket.from_stdlib_socket(client)))
    assert failed.value.subgroup(KeyboardInterrupt) is not None
    assert [type(outcome) for outcome in outcomes] == [trio.Cancelled]


async def test_who_is_cancelled_already_has_a_nursery_all_the_same() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        async with own_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught


def _be_slow(server: FakeServer, code: int, before_s: float, after_s: float) -> None:
    """Let each request of a code wait so long before it counts, and its answer after that."""
    at_once = server.answers[code]

    def slowly(command: Command) -> Any:
        async def later() -> Any:
            await pass_time(before_s)
            found = at_once(command)
            await pass_time(after_s)
            return found

        return later

    server.answers[code] = slowly


@pytest.mark.parametrize(("before_s", "after_s"), [(0.0, 0.4), (0.4, 0.0)], ids=["it is given", "it is not given yet"])
async def test_a_lock_that_is_asked_for_while_the_consumer_leaves_goes_back(
    autojump_clock: MockClock, before_s: float, after_s: float
) -> None:
    cluster = SimCluster(1)
    for server in (cluster.a, cluster.b):
        _be_slow(server, LOCK, before_s, after_s)
    async with client_of(cluster) as client:
        async with client.push_consumer("G", {"T": "*"}, Heard(), orderly=True, **FIRST):
            await pass_time(0.3)
        assert cluster.a.count(LOCK) == 1
        await pass_time(2)
        assert not any(broker.locks for broker in cluster.kept.values())


async def test_a_lock_that_came_just_before_leaving_is_not_renewed(autojump_clock: MockClock) -> None:
    """A consumer waits for its listener; what it was given meanwhile is nobody's queue, and its lock is given back."""
    cluster = SimCluster(1, queues=1)
    cluster.fill(1)
    consumed(cluster)
    _be_slow(cluster.b, RequestCode.QUERY_CONSUMER_OFFSET, 0.0, 0.6)
    began = trio.Event()

    async def listen(messages: Messages, context: Context) -> None:
        began.set()
        await pass_time(3)

    async with client_of(cluster) as client:
        async with client.push_consumer("G", {"T": "*"}, listen, orderly=True, **FIRST):
            await began.wait()
            assert MINE in cluster.kept["broker-b"].locks
        renewed = [at_s for at_s, _ in cluster.b.asked(LOCK, 0.5)]
        assert not renewed
        assert not any(broker.locks for broker in cluster.kept.values())


async def test_who_leaves_with_a_bug_of_ours_is_no_member(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats of the client that lives on would name it, and it would be given queues."""

    async def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    cluster = SimCluster(1)
    async with client_of(cluster) as client:
        monkeypatch.setattr(QueueLocks, "unlock_all", fail)
        with pytest.raises(ZeroDivisionError):
            async with client.push_consumer("G", {"T": "*"}, Heard(), orderly=True, **FIRST):
                await pass_time(1)
        await pass_time(60)
        assert not any(broker.members["G"] for broker in cluster.kept.values())


async def test_a_reset_ends_with_its_consumer(autojump_clock: MockClock) -> None:
    """Ten seconds after it the queue is begun anew; by then it may be another consumer's, of the same client."""
    cluster = SimCluster(1, queues=1)
    cluster.fill(10)
    consumed(cluster)
    heard, later = Heard(), Heard()
    told: Any = {"orderly": True, **FIRST}
    async with client_of(cluster) as client:
        async with client.push_consumer("G", {"T": "*"}, heard, **told):
            await heard.until(10)
            await pass_time(1)
            offsets = ResetOffset(offset_table={MessageQueue("T", "broker-a", 0): 0}).encode()
            asked = ResetConsumerClientOffset(topic="T", group="G", timestamp=0, is_force=True)
            [stream] = cluster.a.streams
            frame = encode_request(asked.code, asked, offsets, opaque=7, oneway=True)
            await stream.send_all(b"".join([frame] if isinstance(frame, bytes) else frame))
            await pass_time(1)
        assert cluster.kept["broker-a"].progress[MINE] == 0, "the reset is told"
        async with client.push_consumer("G", {"T": "*"}, later, **told):
            await later.until(10)
            await pass_time(15)
            assert cluster.kept["broker-a"].progress[MINE] == 10
            assert MINE in cluster.kept["broker-a"].locks
            moved = [int(command.ext_map()["commitOffset"]) for _, command in cluster.a.asked(UPDATE, trio.current_time() - 14)]
            assert 0 not in moved
