"""One connection to one broker, kept: plain requests, the same for ours and Java's, and waiting for no more than one answer.

Like `remoting`, on which it rests, it knows nothing of `rmq_wire`.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping
from typing import Self

from conformance.subjects.process import until
from tests.support import remoting
from tests.support.remoting import Answer

ONE_WAY = 2
"""Bit of a command's flag."""
ANSWER_S_MAX = 30.0

JAVA_RACE = "java.util.NoSuchElementException"
"""So the real broker answers 28 until it has taken its first sample, a second after its start (`StoreStatsService`)."""
JAVA_RACE_S_MAX = 10.0


class Line:
    """Ask, one question after the other. A context manager."""

    def __init__(self, address: str) -> None:
        host, port = remoting.split_address(address)
        self._socket = socket.create_connection((host.strip("[]"), port), timeout=ANSWER_S_MAX)
        self._opaque = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
        """Raises OSError when there is no answer. A None among the fields is left out."""
        self._socket.sendall(remoting.frame(code, _texts(fields), body, opaque=next(self._opaque)))
        return remoting.read_answer(self._socket)

    def tell(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> None:
        """One-way."""
        self._socket.sendall(remoting.frame(code, _texts(fields), body, opaque=next(self._opaque), flag=ONE_WAY))

    def good(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
        """Ask for something that must succeed."""
        answer = self.ask(code, fields, body)
        if _too_early(answer):

            def again() -> Answer | None:
                found = self.ask(code, fields, body)
                return None if _too_early(found) else found

            answer = until(again, "the real broker's first sample", seconds=JAVA_RACE_S_MAX)
        assert answer.code == 0, (code, fields, answer.code, answer.remark)
        return answer


def _too_early(answer: Answer) -> bool:
    return answer.code != 0 and JAVA_RACE in (answer.remark or "")


def _texts(fields: Mapping[str, object] | None) -> dict[str, str]:
    return {name: _text(value) for name, value in (fields or {}).items() if value is not None}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
