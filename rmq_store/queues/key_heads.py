"""Hashes of the beginnings of index keys, for the queues of one topic: a key is its head and its last three characters.

Ids end in counters, so heads repeat for thousands of messages.  Those seen last are remembered, so many of a topic and so many of
all topics together: heads that never come again, as of random ids, would fill the memory of a broker with thousands of topics.
(Java: IndexFile.indexKeyHashMethod)
"""

from __future__ import annotations

from typing import Final

from rmq_wire.java import hash_suffix, string_hash

SUFFIX: Final = 3
"""Characters of the tail."""
HEAD_PART: Final = slice(None, -SUFFIX)
TAIL_PART: Final = slice(-SUFFIX, None)
"""Of a key."""
SUFFIX_FACTOR: Final = 31**SUFFIX
CACHED_HEADS_MAX: Final = 1024
"""Per topic."""
CACHED_HEADS_OF_ALL_MAX: Final = 65_536
"""160 bytes each."""
CACHED_CHARACTERS_MAX: Final = 64


class SharedHeads:
    """How many heads a store's topics remember together."""

    def __init__(self, most: int = CACHED_HEADS_OF_ALL_MAX) -> None:
        self.count = 0
        self.most = most
        self._topics: dict[int, KeyHeads] = {}
        """by identity, those that remember any; the one that began first goes first"""

    def make_room(self, heads: KeyHeads) -> None:
        """There will be one more of these: some go when there are too many."""
        if len(heads) >= CACHED_HEADS_MAX:
            self._clear(heads)
        while self.count >= self.most:
            self._clear(next(iter(self._topics.values())))
        self._topics.setdefault(id(heads), heads)

    def _clear(self, heads: KeyHeads) -> None:
        self.count -= len(heads)
        heads.clear()
        del self._topics[id(heads)]


class KeyHeads(dict[str, int]):
    """What the head of a key adds to the hash of `topic#key`, to be asked for any head.  `prefix`: the hash of `topic#`."""

    __slots__ = ("_shared", "prefix")

    def __init__(self, topic: str, shared: SharedHeads | None = None) -> None:
        """`shared`: with the other topics of the store."""
        super().__init__()
        self.prefix = string_hash(topic + "#")
        self._shared = shared or SharedHeads()

    def __missing__(self, head: str) -> int:
        found = hash_suffix(self.prefix, head) * SUFFIX_FACTOR
        if len(head) <= CACHED_CHARACTERS_MAX:
            shared = self._shared
            if not 0 < len(self) < CACHED_HEADS_MAX or shared.count >= shared.most:
                shared.make_room(self)
            shared.count += 1
            self[head] = found
        return found
