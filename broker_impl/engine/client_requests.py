"""Questions to clients: who was asked what, and until when the answer counts.

Pending questions belong to one connection's `Conversation`: an answer counts only from the peer that was asked, under the
number it was asked with; any other is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from broker_impl.engine.deadlines import Deadline
from broker_impl.engine.loop import Loop
from broker_impl.engine.peer import Peer
from rmq_wire.command import Command
from rmq_wire.conversation import Pending
from rmq_wire.declare import Request

Then = Callable[[Command | None], None]


class _Asked(NamedTuple):
    """What is kept with a question.  `counted`: it takes one of the peer's places."""

    then: Then
    due: Deadline
    counted: bool


class PendingClientRequests:
    """Of all peers of one engine."""

    def __init__(self, loop: Loop) -> None:
        self._env = loop.env
        self._deadlines = loop.deadlines
        self._buffers = loop.buffers
        self._guard = loop.guard
        self._asks_max = loop.limits.client_requests_max
        self._at_once = loop.limits.due_max
        self._abandoned: deque[Pending] = deque()
        """Of peers that have gone."""
        self.unasked = 0
        """Answers that nobody waited for."""

    def ask(self, peer: Peer, request: Request, body: bytes, timeout_ms: int, then: Then, *, counted: bool = True) -> None:
        """Send a question; `then` gets the response, or None, in a later turn.  Raises ValueError: it fits into no frame."""
        now = self._env.mono_ms
        if peer.closed or peer.closing is not None or (counted and peer.client_requests >= self._asks_max):
            self._deadlines.at(now, partial(then, None))
            return
        due = self._deadlines.at(now + timeout_ms, lambda: self._expire(peer, opaque))
        tag = _Asked(then, due, counted)
        try:
            opaque, frame = peer.conversation.ask(request, body=body, deadline_ms=now + timeout_ms, tag=tag)
        except BaseException:
            due.cancel()
            raise
        peer.client_requests += counted
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
        asked: _Asked = pending.tag
        peer.client_requests -= asked.counted
        asked.due.cancel()
        self._guard(asked.then, response)

    def abandon(self, peer: Peer) -> None:
        """The peer has gone: all its questions are answered with None, in later turns."""
        begun = bool(self._abandoned)
        self._abandoned.extend(peer.conversation.abandon())
        if self._abandoned and not begun:
            self._deadlines.at(self._env.mono_ms, self._give_up)

    def _give_up(self) -> None:
        """As many in one turn as deadlines that are due: each may store a reply."""
        for _ in range(min(self._at_once, len(self._abandoned))):
            asked: _Asked = self._abandoned.popleft().tag
            asked.due.cancel()
            self._guard(asked.then, None)
        if self._abandoned:
            self._deadlines.at(self._env.mono_ms, self._give_up)

    def _expire(self, peer: Peer, opaque: int) -> None:
        pending = peer.conversation.forget(opaque)
        if pending is not None:
            asked: _Asked = pending.tag
            peer.client_requests -= asked.counted
            self._guard(asked.then, None)
