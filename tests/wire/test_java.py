"""Hashes, the order of maps and the text of numbers, against what a JVM printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.java import concurrent_order, double_text, hash_suffix, iteration_order, permutation, string_hash, table_size
from tests.support.given import GOLDEN, TEXT
from tests.support.lines import lines_of


def slow_hash(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def test_hashes_of_a_jvm() -> None:
    assert {text: string_hash(text) for text, _ in GOLDEN["hashes"]} == dict(GOLDEN["hashes"])


@given(st.text(max_size=200) | st.text(st.characters(max_codepoint=127), max_size=200))
def test_hashes_are_polynomials(text: str) -> None:
    assert string_hash(text) == slow_hash(text)


@given(TEXT, TEXT)
def test_a_hash_goes_on_from_a_prefix(prefix: str, rest: str) -> None:
    assert hash_suffix(string_hash(prefix), rest) == string_hash(prefix + rest)


@pytest.mark.parametrize("at", range(len(GOLDEN["orders"])))
def test_orders_of_a_jvm(at: int) -> None:
    buckets, names, walked = GOLDEN["orders"][at]
    assert iteration_order(names, buckets) == walked
    assert [names[index] for index in permutation(tuple(names), buckets)] == walked


def test_tables_grow_above_three_quarters() -> None:
    assert [table_size(count, 16) for count in (0, 12, 13, 24, 25)] == [16, 16, 32, 32, 64]
    assert [table_size(count, 128) for count in (96, 97)] == [128, 256]


def slow_order(names: list[str], buckets: int) -> list[str]:
    """A `HashMap` name by name: each looks at its whole chain, and whether the table must grow."""
    spread = [slow_hash(name) & 0xFFFFFFFF for name in names]
    spread = [value ^ value >> 16 for value in spread]
    for count, value in enumerate(spread):
        if buckets < 64 and sum((other ^ value) % buckets == 0 for other in spread[:count]) >= 8:
            buckets *= 2
        buckets = table_size(count + 1, buckets)
    return [name for _, _, name in sorted((value % buckets, at, names[at]) for at, value in enumerate(spread))]


ONE_BUCKET = [f"{a}{b}{c}" for a in ("Aa", "BB") for b in ("Aa", "BB", "C#") for c in ("AaAa", "BBBB", "AaBB", "BBAa")]
"""Eight names of one hash, and as many of two others."""


@given(st.lists(TEXT | st.sampled_from(ONE_BUCKET), unique=True, max_size=120), st.sampled_from([1, 8, 16, 32, 64, 128]))
def test_orders_are_those_of_a_table_that_grows_name_by_name(names: list[str], buckets: int) -> None:
    assert iteration_order(names, buckets) == slow_order(names, buckets)


WALKED = (
    (9, 5, 7, 2, 0, 1, 4, 8, 6, 3, 10),
    (9, 11, 4, 8, 6, 3, 7, 5, 2, 1, 0, 10),
    (9, 11, 16, 18, 3, 15, 13, 17, 22, 4, 8, 6, 19, 21, 7, 5, 2, 20, 23, 1, 0, 12, 10, 14),
)
"""The first of these names as a JVM walked its `new ConcurrentHashMap<>()` of them."""


@pytest.mark.parametrize("walked", WALKED, ids=len)
def test_concurrent_orders_of_a_jvm(walked: tuple[int, ...]) -> None:
    names = [f"T{number * number * 43 % 1009}@g{number % 7}" for number in range(len(walked))]
    assert concurrent_order(names) == [names[at] for at in walked]


def slow_concurrent_order(names: list[str], buckets: int) -> list[str]:
    """A `ConcurrentHashMap` name by name, that moves them chain by chain, name by name, when it has grown."""
    chains: list[list[str]] = [[] for _ in range(buckets)]

    def place(name: str) -> int:
        value = slow_hash(name) & 0xFFFFFFFF
        return (value ^ value >> 16) % len(chains)

    for count, name in enumerate(names, 1):
        chains[place(name)].append(name)
        if count == len(chains) * 3 // 4:
            stood, chains = chains, [[] for _ in range(2 * len(chains))]
            for chain in stood:
                if len(chain) > 8:  # a tree
                    for one in chain:
                        chains[place(one)].append(one)
                    continue
                left = list(chain)
                while left and place(left[-1]) == place(chain[-1]):
                    chains[place(left[-1])].insert(0, left.pop())
                for one in left:
                    chains[place(one)].insert(0, one)
    return [name for chain in chains for name in chain]


@given(st.lists(TEXT | st.sampled_from(ONE_BUCKET), unique=True, max_size=120), st.sampled_from([8, 16, 32, 64, 128]))
def test_concurrent_orders_are_those_of_a_table_that_grows_name_by_name(names: list[str], buckets: int) -> None:
    assert concurrent_order(names, buckets) == slow_concurrent_order(names, buckets)


def test_ordering_names_takes_work_in_proportion_to_their_number() -> None:
    few, many = (lines_of(lambda count=count: iteration_order(map(str, range(count)))) for count in (500, 2_000))
    assert many < 5 * few, "neighbours: 1,500 writes of a key-value table stopped everybody for a minute"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-1.0, "-1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (9.99e-4, "9.99E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (-2.5e33, "-2.5E33"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert double_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_read_back(value: float) -> None:
    assert float(double_text(value)) == value
