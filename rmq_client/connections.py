"""One connection for each server, opened when it is first needed, opened again when it is gone.

A server that stops says GO_AWAY (1500): its connection takes no more questions, and the question goes out once more over a new
one.  A question that gets no answer while nothing at all is heard from the server takes its connection with it: the other end
may be gone without a word (a half-open connection), and the next question finds out.
Source: `NettyRemotingClient`; it closes on every late answer to a synchronous request, whatever else the connection is doing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from rmq_client.errors import AnswerLate, CallerError, ClientClosed, ConnectionEnded, NetworkError, Unreachable, Unreadable
from rmq_client.world import Dial
from rmq_net.connection import CONNECT_MS, Answering, Connection, ConnectionLost, NoRoom
from rmq_net.log import Log
from rmq_net.reason import reason
from rmq_wire.codes import LanguageCode, ResponseCode
from rmq_wire.command import Command
from rmq_wire.declare import Request
from rmq_wire.errors import BadHeader

Body = bytes | bytearray | memoryview
Reply = Callable[[bytes], None]
"""Sends the frame of an answer that takes time, over the connection that the question came by."""
Sign = Callable[[Request, Body], dict[str, str]]
"""The ext fields that go beside a request's own."""
LEAVING_MS: Final = 30_000
"""How long a connection that was told to go away may wait for its last answers: no question waits longer."""


class _Line:
    """One server's connection, and who opens it."""

    __slots__ = ("connection", "opening")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening = trio.Lock()


class Connections:
    """Asks servers by address (`host:port`).  Its tasks run in the nursery that is handed in."""

    def __init__(
        self,
        nursery: trio.Nursery,
        dial: Dial,
        *,
        on_request: Callable[[str, Command, Reply], bytes | None],
        sign: Sign | None = None,
        connect_ms: int = CONNECT_MS,
    ) -> None:
        """on_request(address, command, reply): answers what a server asks, at once or by `reply`; None: not at once."""
        self._nursery = nursery
        self._dial = dial
        self._on_request = on_request
        self._sign = sign
        self._connect_ms = connect_ms
        self._lines: dict[str, _Line] = {}
        self._closed = False
        self._log = Log("rmq.client", lambda: int(trio.current_time() * 1e3))

    @property
    def open_addresses(self) -> list[str]:
        """Servers with a connection that lives."""
        return [address for address, line in self._lines.items() if line.connection and not line.connection.closed.is_set()]

    async def ask(self, address: str, request: Request, body: Body = b"", *, timeout_ms: int) -> Command:
        """The answer, whatever its code but GO_AWAY.

        Raises `Unreachable` (nothing was sent), `AnswerLate`, `ConnectionEnded`, `Unreadable`, `CallerError` for a text that
        cannot be written.
        """
        if timeout_ms <= 0:
            raise AnswerLate(f"{address} was not asked: {timeout_ms} ms are left")
        ends_s = trio.current_time() + timeout_ms / 1e3
        for _ in range(2):
            connection = self.living(address) or await self._connected(address, ends_s)
            answer = await self._ask_over(connection, address, request, body, ends_s, timeout_ms)
            if answer.code != ResponseCode.GO_AWAY:
                return answer
            self._log.info("%s sends us away: it stops", address)
            self._retire(address, connection)
        raise Unreachable(f"{address} sent us away twice (GO_AWAY): it stops")

    async def open(self, address: str, *, timeout_ms: int) -> None:
        """Have a connection that lives.  Raises `Unreachable`."""
        if self.living(address) is None:
            await self._connected(address, trio.current_time() + timeout_ms / 1e3)

    async def send_oneway(self, address: str, request: Request, body: Body = b"", *, timeout_ms: int) -> None:
        """Send what is not answered, as soon as there is room on the connection.

        Raises `Unreachable`, `AnswerLate` (the server does not read), `ConnectionEnded`.
        """
        ends_s = trio.current_time() + timeout_ms / 1e3
        connection = self.living(address) or await self._connected(address, ends_s)
        try:
            with trio.fail_at(ends_s):
                await connection.send_oneway(request, body, ext=self._signed(request, body))
        except ValueError as wrong:
            raise _unwritable(request, wrong) from None
        except ConnectionLost as lost:
            raise ConnectionEnded(f"{address}: {lost}") from None
        except trio.TooSlowError:
            raise AnswerLate(f"{address} takes nothing from us, {timeout_ms} ms long") from None

    def close_unneeded(self, addresses: list[str]) -> None:
        """End the connections to servers that nobody names any more, once their questions are answered."""
        for address in addresses:
            line = self._lines.get(address)
            if line is not None and line.connection is not None:
                self._retire(address, line.connection)

    async def aclose(self) -> None:
        """End all connections; whoever waits gets `ConnectionEnded`."""
        self._closed = True
        for line in list(self._lines.values()):
            if line.connection is not None:
                await line.connection.close()
        self._lines.clear()

    async def _ask_over(
        self, connection: Connection, address: str, request: Request, body: Body, ends_s: float, timeout_ms: int
    ) -> Command:
        began_s = trio.current_time()
        try:
            return await connection.ask(request, body, ends_s=ends_s, ext=self._signed(request, body))
        except ValueError as wrong:
            raise _unwritable(request, wrong) from None
        except trio.TooSlowError as late:
            waited_ms = int((ends_s - began_s) * 1e3)
            if connection.silent_ms >= waited_ms > 0:
                self._retire(address, connection, at_once=True)
            if isinstance(late, NoRoom):
                raise Unreachable(f"{address} takes nothing from us, {timeout_ms} ms long: nothing was sent") from None
            raise AnswerLate(f"{address} did not answer {type(request).__name__} within {timeout_ms} ms") from None
        except ConnectionLost as lost:
            raise ConnectionEnded(f"{address}: {lost}") from None
        except BadHeader as wrong:
            raise Unreadable(str(wrong), address) from None

    def _signed(self, request: Request, body: Body) -> dict[str, str] | None:
        return None if self._sign is None else self._sign(request, body)

    def living(self, address: str) -> Connection | None:
        """The connection to a server, as long as it lives."""
        line = self._lines.get(address)
        if line is None or line.connection is None or line.connection.closed.is_set():
            return None
        return line.connection

    async def _connected(self, address: str, ends_s: float) -> Connection:
        if self._closed:
            raise ClientClosed("the client is closed")
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = _Line()
        allowed_ms = min(int((ends_s - trio.current_time()) * 1e3), self._connect_ms)
        if allowed_ms <= 0:
            raise AnswerLate(f"{address} was not asked: no time is left")
        try:
            with trio.fail_after(allowed_ms / 1e3):
                async with line.opening:
                    if line.connection is None or line.connection.closed.is_set():
                        line.connection = await self._open(address)
                    return line.connection
        except trio.TooSlowError:
            raise Unreachable(f"{address} does not take a connection within {allowed_ms} ms") from None

    async def _open(self, address: str) -> Connection:
        host, port = split(address)
        try:
            stream = await self._dial(host, port)
        except (OSError, trio.BrokenResourceError) as error:
            raise Unreachable(f"{address}: {reason(error)}") from None
        if self._closed:
            await trio.aclose_forcefully(stream)
            raise ClientClosed("the client is closed")

        connection: Connection

        def answering(command: Command) -> bytes | None:
            return self._on_request(address, command, lambda frame: connection.reply(frame))

        on_request: Answering = answering
        connection = await Connection.over(stream, nursery=self._nursery, on_request=on_request, language=LanguageCode.PYTHON)
        return connection

    def _retire(self, address: str, connection: Connection, *, at_once: bool = False) -> None:
        """Give a connection no more questions, and end it when its last one is answered."""
        line = self._lines.get(address)
        if line is not None and line.connection is connection:
            line.connection = None
            self._nursery.start_soon(_see_off, connection, at_once)


def _unwritable(request: Request, wrong: ValueError) -> CallerError:
    """A text that no encoding takes, or more than goes into a frame."""
    return CallerError(f"{type(request).__name__} cannot be written: {wrong}")


async def _see_off(connection: Connection, at_once: bool) -> None:
    with trio.move_on_after(0 if at_once else LEAVING_MS / 1e3):
        await connection.answered()
    with trio.CancelScope(shield=True):
        await connection.close()


def split(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[v6]:port`.  Raises `NetworkError`: it is a server that names it."""
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65_536:
        raise NetworkError(f"{address!r} is no address of a server: HOST:PORT is")
    return host.strip("[]"), int(port)
