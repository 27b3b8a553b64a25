"""Requests to a name server and what came back, in a form in which two servers can be compared.

A `Session` holds named connections, so that a scenario can say who asks, who closes and in which order.  Answers are taken apart:
code, remark, header fields, and the body as parsed JSON (fastjson's bare integer keys included) or as text.
Requests and bodies are independent of `rmq_wire`, which is under test.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from rmq_wire.command import Command
from tests.support.process import until
from tests.support.talk import Talk

V4_9_3 = 399
"""`MQVersion`: the last that gets the answer about routes in fastjson's spelling."""
V5_5_0 = 513
ONE_WAY = 2
_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)\s*:")


class Said(NamedTuple):
    """One answer taken apart.  `bare`: the body has integer keys without quotes."""

    code: int
    remark: str | None
    ext: Mapping[str, str]
    body: Any
    bare: bool


def framed(code: int, ext: Mapping[str, Any] | None, body: bytes, opaque: int, *, version: int = V5_5_0, flag: int = 0) -> bytes:
    header: dict[str, Any] = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque, "version": version}
    if ext is not None:
        header["extFields"] = {name: value for name, value in ext.items() if value is not None}
    text = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def body_of(data: bytes) -> tuple[Any, bool]:
    if not data:
        return None, False
    text = data.decode()
    if text[0] not in "{[":
        return text, False
    strict, replaced = _BARE_KEY.subn(r'\1"\2":', text)
    return json.loads(strict), replaced > 0


class Session:
    """Connections to one server, by name."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._talks: dict[str, Talk] = {}
        self._opaque = itertools.count(1)

    def talk(self, who: str) -> Talk:
        if who not in self._talks:
            self._talks[who] = Talk(self.address)
        return self._talks[who]

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
        answer = self._exchange(who, framed(code, {} if ext is None else ext, data, opaque, version=version), opaque)
        parsed, bare = body_of(bytes(answer.body))
        return Said(answer.code, answer.remark, answer.ext_map(), parsed, bare)

    def _exchange(self, who: str, frame: bytes, opaque: int) -> Command:
        talk = self.talk(who)
        talk.raw(frame)
        return talk.answer(opaque)

    def send_oneway(self, code: int, ext: Mapping[str, Any], body: bytes = b"", *, who: str = "tool") -> None:
        self.talk(who).raw(framed(code, ext, body, next(self._opaque), flag=ONE_WAY))

    def close(self, who: str) -> None:
        self._talks.pop(who).close()

    def end(self) -> None:
        for who in list(self._talks):
            self.close(who)

    def brokers(self) -> Any:
        """The cluster table as it is now."""
        return self.ask(106).body

    def settled(self, name: str, ids: list[int]) -> None:
        """Wait until the server knows exactly these members under a broker name (removal is asynchronous in Java)."""

        until(lambda: self.members(name) == ids, f"{name} has members {ids}")

    def members(self, name: str) -> list[int] | None:
        """Numbers of the brokers under a name; None when it does not say: Java's may not, while the table changes."""
        table = self.brokers()
        return None if table is None else sorted(map(int, table["brokerAddrTable"].get(name, {}).get("brokerAddrs", {})))

    def route(self, topic: str = "T1", who: str = "tool") -> dict[str, dict[str, str]] | None:
        """Addresses by broker name, None when the topic has no route."""
        said = self.ask(105, {"topic": topic}, who=who)
        return None if said.code else {data["brokerName"]: data["brokerAddrs"] for data in said.body["brokerDatas"]}


def topic(name: str, *, queues: int = 4, perm: int = 6, flag: int = 0) -> dict[str, Any]:
    return {
        "attributes": {},
        "order": False,
        "perm": perm,
        "readQueueNums": queues,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": flag,
        "writeQueueNums": queues,
    }


def register_body(
    *topics: dict[str, Any], counter: int = 1, timestamp: int = 1_700_000_000_000, state: int = 0, **more: Any
) -> bytes:
    wrapper = {
        "dataVersion": {"counter": counter, "stateVersion": state, "timestamp": timestamp},
        "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": timestamp},
        "topicConfigTable": {config["topicName"]: config for config in topics},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
        **more,
    }
    return json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper}, separators=(",", ":")).encode()


def compressed_body(*topics: dict[str, Any], counter: int = 1, mappings: bool = True) -> bytes:
    """The zlib spelling, made by hand."""

    def sized(piece: bytes) -> bytes:
        return struct.pack(">i", len(piece)) + piece

    pieces = sized(json.dumps({"counter": counter, "stateVersion": 0, "timestamp": 1_700_000_000_000}).encode())
    pieces += struct.pack(">i", len(topics))
    for config in topics:
        text = f"{config['topicName']} {config['readQueueNums']} {config['writeQueueNums']} {config['perm']} SINGLE_TAG {{}}"
        pieces += sized(text.encode())
    pieces += sized(b"[]")
    if mappings:
        pieces += struct.pack(">i", 0)
    return zlib.compress(pieces, 9)


def crc(body: bytes) -> int:
    return zlib.crc32(body) & 0x7FFFFFFF


def broker(name: str = "broker-a", number: int = 0, port: int = 10911, cluster: str = "C", **more: Any) -> dict[str, Any]:
    """The header of 103, 104 and 322."""
    addr = f"127.0.0.1:{port}"
    return {
        "brokerName": name,
        "brokerId": str(number),
        "brokerAddr": addr,
        "clusterName": cluster,
        "haServerAddr": f"127.0.0.1:{port + 1}",
        **more,
    }
