"""`exchange.Session` on an engine without sockets: the same conversations, and time under the test's hand."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

from broker_impl.env import Env
from broker_impl.namesrv.config import NamesrvConfig
from broker_impl.namesrv.server import NameServer, create_name_server
from tests.namesrv.exchange import ONE_WAY, V5_5_0, Said, body_of, framed
from tests.support.driver import Client, Driver

WALL_MS = 1_700_000_000_000
START_MS = 1_000_000


class EngineSession:
    """Connections to a name server of its own, by name."""

    def __init__(self, home: str, properties: Mapping[str, str] | None = None, **options: Any) -> None:
        self.env = Env(wall_ms=WALL_MS, mono_ms=START_MS)
        self.config = NamesrvConfig(properties, user_home=home, rocketmq_home=home)
        self.server: NameServer = create_name_server(self.env, self.config, **options)
        self.driver = Driver(self.server.engine)
        self.clients: dict[str, Client] = {}
        self._opaque = itertools.count(1)

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

    def ask(
        self,
        code: int,
        ext: Mapping[str, Any] | None = None,
        body: bytes | Mapping[str, Any] = b"",
        *,
        who: str = "tool",
        version: int = V5_5_0,
    ) -> Said:
        data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
        opaque = next(self._opaque)
        client = self.client(who)
        client.raw(framed(code, {} if ext is None else ext, data, opaque, version=version))
        answer = client.answers.pop(opaque)
        parsed, bare = body_of(bytes(answer.body))
        return Said(answer.code, answer.remark, answer.ext_map(), parsed, bare)

    def tell(self, code: int, ext: Mapping[str, Any], body: bytes = b"", *, who: str = "tool") -> None:
        self.client(who).raw(framed(code, ext, body, next(self._opaque), flag=ONE_WAY))

    def close(self, who: str) -> None:
        self.clients.pop(who).close()

    def settled(self, name: str, ids: list[int]) -> None:
        table = self.ask(106).body["brokerAddrTable"]
        assert sorted(int(number) for number in table.get(name, {}).get("brokerAddrs", {})) == ids

    def route(self, topic: str = "T1", who: str = "tool") -> dict[str, dict[str, str]] | None:
        """Addresses by broker name, None when the topic has no route."""
        said = self.ask(105, {"topic": topic}, who=who)
        return None if said.code else {data["brokerName"]: data["brokerAddrs"] for data in said.body["brokerDatas"]}
