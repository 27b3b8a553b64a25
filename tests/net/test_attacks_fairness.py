"""Attack 4 at the sockets: peers that always have more to say keep nobody waiting behind them."""

from __future__ import annotations

from typing import Any

import pytest

from broker_impl.engine.limits import Limits
from rmq_net.reactor import Reactor, Tuning
from rmq_wire.command import encode_request
from rmq_wire.headers.clients import Heartbeat
from tests.net.fake_net import FakeNet, FakeSocket
from tests.support.bare_engine import Server, where

RECEIVE_BYTES = Limits().receive_bytes_max
BUFFERS = 4
"""Full receives that the shared buffer has room for (`Tuning.buffer_bytes`)."""


def crowd(floods: int, reactor_class: type[Reactor] = Reactor) -> tuple[FakeNet, list[FakeSocket]]:
    """Flooding peers that were there first, and three that come after them."""
    server = Server()
    net = FakeNet(server.engine, tuning=Tuning(), reactor_class=reactor_class)
    late = [net.connect() for _ in range(floods + 3)]
    net.rest()
    return net, late


def always_more(sock: FakeSocket) -> None:
    """Refill what it will say with whole requests of 60 KB, more than one pass receives."""
    frame = encode_request(Heartbeat.code, Heartbeat(), bytes(60_000), opaque=1, oneway=True)
    while sum(len(data) for data in sock.incoming if isinstance(data, bytes)) < 2 * RECEIVE_BYTES:
        sock.incoming.append(frame * 8)


def passes_until_answered(net: FakeNet, floods: list[FakeSocket], calm: list[FakeSocket], limit: int) -> int:
    asked: Any = where(7)
    for sock in calm:
        sock.incoming.append(encode_request(asked.code, asked, opaque=1))
    for count in range(1, limit + 1):
        for sock in floods:
            always_more(sock)
        net.passes(1)
        if all(sock.sent for sock in calm):
            return count
    return limit + 1


@pytest.mark.parametrize("floods", [1, BUFFERS, 3 * BUFFERS, 40])
def test_attack_04_floods_starve_nobody(floods: int) -> None:
    """Who did not fit into one pass comes first in the next."""
    net, socks = crowd(floods)
    assert passes_until_answered(net, socks[:floods], socks[floods:], 50) <= 2 + floods // BUFFERS
    assert all(not sock.closed for sock in socks)


class Forgets(Reactor):
    """Takes the sockets in the order in which they are reported, pass after pass."""

    def _receive(self, events: Any) -> Any:
        self._starved = {}
        return super()._receive(events)


def test_attack_04_without_that_they_would() -> None:
    """The bug, planted."""
    net, socks = crowd(40, Forgets)
    assert passes_until_answered(net, socks[:40], socks[40:], 50) > 50
