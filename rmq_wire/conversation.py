"""Cuts a stream of bytes into commands, for either side of a connection, without touching a socket.

What arrives is cut in place: only the part of a frame that has not arrived in full yet is kept, so memory follows the bytes
received and never the length announced.  A prefix that no sound peer sends raises `BadFrame` as soon as it is there, after the
commands before it have been handed out.  Questions asked over the connection are kept here, too: by number, until their answer
comes or their deadline passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rmq_wire.codes import LanguageCode
from rmq_wire.command import DEFAULT_LIMITS, Command, Limits, Unreadable, decode_header
from rmq_wire.declare import Request
from rmq_wire.encoding import Buffer, Form, encode_request
from rmq_wire.errors import BadFrame
from rmq_wire.layout.frame import HEADER_SIZE_MASK, PREFIX_FLAT, TYPE_SHIFT

__all__ = ["Conversation", "Limits", "Pending", "Unreadable"]

_PREFIX: Final = PREFIX_FLAT.packed
_PREFIX_SIZE: Final = _PREFIX.size
_LENGTH: Final = PREFIX_FLAT.field("length")
_LENGTH_SIZE: Final = _LENGTH.size
_MARK_MAX: Final = max(Form) << TYPE_SHIFT | HEADER_SIZE_MASK


class Pending(NamedTuple):
    """A question that has no answer yet.  tag: whatever the asker wants to find again."""

    opaque: int
    code: int
    deadline_ms: int
    tag: Any


class Conversation:
    """One connection's bytes, in and out."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, *, form: Form = Form.JSON, language: int = LanguageCode.JAVA) -> None:
        """form, language: of the questions asked here.  Answers are read in either form."""
        self._limits = limits
        self._form = form
        self._language = language
        self._held = bytearray()
        """The beginning of a frame.  Given away when complete, since the body's view must not move."""
        self._wanted = 0
        """Bytes of that frame, once its prefix is here; 0 before."""
        self._broken = False
        self._next_opaque = 0
        self._pending: dict[int, Pending] = {}

    @property
    def bytes_pending(self) -> int:
        """How much of an unfinished frame is held."""
        return len(self._held)

    def feed(self, data: Buffer) -> Iterator[Command | Unreadable]:
        """The commands that these bytes complete, in order; exhaust it.  Nothing handed out is a view of data.

        Data is copied once and then cut as bytes: for the usual small frames that is quicker than two views for each.

        Raises `BadFrame` where the stream cannot be cut any further: close the connection.
        """
        if self._broken:
            raise BadFrame("after a bad frame nothing can be read")
        if self._held:
            return self._go_on(memoryview(data))
        if not isinstance(data, bytes):
            data = bytes(data)
        size = len(data)
        if _PREFIX_SIZE <= size <= self._limits.frame_bytes_max:
            length, mark = _PREFIX.unpack_from(data)
            body_at = _PREFIX_SIZE + (mark & HEADER_SIZE_MASK)
            if size == _LENGTH_SIZE + length and body_at <= size and mark <= _MARK_MAX:  # one frame: nothing to cut
                return iter((decode_header(data[_PREFIX_SIZE:body_at], mark >> TYPE_SHIFT, data[body_at:], self._limits),))
        return self._cut(data)

    def _cut(self, data: bytes) -> Iterator[Command | Unreadable]:
        """Commands of data, which begins with a frame.  The rest is held."""
        at, end = 0, len(data)
        limits, unpack = self._limits, _PREFIX.unpack_from
        length_max = limits.frame_bytes_max - _LENGTH_SIZE
        while end - at >= _PREFIX_SIZE:
            length, mark = unpack(data, at)
            body_at = at + _PREFIX_SIZE + (mark & HEADER_SIZE_MASK)
            next_at = at + _LENGTH_SIZE + length
            if length > length_max or body_at > next_at or mark > _MARK_MAX:
                raise self._bad_prefix(length, mark)
            if next_at > end:
                break
            yield decode_header(data[at + _PREFIX_SIZE : body_at], mark >> TYPE_SHIFT, data[body_at:next_at], limits)
            at = next_at
        if at < end:
            self._held += data[at:]
            self._look_ahead()

    def _go_on(self, view: memoryview) -> Iterator[Command | Unreadable]:
        """As `_cut`, where the beginning of the first frame is held already.  No byte of the next one is added to it."""
        taken = 0
        if not self._wanted:
            taken = min(_PREFIX_SIZE - len(self._held), len(view))
            self._held += view[:taken]
            self._look_ahead()
        if self._wanted:
            more = min(self._wanted - len(self._held), len(view) - taken)
            self._held += view[taken : taken + more]
            taken += more
            if len(self._held) == self._wanted:
                whole, self._held, self._wanted = memoryview(self._held), bytearray(), 0
                _, mark = _PREFIX.unpack_from(whole)
                body_at = _PREFIX_SIZE + (mark & HEADER_SIZE_MASK)
                yield decode_header(bytes(whole[_PREFIX_SIZE:body_at]), mark >> TYPE_SHIFT, whole[body_at:], self._limits)
                yield from self._cut(bytes(view[taken:]))

    def _look_ahead(self) -> None:
        """Judge the prefix of the held frame as far as it is here."""
        held = self._held
        if len(held) >= _PREFIX_SIZE:
            length, mark = _PREFIX.unpack_from(held)
        elif len(held) >= _LENGTH_SIZE:
            [length], mark = _LENGTH.unpack_from(held), 0
        else:
            return
        if length > self._limits.frame_bytes_max - _LENGTH_SIZE or (mark & HEADER_SIZE_MASK) > length - _LENGTH_SIZE:
            raise self._bad_prefix(length, mark)
        if mark > _MARK_MAX:
            raise self._bad_prefix(length, mark)
        if len(held) >= _PREFIX_SIZE:
            self._wanted = _LENGTH_SIZE + length

    def _bad_prefix(self, length: int, mark: int) -> BadFrame:
        """What is wrong with it.  Nothing more can be read."""
        self._broken = True
        header_size = mark & HEADER_SIZE_MASK
        if not _LENGTH_SIZE <= length <= self._limits.frame_bytes_max - _LENGTH_SIZE:
            return BadFrame(f"a frame length of {length}")
        if header_size > length - _LENGTH_SIZE:
            return BadFrame(f"a header of {header_size} bytes in a frame of {length}")
        return BadFrame(f"a header of type {mark >> TYPE_SHIFT}")

    # Questions

    @property
    def questions(self) -> int:
        """How many are pending."""
        return len(self._pending)

    def ask(
        self,
        request: Request,
        body: Buffer = b"",
        *,
        deadline_ms: int,
        tag: Any = None,
        ext: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Number and frame of a question that is pending from now on until that time on the caller's clock.

        Raises UnicodeEncodeError, and nothing is pending.
        """
        code = request.code
        opaque = self._take_opaque()
        frame = encode_request(code, request, body, opaque=opaque, form=self._form, ext=ext, language=self._language)
        self._pending[opaque] = Pending(opaque, code, deadline_ms, tag)
        return opaque, frame

    def send_oneway(self, request: Request, body: Buffer = b"", *, ext: dict[str, str] | None = None) -> bytes:
        """The frame of a one-way request."""
        return encode_request(
            request.code,
            request,
            body,
            opaque=self._take_opaque(),
            form=self._form,
            oneway=True,
            ext=ext,
            language=self._language,
        )

    def match(self, response: Command | Unreadable) -> Pending | None:
        """The question that this answers, which is pending no more; None for an answer nobody waits for."""
        return self._pending.pop(response.opaque, None)

    def forget(self, opaque: int) -> Pending | None:
        """Stop waiting for one answer."""
        return self._pending.pop(opaque, None)

    def expire(self, mono_ms: int) -> list[Pending]:
        """The questions whose deadline is now or earlier; they are pending no more."""
        late = [pending for pending in self._pending.values() if pending.deadline_ms <= mono_ms]
        for pending in late:
            del self._pending[pending.opaque]
        return late

    @property
    def next_deadline_ms(self) -> int | None:
        """The earliest of a pending question; looked for among all."""
        return min((pending.deadline_ms for pending in self._pending.values()), default=None)

    def abandon(self) -> list[Pending]:
        """All questions; none is pending any more."""
        abandoned = list(self._pending.values())
        self._pending.clear()
        return abandoned

    def _take_opaque(self) -> int:
        opaque = self._next_opaque
        while opaque in self._pending:
            opaque = (opaque + 1) & 0x7FFFFFFF
        self._next_opaque = (opaque + 1) & 0x7FFFFFFF
        return opaque
