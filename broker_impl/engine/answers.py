"""Everything that an answer to a request can be, and how a code is answered; nothing here knows who sends it.

A handler gets a `Call` and its typed header, and returns one of:

- a `Header` (success with these fields), a `Reply` (any code, remark, fields, body), or a ready frame (bytes, or a list of
  buffers);
- `Durable(answer, end_offset)`: leaves only after the store committed, and under SYNC_FLUSH after the disk has it;
- `LATER` after `pending = call.detach()`: somebody calls `pending.answer(…)` in a later turn, or never;
- a generator that yields after at most 0.5 ms of work and returns one of the above; it yields a `Pause` when it waits for a
  thread.

It raises `Refusal(code, remark)` for a lawful no, `Unsaved` to be asked again when a table is on the disk, `Large` (by
`Shares.afford`) when there is room for it.  (The answer of a handler that changed a table waits for that table's file by itself.)
Anything else it raises is a bug of ours: the asker gets SYSTEM_ERROR, what the handler had staged is dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from broker_impl.engine.body_limits import NEVER_HEAVY
from rmq_net.service import Buffer
from rmq_wire.codes import ResponseCode
from rmq_wire.declare import Header, Request

Body = bytes | bytearray | memoryview | list[Buffer]
"""One buffer, or several that follow each other (views of a mapped file need no copy)."""
Frame = bytes | list[Buffer]
"""A whole encoded response."""


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

    @property
    def is_bare(self) -> bool:
        """It has nothing but a code."""
        return self.header is None and self.remark is None and self.ext is None and not self.body


class Later(enum.Enum):
    """The only value means: the answer comes through `PendingAnswer`, or never."""

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
    """What a background task yields when it has nothing to do until `end` is called: no slice before, and the loop rests."""

    __slots__ = ("_ended", "_go_on")

    def __init__(self) -> None:
        self._ended = False
        self._go_on: Callable[[], None] | None = None

    def end(self) -> None:
        """On the loop: the task goes on."""
        self._ended = True
        if self._go_on is not None:
            self._go_on()

    def then(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` at the end, now when that was before."""
        if self._ended:
            go_on()
        else:
            self._go_on = go_on


Done = Settled | Durable | Later
"""What there is at the end of a handler, or of the background task that it has begun; `LATER` then only of a one-way request."""
SlicedAnswer = Generator[Pause | None, None, Done]
Answer = Done | SlicedAnswer
"""Everything that a handler may return."""
SENDABLE = (bytes, Durable, Reply, Header, list)
"""Types of the answers that are there when the handler returns."""


class Row(NamedTuple):
    """How one code is answered.  `stages`: it appends to the store, so it is refused while too much waits for the disk.
    `in_order`: when it becomes a background task, the peer's next request waits for its end, for it may undo what this one does.
    `bulky`: its answer may have megabytes; it says so to `Shares.afford` before anything of it counts.
    `heavy_bytes`: with so long a body it waits while another such request had its place in the turn.
    """

    request: type[Request]
    handle: Callable[[Any, Any], Answer]
    """(call, header)"""
    stages: bool
    in_order: bool = False
    bulky: bool = False
    heavy_bytes: int = NEVER_HEAVY


def refusal_reply(refusal: Refusal) -> Reply:
    """The response that a refusal stands for."""
    return Reply(code=refusal.code, remark=refusal.remark)
