"""What a client takes from the machine it runs on, handed in: wall clock, chance, address, process, how a stream is opened.

Deadlines are trio's (`mono_ms`), so a test with trio's own mock clock and streams in memory runs hours of a client at once.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import partial

import trio

from rmq_net.connection import open_stream
from rmq_wire.message_id import UniqueKeyMaker

Dial = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a stream to host and port.  Raises `OSError`, `trio.BrokenResourceError`."""


def mono_ms() -> int:
    """Milliseconds that never step."""
    return int(trio.current_time() * 1e3)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _own_ip() -> str:
    """The address of the interface that the default route leaves by; loopback where there is none.  Nothing is sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


@dataclass(slots=True)
class World:
    """The real machine, unless a test says otherwise."""

    dial: Dial = open_stream
    wall_ms: Callable[[], int] = _wall_ms
    rng: random.Random = field(default_factory=random.Random)
    ip: str = field(default_factory=_own_ip)
    pid: int = field(default_factory=os.getpid)
    zone: tzinfo | None = field(default_factory=lambda: datetime.now().astimezone().tzinfo)

    def unique_keys(self) -> UniqueKeyMaker:
        """A maker of message ids that nobody else makes, as `MessageClientIDSetter` does."""
        ip = bytes(map(int, self.ip.split(".")))
        number, count = self.rng.getrandbits(32), self.rng.getrandbits(16)
        return UniqueKeyMaker(ip=ip, pid=self.pid, process_number=number, zone=self.zone, count=count)


def dial_with(tls: ssl.SSLContext) -> Dial:
    """Opens streams in TLS."""
    return partial(open_stream, tls=tls)
