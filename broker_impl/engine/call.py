"""One request being answered, and everything that an answer can be.

A handler gets a `Call` and its typed header, and returns one of:

- a `Header` (success with these fields), a `Reply` (any code, remark, fields, body), or a ready frame (bytes, or a list of
  buffers);
- `Durable(answer, end_offset)`: leaves only after the store committed, and under SYNC_FLUSH after the disk has it;
- `LATER` after `parked = call.detach()`: somebody calls `parked.answer(…)` in a later turn, or never;
- a generator that yields after at most 0.5 ms of work and returns one of the above; it yields a `Pause` when it waits for a
  thread.

It raises `Refusal(code, remark)` for a lawful no, `Unsaved` to be asked again when a table is on the disk, `Large` (by
`Shares.afford`) when there is room for it.  (The answer of a
handler that changed a table waits for that table's file by itself.)  Anything else it raises is a bug of ours: the asker gets
SYSTEM_ERROR, what the handler had staged is dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec

from broker_impl.engine.body_limits import body_bytes_max
from rmq_net.log import plain_text
from rmq_net.service import Buffer
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Header, Request

if TYPE_CHECKING:
    from broker_impl.engine.engine import Engine
    from broker_impl.engine.peer import Peer
    from broker_impl.env import Env
    from rmq_wire.bodies.body import Body as JsonBody
    from rmq_wire.command import Command, Form

Body = bytes | bytearray | memoryview | list[Buffer]
"""One buffer, or several that follow each other (views of a mapped file need no copy)."""
Frame = bytes | list[Buffer]
"""A whole encoded response."""


B = TypeVar("B", bound="JsonBody")


class Refusal(Exception):
    """A lawful no: `code` and `remark` go to the asker as they are."""

    def __init__(self, code: int, remark: str | None = None) -> None:
        super().__init__(code, remark)
        self.code = code
        self.remark = remark


class Table(Protocol):
    """What is needed of `PersistedTable`."""

    file: ClassVar[str]
    when_saved: Callable[[Callable[[Any], None]], None]


class Unsaved(Exception):
    """What the handler builds on is not on the disk yet: raised before anything is staged.  The request is served again when
    the table is written, or refused when it cannot be.
    """

    def __init__(self, table: Table) -> None:
        super().__init__(table.file)
        self.table = table


class Reply(msgspec.Struct, gc=False, frozen=True):
    """A response by its parts.  `ext` adds fields beside the header's (or in place of one)."""

    header: Header | None = None
    code: int = ResponseCode.SUCCESS
    remark: str | None = None
    ext: Mapping[str, str] | None = None
    body: Body = b""


class Later(enum.Enum):
    """The only value means: the answer comes through `Parked`, or never."""

    LATER = enum.auto()


LATER = Later.LATER

Settled = Header | Reply | bytes | list[Buffer]
"""What can be sent as it is."""


class Durable(msgspec.Struct, gc=False, frozen=True):
    """An answer that rests on what the handler staged.

    `end_offset`: the log must be written (and under SYNC_FLUSH, when `waits`, flushed) up to here before it leaves.
    `waits`: false for a message with property WAIT=false.
    `late()`: what to say when the disk did not answer within syncFlushTimeout; None: `answer` with code FLUSH_DISK_TIMEOUT
    when it is a header or `Reply`, a bare code 10 when it is a frame.
    `failed(error)`: what to say when the commit or the flush failed; None: SERVICE_NOT_AVAILABLE.
    """

    answer: Settled
    end_offset: int
    waits: bool = True
    late: Callable[[], Settled] | None = None
    failed: Callable[[BaseException], Settled] | None = None


class Pause:
    """What a long work yields when it has nothing to do until `end` is called: it gets no slice before, and the loop rests."""

    __slots__ = ("_ended", "_go_on")

    def __init__(self) -> None:
        self._ended = False
        self._go_on: Callable[[], None] | None = None

    def end(self) -> None:
        """On the loop: the work goes on."""
        self._ended = True
        if self._go_on is not None:
            self._go_on()

    def then(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` at the end, now when that was before."""
        if self._ended:
            go_on()
        else:
            self._go_on = go_on


LongWork = Generator[Pause | None, None, "Settled | Durable"]
Answer = Settled | Durable | Later | LongWork
"""Everything that a handler may return."""


class Call:
    """One request.  Dies with the handler: who answers later keeps `detach()` instead."""

    __slots__ = ("command", "engine", "peer")

    def __init__(self, engine: Engine, peer: Peer, command: Command) -> None:
        self.engine = engine
        self.peer = peer
        self.command = command

    @property
    def env(self) -> Env:
        return self.engine.env

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

    def detach(self) -> Parked:
        """What is needed to answer in a later turn.  The handler then returns `LATER`."""
        command = self.command
        return Parked(self.engine, self.peer, command.opaque, command.form, bool(command.flag & 2))

    def ask(
        self, peer: Peer, request: Request, body: bytes = b"", *, timeout_ms: int, then: Callable[[Command | None], None]
    ) -> None:
        """Ask a client something; see `Engine.ask`."""
        self.engine.ask(peer, request, body, timeout_ms=timeout_ms, then=then)


class Parked:
    """An answer that is owed.  Small: ten thousand held pulls are ten thousand of these."""

    __slots__ = ("engine", "form", "oneway", "opaque", "peer", "pending")

    def __init__(self, engine: Engine, peer: Peer, opaque: int, form: Form, oneway: bool) -> None:
        self.engine = engine
        self.peer = peer
        self.opaque = opaque
        self.form = form
        self.oneway = oneway
        self.pending = True

    @property
    def alive(self) -> bool:
        """Not answered yet, and the asker is still connected."""
        return self.pending and not self.peer.closed and self.peer.closing is None

    def answer(self, answer: Settled | Durable | Refusal) -> bool:
        """Send it now (a `Durable`: after the commit of this turn).  False when it was answered before or the asker is gone."""
        if not self.pending:
            return False
        self.pending = False
        if self.peer.closed or self.peer.closing is not None:
            return False
        self.engine.deliver(self, answer)
        return True

    def acknowledge(self, _result: object, error: BaseException | None) -> None:
        """Long work has ended: say that it is done, or why it is not."""
        self.answer(Reply() if error is None else Refusal(ResponseCode.SYSTEM_ERROR, plain_text(error)))


def refusal_reply(refusal: Refusal) -> Reply:
    """The response that a refusal stands for."""
    return Reply(code=refusal.code, remark=refusal.remark)
