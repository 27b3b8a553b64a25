"""Where a delayed, timed or half message belongs: `Integer.parseInt`, and no queue below zero."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.implied.real_place import real_place, real_place_of, real_queue

INT_MAX = (1 << 31) - 1


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("63", 63),
        ("64", 64),
        ("+7", 7),
        ("-0", 0),
        ("0000000000007", 7),
        (str(INT_MAX), INT_MAX),
        (str(INT_MAX + 1), None),
        ("9999999999", None),
        ("-1", None),
        ("", None),
        ("+", None),
        (" 1", None),
        ("1\n", None),
        ("1.0", None),
        ("²", None),
        ("x", None),
        (None, None),
    ],
)
def test_queue_numbers(text: str | None, number: int | None) -> None:
    assert real_queue(text) == number
    assert real_place("T", text) == (None if number is None else ("T", number))


@given(st.integers(0, INT_MAX), st.text(min_size=1))
def test_what_a_broker_writes_is_read(queue_id: int, topic: str) -> None:
    assert real_place_of({"REAL_TOPIC": topic, "REAL_QID": str(queue_id)}) == (topic, queue_id)


@pytest.mark.parametrize("values", [{}, {"REAL_TOPIC": "T"}, {"REAL_QID": "1"}, {"REAL_TOPIC": "", "REAL_QID": "1"}])
def test_both_must_be_said(values: dict[str, str]) -> None:
    assert real_place_of(values) is None
