"""What the names in a store's directories say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_wire.store_names import is_index_name, offset_name, offset_of, queue_id_of

LONG_MAX, INT_MAX = (1 << 63) - 1, (1 << 31) - 1


@given(st.integers(0, LONG_MAX))
def test_an_offset_comes_back(start: int) -> None:
    assert offset_of(offset_name(start)) == start


@given(st.integers(0, INT_MAX))
def test_a_queue_comes_back(queue_id: int) -> None:
    assert queue_id_of(str(queue_id)) == queue_id


@pytest.mark.parametrize(
    "name", ["", "0", f"{LONG_MAX + 1:020}", "9" * 20, "0" * 19, "0" * 21, "0" * 19 + "٠", "-" + "0" * 19, " " * 20]
)
def test_no_offset(name: str) -> None:
    assert offset_of(name) is None


@pytest.mark.parametrize("name", ["", "007", "+7", "-1", " 7", str(INT_MAX + 1), "9" * 10, "9" * 5000, "²", "٧", "x"])
def test_no_queue(name: str) -> None:
    assert queue_id_of(name) is None


@pytest.mark.parametrize(
    ("name", "lawful"), [("20261124030000123", True), ("2026112403000012", False), ("20261124030000x23", False)]
)
def test_index_names(name: str, lawful: bool) -> None:
    assert is_index_name(name) is lawful
