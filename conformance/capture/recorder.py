"""Keeps what a stock client and a server say to each other: a TCP relay on loopback that sees every frame.

It changes no byte unless it is told how (`Alter`).  A client comes through it because it is told the relay's address: as its name
server, and as its broker either because the broker advertises the relay's address as its own (a broker that listens on
127.0.0.1:P with `brokerIP1=127.0.0.2` sends its clients to 127.0.0.2:P; all of 127/8 is loopback on Linux) or because the route
answers are altered on their way (`conformance.capture.session`).  One thread per direction cuts the stream at the length fields;
what has no such fields passes unrecorded.  Headers are glanced at without `rmq_wire`, which the recorded frames are to judge.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Self

RECEIVE_BYTES: Final = 65_536
FRAME_BYTES_MAX: Final = 16_777_216
"""The reference's `com.rocketmq.remoting.frameMaxLength`; a greater length is not a frame of this protocol."""
RESPONSE: Final = 1
"""Bit of a command's flag."""
PREFIX_BYTES: Final = 8
"""Before the header: the length of what follows, and the header's form and length."""

Address = tuple[str, int]
Alter = Callable[[bool, bytes], bytes]
"""(to the server?, frame) -> the frame that goes on in its place."""


class Frame(NamedTuple):
    """One frame as the server sent or received it, its length field included.  `at_ms`: since the tape began."""

    connection: int
    """Number of the connection, from 0."""
    to_server: bool
    data: bytes
    at_ms: float = 0.0


class Mark(NamedTuple):
    """What happened to a connection beside its frames."""

    connection: int
    at_ms: float
    what: str
    """`open`; `close` by the side that `by_server` tells; `lost`: the bytes of one side are no frames from here on."""
    by_server: bool = False
    client: str = ""
    """`host:port` from which the server sees the client come (the relay's own), when it opens."""
    server: str = ""
    """`host:port` to which it was relayed, when it opens."""


class Glance(NamedTuple):
    """What tells frames apart.  `code` of a response is its response code."""

    form: int
    code: int
    opaque: int
    is_response: bool


def glance(data: bytes) -> Glance:
    """Code, number and direction of a frame, from its JSON (form 0) or binary (form 1) header."""
    form, header, _ = split(data)
    if form == 0:
        read = json.loads(header)
        return Glance(0, read["code"], read["opaque"], bool(read.get("flag", 0) & RESPONSE))
    code, _, _, opaque, flag = struct.unpack_from(">hbhii", header)
    return Glance(form, code, opaque, bool(flag & RESPONSE))


def split(data: bytes) -> tuple[int, bytes, bytes]:
    """Form, header and body of a frame."""
    _, word = struct.unpack_from(">iI", data)
    form, body_at = word >> 24, PREFIX_BYTES + (word & 0xFFFFFF)
    return form, data[PREFIX_BYTES:body_at], data[body_at:]


class Cutter:
    """Cuts a byte stream at its length fields.  Gives up for good at a length that no frame has."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self.lost = False

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now."""
        frames: list[bytes] = []
        self._pending += data
        while not self.lost and len(self._pending) >= 4:
            end = 4 + int(struct.unpack_from(">i", self._pending)[0])
            if not PREFIX_BYTES <= end <= FRAME_BYTES_MAX:
                self.lost = True
                break
            if len(self._pending) < end:
                break
            frames.append(bytes(self._pending[:end]))
            del self._pending[:end]
        return frames

    def rest(self) -> bytes:
        """What no frame has been made of, taken out."""
        rest = bytes(self._pending)
        self._pending.clear()
        return rest


class Tape:
    """What has happened so far on the connections of one or several relays, in one order and with one clock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Frame | Mark] = []
        self._connections = 0
        self._began = time.monotonic()
        self.wall_ms = time.time_ns() // 1_000_000
        """When it began."""

    def opened(self, client: str, server: str) -> int:
        """The number of a new connection."""
        with self._lock:
            number, self._connections = self._connections, self._connections + 1
            self._events.append(Mark(number, self._now_ms(), "open", client=client, server=server))
        return number

    def mark(self, connection: int, what: str, *, by_server: bool) -> None:
        """Keep what is no frame."""
        with self._lock:
            self._events.append(Mark(connection, self._now_ms(), what, by_server))

    def keep(self, connection: int, to_server: bool, frames: Iterable[bytes]) -> None:
        """Keep frames that are complete now."""
        with self._lock:
            now = self._now_ms()
            self._events += [Frame(connection, to_server, frame, now) for frame in frames]

    def events(self) -> list[Frame | Mark]:
        """What has passed so far, in the order in which it was complete."""
        with self._lock:
            return list(self._events)

    def frames(self) -> list[Frame]:
        """Only the frames of it."""
        return [event for event in self.events() if isinstance(event, Frame)]

    def _now_ms(self) -> float:
        return round((time.monotonic() - self._began) * 1000, 3)


class Recorder:
    """Listens at one address, relays each connection to another, and keeps the frames; a context manager."""

    def __init__(self, listen: Address, to: Address, *, tape: Tape | None = None, alter: Alter | None = None) -> None:
        """`listen` with port 0 takes a free one; `address` says which.  Raises `OSError` when it cannot be had."""
        self._to = to
        self._tape = tape or Tape()
        self._alter = alter
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(listen)
        self.address: Address = self._listener.getsockname()[:2]

    def frames(self) -> list[Frame]:
        """What is on the tape so far."""
        return self._tape.frames()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True, name=f"recorder-{self.address[1]}").start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                server = socket.create_connection(self._to)
            except OSError:
                client.close()
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = self._tape.opened(text_of(server.getsockname()), text_of(self._to))
            with self._lock:
                self._open |= {client, server}
            threading.Thread(target=self._serve, args=(client, server, number), daemon=True).start()

    def _serve(self, client: socket.socket, server: socket.socket, number: int) -> None:
        back = threading.Thread(target=self._relay, args=(server, client, number, False), daemon=True)
        back.start()
        self._relay(client, server, number, True)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _relay(self, source: socket.socket, sink: socket.socket, number: int, to_server: bool) -> None:
        cutter = Cutter()
        with contextlib.suppress(OSError):
            while data := source.recv(RECEIVE_BYTES):
                lost = cutter.lost
                frames = [] if lost else cutter.feed(data)
                if cutter.lost and not lost:
                    self._tape.mark(number, "lost", by_server=not to_server)
                if self._alter is None:
                    # Kept before it is passed on, so that an answer can never stand before its question.
                    self._tape.keep(number, to_server, frames)
                    sink.sendall(data)
                else:
                    passed = [self._alter(to_server, frame) for frame in frames]
                    self._tape.keep(number, to_server, passed if to_server else frames)
                    sink.sendall(b"".join(passed) + (cutter.rest() + (data if lost else b"") if cutter.lost else b""))
        self._tape.mark(number, "close", by_server=not to_server)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def text_of(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """`host:port`."""
    return f"{address[0]}:{address[1]}"


def address_of(text: str) -> Address:
    """Raises `ValueError` unless it is `host:port` with a lawful port."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return host, int(port)
