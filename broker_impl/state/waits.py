"""Requests that wait, whatever for: by peer for those that leave, by time for those that wait too long.

Java walks all of them again and again; here one is answered at most `TICK_MS` after its time.  Times are grouped into ticks, each
a set from which an early answer removes itself at once: a busy consumer that is woken a thousand times a second leaves nothing
behind.  A table neither reads nor answers; it says who is to be looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any, Final, Generic, TypeVar

TICK_MS: Final = 100
"""Granularity of time-outs, in mono milliseconds: one entry of the heap serves everything that ends within one tick."""
SUSPECTS_LOOKED_AT: Final = 64
"""Peers looked at for one that has more than its share, each time: 4 µs; the next time goes on where this one ended."""
ROWS_AT_ONCE: Final = 256
"""Of a peer or a tick taken out in one go, 1 µs each."""
PLACE_BYTES: Final = 256
TAG_BYTES: Final = 64
"""What one place is for: a request whose subscription has a few tags."""

K = TypeVar("K")


class Wait:
    """One request that waits.  `pending` is what answers it, `asked` its header; both are the capability's.

    It waits until `deadline_ms` (mono), and takes so many `places`.
    """

    __slots__ = ("asked", "deadline_ms", "peer", "pending", "places", "tick")

    def __init__(self, pending: Any, asked: Any, *, peer: Any, deadline_ms: int, places: int = 1) -> None:
        self.pending = pending
        self.asked = asked
        self.peer = peer
        self.deadline_ms = deadline_ms
        self.places = places
        self.tick = -(-deadline_ms // TICK_MS)


W = TypeVar("W", bound=Wait)


def places(subscription: str | None, codes: frozenset[int] | None) -> int:
    """How many ordinary requests one with this text and these tags stands for, as far as memory goes."""
    return 1 + (len(subscription or "") + TAG_BYTES * len(codes or ())) // PLACE_BYTES


class Waits(Generic[W]):
    """All that wait for the same kind of thing.  Whatever a method hands out is no longer in the table.

    A subclass says in `_enter` and `_leave` where else a request stands.
    """

    def __init__(self) -> None:
        self._by_peer: dict[Any, dict[W, None]] = {}
        self._more: dict[Any, int] = {}
        """Places that a peer takes above one for each request."""
        self._by_tick: dict[int, dict[W, None]] = {}
        self._ticks: list[int] = []
        self._count = 0
        self._suspects: dict[Any, None] = {}
        """Peers that may have more than their share."""
        self._greedy: Any = None
        """The one that was found last."""

    def __len__(self) -> int:
        """In places."""
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def _enter(self, one: W) -> None:
        raise NotImplementedError

    def _leave(self, one: W) -> None:
        raise NotImplementedError

    @property
    def crowded(self) -> bool:
        """`more` has somebody to look at."""
        return False

    def more(self) -> list[W]:
        """Some of those that are to be woken and were too many to be looked at when it happened."""
        return []

    def add(self, one: W) -> bool:
        """Let it wait.  True when the earliest deadline is another one now."""
        self._enter(one)
        self._by_peer.setdefault(one.peer, {})[one] = None
        self._count += one.places
        if one.places > 1:
            self._more[one.peer] = self._more.get(one.peer, 0) + one.places - 1
        tick = one.tick
        same = self._by_tick.get(tick)
        if same is not None:
            same[one] = None
            return False
        self._by_tick[tick] = {one: None}
        heapq.heappush(self._ticks, tick)
        return self._ticks[0] == tick

    def remove(self, one: W) -> None:
        """Take one out."""
        self._leave(one)
        discard(self._by_peer, one.peer, one)
        del self._by_tick[one.tick][one]  # an empty tick stays until it is the earliest: it may well be used again
        self._count -= one.places
        if one.places > 1:
            self._more[one.peer] -= one.places - 1
            if not self._more[one.peer]:
                del self._more[one.peer]

    def waits(self, one: W) -> bool:
        """It is still in the table."""
        return one in self._by_tick.get(one.tick, ())

    # By peer

    @property
    def peers(self) -> int:
        """How many connections wait for something."""
        return len(self._by_peer)

    def count_of(self, peer: Any) -> int:
        """Places that this connection takes."""
        return len(self._by_peer.get(peer, ())) + self._more.get(peer, 0)

    def one_too_many(self, share: int) -> W | None:
        """The oldest request of a peer that has more than `share`, if there is one among those looked at."""
        for _ in range(SUSPECTS_LOOKED_AT):
            if self.count_of(self._greedy) > share:
                return self._first(self._by_peer[self._greedy])
            if not self._suspects:
                self._suspects = dict.fromkeys(self._by_peer)
            self._greedy = self._suspects.popitem()[0] if self._suspects else None
        return None

    def make_room(self, peer: Any, needed: int, most: int, taken: int, give_up: Callable[[W], object]) -> bool:
        """Have so many places for this peer, of `most` of which `taken` are elsewhere; false when that cannot be.

        When none are left, who has less than an even share gets those of somebody who has more, who then has to `give_up`.
        """
        while self._count + taken + needed > most:
            mine = self.count_of(peer)
            share = most // (self.peers + (not mine))
            if mine + needed > share or (given_up := self.one_too_many(share)) is None:
                return False
            give_up(given_up)
        return True

    def of_peer(self, peer: Any) -> list[W]:
        """What a connection that is gone was waiting for, or some of it."""
        self._suspects.pop(peer, None)
        if peer is self._greedy:
            self._greedy = None
        left = list(islice(self._by_peer.get(peer, ()), ROWS_AT_ONCE))
        for one in left:
            self.remove(one)
        return left

    def leaving(self, peer: Any) -> Generator[None, None, None] | None:
        """The same, some of it at once; what is left to do."""
        return self._leaving(peer) if len(self.of_peer(peer)) == ROWS_AT_ONCE else None

    def _leaving(self, peer: Any) -> Generator[None, None, None]:
        while self.of_peer(peer):
            yield

    # By time

    def next_deadline(self) -> int | None:
        """Mono milliseconds at which somebody's time is up."""
        while self._ticks and not self._by_tick[self._ticks[0]]:
            del self._by_tick[heapq.heappop(self._ticks)]
        return self._ticks[0] * TICK_MS if self._ticks else None

    def expired(self, mono_ms: int) -> Iterator[W]:
        """Those whose time is up, one by one."""
        while (due := self.next_deadline()) is not None and due <= mono_ms:
            yield from self._taken(self._by_tick[self._ticks[0]])

    def drain(self) -> Iterator[W]:
        """Everything, one by one: for an orderly stop."""
        while self.next_deadline() is not None:
            yield from self._taken(self._by_tick[self._ticks[0]])

    def _taken(self, among: dict[W, None]) -> Iterator[W]:
        """Some of them, one by one: to look for the first each time passes over all that have gone before."""
        for one in list(islice(among, ROWS_AT_ONCE)):
            if one in among:
                self.remove(one)
                yield one

    def _first(self, among: dict[W, None]) -> W:
        one = next(iter(among))
        self.remove(one)
        return one


def discard(table: dict[K, dict[W, None]], key: K, one: W) -> None:
    """Take it out of a set of a table, and an empty set out of the table."""
    same = table[key]
    del same[one]
    if not same:
        del table[key]
