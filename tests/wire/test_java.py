"""Hashes, the order of maps and the text of numbers, against what a JVM printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.java import double_text, hash_suffix, iteration_order, permutation, string_hash, table_size
from tests.support.given import GOLDEN, TEXT


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
