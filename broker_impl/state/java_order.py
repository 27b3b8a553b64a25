"""Keys in the order in which a Java hash map is walked, kept as keys come and go.

By bucket, in a bucket by arrival; a fuller map doubles its buckets, and each bucket's keys stay or go on by the old number of
buckets; where that turns keys round (`regrown`), they have each other's arrivals from then on.  Keys lie in blocks that never
change, so that a copy of the order is a copy of references to blocks: a walk shows the order as it was when it was asked for,
however late it is walked.  A doubling is done block by block, one for each key that comes after it: until it is through, the
blocks that are left are walked twice, first for what stays, then for what goes on.  (What goes meanwhile turns nobody round,
other than in Java.)

Java: `HashMap`, `ConcurrentHashMap`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rmq_wire.java import Placed as Place
from rmq_wire.java import concurrent_buckets, concurrent_order, regrown, spread_of

BLOCK_MAX = 256
"""Keys of a block: one that comes or goes has as many references copied."""
PARTS: Final = 64
BUCKETS: Final = 16
"""Of a map that Java makes without saying how large, as its JSON reader does."""
CHAIN_MAX: Final = 8
"""As many keys of a bucket are in one block, since they may have to be turned round."""

Rank = tuple[int, int]
"""Bucket and arrival: what places are sorted by."""
Portion = Sequence[Place]
"""Places that follow each other, at most `BLOCK_MAX`."""


class _Run:
    """Places by rank, in blocks; none of them is empty or long, none is changed: another takes its place."""

    def __init__(self, buckets: int) -> None:
        self._mask = buckets - 1
        self.blocks: list[list[Place]] = []
        self.firsts: list[Rank] = []
        """The rank of the first of each."""

    def rank(self, place: Place) -> Rank:
        return place[2] & self._mask, place[0]

    def put(self, place: Place) -> None:
        if not self.blocks:
            return self.append([place])
        rank = self.rank(place)
        at = self._block_of(rank)
        block = self.blocks[at].copy()
        inner = bisect_right(block, rank, key=self.rank)
        block.insert(inner, place)
        if len(block) > BLOCK_MAX and (middle := self._middle(block)):
            self.blocks[at : at + 1] = block[:middle], block[middle:]
            self.firsts.insert(at + 1, self.rank(block[middle]))
        else:
            self.blocks[at] = block
        if inner == 0:
            self.firsts[at] = rank
        return None

    def remove(self, place: Place) -> None:
        rank = self.rank(place)
        at = self._block_of(rank)
        block = self.blocks[at].copy()
        del block[bisect_left(block, rank, key=self.rank)]
        if block:
            self.blocks[at] = block
            self.firsts[at] = self.rank(block[0])
        else:
            del self.blocks[at], self.firsts[at]

    def append(self, places: list[Place]) -> None:
        """Behind all others."""
        if self.blocks and len(self.blocks[-1]) + len(places) <= BLOCK_MAX // 2:
            self.blocks[-1] = self.blocks[-1] + places
        else:
            self.blocks.append(places)
            self.firsts.append(self.rank(places[0]))

    def take_first(self) -> list[Place]:
        del self.firsts[0]
        return self.blocks.pop(0)

    def _middle(self, block: list[Place]) -> int:
        """Where to cut it; 0: nowhere."""
        middle = len(block) // 2
        bucket = self.rank(block[middle])[0]
        begin, end = (bisect_left(block, (number, 0), key=self.rank) for number in (bucket, bucket + 1))
        return middle if end - begin > CHAIN_MAX else begin or end % len(block)

    def _block_of(self, rank: Rank) -> int:
        """Where it stands, or is to stand: behind all that came before it to its bucket."""
        return max(bisect_right(self.firsts, rank) - 1, 0)


class JavaOrder:
    """The order of the map that began with this many buckets, a power of two.  concurrent: a `ConcurrentHashMap`."""

    def __init__(self, buckets: int = BUCKETS, *, concurrent: bool = True) -> None:
        self._buckets = buckets
        self._concurrent = concurrent
        self._arrivals = 0
        self._turned = 0
        """So many had come when the number of buckets was doubled and some of them were turned round."""
        self._count = 0
        self._places: tuple[dict[str, Place], ...] = tuple({} for _ in range(PARTS))
        """By the lowest bits of the hash, for a dictionary that grows is hashed again as a whole."""
        self._low = _Run(buckets)
        """All; while a doubling is under way, what stays."""
        self._high = _Run(buckets)
        """What went on by the number of buckets there were."""
        self._rest = _Run(buckets)
        """What is still to be looked at, as it stood before."""

    def __len__(self) -> int:
        return self._count

    def add(self, key: str) -> None:
        """A new key."""
        self._arrivals += 1
        self._count += 1
        spread = spread_of(key)
        place = self._places[spread % PARTS][key] = (self._arrivals, key, spread)
        self._run_of(place).put(place)
        if self._count > self._buckets * 3 // 4 - self._concurrent:
            self._double()
        if self._rest.blocks:
            self._divide()

    def make_room(self, count: int) -> None:
        """So many keys come from another map: it grows before they come (`ConcurrentHashMap.putAll`, `tryPresize`)."""
        while concurrent_buckets(count) > self._buckets * 3 // 4:
            self._double()

    def remove(self, key: str) -> None:
        """A key that goes."""
        place = self._places[spread_of(key) % PARTS].pop(key)
        self._count -= 1
        self._run_of(place).remove(place)
        self._join()

    def place(self, key: str) -> Rank:
        """What to sort a key by to have it where it stands here; one that is not divided yet, where it stood before."""
        place = self._places[spread_of(key) % PARTS][key]
        return place[2] & (self._buckets - 1), place[0]

    def portions(self) -> Iterator[Portion]:
        """All places in order, as they are now."""
        return self._walked(
            list(self._low.blocks), list(self._high.blocks), list(self._rest.blocks), self._buckets >> 1, self._turned
        )

    def __iter__(self) -> Iterator[str]:
        return (place[1] for portion in self.portions() for place in portion)

    @staticmethod
    def _walked(
        low: Sequence[Portion], high: Sequence[Portion], rest: Sequence[Portion], bit: int, turned: int
    ) -> Iterator[Portion]:
        yield from low
        for block in rest:
            yield [place for place in regrown(block, bit, turned) if not place[2] & bit]
        yield from high
        for block in rest:
            yield [place for place in regrown(block, bit, turned) if place[2] & bit]

    def _run_of(self, place: Place) -> _Run:
        """Of a place that is here or comes: what stood before the rest's first is divided, and the rest only gets shorter."""
        rest = self._rest
        if not rest.blocks:
            return self._low
        if rest.rank(place) >= rest.firsts[0]:
            return rest
        return self._high if place[2] & self._buckets >> 1 else self._low

    def _double(self) -> None:
        while self._rest.blocks:  # never many: as many keys came since the last time as there were then
            self._divide()
        self._buckets *= 2
        self._turned = self._arrivals if self._concurrent else 0
        self._rest, self._low, self._high = self._low, _Run(self._buckets), _Run(self._buckets)

    def _divide(self) -> None:
        """The rest's first block."""
        bit = self._buckets >> 1
        stood = self._rest.take_first()
        block = list(regrown(stood, bit, self._turned))
        for before, place in zip(stood, block, strict=True):
            if before is not place:
                self._places[place[2] % PARTS][place[1]] = place
        for run, goes_on in ((self._low, 0), (self._high, bit)):
            if places := [place for place in block if place[2] & bit == goes_on]:
                run.append(places)
        self._join()

    def _join(self) -> None:
        """What stays and what went on are one when there is no rest, whether it was divided or is gone."""
        if self._high.blocks and not self._rest.blocks:
            self._low.blocks += self._high.blocks
            self._low.firsts += self._high.firsts
            self._high = _Run(self._buckets)


def as_copied(rows: Any, order: JavaOrder) -> Any:
    """Rows of a map that Java's JSON reader has made, as that is walked; the map that gets them has room for them now."""
    if not isinstance(rows, dict):
        return rows
    order.make_room(len(rows))
    return {key: rows[key] for key in concurrent_order(rows)}
