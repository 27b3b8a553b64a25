"""Hashes of the beginnings of index keys, for the queues of one topic: a key is its head and its last three characters.

Ids end in counters, so heads repeat for thousands of messages.  Those seen last are remembered, within limits.
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
CACHED_CHARACTERS_MAX: Final = 64


class KeyHeads(dict[str, int]):
    """What the head of a key adds to the hash of `topic#key`, to be asked for any head.  `prefix`: the hash of `topic#`."""

    __slots__ = ("prefix",)

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.prefix = string_hash(topic + "#")

    def __missing__(self, head: str) -> int:
        found = hash_suffix(self.prefix, head) * SUFFIX_FACTOR
        if len(head) <= CACHED_CHARACTERS_MAX:
            if len(self) >= CACHED_HEADS_MAX:
                self.clear()
            self[head] = found
        return found
