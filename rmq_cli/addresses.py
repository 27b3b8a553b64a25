"""Sockets, ports and addresses for the servers of the command line."""

from __future__ import annotations

import errno
import fcntl
import socket

from rmq_cli.complaint import Complaint
from rmq_net.log import plain_text
from rmq_net.shell import bind, bound_to

SIOCGIFADDR = 0x8915
"""Linux: the IPv4 address of an interface, in a `struct ifreq` (16 bytes of name, then a sockaddr_in)."""
IFREQ_BYTES = 256
"""Room for it."""
NAME_BYTES_MAX = 15
PORT_MAX = 65_535


def listen(host: str, port: int, what: str, option: str) -> socket.socket:
    """A listening socket.  Complains with one line when the port is taken or none, or the address is not ours."""
    if not 0 <= port <= PORT_MAX:
        raise Complaint(f"port {port} for the {what} is none: they end at {PORT_MAX}; choose others with {option}")
    try:
        return bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Complaint(f"port {port} for the {what} is taken; stop what listens there, or take another: {option}") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise Complaint(f"port {port} for the {what} needs more rights; choose one above 1023 with {option}") from None
        raise Complaint(f"the {what} cannot listen on {host}:{port}: {error.strerror or error}") from None
    except (UnicodeError, TypeError):  # of bytes that are no text `socket.bind` says TypeError
        raise Complaint(f"the {what} cannot listen on {host}:{port}: that is no host name") from None


def listen_if_free(host: str, port: int) -> socket.socket | None:
    """A listening socket, or None when the port is taken or out of range."""
    try:
        return bind(host, port) if 0 < port <= PORT_MAX else None
    except OSError:
        return None


def reachable(sock: socket.socket) -> str:
    """`host:port` to give a client on this machine: a wildcard address is reached by loopback."""
    host, port = bound_to(sock)
    if host in ("0.0.0.0", "::"):
        host = "127.0.0.1"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolved(name: str) -> str:
    """The address to store of a `brokerIP1` that may be a host name (clients are given the name itself): IPv4 first, as in Java.

    Raises `Complaint` when it has none.
    """
    try:
        found = socket.getaddrinfo(name.removeprefix("[").removesuffix("]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Complaint(
            f"brokerIP1={plain_text(name, 64)!r} has no address: name one, or a host that this machine can find"
        ) from None
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])


def own_address() -> str:
    """The IPv4 address that others reach this machine by: of the first interface that is not loopback, else loopback.

    Java: `NetworkUtil.getLocalAddress`.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe, SIOCGIFADDR, name.encode()[:NAME_BYTES_MAX].ljust(IFREQ_BYTES, b"\0"))
            except OSError:
                continue
            address = socket.inet_ntoa(answer[20:24])
            if not address.startswith("127."):
                return address
    return "127.0.0.1"
