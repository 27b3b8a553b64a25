"""The smallest client that can ask a server something: one blocking request on one connection.

Deliberately independent of `rmq_wire` and `rmq_net`: it shows the harness whether a server is ready and who it is, and must keep
working while those packages are under test.  JSON header form only.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple

GET_BROKER_CONFIG = 26
GET_BROKER_RUNTIME_INFO = 28
GET_ROUTEINFO_BY_TOPIC = 105
GET_BROKER_CLUSTER_INFO = 106
"""RequestCode of `clusterList`; every name server answers it, an empty one too."""

SUCCESS = 0
REQUEST_CODE_NOT_SUPPORTED = 3

WORD = 4
"""Bytes of a length, big-endian: of the whole, and of the header with its form in the highest byte."""
HEADER_LENGTH = 0xFFFFFF

ANSWER_S = 15.0
"""A server answers in milliseconds; this is for a busy machine."""

_opaque = itertools.count(1)
_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)\s*:")


class Answer(NamedTuple):
    """One response: `ext` holds the header fields as text."""

    code: int
    remark: str | None
    ext: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        """The body, with fastjson's bare integer keys (`{0:"a"}`) taken as text keys."""
        read = json.loads(_BARE_KEY.sub(r'\1"\2":', self.body.decode()))
        assert isinstance(read, dict)
        return read


def split_address(address: str) -> tuple[str, int]:
    """`127.0.0.1:9876` as host and port.  Raises `ValueError` unless it is `host:port` with a lawful port."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host, int(port)


def frame(code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, opaque: int = 0, flag: int = 0) -> bytes:
    """A request with a JSON header as RocketMQ frames it: total length, form and header length, header, body."""
    header = json.dumps(
        {
            "code": code,
            "extFields": dict(ext or {}),
            "flag": flag,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 513,
        }
    ).encode()
    return (WORD + len(header) + len(body)).to_bytes(WORD, "big") + len(header).to_bytes(WORD, "big") + header + body


def read_answer(connection: socket.socket) -> Answer:
    """The next frame on this connection.  Raises `ConnectionError` at its end, or for what is no frame with a JSON header."""
    data = _exactly(connection, int.from_bytes(_exactly(connection, WORD), "big"))
    header_length = int.from_bytes(data[:WORD], "big") & HEADER_LENGTH
    try:
        header = json.loads(data[WORD : WORD + header_length])
        return Answer(header["code"], header.get("remark"), header.get("extFields") or {}, data[WORD + header_length :])
    except (ValueError, KeyError, TypeError):
        raise ConnectionError("what answers does not speak RocketMQ's remoting protocol") from None


def ask(
    address: str, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, timeout_s: float = ANSWER_S
) -> Answer:
    """Ask once on a connection of its own.  Raises `OSError` (also for time-outs) when nobody answers."""
    with socket.create_connection(split_address(address), timeout=timeout_s) as connection:
        connection.sendall(frame(code, ext, body, opaque=next(_opaque)))
        return read_answer(connection)


ANSWER_BYTES_MAX = 1 << 26
"""More than any answer takes: the first bytes of another protocol (`HTTP`) read as a length are 1.2 GB."""


def _exactly(connection: socket.socket, count: int) -> bytes:
    if count > ANSWER_BYTES_MAX:
        raise ConnectionError("what answers does not speak RocketMQ's remoting protocol")
    parts = bytearray()
    while len(parts) < count:
        more = connection.recv(count - len(parts))
        if not more:
            raise ConnectionError("the server closed the connection")
        parts += more
    return bytes(parts)
