"""One connection of a case to a server, every frame of it kept as evidence.

Unlike the client's connection of `rmq_net` it hides nothing: a case sees unasked requests, answers that come twice or never,
and the end of the connection; it may send bytes that are no frame.  Frames are kept as they were, with the time; decoding for
the report happens later.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import trio

from conformance.frames import Cutter
from conformance.subjects.remoting import split_address
from rmq_wire import fastjson
from rmq_wire.codes import LanguageCode
from rmq_wire.command import Command, Limits, Unreadable
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Header, Request
from rmq_wire.encoding import RESPONSE, Form, encode_request, encode_response
from rmq_wire.errors import BadBody, BadFrame

__all__ = ["ANSWER_S", "Answer", "Form", "Frame", "Link", "NoAnswer"]

H = TypeVar("H", bound=Header)
T = TypeVar("T")

ANSWER_S: Final = 20.0
"""How long an answer may take on a machine whose cores are busy; a case that judges times gives its own."""
CONNECT_S: Final = 10.0
VERSION: Final = 513
"""5.5.0, as `MQVersion` numbers it."""
KEPT_BYTES_MAX: Final = 16 * 1024
"""Of one frame as evidence; of a longer one the beginning is kept."""
RECEIVE_BYTES: Final = 256 * 1024
FRAME_BYTES_MAX: Final = 2**31 - 1
"""A case may see what a client would not take."""


class Frame(NamedTuple):
    """One frame (or other bytes) as evidence."""

    connection: int
    """Number of the connection within the case, from 0."""
    to_server: bool
    at_s: float
    """Seconds since the case began."""
    size: int
    data: bytes
    """The first `KEPT_BYTES_MAX` of it.  Empty with `note`: something that is no frame, such as the connection's end."""
    note: str = ""


class Heard(NamedTuple):
    """A frame of the server's, and its place among all that came on this connection."""

    place: int
    command: Command | Unreadable
    data: bytes

    def answers(self, opaque: int) -> bool:
        """It is the response of that number."""
        return bool(self.command.flag & RESPONSE) and self.command.opaque == opaque

    def asks(self, code: int) -> bool:
        """It is a request of the server's with this code."""
        return not self.command.flag & RESPONSE and isinstance(self.command, Command) and self.command.code == code


class NoAnswer(Exception):
    """The server did not answer: in time, or at all because the connection ended.  Says which and what was asked."""


class JsonObject(dict[str, T]):
    """What an answer holds, by name.  To take a member that is not there is the server's failure, not an error of the suite's."""

    def __missing__(self, name: str) -> NoReturn:
        raise BadBody(f"it has no {name!r}, only {', '.join(map(str, self)) or 'nothing'}")


def _objects(value: Any) -> Any:
    """JSON with `JsonObject` for objects."""
    if isinstance(value, dict):
        return JsonObject({name: _objects(member) for name, member in value.items()})
    return [_objects(member) for member in value] if isinstance(value, list) else value


class Answer:
    """A response as the case looks at it."""

    def __init__(self, command: Command, took_s: float) -> None:
        self.command = command
        self.code = command.code
        self.remark = command.remark
        self.ext: dict[str, str] = JsonObject(command.ext_map())
        self.body = bytes(command.body)
        self.took_s = took_s

    def header(self, kind: type[H]) -> H:
        """The ext fields as this class.  Raises `BadHeader`."""
        return self.command.header(kind)

    def json(self) -> Any:
        """The body as JSON in the dialect of either version (bare integer keys included).  Raises `BadBody`."""
        return _objects(fastjson.loads(self.body))

    def __repr__(self) -> str:
        return f"Answer(code={self.code}, remark={self.remark!r}, ext={self.ext}, body of {len(self.body)} bytes)"


class Link:
    """One connection.  It is opened by the first use; `close` ends it.  Not for use by two tasks at once, except `ask`."""

    def __init__(
        self,
        address: str,
        nursery: trio.Nursery,
        evidence: list[Frame],
        *,
        number: int,
        form: Form = Form.JSON,
        language: int = LanguageCode.JAVA,
        version: int = VERSION,
        began: float = 0.0,
        patience: float = 1.0,
    ) -> None:
        """began: trio time of the case's start.  patience: so many times as long may an answer take, a connection, its end."""
        self.address = address
        self.number = number
        self.form = form
        self.language = language
        self.version = version
        self.ended = trio.Event()
        """Set when the connection has ended, by either side."""
        self._nursery = nursery
        self._evidence = evidence
        self._began = began
        self._patience = patience
        self._stream: trio.SocketStream | None = None
        self._opening = trio.Lock()
        self._sending = trio.Lock()
        self._opaques = itertools.count(1)
        self.why_ended = ""
        """Empty while it is open."""
        self.unread: list[Heard] = []
        """What nobody has waited for yet."""
        self._count = 0
        self._waiting: set[int] = set()
        self._news = trio.Condition()

    # Asking

    async def ask(
        self,
        request: Request,
        body: bytes = b"",
        *,
        ext: Mapping[str, str] | None = None,
        without: tuple[str, ...] = (),
        seconds: float = ANSWER_S,
    ) -> Answer:
        """The answer to a request.  ext: fields besides, or instead of those of the same wire name; without: wire names left out.

        Raises `NoAnswer`.
        """
        fields = {**request.encode(), **(ext or {})}
        for name in without:
            fields.pop(name, None)
        return await self.ask_raw(request.code, fields, body, seconds=seconds)

    async def ask_raw(
        self, code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", *, seconds: float = ANSWER_S
    ) -> Answer:
        """The answer to any code with any fields.  Raises `NoAnswer`."""
        opaque = next(self._opaques)
        frame = encode_request(
            code, None, body, opaque=opaque, form=self.form, ext=ext, language=self.language, version=self.version
        )
        return await self.ask_frame(frame, opaque, seconds=seconds)

    async def ask_frame(self, frame: bytes, opaque: int, *, seconds: float = ANSWER_S) -> Answer:
        """Send these bytes and wait for the response of that number.  Raises `NoAnswer`."""
        started, place = trio.current_time(), self._count
        seconds *= self._patience
        self._waiting.add(opaque)
        try:
            await self.send(frame)
            found = await self.take(lambda heard: heard.place >= place and heard.answers(opaque), seconds=seconds)
        finally:
            self._waiting.discard(opaque)
        if found is None:
            why = "the connection ended" if self.ended.is_set() else f"nothing came within {seconds:g} s"
            raise NoAnswer(f"no answer to request {opaque} on connection {self.number}: {why}")
        if isinstance(found.command, Unreadable):
            raise NoAnswer(f"the answer to request {opaque} cannot be read: {found.command.why}")
        return Answer(found.command, trio.current_time() - started)

    async def send_oneway(self, request: Request, body: bytes = b"", *, ext: Mapping[str, str] | None = None) -> int:
        """Send a one-way request; its number."""
        opaque = next(self._opaques)
        fields = {**request.encode(), **(ext or {})}
        frame = encode_request(
            request.code,
            None,
            body,
            opaque=opaque,
            form=self.form,
            oneway=True,
            ext=fields,
            language=self.language,
            version=self.version,
        )
        await self.send(frame)
        return opaque

    async def send(self, data: bytes, *, chunk: int = 0) -> bool:
        """Send bytes as they are, chunk by chunk if wanted so.  Whether the connection took them: it may have ended."""
        await self.open()
        async with self._sending:
            self._keep(True, data)
            assert self._stream is not None
            try:
                for at in range(0, len(data), chunk or len(data) or 1):
                    await self._stream.send_all(data[at : at + (chunk or len(data))])
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                await trio.lowlevel.checkpoint()
                return False
        return True

    # What the server sends on its own

    async def request(self, code: int, *, seconds: float = ANSWER_S) -> Command | None:
        """The next request of the server's with this code (a notice, a check), or None when none comes in time."""
        found = await self.take(lambda heard: heard.asks(code), seconds=seconds * self._patience)
        return found.command if found is not None and isinstance(found.command, Command) else None

    async def reply(self, command: Command, *, code: int = 0, header: Header | None = None, body: bytes = b"") -> None:
        """Answer a request of the server's."""
        frame = encode_response(code, command.opaque, form=command.form, header=header, body=body)
        await self.send(frame if isinstance(frame, bytes) else b"".join(frame))

    async def stray(self, *, seconds: float) -> Command | Unreadable | None:
        """The next response that nobody waits for (also one to a request that was sent as raw bytes), or None."""

        def stray(heard: Heard) -> bool:
            return bool(heard.command.flag & RESPONSE) and heard.command.opaque not in self._waiting

        found = await self.take(stray, seconds=seconds * self._patience)
        return None if found is None else found.command

    async def take(self, wanted: Callable[[Heard], bool], *, seconds: float) -> Heard | None:
        """The first frame that is wanted, also of those that came before; None when none comes in time."""
        await self.open()

        def found() -> Heard | None:
            return next(filter(wanted, self.unread), None)

        with trio.move_on_after(seconds) as scope:
            async with self._news:
                while found() is None and not self.ended.is_set():
                    await self._news.wait()
        if scope.cancelled_caught:
            await trio.lowlevel.checkpoint()  # where this process stood still: what has come meanwhile is read first
        heard = found()
        if heard is not None:
            self.unread.remove(heard)
        return heard

    async def ends(self, *, seconds: float = ANSWER_S) -> bool:
        """Whether the server ends the connection in time."""
        await self.open()
        with trio.move_on_after(seconds * self._patience):
            await self.ended.wait()
        return self.ended.is_set()

    # The connection itself

    async def open(self) -> None:
        """Connect, if that has not been done.  Raises `NoAnswer`."""
        async with self._opening:
            if self._stream is not None:
                return
            host, port = split_address(self.address)
            try:
                with trio.fail_after(CONNECT_S * self._patience):
                    self._stream = await trio.open_tcp_stream(host.strip("[]"), port)
            except (OSError, trio.TooSlowError) as error:
                raise NoAnswer(f"no connection to {self.address}: {error or 'time is up'}") from None
            self._nursery.start_soon(self._read)

    async def close(self) -> None:
        """End it."""
        if self._stream is not None:
            await trio.aclose_forcefully(self._stream)

    @property
    def local(self) -> tuple[str, int]:
        """Host and port of this end, once open."""
        assert self._stream is not None
        host, port = self._stream.socket.getsockname()[:2]
        return str(host), int(port)

    async def _read(self) -> None:
        assert self._stream is not None
        cutter, conversation = Cutter(FRAME_BYTES_MAX), Conversation(Limits(frame_bytes_max=FRAME_BYTES_MAX))
        end = "the server closed the connection"
        try:
            while data := await self._stream.receive_some(RECEIVE_BYTES):
                frames = cutter.feed(data)
                for frame in frames:
                    self._keep(False, frame)
                for command, frame in zip(conversation.feed(data), frames, strict=False):
                    self.unread.append(Heard(self._count, command.kept(), frame))
                    self._count += 1
                async with self._news:
                    self._news.notify_all()
        except BadFrame as error:
            end = f"the server sent what is no frame: {error}"
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            end = str(error.__cause__ or error) or "closed by the case"
        finally:
            self._evidence.append(Frame(self.number, False, trio.current_time() - self._began, 0, b"", end))
            self.why_ended = end
            self.ended.set()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)
                async with self._news:
                    self._news.notify_all()

    def _keep(self, to_server: bool, data: bytes) -> None:
        at = trio.current_time() - self._began
        self._evidence.append(Frame(self.number, to_server, at, len(data), bytes(data[:KEPT_BYTES_MAX])))
