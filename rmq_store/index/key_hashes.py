"""Hashes of index keys, fast for keys that resemble the ones before: most of a broker's index work is hashing.

A key is its head and its last three characters: hash = head's * 31^3 + tail's.  Ids end in counters, so heads repeat for
thousands of messages and tails for ever; both are remembered, within limits.  (Java: IndexFile.indexKeyHashMethod)
"""

from __future__ import annotations

from typing import Final

from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_wire.java import hash_suffix

SUFFIX: Final = 3
"""Characters of the tail."""
SUFFIX_FACTOR: Final = 31**SUFFIX
CACHED_HEADS_MAX: Final = 1024
"""Per topic."""
CACHED_TAILS_MAX: Final = 8192
CACHED_CHARACTERS_MAX: Final = 64
WORD: Final = 0xFFFFFFFF


class KeyHashes:
    """The tails seen last; each topic has its heads. Whoever is in a hurry reads both and calls `add` for what they lack."""

    def __init__(self) -> None:
        self.tails: dict[str, int] = {}

    def add(self, queue: ConsumeQueue, key: str) -> int:
        """The hash of `topic#key` modulo 2^32, remembered unless the key is odd."""
        if not (SUFFIX < len(key) <= CACHED_CHARACTERS_MAX and key.isascii()):
            return hash_suffix(queue.hash_prefix, key)
        heads, tails = queue.hash_heads, self.tails
        head, tail = key[:-SUFFIX], key[-SUFFIX:]
        head_hash = heads.get(head)
        if head_hash is None:
            if len(heads) >= CACHED_HEADS_MAX:
                heads.clear()
            head_hash = heads[head] = hash_suffix(queue.hash_prefix, head) * SUFFIX_FACTOR
        tail_hash = tails.get(tail)
        if tail_hash is None:
            if len(tails) >= CACHED_TAILS_MAX:
                tails.clear()
            tail_hash = tails[tail] = hash_suffix(0, tail)
        return head_hash + tail_hash
