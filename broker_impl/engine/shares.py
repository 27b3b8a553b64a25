"""What each peer may have of a turn, so that a crowd which asks for much at once keeps nobody else waiting.

Requests and bytes are shared evenly by those who have something to say.  Bytes have an end for all together, too: above
`turn_output_bytes_max` nothing large leaves any more, above that and `small_turn_bytes_max` no pull and no query is answered.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from broker_impl.engine.backlogs import Backlogs
from broker_impl.engine.limits import Limits

FOUND_MAX: Final = 1_024
"""Messages that queries by key find in one turn before the next one waits, twice with the row of large ones: 9 ms each."""

CREATIONS_MAX: Final = 64
"""Topics and groups that are made in one turn before the next one waits, twice with that row: 0.2 ms each."""

SELECTORS_MAX: Final = 16_384
"""Characters of selectors that are read in one turn before the next one waits, twice with that row: 30 ms for so many."""


class Large(Exception):
    """The answer or the work is large, and others wait for such: the request is served again in its turn."""


class Gathering(Protocol):
    """What is needed of `WriteBuffers`."""

    gathered_bytes: int


class Shares:
    """Of the turn that is under way."""

    def __init__(self, limits: Limits, gathering: Gathering, backlogs: Backlogs[Any]) -> None:
        self._limits = limits
        self._gathering = gathering
        self._backlogs = backlogs
        self._active = 0
        """Those who share this turn."""
        self.requests = limits.requests_max
        """Each peer's, at most."""
        self.bytes = limits.turn_output_bytes_max
        self.weighing = False
        """Who is served now waits in the row when it wants much: not while the row itself is served, nor after the turn."""
        self.found = 0
        """Messages, by queries of this turn, and the queries."""
        self.created = 0
        """Topics and groups."""
        self.selectors = 0
        """Characters of selectors that were read."""
        self.heavy = False
        """A request that takes tens of milliseconds was served."""

    def begin(self, arrived: int, waiting: int = 0) -> None:
        """A turn in which so many have sent something, and so many wait with what they sent before."""
        limits = self._limits
        active = arrived + min(waiting, limits.turn_backlogs_max) if waiting else arrived
        if active != self._active:
            self._active = active
            self.requests = min(limits.requests_max, max(limits.turn_requests_max // active, 1))
            self.bytes = limits.turn_output_bytes_max // active
        self.forget_work()

    def forget_work(self) -> None:
        """What was heavy counts no more: the row of those who wait comes next."""
        self.heavy = False
        self.found = self.created = self.selectors = 0

    @property
    def worked(self) -> bool:
        """Enough was done that takes long."""
        return self.heavy or self.found >= FOUND_MAX or self.created >= CREATIONS_MAX or self.selectors >= SELECTORS_MAX // 2

    def one_creation(self) -> None:
        """A request is about to make a topic or a group.  Raises `Large` when it has to wait, for others have made many."""
        if self.created >= CREATIONS_MAX:
            raise Large
        self.created += 1

    def one_selector(self, characters: int) -> None:
        """A request has a selector read, unless it is known: 0.  Raises `Large` when it has to wait, for others had many read."""
        if characters and self.selectors + characters > SELECTORS_MAX and self.selectors:
            raise Large
        self.selectors += characters

    def one_query(self) -> None:
        """A query is about to look.  Raises `Large` when it has to wait, for others have found much."""
        if self.found >= FOUND_MAX:
            raise Large
        self.found += 1

    def queried(self, found: int) -> None:
        """It has found so many messages."""
        self.found += found

    @property
    def crowded(self) -> bool:
        """The answers since the last hand-out are as many bytes as one turn sends: what may add much should wait."""
        return self._gathering.gathered_bytes >= self._limits.turn_output_bytes_max

    def full(self) -> bool:
        """Nor is there room for small answers to pulls and queries."""
        limits = self._limits
        return self._gathering.gathered_bytes >= limits.turn_output_bytes_max + limits.small_turn_bytes_max

    def afford(self, size: int) -> None:
        """A request marked `bulky` would be answered with so many bytes.  Raises `Large` when it has to wait for its turn."""
        if size > self._limits.small_answer_bytes_max and self.weighing and (self.crowded or self._backlogs.large):
            raise Large

    def one_heavy(self) -> None:
        """A request may take tens of milliseconds.  Raises `Large` when it has to wait, for another one was served."""
        if self.heavy:
            raise Large
        self.heavy = True
