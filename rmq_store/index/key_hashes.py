"""Hashes of index keys, fast for keys that resemble the ones before: most of a broker's index work is hashing.

A key is its head (`rmq_store.queues.key_heads`) and its last three characters: hash = head's * 31^3 + tail's.  Tails repeat for
ever; they are remembered, within limits.  Keys of POP's records have counters before a common end, so that no head comes twice:
they are known by their tails and hashed whole.  (Java: IndexFile.indexKeyHashMethod)
"""

from __future__ import annotations

from typing import Final

from rmq_store.queues.consume_queue import ConsumeQueue
from rmq_store.queues.key_heads import SUFFIX
from rmq_wire.implied.pop import ACK_TAG, CHECK_POINT_TAG
from rmq_wire.java import hash_suffix

CACHED_TAILS_MAX: Final = 8192
WORD: Final = 0xFFFFFFFF
LONE: Final = -1
"""In place of what a tail adds: the head of a key that ends so is met this once."""
_LONE_TAILS: Final = frozenset([f"@{tag}"[-SUFFIX:] for tag in (CHECK_POINT_TAG, ACK_TAG)])
"""Where keys of records end (`check_point_key`, `ack_key`)."""


class KeyTails(dict[str, int]):
    """What the tail of a key adds to its hash, or `LONE`.  Raises KeyError for a tail that is not so many characters of ASCII."""

    def __missing__(self, tail: str) -> int:
        if len(tail) != SUFFIX or not tail.isascii():
            raise KeyError(tail)
        if len(self) >= CACHED_TAILS_MAX:
            self.clear()
        found = self[tail] = LONE if tail in _LONE_TAILS else hash_suffix(0, tail)
        return found


class KeyHashes:
    """The tails seen last; each topic has its heads.  Who is in a hurry adds the two, and asks for a key with another tail."""

    def __init__(self) -> None:
        self.tails = KeyTails()

    def of(self, queue: ConsumeQueue, key: str) -> int:
        """The hash of `topic#key` modulo 2^32."""
        try:
            tail = self.tails[key[-SUFFIX:]]
        except KeyError:
            tail = LONE
        return hash_suffix(queue.hash_heads.prefix, key) & WORD if tail < 0 else queue.hash_heads[key[:-SUFFIX]] + tail & WORD
