"""Bit positions of consumer groups, as Guava and the reference's BloomFilter made them (5.5.0)."""

from __future__ import annotations

import pytest

from rmq_wire.bloom import Bloom


@pytest.mark.parametrize(
    ("name", "positions"),
    [
        ("g#t", [22, 87, 58]),
        ("group-a#TopicTest", [17, 15, 95]),
        ("", [0, 0, 0]),
        ("é漢\U0001f600#topic", [102, 33, 57]),
        ("a-much-longer-group-name-that-fills-more-than-one-block#and-a-topic-as-well", [100, 1, 14]),
    ],
)
def test_positions(name: str, positions: list[int]) -> None:
    bloom = Bloom(20, 32)
    assert bloom.bits == 112
    assert bloom.positions(name) == positions


def test_sizes() -> None:
    assert (Bloom(7, 1000).bits, Bloom(7, 1000).hashes) == (5536, 4)
