"""Peers with requests that a turn had no room for, served in later turns in the order of their coming.

Who wants something large next waits for those who do as well, and nobody else waits for him.
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
    def wants_bulk(self, command: Any) -> bool: ...


P = TypeVar("P", bound=Waiting)


class Backlogs(Generic[P]):
    """Each peer in here has a backlog, or had one before it was closed."""

    def __init__(self) -> None:
        self._light: deque[P] = deque()
        self._bulky: deque[P] = deque()

    def __len__(self) -> int:
        return len(self._light) + len(self._bulky)

    def add(self, peer: P) -> None:
        """Its backlog is not empty now, and was before."""
        (self._bulky if peer.wants_bulk(peer.backlog[0]) else self._light).append(peer)

    @property
    def servable(self) -> bool:
        """There is somebody who takes answers."""
        return any(_takes(peer) for peer in chain(self._light, self._bulky))

    def serve(self, peers_max: int, crowded: Callable[[], bool], serve: Callable[[P], None]) -> None:
        """Have up to so many of either kind served; once it is crowded, whoever wants something large keeps his place."""
        for waiting in (self._light, self._bulky):
            for _ in range(min(len(waiting), peers_max)):
                if waiting is self._bulky and crowded():
                    return
                peer = waiting.popleft()
                if _takes(peer):
                    serve(peer)
                else:
                    waiting.append(peer)


def _takes(peer: Waiting) -> bool:
    return not peer.held and peer.unsent_bytes <= peer.output_bytes_max
