"""Pulls that wait for a message: by queue for arrivals, by peer for those that leave, by time for those that wait too long.

Java walks all of them every 5 s and answers a timeout only then; here a pull is answered at most `TICK_MS` after its time.  Times
are grouped into ticks, each a set from which an early answer removes itself at once: a busy consumer that is woken a thousand
times a second leaves nothing behind.  The table neither reads nor answers; it says who is to be looked at.

Java: `PullRequestHoldService`, `ManyPullRequest`, `PullRequest`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Final

from broker_impl.filtering import matches

TICK_MS: Final = 100
"""Granularity of time-outs, in mono milliseconds: one entry of the heap serves everything that ends within one tick."""

SUSPECTS_LOOKED_AT: Final = 64
"""Peers looked at for one that has more than its share, each time: 4 µs; the next time goes on where this one ended."""

Key = tuple[str, int]
"""Topic and queue id."""


class Held:
    """One pull that waits.  `owed` is what answers it, `asked` its header; both are the capability's.

    It is woken by a unit at or behind `offset` whose tag hash is in `codes` (None: any), and at `deadline_ms`.
    """

    __slots__ = ("asked", "codes", "deadline_ms", "key", "offset", "owed", "peer", "tick")

    def __init__(
        self, owed: Any, asked: Any, *, peer: Any, key: Key, offset: int, codes: frozenset[int] | None, deadline_ms: int
    ) -> None:
        self.owed = owed
        self.asked = asked
        self.peer = peer
        self.key = key
        self.offset = offset
        self.codes = codes
        self.deadline_ms = deadline_ms
        self.tick = -(-deadline_ms // TICK_MS)


class Holds:
    """All held pulls of a broker.  Whatever a method hands out is no longer in the table."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[Held, None]] = {}
        self._by_peer: dict[Any, dict[Held, None]] = {}
        self._by_tick: dict[int, dict[Held, None]] = {}
        self._ticks: list[int] = []
        self._count = 0
        self._suspects: dict[Any, None] = {}
        """Peers that may have more than their share."""
        self._greedy: Any = None
        """The one that was found last."""

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, held: Held) -> bool:
        """Hold it.  True when the earliest deadline is another one now."""
        self._by_key.setdefault(held.key, {})[held] = None
        self._by_peer.setdefault(held.peer, {})[held] = None
        self._count += 1
        tick = held.tick
        same = self._by_tick.get(tick)
        if same is not None:
            same[held] = None
            return False
        self._by_tick[tick] = {held: None}
        heapq.heappush(self._ticks, tick)
        return self._ticks[0] == tick

    @property
    def peers(self) -> int:
        """How many connections wait for something."""
        return len(self._by_peer)

    def count_of(self, peer: Any) -> int:
        """What this connection waits for."""
        return len(self._by_peer.get(peer, ()))

    def one_too_many(self, share: int) -> Held | None:
        """The oldest pull of a peer that has more than `share`, if there is one among those looked at."""
        for _ in range(SUSPECTS_LOOKED_AT):
            if self.count_of(self._greedy) > share:
                return self._first(self._by_peer[self._greedy])
            if not self._suspects:
                self._suspects = dict.fromkeys(self._by_peer)
            self._greedy = self._suspects.popitem()[0] if self._suspects else None
        return None

    def arrived(self, key: Key, next_offset: int, tags_codes: Sequence[int]) -> list[Held]:
        """Units with these tag codes, the last at `next_offset` - 1, came to the queue: who wants one of them?"""
        waiting = self._by_key.get(key)
        if not waiting:
            return []
        first = next_offset - len(tags_codes)
        woken = []
        for held in waiting:
            codes, offset = held.codes, held.offset
            if next_offset > offset and (
                codes is None or any(matches(codes, code) for code in tags_codes[max(offset - first, 0) :])
            ):
                woken.append(held)
        for held in woken:
            self.remove(held)
        return woken

    def keys(self) -> list[Key]:
        """Every queue that somebody waits for, at this moment."""
        return list(self._by_key)

    def behind(self, key: Key, next_offset: int) -> list[Held]:
        """The queue ends at `next_offset`: whose offset is before that, whatever the tags?"""
        woken = [held for held in self._by_key.get(key, ()) if next_offset > held.offset]
        for held in woken:
            self.remove(held)
        return woken

    def next_deadline(self) -> int | None:
        """Mono milliseconds at which somebody's time is up."""
        while self._ticks and not self._by_tick[self._ticks[0]]:
            del self._by_tick[heapq.heappop(self._ticks)]
        return self._ticks[0] * TICK_MS if self._ticks else None

    def expired(self, mono_ms: int) -> Iterator[Held]:
        """Those whose time is up, one by one."""
        while (due := self.next_deadline()) is not None and due <= mono_ms:
            yield self._first(self._by_tick[self._ticks[0]])

    def of_peer(self, peer: Any) -> list[Held]:
        """What a connection that is gone was waiting for."""
        self._suspects.pop(peer, None)
        if peer is self._greedy:
            self._greedy = None
        left = list(self._by_peer.get(peer, ()))
        for held in left:
            self.remove(held)
        return left

    def drain(self) -> Iterator[Held]:
        """Everything, one by one: for an orderly stop."""
        while self.next_deadline() is not None:
            yield self._first(self._by_tick[self._ticks[0]])

    def remove(self, held: Held) -> None:
        """Take one out."""
        _discard(self._by_key, held.key, held)
        _discard(self._by_peer, held.peer, held)
        del self._by_tick[held.tick][held]  # an empty tick stays until it is the earliest: it may well be used again
        self._count -= 1

    def _first(self, among: dict[Held, None]) -> Held:
        held = next(iter(among))
        self.remove(held)
        return held


def _discard(table: dict[Any, dict[Held, None]], key: Any, held: Held) -> None:
    same = table[key]
    del same[held]
    if not same:
        del table[key]
