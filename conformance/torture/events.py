"""What happened in one run of a script, in order: frames, connections, torments, and what the client's application says it saw.

The judge reads nothing but this list, and the report shows it; so whatever decides an expectation can be looked up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec

Kind = Literal[
    "connect", "closed-by-client", "closed-by-server", "request", "answer", "torment", "asked", "client-answer", "stored", "app"
]


class Event(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One thing that happened.

    number   its place in the list; `ms`: since the server began
    where    name of the server, or `client`
    message  the key of the message that it is about; `topic`, `queue`, `offset`: where that lies or is asked for
    step     number of the torment that caused it
    app      the line that the client's program printed
    """

    number: int
    ms: int
    kind: Kind
    where: str
    connection: int = 0
    code: int | None = None
    opaque: int | None = None
    message: str = ""
    topic: str = ""
    queue: int | None = None
    offset: int | None = None
    step: int = 0
    note: str = ""
    app: dict[str, Any] | None = None


class Events:
    """Grows while a script runs.  clock: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self.all: list[Event] = []

    def add(self, kind: Kind, where: str, **parts: Any) -> Event:
        """Record what happens now."""
        event = Event(number=len(self.all), ms=int((self._clock() - self._began) * 1e3), kind=kind, where=where, **parts)
        self.all.append(event)
        return event

    def after(self, event: Event) -> list[Event]:
        """Everything that was recorded later than this."""
        return self.all[event.number + 1 :]

    def of(self, *kinds: Kind) -> list[Event]:
        """All of these kinds."""
        return [event for event in self.all if event.kind in kinds]
