"""Peers with requests that a turn had no room for, served in later turns in the order of their coming.

Whose next answer is known to be large waits in a row of those who are alike, and nobody else waits for him.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar


class Waiting(Protocol):
    """The part of a `Peer` that is looked at."""

    @property
    def backlog(self) -> deque[Any]: ...
    @property
    def held(self) -> bool: ...
    @property
    def unsent_bytes(self) -> int: ...
    @property
    def output_bytes_max(self) -> int: ...

    queued_ms: int

    def wants_bulk(self, command: Any) -> bool: ...


P = TypeVar("P", bound=Waiting)


class Backlogs(Generic[P]):
    """Each peer in here has a backlog, or had one before it was closed."""

    def __init__(self) -> None:
        self._light: deque[P] = deque()
        self._large: deque[P] = deque()

    def __len__(self) -> int:
        return len(self._light) + len(self._large)

    @property
    def large(self) -> int:
        """Peers in the row of those who wait for a large answer."""
        return len(self._large)

    def add(self, peer: P, *, large: bool = False) -> None:
        """Its backlog is not empty now, and was before.  `large`: the answer to what stands first there is known to be."""
        (self._large if large else self._light).append(peer)

    @property
    def servable(self) -> bool:
        """There is somebody who takes answers."""
        return bool(self._light or self._large) and any(_takes(peer) for peer in chain(self._light, self._large))

    def serve(self, peers_max: int, full: Callable[[], bool], serve: Callable[[P], None], now_ms: int) -> None:
        """Have up to so many served whose next answer is not known to be large; when it is `full`, who pulls keeps his place."""
        passed_over: list[P] = []
        for _ in range(min(len(self._light), peers_max)):
            peer = self._light.popleft()
            if not _takes(peer):
                peer.queued_ms = now_ms
                self._light.append(peer)
            elif peer.backlog and peer.wants_bulk(peer.backlog[0]) and full():
                passed_over.append(peer)
            else:
                serve(peer)
        self._light.extendleft(reversed(passed_over))

    def serve_large(self, peers_max: int, crowded: Callable[[], bool], serve: Callable[[P], None], now_ms: int) -> None:
        """Have up to so many of the others served, one at least; once it is crowded, the others keep their places."""
        served = False
        for _ in range(min(len(self._large), peers_max)):
            if served and crowded():
                return
            peer = self._large.popleft()
            if _takes(peer):
                served = True
                serve(peer)
            else:
                peer.queued_ms = now_ms
                self._large.append(peer)


def _takes(peer: Waiting) -> bool:
    return not peer.held and peer.unsent_bytes <= peer.output_bytes_max
