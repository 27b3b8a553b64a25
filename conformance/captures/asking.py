"""One question to a server, on a connection of its own: which brokers a name server lists, which version a broker has."""

from __future__ import annotations

from typing import Final, NamedTuple

from conformance.subjects.remoting import SUCCESS, ask
from rmq_wire import fastjson
from rmq_wire.bodies.cluster import ClusterInfo
from rmq_wire.codes import RequestCode
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
        answer = fastjson.loads(_ask(broker, RequestCode.GET_BROKER_RUNTIME_INFO))
    except (CannotReach, BadBody):
        return ""
    table = answer.get("table") if isinstance(answer, dict) else None
    return str(table.get("brokerVersionDesc", "")) if isinstance(table, dict) else ""


def _ask(server: str, code: int) -> bytes:
    """The body of a successful answer."""
    try:
        answer = ask(server, code, timeout_s=ASK_S)
    except (OSError, ValueError) as wrong:
        raise CannotReach(f"{server} cannot be reached: {wrong}") from None
    if answer.code != SUCCESS:
        raise CannotReach(f"{server} answers with response code {answer.code}")
    return answer.body
