"""The one blocking client of the tests: a connection that asks, sends and pulls, typed or by code and fields.

A socket is waited for by its own time-out.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Self

from rmq_wire.command import RESPONSE, Command, Form, encode_request
from rmq_wire.conversation import Conversation
from rmq_wire.declare import Request
from tests.support import remoting
from tests.support.process import until
from tests.support.remoting import Answer
from tests.support.requests import pull, send, units

PATIENCE_S = 180.0
"""A start takes half a second, an answer a millisecond; this is for a slow machine whose cores are all taken."""
ONE_WAY = 2
"""Bit of a command's flag."""
JAVA_RACE = "java.util.NoSuchElementException"
"""So the real broker answers 28 until it has taken its first sample, a second after its start (`StoreStatsService`)."""
JAVA_RACE_S_MAX = PATIENCE_S

Fields = Mapping[str, object]
"""Of a header, by wire name; a None is left out."""


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Talk:
    """One connection to a server.  A context manager."""

    def __init__(self, address: str) -> None:
        self.sock = socket.create_connection(split(address), timeout=PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.conversation = Conversation()
        self.opaque = 0
        self._heard: list[Command] = []

    @property
    def name(self) -> str:
        """`host:port` as the server's log calls us."""
        return "{}:{}".format(*self.sock.getsockname())

    # Frames

    def raw(self, *frames: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(b"".join(frames))

    def hear(self, count: int = 1) -> list[Command]:
        """The next so many frames, whatever they are.  Raises `ConnectionError` when the server closes instead."""
        while len(self._heard) < count:
            self._listen()
        found, self._heard = self._heard[:count], self._heard[count:]
        return found

    def answer(self, opaque: int) -> Command:
        """Wait for one answer.  Raises `ConnectionError` when the server closes instead."""
        while True:
            for at, command in enumerate(self._heard):
                if command.flag & RESPONSE and command.opaque == opaque:
                    return self._heard.pop(at)
            self._listen()

    def _listen(self) -> None:
        data = self.sock.recv(1 << 20)
        if not data:
            raise ConnectionError("closed by the server")
        for command in self.conversation.feed(data):
            assert isinstance(command, Command)
            self._heard.append(command.kept())

    def closed_by_server(self) -> bool:
        """Wait until the server closes; false when it sends something instead."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    # Typed requests

    def frame(self, request: Request, body: bytes = b"", *, form: Form = Form.JSON) -> bytes:
        self.opaque += 1
        return encode_request(request.code, request, body, opaque=self.opaque, form=form)

    def ask(self, request: Request, body: bytes = b"", *, form: Form = Form.JSON) -> Command:
        self.raw(self.frame(request, body, form=form))
        return self.answer(self.opaque)

    def send(self, topic: str, body: bytes, queue_id: int = 0) -> Command:
        """Send a message; the topic is made after TBW102 when it is new."""
        return self.ask(send(topic, queue_id), body)

    def read(self, topic: str, queue_id: int = 0) -> list[bytes]:
        """All bodies of a queue."""
        found: list[bytes] = []
        while True:
            answer = self.ask(pull(topic, queue_id, len(found)))
            if answer.code != 0:
                return found
            found += [bytes(unit.body) for unit in units(answer.body)]

    # Requests by code

    def call(self, code: int, fields: Fields | None = None, body: bytes = b"") -> Answer:
        """Ask anything.  Raises `OSError` when there is no answer."""
        self.opaque += 1
        self.raw(remoting.frame(code, _texts(fields), body, opaque=self.opaque))
        answer = self.answer(self.opaque)
        return Answer(answer.code, answer.remark, answer.ext_map(), bytes(answer.body))

    def send_oneway(self, code: int, fields: Fields | None = None, body: bytes = b"") -> None:
        """One-way."""
        self.opaque += 1
        self.raw(remoting.frame(code, _texts(fields), body, opaque=self.opaque, flag=ONE_WAY))

    def good(self, code: int, fields: Fields | None = None, body: bytes = b"") -> Answer:
        """Ask for something that must succeed."""
        answer = self.call(code, fields, body)
        if _too_early(answer):

            def again() -> Answer | None:
                found = self.call(code, fields, body)
                return None if _too_early(found) else found

            answer = until(again, "the real broker's first sample", seconds=JAVA_RACE_S_MAX)
        assert answer.code == 0, (code, fields, answer.code, answer.remark)
        return answer

    def close(self) -> None:
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pulled_once(address: str, topic: str, queue_id: int, offset: int) -> Command:
    """The answer to one pull of everything, which does not wait."""
    with Talk(address) as talk:
        return talk.ask(pull(topic, queue_id, offset, suspend_timeout_millis=0))


def _too_early(answer: Answer) -> bool:
    return answer.code != 0 and JAVA_RACE in (answer.remark or "")


def _texts(fields: Fields | None) -> dict[str, str]:
    return {name: _text(value) for name, value in (fields or {}).items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
