"""A relay: each connection to one address goes on to another, and somebody looks at every frame that passes.

Who looks (`Watch`) says for each frame which steps take the place of passing it.  What is no frame passes as it is.  When either
side ends a connection, so does the relay on the other.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

import trio

from conformance.frames import Cutter

RECEIVE_BYTES: Final = 65_536

Address = tuple[str, int]


class Step(NamedTuple):
    """What the relay does in place of passing a frame."""

    data: bytes
    back: bool = False
    """To the side that the frame came from, instead of on."""
    after_s: float = 0.0
    close: bool = False
    """End the connection afterwards."""


class Watch:
    """Looks at one connection and lets everything pass."""

    def passes(self, to_server: bool, frame: bytes, nth: int) -> Iterable[Step]:
        """What is done with a frame.  nth: which one of those that came in one piece, from 0."""
        return (Step(frame),)

    def lost(self, by_server: bool) -> None:
        """What this side says is no frames from here on."""

    def closed(self, by_server: bool) -> None:
        """Nothing comes from this side any more.  The side that closed the connection comes first."""


Meet = Callable[[Address, Address], Watch]
"""(the client's end, the relay's own towards the server) -> who looks at this connection."""


def bound_to(listener: socket.socket) -> Address:
    """Where it listens."""
    host, port = listener.getsockname()[:2]
    return host, port


async def relay(listener: socket.socket, to: Address, meet: Meet) -> None:
    """Relay what connects to a listening socket, until it is cancelled."""
    await trio.serve_listeners(partial(_serve, to, meet), [trio.SocketListener(trio.socket.from_stdlib_socket(listener))])


async def _serve(to: Address, meet: Meet, client: trio.SocketStream) -> None:
    try:
        server = await trio.open_tcp_stream(*to)
    except OSError:
        return
    async with server:
        try:
            watch = meet(client.socket.getpeername()[:2], server.socket.getsockname()[:2])
        except OSError:
            return  # it has gone already
        await _Line(watch, client, server).run()


class _Line:
    """One connection and its continuation."""

    def __init__(self, watch: Watch, client: trio.SocketStream, server: trio.SocketStream) -> None:
        self._watch = watch
        self._client, self._server = client, server
        self._sending = {client: trio.Lock(), server: trio.Lock()}
        self._nursery: trio.Nursery

    async def run(self) -> None:
        """Until either side ends it."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._pump, self._client, self._server, True)
            self._nursery.start_soon(self._pump, self._server, self._client, False)

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream, to_server: bool) -> None:
        cutter = Cutter()
        try:
            while data := await source.receive_some(RECEIVE_BYTES):
                was_lost = cutter.lost
                frames = enumerate(cutter.feed(data))
                steps = [step for nth, frame in frames for step in self._watch.passes(to_server, frame, nth)]
                for step in _together(steps):
                    await self._take(step, source if step.back else sink)
                if cutter.lost:
                    if not was_lost:
                        self._watch.lost(not to_server)
                    await self._send(sink, cutter.rest())
            await self._send(sink, cutter.rest())
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self._watch.closed(not to_server)
            self._nursery.cancel_scope.cancel()

    async def _take(self, step: Step, stream: trio.SocketStream) -> None:
        if step.after_s:
            self._nursery.start_soon(self._send, stream, step.data, step.after_s)
        else:
            await self._send(stream, step.data)
        if step.close:
            self._nursery.cancel_scope.cancel()

    async def _send(self, stream: trio.SocketStream, data: bytes, after_s: float = 0.0) -> None:
        await trio.sleep(after_s)
        try:
            async with self._sending[stream]:
                await stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await trio.lowlevel.checkpoint()


def _together(steps: Iterable[Step]) -> Iterator[Step]:
    """What is only passed goes on in one piece, as it came."""
    for plain, some in groupby(steps, lambda step: step == Step(step.data)):
        if plain:
            yield Step(b"".join(step.data for step in some))
        else:
            yield from some


def text_of(address: tuple[str, int] | tuple[str, int, int, int]) -> str:
    """`host:port`."""
    return f"{address[0]}:{address[1]}"
