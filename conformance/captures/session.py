"""A recording of everything that clients say to a name server and to the brokers that it knows.

One relay stands before the name server; clients are given its address.  Each broker address that an answer of a server names gets
a relay with a port of its own, and the client reads that relay's address in place of the broker's: so any broker can be
recorded, also one whose `brokerIP1` cannot be changed.  Kept is what the server said and heard, before and after such changes.
A broker that is named with `advertised` is recorded byte for byte: it gives clients an address at which a relay listens.
What a client takes out of a message id (the address of its store host) is not changed: it goes past the relay.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from typing import Final, Self

from conformance.captures.asking import CannotReach, broker_version, listed_brokers
from conformance.captures.bodies import ASKED, BATCH, MESSAGE
from conformance.captures.decoding import parse
from conformance.captures.file import BROKER, NAME_SERVER, Capture, Server
from conformance.captures.recorder import Recorder
from conformance.frames import split
from conformance.relay import Address, text_of
from conformance.subjects.remoting import split_address
from rmq_wire.command import Command
from rmq_wire.encoding import frame_prefix

_ADDRESSES: Final = re.compile(rb'"brokerAddrs":\{((?:[^{}"]|"[^"]*")*)\}')
"""The table of a broker's addresses in a route, a cluster or a member group."""
_QUOTED: Final = re.compile(rb'"([^"\s/]+:\d{1,5})"')
_JSON_FORM: Final = 0


class Recording:
    """Relays on loopback before one name server and its brokers; a context manager."""

    def __init__(self, namesrv: str, listen: Address = ("127.0.0.1", 0), advertised: Mapping[str, str] | None = None) -> None:
        """`advertised`: address that a broker gives its clients, and at which a relay can listen -> where the broker is.

        Raises `OSError` when an address cannot be listened at, `ValueError` when one is none.
        """
        self._namesrv = namesrv
        self._host = listen[0]
        self._relayed: dict[str, str] = {}
        """Address that a server gives -> address that clients read in its place."""
        self._advertised = dict(advertised or {})
        self._recorder = Recorder(listen, split_address(namesrv), alter=self._alter)
        try:
            for address, real in self._advertised.items():
                self._recorder.also(split_address(address), split_address(real))
        except BaseException:
            self._recorder.give_up()
            raise
        self.address = text_of(self._recorder.address)
        """What clients are given as their name server."""

    def __enter__(self) -> Self:
        self._recorder.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.__exit__()

    def relay_of(self, broker: str) -> str:
        """The address at which clients find a broker, for those that are given one and do not ask the name server."""
        self._recorder.call(lambda: self._relay_for(broker))
        return self._relayed.get(broker, broker)

    def capture(self, command: str, subject: str = "", about: str = "") -> Capture:
        """What has been recorded so far.  The servers are asked for their names; without a subject, for their version."""
        servers, tape = self._servers(), self._recorder.tape
        if not subject:
            versions = [broker_version(server.reached_at) for server in servers if server.role == BROKER]
            subject = ", ".join(sorted({f"RocketMQ {version}" for version in versions if version}))
        return Capture(command, subject, about, tape.wall_ms, servers, tuple(tape.events()))

    def _servers(self) -> tuple[Server, ...]:
        servers = [Server(NAME_SERVER, self._namesrv, self._namesrv)]
        with contextlib.suppress(CannotReach):
            for broker in listed_brokers(self._namesrv):
                reached_at = self._advertised.get(broker.address, broker.address)
                servers.append(Server(BROKER, broker.address, reached_at, broker.name, broker.cluster, broker.broker_id))
        return tuple(servers)

    def _alter(self, to_server: bool, frame: bytes) -> bytes:
        form, header, body = split(frame)
        if not to_server:
            for table in _ADDRESSES.finditer(body):
                for address in _QUOTED.finditer(table[1]):
                    self._relay_for(address[1].decode("ascii", "replace"))
        pairs = [(real, relay) if not to_server else (relay, real) for real, relay in self._relayed.items()]
        swap = _swapper(dict(pairs))
        altered_header = swap(header) if form == _JSON_FORM else header
        altered_body = body if to_server and _is_send(frame) else swap(body)
        if (altered_header, altered_body) == (header, body):
            return frame
        return frame_prefix(len(altered_header), len(altered_body), form) + altered_header + altered_body

    def _relay_for(self, address: str) -> None:
        """Make sure that clients which read this address come here."""
        if address in self._relayed or address in self._advertised or address in self._relayed.values():
            return
        with contextlib.suppress(OSError, ValueError):  # clients will go there themselves
            self._relayed[address] = text_of(self._recorder.also((self._host, 0), split_address(address)))


def _is_send(frame: bytes) -> bool:
    """Whether its body is an application's, which nobody may touch."""
    command = parse(frame)
    return isinstance(command, Command) and ASKED.get(command.code) in (MESSAGE, BATCH)


def _swapper(pairs: dict[str, str]) -> Callable[[bytes], bytes]:
    """Replaces whole texts in JSON: `"host:port"`."""
    table = {real.encode(): relay.encode() for real, relay in pairs.items()}

    def swap(text: bytes) -> bytes:
        if not table or text[:1] not in (b"{", b"["):
            return text
        return _QUOTED.sub(lambda found: b'"%b"' % table.get(found[1], found[1]), text)

    return swap
