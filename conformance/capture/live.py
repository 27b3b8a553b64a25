"""One connection of a replay: what the other server sends is read by a thread and waited for by number or by code."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from conformance.capture.recorder import RECEIVE_BYTES, Cutter, Glance, address_of, glance, text_of

CONNECT_S: Final = 5.0


class Heard(NamedTuple):
    """A frame from the server, and its place among all that this connection heard."""

    place: int
    seems: Glance
    data: bytes


class LiveConnection:
    """A connection to the server that a recording is replayed to."""

    def __init__(self, server: str) -> None:
        """Connects.  Raises `OSError`."""
        self._socket = socket.create_connection(address_of(server), timeout=CONNECT_S)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.local = text_of(self._socket.getsockname())
        """`host:port` by which the server knows us."""
        self._changed = threading.Condition()
        self._unread: list[Heard] = []
        self._count = 0
        self._ended = ""
        threading.Thread(target=self._read, daemon=True, name=f"replay-{self.local}").start()

    def send(self, data: bytes) -> bool:
        """Whether the server still took it."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def answer(self, opaque: int, until_s: float) -> Heard | None:
        """The answer with this number; None when the time (of `time.monotonic`) or the connection ends before it comes."""
        return self._take(lambda heard: heard.seems.is_response and heard.seems.opaque == opaque, until_s)

    def question(self, code: int, until_s: float) -> Heard | None:
        """The next request of the server with this code."""
        return self._take(lambda heard: not heard.seems.is_response and heard.seems.code == code, until_s)

    def ended(self, until_s: float) -> bool:
        """Whether the server ends the connection by then."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._ended), max(0.0, until_s - time.monotonic()))
            return bool(self._ended)

    @property
    def why_ended(self) -> str:
        """Empty while it is open."""
        return self._ended

    def unread(self) -> list[Heard]:
        """What nobody has waited for."""
        with self._changed:
            return list(self._unread)

    def close(self) -> None:
        """Leave, as a client does."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _take(self, wanted: Callable[[Heard], bool], until_s: float) -> Heard | None:
        with self._changed:
            while True:
                for heard in self._unread:
                    if wanted(heard):
                        self._unread.remove(heard)
                        return heard
                left = until_s - time.monotonic()
                if self._ended or left <= 0:
                    return None
                self._changed.wait(left)

    def _read(self) -> None:
        cutter = Cutter()
        why = "the server closed the connection"
        try:
            while data := self._socket.recv(RECEIVE_BYTES):
                frames = [(glance(frame), frame) for frame in cutter.feed(data)]
                with self._changed:
                    for seems, frame in frames:
                        self._unread.append(Heard(self._count, seems, frame))
                        self._count += 1
                    self._changed.notify_all()
                if cutter.lost:
                    why = "the server sent what is no frame"
                    break
        except OSError as wrong:
            why = f"the connection broke: {wrong.strerror or wrong}"
        except (ValueError, KeyError) as wrong:
            why = f"the server sent a header that cannot be read: {wrong}"
        with self._changed:
            self._ended = why
            self._changed.notify_all()
