"""Times, durations and sizes as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmq_columns.read.options import parse_options
from rmq_columns.shown import UNIT_MS
from rmq_columns.times_and_sizes import duration_ms, size_bytes, time_ms

NOW_MS = 1_763_000_000_000


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("1.5m", 90_000),
        (" 2 H ", 7_200_000),
        ("1d", 86_400_000),
        ("1w", 604_800_000),
        ("0", 0),
        (0, 0),
        (1500, 1500),
        (2.0, 2),
        (timedelta(seconds=3), 3000),
    ],
)
def test_durations(value: Any, ms: int) -> None:
    assert duration_ms(value) == ms


@pytest.mark.parametrize("value", ["90", "", "s", "1h30m", "-1s", -1, True, float("nan"), float("inf"), timedelta(-1), None])
def test_what_is_no_duration(value: Any) -> None:
    """A bare number could be seconds as well."""
    with pytest.raises(ValueError, match="is no duration: give 500ms, 90s, 10m, 2h or 1d"):
        duration_ms(value)


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNIT_MS)))
def test_a_duration_is_its_number_in_its_unit(number: int, unit: str) -> None:
    assert duration_ms(f"{number}{unit}") == number * UNIT_MS[unit] == NOW_MS - time_ms(f"-{number}{unit}", NOW_MS)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("1KiB", 1024),
        ("2GB", 2 << 30),
        ("1.5mib", 3 << 19),
        ("64 MB", 64 << 20),
        ("256m", 256 << 20),
        ("1g", 1 << 30),
        ("1gb", 1 << 30),
        ("2T", 2 << 40),
        ("7b", 7),
        (4096, 4096),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    assert size_bytes(text) == size
    assert parse_options({"path": "x", "splitBytes": text}).split_bytes == size, "the same of the format's options"


@pytest.mark.parametrize("value", ["big", "", "1 2", "-1", "1kk", True, None])
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(ValueError, match="is no size: give 64MiB"):
        size_bytes(value)


def test_times() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert time_ms(moment, NOW_MS) == time_ms("2026-01-31 12:00:00+02:00", NOW_MS) == 1_769_853_600_000
    assert time_ms("2026-01-31 10:00", NOW_MS, UTC) == 1_769_853_600_000
    assert (time_ms("now", NOW_MS), time_ms(7, NOW_MS), time_ms("1700000000000", NOW_MS)) == (NOW_MS, 7, 1_700_000_000_000)


@pytest.mark.parametrize("value", ["then", "", "90", "-90", True])
def test_what_is_no_time(value: Any) -> None:
    with pytest.raises(ValueError, match="is no time: give now, -90m"):
        time_ms(value, NOW_MS)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="without its zone"):
        time_ms(datetime(2026, 1, 31), NOW_MS)
