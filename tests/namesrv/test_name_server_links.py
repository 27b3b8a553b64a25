"""The broker's connections to name servers: one that leads nowhere is given up, one on which anything comes is not."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from broker_impl import broker
from broker_impl.env import Env
from rmq_net.connection import ConnectionLost
from rmq_wire.command import Command
from tests.namesrv.registering import Broker
from tests.support.mock_time import pass_time

TIMEOUT_MS = 2_000


class Link:
    """A connection whose answers come, as long as `leads` says so.  `chatters`: something else comes all the time."""

    def __init__(self, leads: Callable[[], bool], chatters: bool) -> None:
        self.leads = leads
        self.chatters = chatters
        self.closed = trio.Event()
        self.heard_s = trio.current_time()

    @property
    def silent_ms(self) -> int:
        return 0 if self.chatters else int((trio.current_time() - self.heard_s) * 1e3)

    async def ask(self, _request: Any, _body: bytes = b"", *, timeout_ms: int) -> Command:
        if self.closed.is_set():
            raise ConnectionLost("closed")
        if not self.leads():
            await pass_time(timeout_ms / 1e3)
            raise trio.TooSlowError
        await trio.lowlevel.checkpoint()
        self.heard_s = trio.current_time()
        return Command(code=0)

    async def close(self) -> None:
        self.closed.set()
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("chatters", [False, True])
async def test_a_connection_on_which_nothing_comes_is_made_anew(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, chatters: bool
) -> None:
    """The path to a name server swallows bytes from the tenth second on; a new connection would take another path."""
    registering = Broker("n:1")
    registering.settings.register_broker_timeout_mills = TIMEOUT_MS
    links: list[Link] = []

    async def connect(*_: Any, **__: Any) -> Link:
        number = len(links)
        links.append(Link(lambda: number > 0 or trio.current_time() - began_s < 10, chatters))
        return links[-1]

    class Timed(Env):
        def refresh(self) -> None:
            self.mono_ms = int((trio.current_time() - began_s) * 1e3)

    monkeypatch.setattr(broker.Connection, "connect", connect)
    began_s = trio.current_time()
    config = SimpleNamespace(name_servers=("n:1",), connect_timeout_millis=3_000)
    node: Any = SimpleNamespace(registrar=registering.registrar, routes=SimpleNamespace(), config=config, env=Timed())
    async with trio.open_nursery() as nursery:
        made = broker._NameServerLinks(node, nursery, lambda: None)
        nursery.start_soon(made.drive)
        await pass_time(60)
        registered = registering.registrar.registered
        nursery.cancel_scope.cancel()
    assert (len(links), registered) == ((1, []) if chatters else (2, ["n:1"]))
    assert links[0].closed.is_set() is not chatters
