"""Pulls that wait for a message: by queue for arrivals, by peer for those that leave, by time for those that wait too long.

Java walks all of them every 5 s and answers a timeout only then; here a pull is answered at most `TICK_MS` after its time.  Times
are grouped into ticks, each a set from which an early answer removes itself at once: a busy consumer that is woken a thousand
times a second leaves nothing behind.  The table neither reads nor answers; it says who is to be looked at.

Java: `PullRequestHoldService`, `ManyPullRequest`, `PullRequest`.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final, TypeVar

from broker_impl.filtering import UnitFilter, low_half

TICK_MS: Final = 100
"""Granularity of time-outs, in mono milliseconds: one entry of the heap serves everything that ends within one tick."""

SUSPECTS_LOOKED_AT: Final = 64
"""Peers looked at for one that has more than its share, each time: 4 µs; the next time goes on where this one ended."""

NARROW_MAX: Final = 16
"""Pulls that want so many tags stand under each of them, so that a message looks at nobody whom it does not concern; those that
want more are looked at one by one, and are fewer (`places`)."""
ROWS_AT_ONCE: Final = 256
"""Pulls looked at in one go, 1 µs each."""
PLACE_BYTES: Final = 256
TAG_BYTES: Final = 64
"""What one place is for: a pull whose subscription has a few tags."""

K = TypeVar("K")
Key = tuple[str, int]
"""Topic and queue id."""
News = dict[int, int] | None
"""Tag hash to the newest place in the queue; None: whatever the tags."""


class Held:
    """One pull that waits.  `pending` is what answers it, `asked` its header; both are the capability's.

    It is woken by a unit at or behind `offset` whose tag hash is in `codes` (None: any), and at `deadline_ms`.  One that
    `matches`, a filter by properties, has to look at is woken by who reads the units: see `filtered`.
    """

    __slots__ = ("asked", "codes", "deadline_ms", "key", "matches", "offset", "peer", "pending", "places", "seen", "tick")

    def __init__(
        self,
        pending: Any,
        asked: Any,
        *,
        peer: Any,
        key: Key,
        offset: int,
        codes: frozenset[int] | None,
        deadline_ms: int,
        places: int = 1,
        matches: UnitFilter | None = None,
    ) -> None:
        self.pending = pending
        self.asked = asked
        self.peer = peer
        self.key = key
        self.offset = offset
        self.codes = codes
        self.deadline_ms = deadline_ms
        self.places = places
        self.matches = matches
        self.seen = offset
        """All units before this one are none that it wants."""
        self.tick = -(-deadline_ms // TICK_MS)


def places(subscription: str | None, codes: frozenset[int] | None) -> int:
    """How many ordinary pulls one with this text and these tags stands for, as far as memory goes."""
    return 1 + (len(subscription or "") + TAG_BYTES * len(codes or ())) // PLACE_BYTES


_NONE: Final[frozenset[int]] = frozenset()


class _Choosy:
    """Who waits for certain tags of one queue."""

    __slots__ = ("broad", "by_code")

    def __init__(self) -> None:
        self.by_code: dict[int, dict[Held, None]] = {}
        self.broad: dict[Held, None] = {}
        """More than `NARROW_MAX` tags, or none at all."""

    def __bool__(self) -> bool:
        return bool(self.by_code or self.broad)

    def __iter__(self) -> Iterator[Held]:
        return iter(dict.fromkeys(chain.from_iterable(self.by_code.values())) | self.broad)

    def add(self, held: Held, codes: frozenset[int]) -> None:
        if 0 < len(codes) <= NARROW_MAX:
            for code in codes:
                self.by_code.setdefault(code, {})[held] = None
        else:
            self.broad[held] = None

    def remove(self, held: Held, codes: frozenset[int]) -> None:
        if 0 < len(codes) <= NARROW_MAX:
            for code in codes:
                _discard(self.by_code, code, held)
        else:
            del self.broad[held]

    def concerned(self, newest: News) -> list[Held]:
        """Who may want one of these units, in the order in which `wanting` says it."""
        if newest is None:
            return list(self)
        narrow = chain.from_iterable(self.by_code[code] for code in newest.keys() & self.by_code.keys())
        return [*dict.fromkeys(narrow), *self.broad]

    def concerned_count(self, newest: News) -> int:
        """At least so many; one of several tags counts for each."""
        if newest is None:
            return len(self.broad) + sum(map(len, self.by_code.values()))
        return len(self.broad) + sum(len(self.by_code[code]) for code in newest.keys() & self.by_code.keys())

    def wanting(self, newest: dict[int, int]) -> Iterator[Held]:
        """Who wants one of these units."""
        yield from dict.fromkeys(
            held for code in newest.keys() & self.by_code.keys() for held in self.by_code[code] if held.offset <= newest[code]
        )
        yield from (held for held in self.broad if _wants(held, newest))


def _wants(held: Held, newest: dict[int, int]) -> bool:
    """One of these units is for it, and not before its offset."""
    codes = held.codes or _NONE
    return not codes.isdisjoint(newest) and any(newest[code] >= held.offset for code in newest if code in codes)


class Holds:
    """All held pulls of a broker.  Whatever a method hands out is no longer in the table."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[Held, None]] = {}
        """Those that want anything; by tags: the others."""
        self._by_tags: dict[Key, _Choosy] = {}
        self._by_filter: dict[Key, dict[Held, None]] = {}
        """Those that want what a filter selects."""
        self._by_peer: dict[Any, dict[Held, None]] = {}
        self._more: dict[Any, int] = {}
        """Places that a peer takes above one for each pull."""
        self._by_tick: dict[int, dict[Held, None]] = {}
        self._ticks: list[int] = []
        self._count = 0
        self._crowded: dict[Key, tuple[int, News]] = {}
        """Where the queue ends, and what came, of queues whose crowd is still to be looked at, the oldest first."""
        self._looking = False
        """`_rows` is among one of them."""
        self._rows = self._looked_at()
        self._suspects: dict[Any, None] = {}
        """Peers that may have more than their share."""
        self._greedy: Any = None
        """The one that was found last."""

    def __len__(self) -> int:
        """In places."""
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, held: Held) -> bool:
        """Hold it.  True when the earliest deadline is another one now."""
        if held.matches is not None:
            self._by_filter.setdefault(held.key, {})[held] = None
        elif held.codes is None:
            self._by_key.setdefault(held.key, {})[held] = None
        else:
            choosy = self._by_tags.get(held.key)
            if choosy is None:
                choosy = self._by_tags[held.key] = _Choosy()
            choosy.add(held, held.codes)
        self._by_peer.setdefault(held.peer, {})[held] = None
        self._count += held.places
        if held.places > 1:
            self._more[held.peer] = self._more.get(held.peer, 0) + held.places - 1
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
        """Places that this connection takes."""
        return len(self._by_peer.get(peer, ())) + self._more.get(peer, 0)

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
        """Units with these tag codes, the last at `next_offset` - 1, came to the queue: who wants one of them?

        In a crowd that is for `more` to say.
        """
        same = self._by_key.get(key, ())
        choosy = self._by_tags.get(key)
        if choosy is None:
            if len(same) > ROWS_AT_ONCE:
                return self._later(key, next_offset, {})
            woken = [held for held in same if next_offset > held.offset]
        else:
            first = next_offset - len(tags_codes)
            newest = {low_half(code): first + at for at, code in enumerate(tags_codes)}
            if self._count > ROWS_AT_ONCE and len(same) + choosy.concerned_count(newest) > ROWS_AT_ONCE:
                return self._later(key, next_offset, newest)
            woken = [held for held in same if next_offset > held.offset]
            woken += choosy.wanting(newest)
        for held in woken:
            self.remove(held)
        return woken

    @property
    def crowded(self) -> bool:
        """`more` has somebody to look at."""
        return self._looking or bool(self._crowded)

    def more(self) -> list[Held]:
        """Of a crowd, those whom an arrival concerns, the first come first: so many are looked at, and others in between."""
        if not self._looking and not self._crowded:
            return []
        woken = [held for held in islice(self._rows, ROWS_AT_ONCE) if held is not None]
        if not self._looking and not self._crowded:
            self._rows = self._looked_at()
        return woken

    def _later(self, key: Key, next_offset: int, newest: News) -> list[Held]:
        """A crowd is looked at as it then is; what came before is not forgotten."""
        before = self._crowded.get(key)
        if before is not None:
            newest = None if newest is None or before[1] is None else {**before[1], **newest}
        self._crowded[key] = (next_offset, newest)
        return []

    def _looked_at(self) -> Iterator[Held | None]:
        """A row for each who is looked at, None when he goes on waiting."""
        while self._crowded:
            key = next(iter(self._crowded))
            end, newest = self._crowded.pop(key)
            choosy = self._by_tags.get(key)
            rows = [*self._by_key.get(key, ()), *(choosy.concerned(newest) if choosy is not None else ())]
            if newest is None:
                rows += self._by_filter.get(key, ())
            self._looking = True
            for held in rows:
                woken = self.waits(held) and end > held.offset
                if woken and newest is not None and held.codes is not None:
                    woken = _wants(held, newest)
                if woken:
                    self.remove(held)
                yield held if woken else None
            self._looking = False

    def has_filtered(self, key: Key) -> bool:
        """Somebody waits for what a filter selects of this queue."""
        return key in self._by_filter

    def filtered(self, key: Key) -> list[Held]:
        """Who does, the first come first.  They stay in the table."""
        return list(self._by_filter.get(key, ()))

    def waits(self, held: Held) -> bool:
        """It is still in the table."""
        return held in self._by_tick.get(held.tick, ())

    def keys(self) -> list[Key]:
        """Every queue that somebody waits for, at this moment."""
        return list(dict.fromkeys((*self._by_key, *self._by_tags, *self._by_filter)))

    def behind(self, key: Key, next_offset: int) -> list[Held]:
        """The queue ends at `next_offset`: whose offset is before that, whatever the tags?  A crowd: see `more`."""
        same, choosy, filtered = self._by_key.get(key, ()), self._by_tags.get(key), self._by_filter.get(key, ())
        if len(same) + len(filtered) + (choosy.concerned_count(None) if choosy is not None else 0) > ROWS_AT_ONCE:
            return self._later(key, next_offset, None)
        woken = [held for held in (*same, *(choosy or ()), *filtered) if next_offset > held.offset]
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
            yield from self._taken(self._by_tick[self._ticks[0]])

    def of_peer(self, peer: Any) -> list[Held]:
        """What a connection that is gone was waiting for, or some of it."""
        self._suspects.pop(peer, None)
        if peer is self._greedy:
            self._greedy = None
        left = list(islice(self._by_peer.get(peer, ()), ROWS_AT_ONCE))
        for held in left:
            self.remove(held)
        return left

    def leaving(self, peer: Any) -> Generator[None, None, None] | None:
        """The same, some of it at once; what is left to do."""
        return self._leaving(peer) if len(self.of_peer(peer)) == ROWS_AT_ONCE else None

    def _leaving(self, peer: Any) -> Generator[None, None, None]:
        while self.of_peer(peer):
            yield

    def drain(self) -> Iterator[Held]:
        """Everything, one by one: for an orderly stop."""
        while self.next_deadline() is not None:
            yield from self._taken(self._by_tick[self._ticks[0]])

    def remove(self, held: Held) -> None:
        """Take one out."""
        if held.matches is not None:
            _discard(self._by_filter, held.key, held)
        elif held.codes is None:
            _discard(self._by_key, held.key, held)
        else:
            choosy = self._by_tags[held.key]
            choosy.remove(held, held.codes)
            if not choosy:
                del self._by_tags[held.key]
        _discard(self._by_peer, held.peer, held)
        del self._by_tick[held.tick][held]  # an empty tick stays until it is the earliest: it may well be used again
        self._count -= held.places
        if held.places > 1:
            self._more[held.peer] -= held.places - 1
            if not self._more[held.peer]:
                del self._more[held.peer]

    def _taken(self, among: dict[Held, None]) -> Iterator[Held]:
        """Some of them, one by one: to look for the first each time passes over all that have gone before."""
        for held in list(islice(among, ROWS_AT_ONCE)):
            if held in among:
                self.remove(held)
                yield held

    def _first(self, among: dict[Held, None]) -> Held:
        held = next(iter(among))
        self.remove(held)
        return held


def _discard(table: dict[K, dict[Held, None]], key: K, held: Held) -> None:
    same = table[key]
    del same[held]
    if not same:
        del table[key]
