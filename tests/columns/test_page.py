"""Pieces of a page: long names do not make it scroll, and no line is drawn over a time in which there was nothing."""

from __future__ import annotations

import re

from rmq_columns.page import POINTS_MAX, STYLE, lines

LONG = "t" * 127


def drawn(points: list[tuple[float, float]], step: float | None) -> tuple[int, int]:
    """Lines of more points than one, and dots."""
    made = lines({"a": points}, str, str, step)
    places = re.findall(r"<polyline points='([^']*)'", made)
    return sum(" " in one for one in places), made.count("<circle")


def test_lines_are_cut_where_nothing_was() -> None:
    points = [(0.0, 1.0), (10.0, 2.0), (20.0, 1.0), (90.0, 5.0), (100.0, 5.0), (200.0, 1.0)]
    assert drawn(points, 10) == (2, 1)
    assert drawn(points, None) == (1, 0)
    assert drawn(points, 100) == (1, 0)
    assert drawn(points[:1], 10) == (0, 1)
    many = [(float(at), 1.0) for at in range(3 * POINTS_MAX)]
    assert drawn(many, 1) == (1, 0), "of many points not every one is drawn"
    assert drawn(many[: 2 * POINTS_MAX] + [(x + 500, y) for x, y in many[2 * POINTS_MAX :]], 1) == (2, 0)


def test_a_legend_of_long_names_is_broken_into_lines() -> None:
    made = lines({LONG: [(0, 1), (1, 2)], "b": [(0, 1)]}, str, str)
    [legend] = re.findall(r"<(p|li)[^>]*>[^/]*■", made)
    rule = re.search(r"([^}]*)\{overflow-wrap:anywhere\}", STYLE)
    assert rule is not None
    assert legend in rule[1].strip().split(",")
