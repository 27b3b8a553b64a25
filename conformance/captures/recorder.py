"""Keeps what a stock client and a server say to each other: relays on loopback with a tape.

They change no byte unless they are given how (`Alter`).  A client comes through one because it gets the relay's address as its
name server, and as its broker either because the broker advertises the relay's address as its own (a broker that listens on
127.0.0.1:P with `brokerIP1=127.0.0.2` sends its clients to 127.0.0.2:P; all of 127/8 is loopback on Linux) or because the route
answers are altered on their way (`conformance.captures.session`).  The relays run on a thread of their own: whoever records waits
for a client's program meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Self, TypeVar

import trio

from conformance.relay import Address, Step, Watch, bound_to, relay, text_of

T = TypeVar("T")
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
    """`open`; `close` by the side that `by_server` names; `lost`: the bytes of one side are no frames from here on."""
    by_server: bool = False
    client: str = ""
    """`host:port` from which the server sees the client come (the relay's own), when it opens."""
    server: str = ""
    """`host:port` to which it was relayed, when it opens."""


class Tape:
    """What has happened so far on the connections of one or several relays, in one order and with one clock."""

    def __init__(self) -> None:
        self._events: list[Frame | Mark] = []
        self._connections = 0
        self._began = time.monotonic()
        self.wall_ms = time.time_ns() // 1_000_000
        """When it began."""

    def opened(self, client: str, server: str) -> int:
        """The number of a new connection."""
        number, self._connections = self._connections, self._connections + 1
        self._events.append(Mark(number, self._now_ms(), "open", client=client, server=server))
        return number

    def mark(self, connection: int, what: str, *, by_server: bool) -> None:
        """Keep what is no frame."""
        self._events.append(Mark(connection, self._now_ms(), what, by_server))

    def keep(self, connection: int, to_server: bool, frame: bytes) -> None:
        """Keep a frame that is complete now."""
        self._events.append(Frame(connection, to_server, frame, self._now_ms()))

    def events(self) -> list[Frame | Mark]:
        """What has passed so far, in the order in which it was complete."""
        return list(self._events)

    def frames(self) -> list[Frame]:
        """Only the frames of it."""
        return [event for event in self.events() if isinstance(event, Frame)]

    def _now_ms(self) -> float:
        return round((time.monotonic() - self._began) * 1000, 3)


class _Taped(Watch):
    """One connection on the tape: what the server heard and said, before and after what is altered."""

    def __init__(self, tape: Tape, number: int, alter: Alter | None) -> None:
        self._tape, self._number, self._alter = tape, number, alter

    def passes(self, to_server: bool, frame: bytes, nth: int) -> Iterable[Step]:
        passed = frame if self._alter is None else self._alter(to_server, frame)
        # Kept before it is passed on, so that an answer can never stand before its question.
        self._tape.keep(self._number, to_server, passed if to_server else frame)
        return (Step(passed),)

    def lost(self, by_server: bool) -> None:
        self._tape.mark(self._number, "lost", by_server=by_server)

    def closed(self, by_server: bool) -> None:
        self._tape.mark(self._number, "close", by_server=by_server)


class Recorder:
    """Relays one address to another, and more of them while it runs (`also`); a context manager."""

    def __init__(self, listen: Address, to: Address, *, alter: Alter | None = None) -> None:
        """`listen` with port 0 takes a free one; `address` says which.  Raises `OSError` when it cannot be had."""
        self.tape = Tape()
        self._alter = alter
        self._waiting: list[tuple[socket.socket, Address]] = []
        """Relays that begin when this does."""
        self._nursery: trio.Nursery | None = None
        self._scope = trio.CancelScope()
        self._token: trio.lowlevel.TrioToken
        self._ready = threading.Event()
        self._thread = ThreadPoolExecutor(1, "recorder")
        self._done: Future[None]
        self.address = self.also(listen, to)

    def also(self, listen: Address, to: Address) -> Address:
        """Relay this too; where.  Once it runs, only from within (`call`, an `Alter`).  Raises `OSError`."""
        listener = socket.create_server(listen)
        if self._nursery is None:
            self._waiting.append((listener, to))
        else:
            self._nursery.start_soon(relay, listener, to, partial(self._meet, to))
        return bound_to(listener)

    def call(self, work: Callable[[], T]) -> T:
        """Do something where the relays run, between two frames."""
        return trio.from_thread.run_sync(work, trio_token=self._token)

    def frames(self) -> list[Frame]:
        """What is on the tape so far."""
        return self.tape.frames()

    def __enter__(self) -> Self:
        self._done = self._thread.submit(trio.run, self._run)
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._scope.cancel)
        self._thread.shutdown()
        self._done.result()

    def give_up(self) -> None:
        """Let the addresses go, where it never runs."""
        for listener, _ in self._waiting:
            listener.close()

    async def _run(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        with self._scope:
            async with trio.open_nursery() as self._nursery:
                for listener, to in self._waiting:
                    self._nursery.start_soon(relay, listener, to, partial(self._meet, to))
                self._ready.set()
                await trio.sleep_forever()

    def _meet(self, to: Address, _: Address, here: Address) -> Watch:
        return _Taped(self.tape, self.tape.opened(text_of(here), text_of(to)), self._alter)
