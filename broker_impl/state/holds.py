"""Pulls that wait for a message, by queue and by what of it they want; by peer and by time they are in `broker_impl.state.waits`.

Java walks all of them every 5 s, and answers only then who has waited too long.  The table neither reads nor answers; it says
who is to be looked at.

Java: `PullRequestHoldService`, `ManyPullRequest`, `PullRequest`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any, Final

from broker_impl.filtering import UnitFilter, low_half
from broker_impl.state.waits import Wait, Waits, discard

NARROW_MAX: Final = 16
"""Pulls that want so many tags stand under each of them, so that a message looks at nobody whom it does not concern; those that
want more are looked at one by one, and are fewer (`places`)."""
ROWS_AT_ONCE: Final = 256
"""Pulls looked at in one go, 1 µs each."""
Key = tuple[str, int]
"""Topic and queue id."""
News = dict[int, int] | None
"""Tag hash to the newest place in the queue; None: whatever the tags."""


class Held(Wait):
    """One pull that waits.  `pending` is what answers it, `asked` its header; both are the capability's.

    It is woken by a unit at or behind `offset` whose tag hash is in `codes` (None: any), and at `deadline_ms`.  One that
    `matches`, a filter by properties, has to look at is woken by who reads the units: see `filtered`.
    """

    __slots__ = ("codes", "key", "matches", "offset", "seen")

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
        super().__init__(pending, asked, peer=peer, deadline_ms=deadline_ms, places=places)
        self.key = key
        self.offset = offset
        self.codes = codes
        self.matches = matches
        self.seen = offset
        """All units before this one are none that it wants."""


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
                discard(self.by_code, code, held)
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


class Holds(Waits[Held]):
    """All held pulls of a broker.  Whatever a method hands out is no longer in the table."""

    def __init__(self) -> None:
        super().__init__()
        self._by_key: dict[Key, dict[Held, None]] = {}
        """Those that want anything; by tags: the others."""
        self._by_tags: dict[Key, _Choosy] = {}
        self._by_filter: dict[Key, dict[Held, None]] = {}
        """Those that want what a filter selects."""
        self._crowded: dict[Key, tuple[int, News]] = {}
        """Where the queue ends, and what came, of queues whose crowd is still to be looked at, the oldest first."""
        self._looking = False
        """`_rows` is among one of them."""
        self._rows = self._looked_at()

    def _enter(self, held: Held) -> None:
        if held.matches is not None:
            self._by_filter.setdefault(held.key, {})[held] = None
        elif held.codes is None:
            self._by_key.setdefault(held.key, {})[held] = None
        else:
            choosy = self._by_tags.get(held.key)
            if choosy is None:
                choosy = self._by_tags[held.key] = _Choosy()
            choosy.add(held, held.codes)

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

    def _leave(self, held: Held) -> None:
        if held.matches is not None:
            discard(self._by_filter, held.key, held)
        elif held.codes is None:
            discard(self._by_key, held.key, held)
        else:
            choosy = self._by_tags[held.key]
            choosy.remove(held, held.codes)
            if not choosy:
                del self._by_tags[held.key]
