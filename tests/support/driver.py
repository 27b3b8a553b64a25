"""Drives an `Engine` (or any `Service`) without sockets, threads or clocks: a test says what arrives and what time it is.

Received bytes are overwritten after each turn, as the shared buffer of the real shell is, so a view kept too long shows.
Jobs run at once, in the order of their start, unless the test holds them (`driver.held = True`) and ends them itself
(`driver.end_job()`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from broker_impl.engine.engine import Engine
from broker_impl.engine.peer import Peer
from rmq_net.service import Job, Output
from rmq_wire.command import RESPONSE, Command, Form, encode_request, encode_response
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Header, Request

TURNS_MAX = 10_000
"""More turns than this without rest is a busy loop."""


class Client:
    """The other end of one connection.  `answers`: responses by opaque; `asked`: requests that the server made."""

    def __init__(self, driver: Driver, peer: Peer) -> None:
        self.driver = driver
        self.peer = peer
        self.conversation = Conversation()
        self.answers: dict[int, Command] = {}
        self.asked: list[Command] = []
        self.closed = False
        self.reads = True
        """False: takes no byte of its answers."""
        self.on_request: Callable[[Command], Header | None] = lambda _request: None
        """How it answers the server's questions; None: not at all."""
        self._unread: deque[Any] = deque()
        self._opaque = 0

    def frame(
        self,
        request: Request,
        body: bytes = b"",
        *,
        form: Form = Form.JSON,
        oneway: bool = False,
        ext: dict[str, str] | None = None,
    ) -> bytes:
        """A request with the next number, encoded and not sent."""
        self._opaque += 1
        return encode_request(request.code, request, body, opaque=self._opaque, form=form, oneway=oneway, ext=ext)

    def send(self, request: Request, body: bytes = b"", **options: Any) -> int:
        """Send a request and let the server do what it can without waiting.  Its number."""
        self.raw(self.frame(request, body, **options))
        return self._opaque

    def ask(self, request: Request, body: bytes = b"", **options: Any) -> Command:
        """Send a request whose answer must come without any time passing."""
        opaque = self.send(request, body, **options)
        assert opaque in self.answers, f"no answer to {request!r}" + (" (closed)" if self.closed else "")
        return self.answers.pop(opaque)

    def send_oneway(self, request: Request, body: bytes = b"", **options: Any) -> None:
        """Send a one-way request."""
        self.raw(self.frame(request, body, oneway=True, **options))

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.driver.run((self, data))

    def read(self) -> None:
        """Take everything that was held back."""
        self.reads = True
        while self._unread:
            self._take(self._unread.popleft())
        self.driver.run()

    def close(self) -> None:
        """Go away."""
        self.closed = True
        self.driver.engine.closed(self.peer, "closed by the peer")
        self.driver.run()

    def receive(self, chunks: Sequence[Any], close: bool) -> None:
        """The server's output."""
        self._unread.extend(chunks)
        while self.reads and self._unread:
            self._take(self._unread.popleft())
        if close:
            self.closed = True
            self.driver.engine.closed(self.peer, "closed by us")

    def _take(self, chunk: Any) -> None:
        self.peer.unsent_bytes -= len(chunk)
        self.peer.sent_bytes += len(chunk)
        for command in self.conversation.feed(bytes(chunk)):
            assert isinstance(command, Command), command
            if command.flag & RESPONSE:
                assert command.opaque not in self.answers, "answered twice"
                self.answers[command.opaque] = command
            else:
                self.asked.append(command)
                answer = self.on_request(command)
                if answer is not None:
                    self.driver.later.append((self, encode_response(0, command.opaque, form=Form.JSON, header=answer)))


class Driver:
    """An engine and its clients."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.env = engine.env
        self.clients: dict[Peer, Client] = {}
        self.later: list[tuple[Client, Any]] = []
        self.jobs: deque[Job] = deque()
        self.held = False
        """Jobs wait for `end_job`."""
        self._port = 40_000

    def connect(self, remote: str = "127.0.0.1", listener: str = "main") -> Client:
        """A new connection."""
        self._port += 1
        peer = self.engine.opened((remote, self._port), ("127.0.0.1", 10911), listener)
        assert peer is not None, "refused"
        client = self.clients[peer] = Client(self, peer)
        return client

    def run(self, *arrived: tuple[Client, bytes]) -> None:
        """One turn with these bytes, and as many more as the engine wants at once."""
        self.turn(*arrived)
        for _ in range(TURNS_MAX):
            due = self.engine.next_deadline()
            if not self.later and not (self.jobs and not self.held) and (due is None or due > self.env.mono_ms):
                return
            self.turn()
        raise AssertionError("the engine never rests")

    def turn(self, *arrived: tuple[Client, bytes]) -> None:
        """Exactly one iteration of a shell's loop."""
        while self.jobs and not self.held:
            self.end_job()
        later, self.later = self.later, []
        buffers = [
            (client.peer, memoryview(bytearray(data))) for client, data in [*later, *arrived] if not client.closed and data
        ]
        self._hand(self.engine.turn(buffers))
        self.jobs.extend(self.engine.take_jobs())
        for _peer, view in buffers:
            view[:] = b"\xdb" * len(view)
        self._hand(self.engine.settle())
        self.jobs.extend(self.engine.take_jobs())

    def advance(self, ms: int) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end = self.env.mono_ms + ms
        while (due := self.engine.next_deadline()) is not None and due <= end:
            self.env.advance(max(due - self.env.mono_ms, 0))
            self.run()
        self.env.advance(end - self.env.mono_ms)
        self.run()

    def end_job(self, error: BaseException | None = None) -> None:
        """Run the oldest held job (or let it fail without running) and let the engine know; no turn follows by itself."""
        job = self.jobs.popleft()
        if error is not None:
            job.done(None, error)
            return
        try:
            result = job.run()
        except Exception as raised:
            job.done(None, raised)
        else:
            job.done(result, None)

    def _hand(self, outputs: Sequence[Output]) -> None:
        for peer, chunks, close in outputs:
            self.clients[peer].receive(chunks, close)
