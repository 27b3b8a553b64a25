"""`exchange.Session` on an engine without sockets: the same conversations, and time under the test's hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_impl.env import Env
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.server import NameServer, create_name_server
from rmq_wire.command import Command
from tests.support.driver import Client, Driver
from tests.support.exchange import ONE_WAY, Session, framed

WALL_MS = 1_700_000_000_000
START_MS = 1_000_000


class EngineSession(Session):
    """Connections to a name server of its own, by name."""

    def __init__(self, home: str, properties: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__("")
        self.env = Env(wall_ms=WALL_MS, mono_ms=START_MS)
        self.config = NamesrvConfig(properties, user_home=home, rocketmq_home=home)
        self.server: NameServer = create_name_server(self.env, self.config, **options)
        self.driver = Driver(self.server.engine)
        self.clients: dict[str, Client] = {}

    def client(self, who: str) -> Client:
        if who not in self.clients:
            self.clients[who] = self.driver.connect()
        return self.clients[who]

    def connect_through(self, who: str, local_host: str) -> Client:
        """A connection that came in at this address of ours."""
        peer = self.server.engine.opened(("10.9.9.9", 1), (local_host, 9876), "main")
        assert peer is not None
        client = self.clients[who] = self.driver.clients[peer] = Client(self.driver, peer)
        return client

    def _exchange(self, who: str, frame: bytes, opaque: int) -> Command:
        client = self.client(who)
        client.raw(frame)
        return client.answers.pop(opaque)

    def send_oneway(self, code: int, ext: Mapping[str, Any], body: bytes = b"", *, who: str = "tool") -> None:
        self.client(who).raw(framed(code, ext, body, next(self._opaque), flag=ONE_WAY))

    def close(self, who: str) -> None:
        self.clients.pop(who).close()

    def settled(self, name: str, ids: list[int]) -> None:
        assert self.members(name) == ids
