"""All accepted sockets of one service, without waiting: a pass polls, receives, lets the service turn, sends.

Every socket call is guarded: what goes wrong there ends that connection.  Received bytes go into one shared buffer that is used
again in the next pass.  Readiness is level-triggered, so what a pass leaves in the kernel is reported again; what the
service left in a backlog it asks for itself (`next_deadline`).  Poller, sockets and clock are handed in: tests give split
reads, short writes and resets; `shell` gives the real ones.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from rmq_net.garbage import collect_young
from rmq_net.log import Log
from rmq_net.service import Address, Buffer, Job, Output, Service

READ, WRITE = select.POLLIN, select.POLLOUT
NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""accept() fails so when descriptors or memory are short: it will fail again at once."""


class Tuning(NamedTuple):
    """Sizes and counts of a pass; the defaults are measured."""

    buffer_bytes: int = 1 << 20
    """Shared receive buffer: four full receives; fits the L2 cache of the machine it was measured on."""
    room_bytes_min: int = 16 * 1024
    """With less room left the pass receives no more."""
    events_max: int = 512
    """Ready sockets per pass: ten thousand connections that drop at once are spread over twenty passes."""
    accepts_max: int = 64
    """New connections per pass and listener."""
    accept_pause_ms: int = 200
    """How long accepting rests when descriptors are short (or until a connection ends)."""
    join_bytes_max: int = 512 * 1024
    """Answers up to this size are joined into one send; above, the pieces go out uncopied."""
    pieces_max: int = 256
    """Pieces in one sendmsg, below every system's IOV_MAX (1024)."""
    drain_ms_max: int = 5_000
    """An orderly stop waits so long for unsent answers."""
    poison: bool = False
    """Overwrite received bytes after each turn: in tests, a view that outlives its turn then shows."""


class Poller(Protocol):
    """The part of `select.epoll` that is used."""

    def register(self, fd: int, eventmask: int) -> None: ...
    def modify(self, fd: int, eventmask: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]: ...


class Link:
    """One accepted socket: what the kernel did not take yet, and what we wait for."""

    __slots__ = ("closing", "fd", "mask", "peer", "sock", "unsent")

    def __init__(self, sock: socket.socket, fd: int, peer: Any) -> None:
        self.sock = sock
        self.fd = fd
        self.peer = peer
        self.unsent: deque[Buffer] = deque()
        self.mask = READ
        self.closing = False
        """Close once `unsent` has gone."""


class Reactor:
    """Sockets between a service and a poller.  `start(job)` hands a job to a thread."""

    def __init__(
        self,
        service: Service[Any],
        poller: Poller,
        start: Callable[[Job], None],
        *,
        tuning: Tuning | None = None,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self.service = service
        self.poller = poller
        self.tuning = tuning or Tuning()
        self._start = start
        self._clock_ms = clock_ms
        self._log = Log("rmq.net", clock_ms)
        self._memory = bytearray(self.tuning.buffer_bytes)
        self._view = memoryview(self._memory)
        self._links: dict[int, Link] = {}
        self._by_peer: dict[Any, Link] = {}
        self._listeners: dict[int, tuple[socket.socket, str]] = {}
        self._wakes: dict[int, Callable[[], None]] = {}
        self._starved: dict[int, int] = {}
        """Descriptors that the last pass had no room for, each with its place in the queue: they come first in the next pass,
        since the order in which the poller reports them never changes."""
        self._accepting = True
        self._accept_again_ms: int | None = None
        self._stop_at_ms: int | None = None

    # Waiting

    def next_deadline(self) -> int | None:
        """Monotonic ms when the next pass is due without any event; None: never."""
        due = self.service.next_deadline()
        for other in (self._accept_again_ms, self._stop_at_ms):
            if other is not None and (due is None or other < due):
                due = other
        return due

    def due(self) -> bool:
        """A pass is due now."""
        deadline = self.next_deadline()
        return deadline is not None and deadline <= self._clock_ms()

    # Passing

    def poll(self, timeout_s: float = 0) -> list[tuple[int, int]]:
        """What is ready now, or becomes ready within so long."""
        return self.poller.poll(timeout_s, self.tuning.events_max)

    def turn(self, events: Sequence[tuple[int, int]]) -> None:
        """One pass over ready sockets: receive, turn, send, settle, send."""
        if self._accept_again_ms is not None and self._clock_ms() >= self._accept_again_ms:
            self._accept_on()
        service = self.service
        arrived, used = self._receive(events)
        self._send_all(service.turn(arrived))
        arrived.clear()
        for job in service.take_jobs():
            self._start(job)
        if self.tuning.poison:
            self._view[:used] = b"\xdb" * used
        self._send_all(service.settle())
        for job in service.take_jobs():
            self._start(job)
        collect_young()

    def _receive(self, events: Sequence[tuple[int, int]]) -> tuple[list[tuple[Any, Buffer]], int]:
        arrived: list[tuple[Any, Buffer]] = []
        rest = self._view
        links = self._links
        cap = self.service.receive_bytes_max
        room_min = self.tuning.room_bytes_min
        starved = self._starved
        if starved:
            events = sorted(events, key=lambda event: starved.get(event[0], len(starved)))
            self._starved = {}
        for fd, event in events:
            link = links.get(fd)
            if link is None:
                self._other(fd)
                continue
            if event & WRITE and not self._flush(link):
                continue
            if not event & ~WRITE or not link.mask & READ:
                if event & (select.POLLHUP | select.POLLERR) and not event & READ:
                    self._lose(link, "reset by the peer")
                continue
            if len(rest) < room_min:
                self._starved[fd] = len(self._starved)
                continue
            try:
                count = link.sock.recv_into(rest, cap if cap < len(rest) else 0)
            except BlockingIOError:
                continue
            except OSError as error:
                self._lose(link, error.strerror or str(error))
                continue
            if count == 0:
                self._lose(link, "closed by the peer")
                continue
            arrived.append((link.peer, rest[:count]))
            rest = rest[count:]
        return arrived, len(self._view) - len(rest)

    def wake_by(self, fd: int, then: Callable[[], None]) -> None:
        """Run `then` before the turn whenever this descriptor becomes readable."""
        self._wakes[fd] = then
        self.poller.register(fd, READ)

    def _other(self, fd: int) -> None:
        if fd in self._listeners:
            self._accept(*self._listeners[fd])
        elif fd in self._wakes:
            self._wakes[fd]()

    # Sending

    def _send_all(self, outputs: Sequence[Output]) -> None:
        by_peer = self._by_peer
        for peer, chunks, close in outputs:
            link = by_peer.get(peer)
            if link is None:
                continue
            if link.unsent:
                link.unsent.extend(chunks)
            elif chunks and not self._offer(link, peer, chunks):
                continue
            if close:
                if link.unsent and self._stop_at_ms is not None:
                    link.closing = True
                else:
                    self._lose(link, "closed by us")
                    continue
            if link.unsent or link.mask != READ or peer.backlog or peer.held:
                self._watch(link)

    def _offer(self, link: Link, peer: Any, chunks: list[Buffer]) -> bool:
        """Offer fresh chunks to the kernel; keep what it does not take.  False: the connection is lost."""
        if len(chunks) == 1:
            data = chunks[0]
        elif peer.unsent_bytes <= self.tuning.join_bytes_max:
            data = b"".join(chunks)
        else:
            link.unsent.extend(chunks)
            return self._flush(link)
        try:
            sent = link.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._lose(link, error.strerror or str(error))
            return False
        peer.unsent_bytes -= sent
        peer.sent_bytes += sent
        if sent < len(data):
            link.unsent.append(memoryview(data)[sent:])
        return True

    def _flush(self, link: Link) -> bool:
        """Send what waits, as far as the kernel takes it.  False: the connection is lost."""
        unsent = link.unsent
        peer = link.peer
        while unsent:
            pieces = [unsent[i] for i in range(min(len(unsent), self.tuning.pieces_max))]
            try:
                sent = link.sock.sendmsg(pieces)
            except BlockingIOError:
                break
            except OSError as error:
                self._lose(link, error.strerror or str(error))
                return False
            peer.unsent_bytes -= sent
            peer.sent_bytes += sent
            while unsent and sent >= len(unsent[0]):
                sent -= len(unsent.popleft())
            if sent:
                unsent[0] = memoryview(unsent[0])[sent:]
        if link.closing and not unsent:
            self._lose(link, "closed by us")
            return False
        self._watch(link)
        return True

    def _watch(self, link: Link) -> None:
        """Wait for what this connection needs now: room to write, and new requests unless it has too much of ours or its own."""
        reads = not (link.peer.congested or link.closing or self._stop_at_ms is not None)
        mask = (READ if reads else 0) | (WRITE if link.unsent else 0)
        if mask != link.mask:
            link.mask = mask
            try:
                self.poller.modify(link.fd, mask)
            except OSError as error:
                self._lose(link, str(error))

    def _lose(self, link: Link, why: str) -> None:
        """The connection has ended: forget it, and let the service know."""
        if self._links.pop(link.fd, None) is None:
            return
        del self._by_peer[link.peer]
        try:
            self.poller.unregister(link.fd)
        except OSError as error:
            self._log.debug("descriptor %d was not watched: %s", link.fd, error)
        self._close(link.sock)
        link.unsent.clear()
        self.service.closed(link.peer, why)
        if self._accept_again_ms is not None:
            self._accept_on()

    # Accepting

    def listen(self, sock: socket.socket, name: str) -> None:
        """Accept on this listening, non-blocking socket.  Its name shows the service which port a peer came through."""
        fd = sock.fileno()
        self._listeners[fd] = (sock, name)
        self.poller.register(fd, READ)

    def _accept(self, listener: socket.socket, name: str) -> None:
        for _ in range(self.tuning.accepts_max):
            if not self._accepting:
                return
            try:
                sock, remote = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._accept_off(error)
                    return
                self._log.debug("a connection ended before it was accepted: %s", error)
                continue
            self._welcome(sock, remote, name)

    def _welcome(self, sock: socket.socket, remote: Any, name: str) -> None:
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            local = sock.getsockname()
            peer = self.service.opened(address(remote), address(local), name)
            if peer is None:
                self._close(sock)
                return
        except OSError as error:
            self._log.debug("a connection ended while it was accepted: %s", error)
            self._close(sock)
            return
        fd = sock.fileno()
        link = Link(sock, fd, peer)
        self._links[fd] = link
        self._by_peer[peer] = link
        try:
            self.poller.register(fd, READ)
        except OSError as error:
            self._lose(link, str(error))

    def _accept_off(self, error: OSError) -> None:
        pause_ms = self.tuning.accept_pause_ms
        self._log.warning("accepting rests for %d ms with %d connections open: %s", pause_ms, len(self._links), error)
        self._accepting = False
        self._accept_again_ms = self._clock_ms() + pause_ms
        for fd in self._listeners:
            self.poller.unregister(fd)

    def _accept_on(self) -> None:
        self._accept_again_ms = None
        self._accepting = True
        for fd in self._listeners:
            self.poller.register(fd, READ)

    # Stopping

    def stop(self) -> None:
        """Begin an orderly stop: accept and read nothing more, send pending answers."""
        if self._stop_at_ms is not None:
            return
        self._stop_at_ms = self._clock_ms() + self.tuning.drain_ms_max
        self._close_listeners()
        self.service.drain()
        for link in list(self._links.values()):
            self._watch(link)

    @property
    def stopped(self) -> bool:
        """After `stop`: every pending answer has been sent, or the time for it is over."""
        if self._stop_at_ms is None:
            return False
        if self._clock_ms() >= self._stop_at_ms:
            return True
        return self.service.drained and not any(link.unsent for link in self._links.values())

    def close(self) -> None:
        """Close every socket."""
        self._close_listeners()
        for link in list(self._links.values()):
            self._lose(link, "the server stops")

    def _close_listeners(self) -> None:
        listeners, self._listeners = self._listeners, {}
        self._accept_again_ms = None
        for fd, (sock, _name) in listeners.items():
            if self._accepting:
                self.poller.unregister(fd)
            self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        try:
            sock.close()
        except OSError as error:
            self._log.debug("close: %s", error)


def address(name: Any) -> Address:
    """Host and port of a socket name; an IPv4 address mapped into IPv6 as IPv4."""
    host = str(name[0])
    return host.removeprefix("::ffff:") if "." in host else host, int(name[1])
