"""A client's end of one connection: questions with deadlines, any number at once, in any order of answers.

A reader task cuts what arrives and wakes whoever asked; a writer task sends what has gathered, so that a question that
gives up waiting never leaves half a frame behind; a third wakes those whose time is up: one deadline for all, where a scope for
each question would cost a tenth of it.  All live in the nursery that the caller names.  What the server asks goes to
`on_request`.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from typing import Self

import trio

from rmq_net.log import Log
from rmq_net.service import Buffer
from rmq_wire.codes import LanguageCode
from rmq_wire.command import RESPONSE, Command, Form, Limits, Unreadable
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Request
from rmq_wire.errors import BadFrame, BadHeader

CONNECT_MS = 3_000
"""Java: NettyClientConfig.connectTimeoutMillis."""
ASK_MS = 3_000
"""Java: MQClientAPIImpl's usual request time-out."""
RECEIVE_BYTES = 256 * 1024
UNSENT_BYTES_MAX = 8 << 20
"""More than this waits in the caller's task until the server reads: two messages of the largest kind may wait here."""

Answering = Callable[[Command], bytes | None]
"""A request of the server's to the frame that answers it, or None.  The body dies with the call."""


async def open_stream(host: str, port: int, tls: ssl.SSLContext | None = None) -> trio.abc.Stream:
    """A stream to a server, in TLS when asked for, shaken hands.  Raises `OSError`, `trio.BrokenResourceError`."""
    try:
        stream = await trio.open_tcp_stream(host, port)
    except UnicodeError as wrong:  # of the codec for names of hosts
        raise OSError(f"no host has the name {host!r}: {wrong}") from None
    if tls is None:
        return stream
    wrapped = trio.SSLStream(stream, tls, server_hostname=host, https_compatible=True)
    try:
        await wrapped.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return wrapped


class ConnectionLost(Exception):
    """The connection ended before the answer came.  Says why."""


class NoRoom(trio.TooSlowError):
    """The time was over before there was room for the question: nothing of it was sent."""


class _Question:
    """Somebody waits for this answer: `task`, until it is woken or gives up."""

    __slots__ = ("answer", "late", "task", "wrong")

    def __init__(self) -> None:
        self.task: trio.lowlevel.Task | None = trio.lowlevel.current_task()
        self.answer: Command | None = None
        self.wrong = ""
        self.late = False

    def wake(self) -> None:
        """Once: who was woken, or gave up, is left alone."""
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def abort(self, _: object) -> trio.lowlevel.Abort:
        """It is cancelled."""
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Connection:
    """Made by `connect`.  `closed` is set once it has ended, for the reason in `why`."""

    def __init__(self, stream: trio.abc.Stream, conversation: Conversation, on_request: Answering | None) -> None:
        self.closed = trio.Event()
        self.why = ""
        self._stream = stream
        self._conversation = conversation
        self._on_request = on_request
        self._unsent: list[Buffer] = []
        self._unsent_bytes = 0
        self._more = trio.Event()
        self._room = trio.Event()
        self._room.set()
        self._quiet = trio.Event()
        self._heard_s = trio.current_time()
        self._ending = trio.CancelScope()
        self._alarm = trio.CancelScope()
        self._alarm_s = math.inf
        """When the next question may be late; nothing is earlier."""
        self._log = Log("rmq.net", lambda: int(trio.current_time() * 1e3))

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        nursery: trio.Nursery,
        timeout_ms: int = CONNECT_MS,
        on_request: Answering | None = None,
        limits: Limits | None = None,
        form: Form = Form.JSON,
    ) -> Self:
        """A connection whose tasks run in `nursery`.  Raises `OSError`, `trio.TooSlowError`."""
        with trio.fail_after(timeout_ms / 1e3):
            stream = await open_stream(host, port)
        return await cls.over(stream, nursery=nursery, on_request=on_request, limits=limits, form=form)

    @classmethod
    async def over(
        cls,
        stream: trio.abc.Stream,
        *,
        nursery: trio.Nursery,
        on_request: Answering | None = None,
        limits: Limits | None = None,
        form: Form = Form.JSON,
        language: int = LanguageCode.JAVA,
    ) -> Self:
        """The same over a stream that is open already."""
        connection = cls(stream, Conversation(limits or Limits(), form=form, language=language), on_request)
        await nursery.start(connection._run)
        return connection

    @property
    def questions(self) -> int:
        """How many wait for their answer."""
        return self._conversation.questions

    @property
    def silent_ms(self) -> int:
        """How long nothing has come from the server."""
        return int((trio.current_time() - self._heard_s) * 1e3)

    async def ask(
        self,
        request: Request,
        body: Buffer = b"",
        *,
        timeout_ms: int = ASK_MS,
        ends_s: float | None = None,
        ext: dict[str, str] | None = None,
    ) -> Command:
        """The answer to a question, whatever its code.  Its body is its own.  ends_s: instead of a time-out, by trio's clock.

        Raises `trio.TooSlowError` when it does not come in time (`NoRoom` when there was no room in time to send the question),
        `ConnectionLost`, `BadHeader` when it cannot be read, `UnicodeEncodeError` when the question cannot be written.
        """
        if ends_s is None:
            ends_s = trio.current_time() + timeout_ms / 1e3
        if self.closed.is_set() or not self._room.is_set():
            try:
                with trio.fail_at(ends_s):
                    await self._may_send()
            except trio.TooSlowError:
                raise NoRoom from None
        question = _Question()
        opaque, frame = self._conversation.ask(request, body, deadline_ms=int(ends_s * 1e3), tag=question, ext=ext)
        self._send(frame)
        if ends_s < self._alarm_s:
            self._alarm_s = self._alarm.deadline = ends_s
        try:
            await trio.lowlevel.wait_task_rescheduled(question.abort)
        finally:
            self._conversation.forget(opaque)
            if not self._conversation.questions:
                self._quiet.set()
        if question.answer is None:
            if question.late:
                raise trio.TooSlowError
            if question.wrong:
                raise BadHeader(question.wrong)
            raise ConnectionLost(self.why)
        return question.answer

    async def send_oneway(self, request: Request, body: Buffer = b"", *, ext: dict[str, str] | None = None) -> None:
        """Send what is not answered, once there is room for it.  Raises `ConnectionLost`, `UnicodeEncodeError`."""
        await self._may_send()
        self._send(self._conversation.send_oneway(request, body, ext=ext))
        await trio.lowlevel.checkpoint()

    async def send(self, data: Buffer) -> None:
        """Send bytes as they are: for those who test a server.  Raises `ConnectionLost`."""
        await self._may_send()
        self._send(data)
        await trio.lowlevel.checkpoint()

    def reply(self, frame: bytes) -> None:
        """Send an answer that was not ready when `on_request` was called; nobody waits for it once the connection has ended."""
        if not self.closed.is_set():
            self._send(frame)

    async def answered(self) -> None:
        """Wait until no question is open, or the connection has ended."""
        while self._conversation.questions:
            self._quiet = trio.Event()
            await self._quiet.wait()

    async def close(self) -> None:
        """Close it; open questions get `ConnectionLost`.  Returns when its tasks have ended."""
        self.why = self.why or "closed by us"
        self._ending.cancel()
        await self.closed.wait()

    async def _may_send(self) -> None:
        while not self._room.is_set() and not self.closed.is_set():
            await self._room.wait()
        if self.closed.is_set():
            raise ConnectionLost(self.why)

    def _send(self, data: Buffer) -> None:
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > UNSENT_BYTES_MAX and self._room.is_set():
            self._room = trio.Event()
        self._more.set()

    # Ctrl-C goes to the main task, and cancels from there: in one of these it would tell all who ask that the connection is lost.
    # Who starts a task does not hand that on.
    @trio.lowlevel.enable_ki_protection
    async def _run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            with self._ending:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    nursery.start_soon(self._keep_time)
                    task_status.started()
                    await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self.why = self.why or "cancelled"
            self.closed.set()
            self._room.set()
            for pending in self._conversation.abandon():
                pending.tag.wake()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    async def _read(self) -> None:
        try:
            while data := await self._stream.receive_some(RECEIVE_BYTES):
                self._heard_s = trio.current_time()
                for command in self._conversation.feed(data):
                    self._take(command)
            self.why = self.why or "closed by the server"
        except BadFrame as error:
            self.why = f"the server sent {error}"
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self.why = self.why or str(error.__cause__ or error)

    def _take(self, command: Command | Unreadable) -> None:
        if not command.flag & RESPONSE:
            if isinstance(command, Command) and self._on_request is not None:
                frame = self._on_request(command)
                if frame is not None:
                    self._send(frame)
            return
        pending = self._conversation.match(command)
        if pending is None:
            self._log.debug("an answer that nobody waits for: opaque %d", command.opaque)
            return
        question: _Question = pending.tag
        if isinstance(command, Command):
            question.answer = command.kept()
        else:
            question.wrong = command.why
        question.wake()

    @trio.lowlevel.enable_ki_protection
    async def _keep_time(self) -> None:
        while True:
            with trio.CancelScope(deadline=self._alarm_s) as self._alarm:
                await trio.sleep_forever()
            await trio.lowlevel.checkpoint()  # where this process stood still: what has come meanwhile is read first
            for pending in self._conversation.expire(int(trio.current_time() * 1e3)):
                pending.tag.late = True
                pending.tag.wake()
            next_ms = self._conversation.next_deadline_ms
            self._alarm_s = math.inf if next_ms is None else (next_ms + 1) / 1e3  # a millisecond was cut into

    @trio.lowlevel.enable_ki_protection
    async def _write(self) -> None:
        while True:
            while self._unsent:
                unsent, self._unsent = self._unsent, []
                try:
                    await self._stream.send_all(b"".join(unsent))
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    self.why = self.why or str(error.__cause__ or error)
                    self._ending.cancel()
                self._unsent_bytes -= sum(map(len, unsent))
                if self._unsent_bytes <= UNSENT_BYTES_MAX:
                    self._room.set()
            self._more = trio.Event()
            await self._more.wait()
