"""One request being answered: what a handler gets, and what it keeps when it answers in a later turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker_impl.engine.answers import Durable, Refusal, Reply, Settled
from broker_impl.engine.body_limits import body_bytes_max
from broker_impl.engine.loop import Loop
from broker_impl.engine.peer import Peer
from broker_impl.env import Env
from rmq_net.log import plain_text
from rmq_wire.bodies.body import Body as JsonBody
from rmq_wire.codes import ResponseCode
from rmq_wire.command import Command, Form

B = TypeVar("B", bound=JsonBody)
Deliver = Callable[[Peer, int, Form, Settled | Durable | Refusal], None]
"""Sends an answer to a peer, under the request's opaque and in its header form."""


class Call:
    """One request.  Dies with the handler: who answers later keeps `detach()` instead."""

    __slots__ = ("command", "loop", "peer")

    def __init__(self, loop: Loop, peer: Peer, command: Command) -> None:
        self.loop = loop
        self.peer = peer
        self.command = command

    @property
    def env(self) -> Env:
        return self.loop.env

    @property
    def opaque(self) -> int:
        return self.command.opaque

    @property
    def form(self) -> Form:
        """The header form that the answer takes too."""
        form: Form = self.command.form
        return form

    @property
    def oneway(self) -> bool:
        """Nobody waits for an answer: whatever the handler returns is dropped."""
        return bool(self.command.flag & 2)

    @property
    def body(self) -> bytes | memoryview:
        """The request's body.  A view of the receive buffer that dies with the turn: who keeps it, copies it."""
        body: bytes | memoryview = self.command.body
        return body

    def checked_body(self) -> bytes | memoryview:
        """The body, of a size that can be worked on at once (`engine.body_limits`).  Raises `Refusal` for a larger one."""
        body: bytes | memoryview = self.command.body
        most = body_bytes_max(self.command.code)
        if len(body) > most:
            raise Refusal(ResponseCode.SYSTEM_ERROR, f"a body of {len(body)} bytes, of this request {most} are read")
        return body

    def read(self, kind: type[B]) -> B:
        """The checked body as this type.  Raises `Refusal`, `BadBody`."""
        return kind.read(self.checked_body())

    def detach(self) -> PendingAnswer:
        """What is needed to answer in a later turn.  The handler then returns `LATER`."""
        command = self.command
        return PendingAnswer(self.loop.deliver, self.peer, command.opaque, command.form, bool(command.flag & 2))


class PendingAnswer:
    """A request whose answer comes later.  Small: ten thousand held pulls are ten thousand of these."""

    __slots__ = ("deliver", "form", "oneway", "opaque", "peer", "unanswered")

    def __init__(self, deliver: Deliver, peer: Peer, opaque: int, form: Form, oneway: bool) -> None:
        self.deliver = deliver
        self.peer = peer
        self.opaque = opaque
        self.form = form
        self.oneway = oneway
        self.unanswered = True

    @property
    def alive(self) -> bool:
        """Not answered yet, and the asker is still connected."""
        return self.unanswered and not self.peer.closed and self.peer.closing is None

    def answer(self, answer: Settled | Durable | Refusal) -> bool:
        """Send it now (a `Durable`: after the commit of this turn).  False when it was answered before or the asker is gone."""
        if not self.unanswered:
            return False
        self.unanswered = False
        if self.peer.closed or self.peer.closing is not None:
            return False
        if not self.oneway:
            self.deliver(self.peer, self.opaque, self.form, answer)
        return True

    def acknowledge(self, _result: object, error: BaseException | None) -> None:
        """A background task has ended: say that it is done, or why it is not."""
        self.answer(Reply() if error is None else Refusal(ResponseCode.SYSTEM_ERROR, plain_text(error)))
