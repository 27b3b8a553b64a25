"""An engine that is served on loopback sockets, by either shell, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio

from broker_impl.engine.engine import Engine
from rmq_net.connection import Connection
from rmq_net.reactor import Tuning
from rmq_net.shell import Shell, bind, bound_to
from rmq_net.streams import StreamShell

AnyShell = type[Shell] | type[StreamShell] | partial[Shell]


class Served:
    """The engine, its shell, and where it listens."""

    def __init__(self, engine: Engine, shell: Shell | StreamShell, ports: dict[str, int], nursery: trio.Nursery) -> None:
        self.engine = engine
        self.shell = shell
        self.ports = ports
        self.nursery = nursery

    async def connect(self, listener: str = "main", **options: Any) -> Connection:
        return await Connection.connect("127.0.0.1", self.ports[listener], nursery=self.nursery, **options)

    async def raw(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.ports["main"])

    async def peers(self, count: int) -> None:
        """Wait until the server knows so many connections."""
        while len(self.engine.peers) != count:
            await trio.lowlevel.checkpoint()


@asynccontextmanager
async def served(
    engine: Engine,
    *,
    seconds: float,
    shell_class: AnyShell = Shell,
    listeners: tuple[str, ...] = ("main",),
    tuning: Tuning | None = None,
) -> AsyncIterator[Served]:
    """Serve until the block ends, or for so long."""
    bound = [(bind("127.0.0.1", 0), name) for name in listeners]
    ports = {name: bound_to(sock)[1] for sock, name in bound}
    shell = shell_class(engine, bound, tuning=tuning)
    with trio.fail_after(seconds):
        async with trio.open_nursery() as nursery:
            await nursery.start(shell.serve)
            yield Served(engine, shell, ports, nursery)
            nursery.cancel_scope.cancel()
