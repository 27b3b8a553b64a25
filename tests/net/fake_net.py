"""Sockets and an epoll in memory, level-triggered like the real one, that split, stall and fail as a test says."""

from __future__ import annotations

import errno
import select
from collections import deque
from collections.abc import Sequence
from typing import Any

from rmq_net.reactor import Reactor, Tuning
from rmq_net.service import Job, Service

READ, WRITE = select.POLLIN, select.POLLOUT


class FakeSocket:
    """One end in the server.  The test fills `incoming` (each item is one receive) and reads `sent`."""

    def __init__(self, net: FakeNet, fd: int) -> None:
        self.net = net
        self.fd = fd
        self.incoming: deque[bytes | OSError] = deque()
        self.sent = bytearray()
        self.takes: deque[int | OSError] = deque()
        """What the next sends take: a number of bytes, 0 for EAGAIN, or an error.  Empty: everything."""
        self.blocked = False
        """Takes nothing until unblocked."""
        self.ended = False
        """The other side has closed: after `incoming` comes the end."""
        self.closed = False

    def fileno(self) -> int:
        return self.fd

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, *_arguments: Any) -> None:
        self._open()

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", 10911)

    def recv_into(self, buffer: memoryview, nbytes: int = 0) -> int:
        self._open()
        room = nbytes or len(buffer)
        if not self.incoming:
            if self.ended:
                return 0
            raise BlockingIOError(errno.EAGAIN, "again")
        data = self.incoming.popleft()
        if isinstance(data, OSError):
            raise data
        buffer[: min(len(data), room)] = data[:room]
        if len(data) > room:
            self.incoming.appendleft(data[room:])
        return min(len(data), room)

    def send(self, data: Any) -> int:
        self._open()
        take = len(data) if not self.takes else self.takes.popleft()
        if isinstance(take, OSError):
            raise take
        if take == 0 or self.blocked:
            raise BlockingIOError(errno.EAGAIN, "again")
        taken = bytes(data[:take])
        self.sent += taken
        return len(taken)

    def sendmsg(self, pieces: Sequence[Any]) -> int:
        assert len(pieces) <= 1024
        return self.send(b"".join(pieces))

    def close(self) -> None:
        self._open()
        self.closed = True
        assert self.fd not in self.net.poller.masks, "closed while watched"

    def ready(self) -> int:
        return (READ if self.incoming or self.ended else 0) | (0 if self.blocked else WRITE)

    def _open(self) -> None:
        assert not self.closed, "used after close"


class FakeListener(FakeSocket):
    """A listening socket; `waiting` are connections or errors that accept() gives."""

    def __init__(self, net: FakeNet, fd: int) -> None:
        super().__init__(net, fd)
        self.waiting: deque[FakeSocket | OSError] = deque()
        self.short_of_descriptors = False
        self.accepts = 0

    def accept(self) -> tuple[FakeSocket, tuple[str, int]]:
        self.accepts += 1
        if self.waiting and self.short_of_descriptors:
            raise OSError(errno.EMFILE, "Too many open files")
        if not self.waiting:
            raise BlockingIOError(errno.EAGAIN, "again")
        found = self.waiting.popleft()
        if isinstance(found, OSError):
            raise found
        return found, ("127.0.0.1", 50_000 + found.fd)

    def ready(self) -> int:
        return READ if self.waiting else 0


class FakePoller:
    """As `select.epoll`: complains about what it does not know, reports as long as something is ready."""

    def __init__(self) -> None:
        self.masks: dict[int, int] = {}
        self.sockets: dict[int, FakeSocket] = {}
        self.reported = 0

    def register(self, fd: int, eventmask: int) -> None:
        assert fd not in self.masks
        self.masks[fd] = eventmask

    def modify(self, fd: int, eventmask: int) -> None:
        assert fd in self.masks
        self.masks[fd] = eventmask

    def unregister(self, fd: int) -> None:
        del self.masks[fd]

    def poll(self, timeout: float, maxevents: int) -> list[tuple[int, int]]:
        assert timeout == 0
        events = []
        for fd, mask in self.masks.items():
            event = self.sockets[fd].ready() & mask
            if event:
                events.append((fd, event))
        self.reported += len(events[:maxevents])
        return events[:maxevents]


class FakeNet:
    """A reactor on fake sockets; `now_ms` is its clock.  Jobs run at once."""

    def __init__(self, service: Service[Any], *, tuning: Tuning | None = None, reactor_class: type[Reactor] = Reactor) -> None:
        self.now_ms = 1_000
        self.poller = FakePoller()
        self.jobs: list[Job] = []
        self.reactor = reactor_class(
            service,
            self.poller,
            self.jobs.append,
            tuning=(tuning or Tuning())._replace(poison=True),
            clock_ms=lambda: self.now_ms,
        )
        self._next_fd = 10
        self.listener = FakeListener(self, 3)
        self.poller.sockets[3] = self.listener
        self.reactor.listen(self.listener, "main")  # type: ignore[arg-type]

    def connect(self) -> FakeSocket:
        """A connection that waits to be accepted."""
        self._next_fd += 1
        sock = FakeSocket(self, self._next_fd)
        self.poller.sockets[sock.fd] = sock
        self.listener.waiting.append(sock)
        return sock

    def passes(self, count: int) -> None:
        """So many passes, whether anything is ready or not."""
        for _ in range(count):
            self.reactor.turn(self.reactor.poll())

    def rest(self, limit: int = 1000) -> int:
        """Pass until nothing is ready or due; how many passes it took.  Fails when it never rests."""
        for count in range(limit):
            events = self.reactor.poll()
            if not events and not self.reactor.due():
                return count
            self.reactor.turn(events)
        raise AssertionError("the reactor never rests")
