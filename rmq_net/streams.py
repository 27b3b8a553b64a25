"""The same service over plain trio streams: for systems without epoll, and to check `shell` against.

One task pumps the service; each connection has a reader, which hands over one receive at a time and waits until it was
served, and a writer.  Slower than `shell` (a trio primitive per receive and per send, never per request), equal in what a
client sees.
"""

from __future__ import annotations

import math
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import trio

from rmq_net.garbage import collect_young
from rmq_net.log import Log
from rmq_net.reactor import NO_DESCRIPTOR, Tuning, address
from rmq_net.service import Buffer, Output, Service
from rmq_net.worker_threads import WorkerThreads

SEND_BYTES = 64 * 1024
"""One send_all: how finely a slow reader's progress shows."""

CLOSE_S = 1.0
"""A connection that we close has so long to take what it was sent before; none if it did not take anything already."""


class Link:
    """One accepted connection and its two tasks."""

    __slots__ = ("closing", "ending", "more", "peer", "served", "stream", "unsent", "why")

    def __init__(self, stream: trio.SocketStream, peer: Any) -> None:
        self.stream = stream
        self.peer = peer
        self.unsent: deque[Buffer] = deque()
        self.more = trio.Event()
        """Something is to be sent."""
        self.served = trio.Event()
        """What was received has been served; the next may be read."""
        self.closing = False
        self.ending = trio.CancelScope()
        self.why = "the server stops"


class StreamShell:
    """Serves one service on any number of listening sockets, as `shell.Shell` does."""

    def __init__(
        self, service: Service[Any], listeners: Sequence[tuple[socket.socket, str]], *, tuning: Tuning | None = None
    ) -> None:
        self._service = service
        self._tuning = tuning or Tuning()
        self._log = Log("rmq.net", lambda: int(time.monotonic() * 1e3))
        self._listeners = [(trio.SocketListener(trio.socket.from_stdlib_socket(sock)), name) for sock, name in listeners]
        self._links: dict[Any, Link] = {}
        self._hungry: set[Link] = set()
        """Connections whose reader waits to go on."""
        self._arrived: list[tuple[Any, Buffer]] = []
        self._kick = trio.Event()
        self._accepting = trio.CancelScope()
        self._stop_at_s = math.inf
        self._token: trio.lowlevel.TrioToken | None = None
        self._workers = WorkerThreads(self.wake)

    def stop(self) -> None:
        """Stop in order: `serve` returns once every pending answer has been sent.  Call it from the trio thread."""
        if self._stop_at_s == math.inf:
            self._stop_at_s = time.monotonic() + self._tuning.drain_ms_max / 1e3
            self._accepting.cancel()
            self._service.drain()
            self._kick.set()

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve.  Every socket and thread is gone when this returns or is cancelled."""
        self._token = trio.lowlevel.current_trio_token()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._accept_all, nursery)
                task_status.started()
                await self._pump()
                nursery.cancel_scope.cancel()
        finally:
            for link in list(self._links.values()):
                self._lose(link)
            self._workers.stop()
            self._workers.finish()

    def wake(self) -> None:
        """From any thread: a job has ended, or there is something else to do."""
        if self._token is not None:
            try:
                self._token.run_sync_soon(self._kicked)
            except trio.RunFinishedError:
                self._log.debug("a job ended after the loop")

    def _kicked(self) -> None:
        self._kick.set()

    # The pump

    async def _pump(self) -> None:
        service = self._service
        while not self._stopped():
            self._kick = trio.Event()
            self._workers.finish()
            arrived, self._arrived = self._arrived, []
            self._hand(service.turn(arrived))
            for _peer, data in arrived:
                if self._tuning.poison:
                    memoryview(data)[:] = b"\xdb" * len(data)
            for job in service.take_jobs():
                self._workers.start(job)
            self._hand(service.settle())
            for job in service.take_jobs():
                self._workers.start(job)
            self._feed()
            collect_young()
            await self._wait(service.next_deadline())

    async def _wait(self, deadline_ms: int | None) -> None:
        """Until there is input, a result, or something due; at least a checkpoint."""
        due_s = self._stop_at_s if deadline_ms is None else min(deadline_ms / 1e3, self._stop_at_s)
        left_s = due_s - time.monotonic()
        if self._arrived or left_s <= 0:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(left_s):
            await self._kick.wait()

    def _hand(self, outputs: Sequence[Output]) -> None:
        for peer, chunks, close in outputs:
            link = self._links.get(peer)
            if link is not None:
                if close:
                    link.closing, link.why = True, "closed by us"
                    link.ending.deadline = trio.current_time() + (0 if link.unsent else CLOSE_S)
                link.unsent.extend(chunks)
                link.more.set()

    def _feed(self) -> None:
        """Let those readers go on whose peer may send more."""
        for link in [link for link in self._hungry if not link.peer.congested]:
            self._hungry.discard(link)
            link.served.set()

    def _stopped(self) -> bool:
        now = time.monotonic()
        if self._stop_at_s == math.inf:
            return False
        return now >= self._stop_at_s or (self._service.drained and not any(link.unsent for link in self._links.values()))

    # Connections

    async def _accept_all(self, connections: trio.Nursery) -> None:
        """Accept on every listener until `stop`; then they are closed."""
        try:
            with self._accepting:
                async with trio.open_nursery() as nursery:
                    for listener, name in self._listeners:
                        nursery.start_soon(self._accept, connections, listener, name)
        finally:
            for listener, _name in self._listeners:
                listener.socket.close()

    async def _accept(self, connections: trio.Nursery, listener: trio.SocketListener, name: str) -> None:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._log.warning("accepting rests for %d ms: %s", self._tuning.accept_pause_ms, error)
                    await trio.sleep(self._tuning.accept_pause_ms / 1e3)
                else:
                    self._log.debug("a connection ended before it was accepted: %s", error)
            else:
                connections.start_soon(self._welcome, stream, name)

    async def _welcome(self, stream: trio.SocketStream, name: str) -> None:
        async with stream:
            try:
                remote, local = stream.socket.getpeername(), stream.socket.getsockname()
            except OSError as error:
                self._log.debug("a connection ended while it was accepted: %s", error)
                return
            peer = self._service.opened(address(remote), address(local), name)
            if peer is None:
                return
            link = self._links[peer] = Link(stream, peer)
            self._kick.set()  # there may be an earlier deadline now
            try:
                with link.ending:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._write, link)
                        await self._read(link)
                        nursery.cancel_scope.cancel()
            finally:
                self._lose(link)

    async def _read(self, link: Link) -> None:
        room = self._tuning.buffer_bytes
        while self._stop_at_s == math.inf:
            try:
                data = await link.stream.receive_some(min(self._service.receive_bytes_max, room))
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                link.why = str(error.__cause__ or error)
                return
            if not data:
                link.why = "closed by the peer"
                return
            link.served = trio.Event()
            self._arrived.append((link.peer, bytearray(data) if self._tuning.poison else data))
            self._hungry.add(link)
            self._kick.set()
            await link.served.wait()
        await trio.sleep_forever()

    async def _write(self, link: Link) -> None:
        peer = link.peer
        while True:
            while link.unsent:
                piece = memoryview(link.unsent[0])[:SEND_BYTES]
                try:
                    await link.stream.send_all(piece)
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    link.why = str(error.__cause__ or error)
                    link.ending.cancel()
                    return
                rest = memoryview(link.unsent[0])[len(piece) :]
                if rest:
                    link.unsent[0] = rest
                else:
                    link.unsent.popleft()
                peer.unsent_bytes -= len(piece)
                peer.sent_bytes += len(piece)
                if link in self._hungry or self._stop_at_s != math.inf:
                    self._kick.set()
            if link.closing:
                link.ending.cancel()
            link.more = trio.Event()
            await link.more.wait()

    def _lose(self, link: Link) -> None:
        if self._links.pop(link.peer, None) is not None:
            self._hungry.discard(link)
            link.unsent.clear()
            self._service.closed(link.peer, link.why)
            self._kick.set()
