"""Where the bloom filter of a queue's extensions would have bits for a consumer group.

We fill no bit maps and look at none; but a reference broker throws away all filters of a `consumerFilter.json` in which one lacks
these positions, so they are written as it writes them.

Java: `BloomFilter.createByFn`, `calcBitPositions`; Guava's `Hashing.murmur3_128`.
"""

from __future__ import annotations

import math
from typing import Final

_WORD: Final = (1 << 64) - 1
_INT: Final = (1 << 32) - 1
_SIGN: Final = 1 << 31
_FIRST: Final = 0x87C37B91114253D5
_SECOND: Final = 0x4CF5AD432745937F
_BLOCK: Final = 16
_BITS_OF_BYTE: Final = 8


class Bloom:
    """`hashes` positions out of `bits`, for an error rate in percent and a number of names."""

    def __init__(self, error_percent: int, names: int) -> None:
        rate = error_percent / 100
        self.hashes = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(names * (math.log(1 / rate) / math.log(2)) * (math.log(math.e) / math.log(2)))
        self.bits = _BITS_OF_BYTE * math.ceil(bits / _BITS_OF_BYTE)

    def positions(self, name: str) -> list[int]:
        """Those of a name: double hashing with the two halves of a 64-bit hash, in Java's `int`s."""
        number = murmur3_64(name.encode("utf-8", "replace"))
        one, other = number & _INT, number >> 32
        found: list[int] = []
        for step in range(1, self.hashes + 1):
            combined = (one + step * other) & _INT
            if combined & _SIGN:
                combined = ~combined & _INT
            found.append(combined % self.bits)
        return found


def murmur3_64(data: bytes) -> int:
    """The first 64 bits of murmur3_128 (x64, seed 0), unsigned."""
    high = low = 0
    whole = len(data) - len(data) % _BLOCK
    for at in range(0, whole, _BLOCK):
        one, other = _little(data[at : at + 8]), _little(data[at + 8 : at + _BLOCK])
        low ^= _mixed(one, _FIRST, 31, _SECOND)
        low = (_rotated(low, 27) + high) * 5 + 0x52DCE729 & _WORD
        high ^= _mixed(other, _SECOND, 33, _FIRST)
        high = (_rotated(high, 31) + low) * 5 + 0x38495AB5 & _WORD
    low ^= _mixed(_little(data[whole : whole + 8]), _FIRST, 31, _SECOND)
    high ^= _mixed(_little(data[whole + 8 :]), _SECOND, 33, _FIRST)
    low, high = low ^ len(data), high ^ len(data)
    low = low + high & _WORD
    high = high + low & _WORD
    return _final(low) + _final(high) & _WORD


def _little(data: bytes) -> int:
    return sum(byte << 8 * at for at, byte in enumerate(data))


def _mixed(word: int, before: int, turn: int, behind: int) -> int:
    return _rotated(word * before & _WORD, turn) * behind & _WORD


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _WORD


def _final(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _WORD
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _WORD
    return word ^ word >> 33
