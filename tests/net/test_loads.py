"""Crowds: many idle connections, many slow ones, many held pulls, on a whole broker behind the real shell.

The crowd lives in a process of its own.  Bounds are in lines of Python that the server runs and in memory, so they do not
depend on the machine, nor on what else it does.  The full sizes run nightly, a tenth of them always.
"""

from __future__ import annotations

import gc
import resource
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from broker_impl.engine.limits import Limits
from broker_impl.env import SystemEnv
from broker_impl.node import BrokerNode
from rmq_net.connection import Connection
from rmq_net.reactor import Reactor
from rmq_wire.bodies.heartbeat import HeartbeatData, ProducerData
from rmq_wire.bodies.topics import TopicConfig
from rmq_wire.codes import RequestCode
from rmq_wire.command import encode_request
from rmq_wire.headers.clients import Heartbeat
from tests.net.serving import Served, served
from tests.support.engine import broker_node
from tests.support.lines import Lines, lines_of
from tests.support.requests import SUBSCRIPTION, SUSPEND, pull, send

ROOT = Path(__file__).parents[2]
WAIT_S = 120.0
SIZES = [1_000, pytest.param(10_000, marks=pytest.mark.nightly)]
"""The full size takes 10,000 descriptors on each side."""
TURN_LINES_MAX = 80_000
"""Of a turn that a thousand peers leave, or in which a thousand pulls are woken: 52 to 63 for each, whatever the crowd."""
PEER_BYTES_MAX = 12 * 1024
BEAT_LINES_MAX = 600
"""For a heartbeat: 245 to 280 where many come in one turn, more where each comes alone."""
WAKE_LINES_MAX = 6_000
"""Of a turn in which one pull is woken, of whatever many: 2,100 to 4,700; a line for each of 10,000 would be more."""
SAMPLES = 3
"""Of work that may meet a look at all peers, which there is every ten seconds: the least counts."""


@contextmanager
def lines_of_turns() -> Iterator[list[int]]:
    """How many lines of Python each pass of the reactor runs within the block."""
    turn, found = Reactor.turn, []

    def counted(reactor: Reactor, events: Sequence[tuple[int, int]]) -> None:
        found.append(lines_of(lambda: turn(reactor, events)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reactor, "turn", counted)
        yield found


class Crowd:
    """The other process."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process

    async def do(self, command: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        await self._process.stdin.send_all(command.encode() + b"\n")
        said = b""
        while not said.endswith(b"\n"):
            more = await self._process.stdout.receive_some()
            assert more, "the crowd ended"
            said += more
        return int(said.split()[1])


class Running(Served):
    """A broker that is being served."""

    def __init__(self, it: Served, node: BrokerNode) -> None:
        super().__init__(it.engine, it.shell, it.ports, it.nursery)
        self.node = node

    def topic(self, name: str, queues: int = 4) -> None:
        self.node.topics.put(TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues))

    @property
    def held(self) -> int:
        """Pulls that wait for a message."""
        pulls: Any = self.node.engine._rows[RequestCode.PULL_MESSAGE].handle
        return len(pulls.__self__.holds)

    @asynccontextmanager
    async def crowd(self, count: int) -> AsyncIterator[Crowd]:
        command = [sys.executable, "-m", "tests.net.crowd", str(self.ports["main"]), str(count)]
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
            process: trio.Process = await nursery.start(run)
            try:
                yield Crowd(process)
            finally:
                assert process.stdin is not None
                await process.stdin.aclose()


@asynccontextmanager
async def serving(root: Path, limits: Limits | None = None) -> AsyncIterator[Running]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    node = broker_node(SystemEnv(), root / "store", limits=limits)
    try:
        async with served(node.engine, seconds=WAIT_S) as it:
            yield Running(it, node)
    finally:
        node.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def heartbeat_frame() -> str:
    body = HeartbeatData(client_id="crowd", producer_data_set=[ProducerData(group_name="P")]).encode()
    return encode_request(Heartbeat.code, Heartbeat(), body, opaque=1).hex()


def anonymous_bytes() -> int:
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


@pytest.mark.parametrize("count", SIZES)
async def test_a_crowd_that_idles_and_leaves_at_once(count: int, tmp_path: Path) -> None:
    async with serving(tmp_path) as it, it.crowd(count) as crowd:
        before = anonymous_bytes()
        await crowd.do(f"frame {heartbeat_frame()}")
        assert await crowd.do("open") == count
        await it.peers(count)
        assert (anonymous_bytes() - before) / count < PEER_BYTES_MAX
        with Lines() as beats:
            assert await crowd.do("beat") == count
        assert beats.count < BEAT_LINES_MAX * count
        busy = await it.connect()
        beside_the_crowd = await lines_of_sends(busy)
        with lines_of_turns() as turns:
            await crowd.do("drop")
            await it.peers(1)
        assert max(turns) < TURN_LINES_MAX
        assert beside_the_crowd < await lines_of_sends(busy) * 1.25, "an idle crowd makes sends dear"


async def lines_of_sends(connection: Connection) -> int:
    """Of both sides, for 100 sends."""
    found = []
    for _ in range(SAMPLES):
        with Lines() as lines:
            for _ in range(100):
                assert (await connection.ask(send("TBW102"), b"x")).code == 0
        found.append(lines.count)
    return min(found)


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.nightly)])
async def test_slow_peers_cost_their_connection_and_nothing_else(count: int, tmp_path: Path) -> None:
    """Half of them send a byte now and then, half ask for much and read nothing; all are closed in time."""
    limits = Limits(first_frame_ms_max=500, slow_window_ms=500, stuck_ms_max=1_000, output_bytes_max=65_536)
    async with serving(tmp_path, limits) as it:
        it.topic("T")
        good = await it.connect()
        for n in range(32):
            assert (await good.ask(send("T", 0), b"x" * 8_000, ext=None)).code == 0, n
        frames = b"".join(encode_request(RequestCode.PULL_MESSAGE, pull("T", 0), opaque=n) for n in range(40))
        slow = []
        for n in range(count):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sock.connect(("127.0.0.1", it.ports["main"]))
            sock.setblocking(False)
            sock.send(frames if n % 2 else b"\x00")
            slow.append(sock)
            await trio.lowlevel.checkpoint()
        sent = 0
        while len(it.node.engine.peers) > 1:
            assert (await good.ask(send("T", 1), b"y")).code == 0
            sent += 1
            assert sum(peer.unsent_bytes for peer in it.node.engine.peers.values()) < count * 600_000
        assert sent > 10
        for sock in slow:
            sock.close()


@pytest.mark.parametrize("count", SIZES)
async def test_held_pulls_wake_quickly_and_cost_little(count: int, tmp_path: Path) -> None:
    async with serving(tmp_path) as it, it.crowd(count) as crowd:
        it.topic("Wide", queues=count)
        it.topic("One", queues=1)
        await crowd.do(f"frame {heartbeat_frame()}")
        assert await crowd.do("open") == count
        before = anonymous_bytes()
        wide = tmp_path / "wide.txt"
        wide.write_text("\n".join(waiting_pull("Wide", n, n) for n in range(count)))
        await crowd.do(f"each {wide}")
        while it.held < count:
            await trio.lowlevel.checkpoint()
        assert (anonymous_bytes() - before) / count < PEER_BYTES_MAX
        good = await it.connect()
        with lines_of_turns() as turns:
            for n in range(50):
                assert (await good.ask(send("Wide", n * (count // 50)), b"wake")).code == 0
            assert await crowd.do("wait 50") == 50
        assert max(turns) < WAKE_LINES_MAX
        assert it.held == count - 50


@pytest.mark.parametrize("count", [1_000])
async def test_one_message_wakes_a_thousand(count: int, tmp_path: Path) -> None:
    async with serving(tmp_path) as it, it.crowd(count) as crowd:
        it.topic("One", queues=1)
        await crowd.do(f"frame {heartbeat_frame()}")
        assert await crowd.do("open") == count
        one = tmp_path / "one.txt"
        one.write_text("\n".join(waiting_pull("One", 0, n) for n in range(count)))
        await crowd.do(f"each {one}")
        while it.held < count:
            await trio.lowlevel.checkpoint()
        good = await it.connect()
        with lines_of_turns() as turns:
            assert (await good.ask(send("One", 0), b"wake")).code == 0
            assert await crowd.do(f"wait {count}") == count
        assert max(turns) < TURN_LINES_MAX


def waiting_pull(topic: str, queue_id: int, opaque: int) -> str:
    request = pull(topic, queue_id, flags=SUBSCRIPTION | SUSPEND, suspend_timeout_millis=60_000)
    return encode_request(request.code, request, opaque=opaque).hex()
