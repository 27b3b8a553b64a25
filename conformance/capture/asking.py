"""One question to a server, on a connection of its own: which brokers a name server lists, which version a broker has."""

from __future__ import annotations

import socket
from typing import Final, NamedTuple

from conformance.capture.recorder import RECEIVE_BYTES, Cutter, address_of, glance, split
from rmq_wire import fastjson
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.codes import RequestCode
from rmq_wire.encoding import encode_request
from rmq_wire.errors import BadBody

ASK_S: Final = 5.0
"""For connecting, and for the answer."""


class CannotReach(Exception):
    """A server does not answer, or not as a server of this kind would.  One line."""


class Listed(NamedTuple):
    """A broker as a name server lists it."""

    name: str
    cluster: str
    broker_id: int
    address: str


def listed_brokers(namesrv: str) -> list[Listed]:
    """Every broker, masters first, by name.  Raises `CannotReach`."""
    body = _ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
    try:
        info = ClusterInfo.read(body)
    except BadBody as wrong:
        raise CannotReach(f"{namesrv} does not answer as a name server: {wrong}") from None
    found = [
        Listed(name, data.cluster, number, address)
        for name, data in info.broker_addr_table.items()
        for number, address in data.broker_addrs.items()
    ]
    return sorted(found, key=lambda broker: (broker.broker_id, broker.name))


def broker_version(broker: str) -> str:
    """What a broker calls its version (`V5_5_0`); empty when it does not say."""
    try:
        told = fastjson.loads(_ask(broker, RequestCode.GET_BROKER_RUNTIME_INFO))
    except (CannotReach, BadBody):
        return ""
    table = told.get("table") if isinstance(told, dict) else None
    return str(table.get("brokerVersionDesc", "")) if isinstance(table, dict) else ""


def _ask(server: str, code: int) -> bytes:
    """The body of a successful answer."""
    cutter = Cutter()
    try:
        with socket.create_connection(address_of(server), timeout=ASK_S) as connection:
            connection.sendall(encode_request(code, opaque=1))
            while data := connection.recv(RECEIVE_BYTES):
                for frame in cutter.feed(data):
                    if glance(frame).code != 0:
                        raise CannotReach(f"{server} answers with response code {glance(frame).code}")
                    return split(frame)[2]
                if cutter.lost:
                    break
    except (OSError, ValueError) as wrong:
        raise CannotReach(f"{server} cannot be reached: {wrong}") from None
    raise CannotReach(f"{server} does not answer as a server of RocketMQ")
