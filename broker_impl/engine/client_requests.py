"""Questions to clients: who was asked what, and until when the answer counts.

Pending questions belong to one connection's `Conversation`: an answer counts only from the peer that was asked, under the
number it was asked with; any other is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable

from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.loop import Loop
from broker_impl.engine.peer import Peer
from rmq_wire.command import Command
from rmq_wire.declare import Request

Then = Callable[[Command | None], None]
Tag = tuple[Then, Deadline]


class PendingClientRequests:
    """Of all peers of one engine."""

    def __init__(self, loop: Loop) -> None:
        self._env = loop.env
        self._deadlines = loop.deadlines
        self._buffers = loop.buffers
        self._guard = loop.guard
        self._asks_max = loop.limits.client_requests_max
        self.unasked = 0
        """Answers that nobody waited for."""

    def ask(self, peer: Peer, request: Request, body: bytes, timeout_ms: int, then: Then) -> None:
        """Send a question; `then` gets the response, or None, in a later turn.  Raises ValueError: it fits into no frame."""
        now = self._env.mono_ms
        if peer.closed or peer.closing is not None or peer.client_requests >= self._asks_max:
            self._deadlines.at(now, lambda: then(None))
            return
        due = self._deadlines.at(now + timeout_ms, lambda: self._expire(peer, opaque))
        try:
            opaque, frame = peer.conversation.ask(request, body=body, deadline_ms=now + timeout_ms, tag=(then, due))
        except BaseException:
            due.cancel()
            raise
        peer.client_requests += 1
        self._buffers.push(peer, frame)

    def send_oneway(self, peer: Peer, request: Request, body: bytes) -> None:
        """Send what is not answered."""
        if not peer.closed and peer.closing is None:
            self._buffers.push(peer, peer.conversation.send_oneway(request, body))

    def answered(self, peer: Peer, response: Command) -> None:
        """A response came in."""
        pending = peer.conversation.match(response)
        if pending is None:
            self.unasked += 1
            return
        peer.client_requests -= 1
        then, due = pending.tag
        due.cancel()
        self._guard(then, response)

    def abandon(self, peer: Peer) -> None:
        """The peer has gone: all its questions are answered with None."""
        for pending in peer.conversation.abandon():
            then, due = pending.tag
            due.cancel()
            self._guard(then, None)

    def _expire(self, peer: Peer, opaque: int) -> None:
        pending = peer.conversation.forget(opaque)
        if pending is not None:
            peer.client_requests -= 1
            self._guard(pending.tag[0], None)
