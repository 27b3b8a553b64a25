"""Name servers and brokers in memory: a test says what each answers, refuses or leaves unanswered, and trio's mock clock jumps.

No socket and no thread: a client dials `FakeCluster.dial`, its frames go through streams in memory.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import trio
import trio.testing

from rmq_client.client import Client, connect
from rmq_client.world import World
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.bodies.route import BrokerData, QueueData, TopicRouteData
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.command import Command, encode_request, encode_response
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Header, Request
from rmq_wire.headers.send import SendMessageResponse
from tests.support.mock_time import pass_time

WALL_MS = 1_700_000_000_000
NAMESRV, BROKER_A, BROKER_B = "10.0.0.1:9876", "10.0.1.1:10911", "10.0.2.1:10911"

CLOCK_S_MAX = 20_000
"""On the mock clock: a client's own rounds would let it run for ever where a test waits for what never comes."""
Reply = tuple[int, Header | None, bytes]
Answer = Callable[[Command], Reply | None]
"""None: no answer at all."""


class FakeServer:
    """One address.  `answers`: by code; `heard`: every request, in order; `up`: takes connections; `deaf`: answers nothing.

    `times`: when each request came.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[int, Answer] = {}
        self.heard: list[Command] = []
        self.times: list[float] = []
        self.up = True
        self.deaf = False
        self.after_ms = 0
        """How long each answer takes."""
        self.connections = 0
        self.streams: list[trio.StapledStream[Any, Any]] = []

    def count(self, code: int) -> int:
        return sum(command.code == code for command in self.heard)

    def asked(self, code: int, since_s: float = 0.0) -> list[tuple[float, Command]]:
        """Requests of a code from then on, each with its time."""
        return [
            (at_s, command)
            for at_s, command in zip(self.times, self.heard, strict=True)
            if command.code == code and at_s >= since_s
        ]

    async def serve(self, stream: trio.StapledStream[Any, Any]) -> None:
        self.connections += 1
        self.streams.append(stream)
        conversation, writing = Conversation(), trio.Lock()
        async with trio.open_nursery() as nursery:
            try:
                while data := await stream.receive_some(1 << 20):
                    for command in conversation.feed(data):
                        assert isinstance(command, Command)
                        self.heard.append(command.kept())
                        self.times.append(trio.current_time())
                        nursery.start_soon(self._answer, stream, command, writing)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            nursery.cancel_scope.cancel()

    async def _answer(self, stream: trio.StapledStream[Any, Any], command: Command, writing: trio.Lock) -> None:
        if self.deaf or command.is_oneway or command.is_response:
            return
        answer = self.answers.get(command.code)
        reply = (ResponseCode.SUCCESS, None, b"") if answer is None else answer(command)
        if reply is None:
            return
        code, header, body = reply
        if self.after_ms:
            await pass_time(self.after_ms / 1e3)
        frame = encode_response(code, command.opaque, form=command.form, header=header, body=body)
        try:
            async with writing:
                await stream.send_all(b"".join([frame] if isinstance(frame, bytes) else frame))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def hang_up(self) -> None:
        """End all connections."""
        for stream in self.streams:
            await trio.aclose_forcefully(stream)
        self.streams.clear()

    async def ask(self, request: Request, *, oneway: bool = False) -> None:
        """Ask the client that came last."""
        await self.streams[-1].send_all(encode_request(request.code, request, opaque=77, oneway=oneway))


class FakeCluster:
    """A name server, and two brokers with a master each and two queues of every topic in `topics`."""

    def __init__(self, *, brokers: tuple[str, ...] = ("broker-a", "broker-b"), queues: int = 2) -> None:
        self.servers = {address: FakeServer(address) for address in (NAMESRV, BROKER_A, BROKER_B)}
        self.brokers = dict(zip(brokers, (BROKER_A, BROKER_B), strict=False))
        self.queues = queues
        self.topics = {"T", "TBW102"}
        self.wall_ms = WALL_MS
        self.nursery: trio.Nursery
        self.namesrv.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self.route
        self.namesrv.answers[RequestCode.GET_BROKER_CLUSTER_INFO] = self.cluster_info
        self.stored: list[tuple[str, int, Command]] = []
        """Broker name, queue, request."""
        for name, address in self.brokers.items():
            for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
                self.servers[address].answers[code] = lambda command, name=name: self.store(name, command)

    @property
    def namesrv(self) -> FakeServer:
        return self.servers[NAMESRV]

    @property
    def a(self) -> FakeServer:
        return self.servers[BROKER_A]

    @property
    def b(self) -> FakeServer:
        return self.servers[BROKER_B]

    def broker_datas(self) -> list[BrokerData]:
        return [BrokerData(cluster="C", broker_name=name, broker_addrs={0: addr}) for name, addr in self.brokers.items()]

    def route(self, command: Command) -> Reply:
        if command.ext_map()["topic"] not in self.topics:
            return ResponseCode.TOPIC_NOT_EXIST, None, b""
        queues = [
            QueueData(broker_name=name, read_queue_nums=self.queues, write_queue_nums=self.queues, perm=6)
            for name in self.brokers
        ]
        return ResponseCode.SUCCESS, None, TopicRouteData(queue_datas=queues, broker_datas=self.broker_datas()).encode()

    def cluster_info(self, command: Command) -> Reply:
        table = {broker.broker_name: broker for broker in self.broker_datas()}
        body = ClusterInfo(broker_addr_table=table, cluster_addr_table={"C": list(table)}).encode()
        return ResponseCode.SUCCESS, None, body

    def store(self, name: str, command: Command) -> Reply:
        queue_id = int(command.ext_map()["e"])
        self.stored.append((name, queue_id, command))
        header = SendMessageResponse(msg_id=f"{len(self.stored):032X}", queue_id=queue_id, queue_offset=len(self.stored) - 1)
        return ResponseCode.SUCCESS, header, b""

    async def dial(self, host: str, port: int) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(self.server_at(host, port).serve, theirs)
        return ours

    def server_at(self, host: str, port: int) -> FakeServer:
        """Raises ConnectionRefusedError when nobody listens there."""
        server = self.servers.get(f"{host}:{port}")
        if server is None or not server.up:
            raise ConnectionRefusedError(111, "Connection refused")
        return server

    def world(self, seed: int = 1) -> World:
        return World(dial=self.dial, wall_ms=lambda: self.wall_ms, rng=random.Random(seed), ip="10.9.8.7", pid=4711, zone=UTC)


@asynccontextmanager
async def client_of(cluster: FakeCluster, *, name_servers: str = NAMESRV, **options: Any) -> Any:
    """A client of it, for as long as the block lasts."""
    with trio.fail_after(CLOCK_S_MAX):
        async with trio.open_nursery() as nursery:
            cluster.nursery = nursery
            async with connect(name_servers, world=cluster.world(), **options) as client:
                assert isinstance(client, Client)
                yield client
            nursery.cancel_scope.cancel()


def refusing(code: int) -> Answer:
    """Always this code."""
    return lambda command: (code, None, b"")
