"""No request keeps everybody else waiting for longer because a table is larger: each code's longest piece, in lines of Python.

The cases are those of `bench.pieces`, which measures them in milliseconds; a line is the same on every machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bench.piece_cases import cases
from bench.piece_worlds import World, broker, name_server
from bench.pieces import measured
from broker_impl.engine.body_limits import BODY_BYTES_MAX, SMALL_BYTES_MAX
from tests.support.lines import lines_of

FEW, MANY = 150, 600
"""Rows of every table."""
FRAME_BYTES: Final = 8 << 10
GROWTH_MAX: Final = 1.3
"""Of the longest piece, with four times the rows."""
LINES_MAX: Final = 2_400
"""A piece of so many is short, grown or not: less than a millisecond."""
WHOLE: Final = {
    ("namesrv", 100): "CHARACTERS_MAX",
    ("namesrv", 102): "CHARACTERS_MAX",
    ("namesrv", 103): "ROWS_PER_LINK_MAX",
    ("namesrv", 104): "ROWS_PER_LINK_MAX",
    ("namesrv", 105): "BROKERS_MAX",
    ("namesrv", 106): "BROKERS_MAX",
    ("namesrv", 205): "ROWS_PER_LINK_MAX",
    ("namesrv", 216): "BROKERS_MAX",
    ("namesrv", 304): "BROKERS_MAX",
    ("namesrv", 311): "BROKERS_MAX",
    ("namesrv", 312): "BROKERS_MAX",
    ("namesrv", 313): "BROKERS_MAX",
    ("namesrv", 327): "ROWS_PER_LINK_MAX",
    ("broker", 18): "TOPICS_PER_REQUEST_MAX",
    ("broker", 34): "GROUPS_PER_CONNECTION_MAX",
    ("broker", 41): "QUEUES_PER_REQUEST_MAX",
    ("broker", 42): "QUEUES_PER_REQUEST_MAX",
    ("broker", 215): "topics_max",
    ("broker", 222): "ORDERED_MAX",
    ("broker", 225): "GROUPS_PER_REQUEST_MAX",
    ("broker", 320): "UNITS_MAX",
}
"""Codes that do something at once, by the limit that bounds it (docs/limits.md)."""


def longest(world: World) -> dict[tuple[str, int, str], float]:
    """Of each case; one that should be answered with 0 has to be, for what is refused costs nothing."""
    found = {}
    try:
        for case in cases(world):
            if not case.what.startswith(("a header", "a body", "1,500")):
                cost = measured(case, world, lambda work: float(lines_of(work)))
                assert case.answered != 0 or cost.code == 0, case
                found[case.server, case.code, case.what] = cost.worst
    finally:
        world.close()
    return found


@pytest.mark.parametrize("make", [name_server, broker])
def test_pieces_do_not_grow_with_the_tables(tmp_path: Path, make: Callable[[Path, int, int], World]) -> None:
    few = longest(make(tmp_path / "few", FEW, FRAME_BYTES))
    many = longest(make(tmp_path / "many", MANY, FRAME_BYTES))
    grown = {case: (few[case], lines) for case, lines in many.items() if lines > max(LINES_MAX, GROWTH_MAX * few[case])}
    assert {case: lines for case, lines in grown.items() if case[:2] not in WHOLE} == {}


def test_a_crowd_hears_who_is_gone_in_slices(tmp_path: Path) -> None:
    """Each member of each group was notified at once: a client in 1,536 groups of ten kept everybody else waiting for 60 ms."""

    def worst(rows: int) -> float:
        world = broker(tmp_path / str(rows), rows, FRAME_BYTES)
        try:
            [case] = [case for case in cases(world) if case.what == "into a crowd, goes away"]
            return measured(case, world, lambda work: float(lines_of(work))).worst
        finally:
            world.close()

    assert worst(MANY) < GROWTH_MAX * worst(FEW)


def test_limits_are_in_the_document() -> None:
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| body \| ([\d,]+) bytes", text, re.MULTILINE))
    assert {int(code): int(limit.replace(",", "")) for code, limit in rows.items()} == {
        int(code): limit for code, limit in BODY_BYTES_MAX.items()
    }
    assert f"{SMALL_BYTES_MAX:,} bytes" in text
    for (_server, code), limit in WHOLE.items():
        assert re.search(rf"^\| [\d, ]*\b{code}\b[\d, ]* \| `{limit}`", text, re.MULTILINE), (code, limit)
