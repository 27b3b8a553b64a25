"""Both shells on loopback sockets: the same service, the same checks.  Nothing sleeps; every wait is bounded by a deadline."""

from __future__ import annotations

import itertools
import os
import resource
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from broker_impl.engine.limits import Limits
from broker_impl.env import SystemEnv
from rmq_net.connection import ConnectionLost
from rmq_net.reactor import Tuning
from rmq_net.shell import Shell, bind, bound_to
from rmq_net.streams import StreamShell
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import encode_request
from rmq_wire.declare import Request
from rmq_wire.headers.clients import GetConsumerListByGroup, Heartbeat, UnregisterClient
from rmq_wire.headers.positions import GetMinOffset
from rmq_wire.headers.query import ViewMessage
from tests.net.serving import AnyShell, Served, served
from tests.support.bare_engine import Server, put, response, where
from tests.support.fake_store import FakeStore

WAIT_S = 120.0
PAUSE_MS = 50
"""Of who has no descriptor for another connection."""
"""Only a hang takes as long."""
BOTH = pytest.mark.parametrize("shell_class", [Shell, StreamShell])


def unasked(request: Request) -> bytes:
    """The frame of a request whose answer nobody waits for."""
    return encode_request(request.code, request, opaque=1_000_000)


class Running(Served):
    """A shell under test and its server."""

    def __init__(self, it: Served, server: Server) -> None:
        super().__init__(it.engine, it.shell, it.ports, it.nursery)
        self.server = server


@asynccontextmanager
async def running(
    shell_class: AnyShell, *, limits: Limits | None = None, store: FakeStore | None = None, tuning: Tuning | None = None
) -> AsyncIterator[Running]:
    server = Server(limits=limits, store=store, hidden={"fast": frozenset({RequestCode.GET_MIN_OFFSET})}, env=SystemEnv())
    tuning = (tuning or Tuning())._replace(poison=True)
    async with served(server.engine, seconds=WAIT_S, shell_class=shell_class, listeners=("main", "fast"), tuning=tuning) as it:
        yield Running(it, server)


@BOTH
async def test_many_questions_at_once_on_one_connection(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        connection = await it.connect()
        got: dict[int, str] = {}

        async def ask(n: int) -> None:
            got[n] = (await connection.ask(where(n))).ext_map()["offset"]

        async with trio.open_nursery() as nursery:
            for n in range(200):
                nursery.start_soon(ask, n)
        assert got == {n: str(n) for n in range(200)}


@BOTH
async def test_listeners_are_told_apart(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        main, fast = await it.connect(), await it.connect("fast")
        asked = GetMinOffset(topic="t", queue_id=0)
        assert (await fast.ask(asked)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        with pytest.raises(trio.TooSlowError):
            await main.ask(asked, timeout_ms=30)
        assert [pending.peer.listener for pending in it.server.kit.pending] == ["main"]


@BOTH
async def test_bytes_split_anywhere(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        connection = await it.connect()
        for byte in unasked(where(7)):
            await connection.send(bytes([byte]))
        assert (await connection.ask(where(8))).ext_map() == {"offset": "8"}
        assert [seen[1] for seen in it.server.kit.seen] == [7, 8]


@BOTH
async def test_a_body_over_many_receives_is_what_was_sent(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        connection = await it.connect()
        body = bytes(range(256)) * 8_192
        copies: list[bytes] = []
        it.server.kit.seen = Copying(copies)
        await connection.ask(Heartbeat(), body, timeout_ms=10_000)
        assert copies == [body]


class Copying(list[Any]):
    """Copies a noted body at once, before its view dies."""

    def __init__(self, copies: list[bytes]) -> None:
        super().__init__()
        self._copies = copies

    def append(self, noted: Any) -> None:
        self._copies.append(bytes(noted))


@BOTH
async def test_a_large_answer_arrives_whole(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        connection = await it.connect()
        answer = await connection.ask(ViewMessage(offset=9_000_000), timeout_ms=15_000)
        assert answer.body == b"a" + b"b" * 8_999_999


@BOTH
@pytest.mark.parametrize("garbage", [b"\xff" * 16, b"GET / HTTP/1.1\r\n\r\n", struct.pack(">ii", 100, 200)])
async def test_garbage_is_closed_and_nobody_else(shell_class: AnyShell, garbage: bytes) -> None:
    async with running(shell_class) as it:
        good, bad = await it.connect(), await it.connect()
        await bad.send(garbage)
        await bad.closed.wait()
        assert (await good.ask(where(1))).code == 0
        await it.peers(1)


@BOTH
async def test_a_reset_is_noticed(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        raw = await it.raw()
        await it.peers(1)
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raw.socket.close()
        await it.peers(0)


@BOTH
async def test_silence_is_ended_by_a_deadline(shell_class: AnyShell) -> None:
    """Nothing arrives: the shell wakes up for the engine's deadline by itself."""
    async with running(shell_class, limits=Limits(first_frame_ms_max=30)) as it:
        raw = await it.raw()
        assert await raw.receive_some() == b""


async def test_a_deadline_that_passes_while_the_shell_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between any two looks at the clock half a second goes by: a deadline ahead of the first may lie behind the second."""
    shell = StreamShell(Server(env=SystemEnv()).engine, [])
    for deadline_ms in (9_000, 10_000, 10_250, 10_500, 11_000):
        looks = itertools.count(20)
        monkeypatch.setattr("rmq_net.streams.time", SimpleNamespace(monotonic=lambda looks=looks: next(looks) / 2))
        with trio.move_on_after(0):
            await shell._wait(deadline_ms)


@BOTH
async def test_half_a_frame_and_silence_too(shell_class: AnyShell) -> None:
    async with running(shell_class, limits=Limits(slow_window_ms=30, first_frame_ms_max=1_000)) as it:
        connection = await it.connect()
        await connection.ask(where(1))
        await connection.send(b"\x00\x00\x10\x00\x00\x00")
        await connection.closed.wait()
        assert connection.why == "closed by the server"


@BOTH
async def test_who_never_reads_is_bounded_closed_and_hurts_nobody(shell_class: AnyShell) -> None:
    limits = Limits(output_bytes_max=1 << 20, stuck_ms_max=300, first_frame_ms_max=1_000)
    async with running(shell_class, limits=limits) as it:
        deaf = trio.socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        await deaf.connect(("127.0.0.1", it.ports["main"]))
        good = await it.connect()
        await it.peers(2)
        await good.ask(where(0))
        [peer] = [p for p in it.server.engine.peers.values() if p.remote[1] == deaf.getsockname()[1]]
        frame = unasked(ViewMessage(offset=100_000))
        unsent_max = 0
        with trio.move_on_after(WAIT_S) as scope:
            async with trio.open_nursery() as nursery:

                async def flood() -> None:
                    try:
                        while True:
                            await deaf.send(frame * 10)
                    except OSError:
                        nursery.cancel_scope.cancel()

                nursery.start_soon(flood)
                while not peer.closed:
                    unsent_max = max(unsent_max, peer.unsent_bytes)
                    assert (await good.ask(where(1))).code == 0
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        assert 0 < unsent_max < 2 << 20
        assert (await good.ask(where(2))).code == 0


@BOTH
async def test_sync_flush_answers_come_after_the_thread_has_flushed(shell_class: AnyShell) -> None:
    store = FakeStore(sync_flush=True)
    async with running(shell_class, store=store) as it:
        connection = await it.connect()
        threads: list[str] = []
        it.server.engine._commits.sync = noting(store, threads)  # type: ignore[union-attr]
        for text in ("a", "b", "c"):
            assert (await connection.ask(put(text))).remark == text
        assert store.flushed_offset == 3
        assert set(threads) == {"rmq-sync"}


def noting(store: FakeStore, threads: list[str]) -> Callable[[Any], None]:
    def sync(ticket: Any) -> None:
        threads.append(threading.current_thread().name)
        store.sync(ticket)

    return sync


@BOTH
async def test_a_failed_flush_is_answered(shell_class: AnyShell) -> None:
    store = FakeStore(sync_flush=True)
    store.sync_error = OSError(5, "Input/output error")
    async with running(shell_class, store=store) as it:
        connection = await it.connect()
        assert (await connection.ask(put("a"))).code == ResponseCode.SERVICE_NOT_AVAILABLE


@BOTH
async def test_long_work_lets_others_in(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        long, quick = await it.connect(), await it.connect()
        ended = trio.Event()

        async def ask_long() -> None:
            await long.ask(GetConsumerListByGroup(consumer_group="3000"), timeout_ms=15_000)
            ended.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_long)
            assert (await quick.ask(where(1))).code == 0
            assert not ended.is_set()


@BOTH
async def test_the_server_asks_its_clients(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        asker = await it.connect()
        await it.connect(on_request=lambda request: response(request.opaque))
        await it.peers(2)
        assert (await asker.ask(UnregisterClient(client_id="c"))).remark == "666"


# Stopping


@BOTH
async def test_an_orderly_stop_answers_what_waits_for_the_disk(shell_class: AnyShell) -> None:
    store = FakeStore(sync_flush=True)
    gate = threading.Event()
    async with running(shell_class, store=store) as it:
        connection = await it.connect()
        commits = it.server.engine._commits
        assert commits is not None

        def slow(ticket: Any) -> None:
            gate.wait(WAIT_S)
            store.sync(ticket)

        commits.sync = slow
        answers: list[Any] = []

        async def ask() -> None:
            answers.append((await connection.ask(put("a"), timeout_ms=15_000)).remark)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not commits.pending:
                await trio.lowlevel.checkpoint()
            it.shell.stop()
            await connection_refused(it.ports["main"])
            gate.set()
        assert answers == ["a"]
        await connection.closed.wait()


async def connection_refused(port: int) -> None:
    """Wait until nobody listens any more."""
    while True:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            return
        await stream.aclose()


@BOTH
async def test_stopping_or_cancelling_leaves_no_descriptor_and_no_thread(shell_class: AnyShell) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for orderly in (True, False):
        async with running(shell_class, store=FakeStore(sync_flush=True)) as it:
            connection = await it.connect()
            await connection.ask(put("a"))
            if orderly:
                it.shell.stop()
                await connection.closed.wait()
            else:
                it.nursery.cancel_scope.cancel()
        assert len(os.listdir("/proc/self/fd")) == before
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("rmq-")]


@BOTH
async def test_a_connection_lost_ends_its_questions(shell_class: AnyShell) -> None:
    async with running(shell_class) as it:
        connection = await it.connect()
        lost: list[str] = []

        async def ask() -> None:
            try:
                await connection.ask(GetMinOffset(topic="t", queue_id=0), timeout_ms=15_000)
            except ConnectionLost as error:
                lost.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            while not it.server.kit.pending:
                await trio.lowlevel.checkpoint()
            it.shell.stop()
        assert lost
        with pytest.raises(ConnectionLost):
            await connection.ask(where(1))


@BOTH
async def test_without_descriptors_accepting_rests_and_goes_on(shell_class: AnyShell, caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with running(shell_class, tuning=Tuning(accept_pause_ms=PAUSE_MS)) as it:
        good = await it.connect()
        await good.ask(where(1))
        waiting = [trio.socket.socket() for _ in range(5)]
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            for sock in waiting:
                await sock.connect(("127.0.0.1", it.ports["main"]))
                await sock.send(unasked(where(2)))
            while caplog.text.count("accepting rests") < 3:
                assert (await good.ask(where(3))).code == 0
            started = time.monotonic()
            said = caplog.text.count("accepting rests")
            while time.monotonic() < started + 0.2:
                await good.ask(where(4))
            rests_max = (time.monotonic() - started) / (PAUSE_MS / 1e3) + 2
            assert caplog.text.count("accepting rests") - said <= rests_max, "it spins"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for sock in waiting:
            assert await sock.recv(1_000)
            sock.close()


def test_a_taken_port_is_an_os_error() -> None:
    sock = bind("127.0.0.1", 0)
    try:
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", bound_to(sock)[1])
    finally:
        sock.close()


# Many


@BOTH
async def test_two_thousand_idle_connections(shell_class: AnyShell) -> None:
    count = 2_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * count + 200
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"needs {needed} descriptors, {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    async with running(shell_class) as it:
        busy = await it.connect()
        assert (await busy.ask(where(1))).code == 0  # who says nothing at first is closed
        frame = unasked(where(1))
        idle = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", it.ports["main"]))
            sock.sendall(frame)
            idle.append(sock)
            if len(idle) % 200 == 0:  # the listener's backlog has an end
                await it.peers(1 + len(idle))
        for _ in range(100):
            assert (await busy.ask(where(2))).code == 0
        assert len(it.server.engine.peers) == count + 1
        for sock in idle:
            sock.close()
        await it.peers(1)
        assert (await busy.ask(where(3))).code == 0


@pytest.mark.parametrize(("alone", "turns_min"), [(False, 2_000), (True, 10)])
async def test_other_tasks_have_their_turns_while_somebody_asks_again_and_again(alone: bool, turns_min: int) -> None:
    """From a thread, at once after each answer, so that the shell finds something whenever it looks.

    One that is not alone in its loop lets them run with each request.
    """
    async with running(partial(Shell, alone=alone)) as it:
        turns = 0

        def ask(count: int) -> None:
            with socket.create_connection(("127.0.0.1", it.ports["main"])) as sock:
                for number in range(count):
                    asked = where(number)
                    sock.sendall(encode_request(asked.code, asked, opaque=number))
                    assert sock.recv(1 << 16)

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_turns)
            await trio.to_thread.run_sync(ask, 2_000)
            nursery.cancel_scope.cancel()
        assert turns > turns_min
