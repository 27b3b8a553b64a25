"""TCP ports for servers of our own: taken from one range, reserved by a lock file each until the server has ended.

A port that was found free by binding it is anybody's as soon as it is closed again.  Several runs on one machine therefore
take their ports from ranges of their own (`RMQ_PORTS=12000-18000`), and within a range each port in use has a file that its
owner holds locked: the kernel lets go of it when the owner dies, however it dies.  A broker listens beside its port, too (- 2
for its "fast" requests, + 1 for its slaves): those are reserved with it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

RANGE_VARIABLE: Final = "RMQ_PORTS"
RANGE: Final = "12000-32000"
"""Below the ports that the system gives to clients (32768 and up on Linux)."""
BROKER_PORTS: Final = (-2, 0, 1)
"""What a broker listens on, from its `listenPort`: the fast port, the port, replication."""

_held: Final[dict[int, list[int]]] = {}
"""Reserved port -> the descriptors of its locked files."""


class NoPort(OSError):
    """Every port of the range is taken, or the range is none."""


def port_range() -> range:
    """What RMQ_PORTS says.  Raises `NoPort`."""
    text = os.environ.get(RANGE_VARIABLE) or RANGE
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1024 <= int(first) < int(last) <= 65_536):
        raise NoPort(f"{RANGE_VARIABLE}={text}: expected FIRST-END, for instance {RANGE}")
    return range(int(first), int(last))


def reserve_port(*offsets: int) -> int:
    """A port p such that p + each offset is free on every address, and nobody else's until `release_port(p)`."""
    ports = port_range()
    around = {0, *offsets}
    for port in _from_anywhere(ports):
        wanted = [port + offset for offset in around]
        if all(number in ports for number in wanted) and (locks := _lock_all(wanted)) is not None:
            if all(is_free(number) for number in wanted):
                _held[port] = locks
                return port
            _unlock(locks)
    raise NoPort(f"no free port in {ports.start}-{ports.stop}")


def reserve_exactly(port: int) -> bool:
    """Reserve this port, of no range, until `release_port(port)`.  False: another run has it.  It need not be free."""
    locks = _lock_all([port])
    if locks is None:
        return False
    _held[port] = locks
    return True


def release_port(port: int) -> None:
    """Give it back, with those beside it; a port that was never reserved is nobody's business."""
    _unlock(_held.pop(port, []))


def is_free(port: int) -> bool:
    """Can a server listen on this port, whatever its address?"""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _from_anywhere(ports: range) -> Iterator[int]:
    """Every port once, from somewhere on."""
    start = random.randrange(len(ports))
    yield from ports[start:]
    yield from ports[:start]


def _lock_all(ports: list[int]) -> list[int] | None:
    """Their lock files, all of them held; None when one is somebody's."""
    directory = Path(tempfile.gettempdir()) / f"rmq-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    held: list[int] = []
    for port in ports:
        lock = os.open(directory / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        held.append(lock)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            _unlock(held)
            return None
    return held


def _unlock(locks: list[int]) -> None:
    for lock in locks:
        fcntl.flock(lock, fcntl.LOCK_UN)  # a child that another thread forks shares it, until it runs its program
        os.close(lock)
