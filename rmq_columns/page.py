"""Pieces of a report that is one HTML file: no script, no network, plots as inline SVG, readable in light and dark.

Whatever comes from a store is escaped by `safe`; the functions here do it themselves with every text that they are given.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rmq_columns.shown import printable

PLOT_WIDTH, PLOT_HEIGHT, MARGIN = 860, 180, 46
BARS_MAX: Final = 20
ROWS_MAX: Final = 500
"""Rows of a table: the page stays small whatever the store has."""
SERIES_MAX: Final = 6
"""Lines in one plot: as many as there are colours."""
POINTS_MAX: Final = 2000
"""Drawn of one line."""
TICKS: Final = 4
NAME_CHARACTERS: Final = 34
"""Of a bar's name."""
STYLE: Final = """
:root{--ink:#1c2430;--soft:#5b6675;--line:#d8dde4;--mark:#2f6fb2;--page:#fff;--good:#dff3e4;--good-ink:#12562a;--bad:#fde2e1;
--bad-ink:#7d1614;--s0:#2f6fb2;--s1:#c2571a;--s2:#2b8a57;--s3:#8b4fb5;--s4:#a08500;--s5:#b03060}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa5b4;--line:#39424f;--mark:#6ea8e0;--page:#14181e;--good:#123a20;
--good-ink:#b5ecc6;--bad:#4a1513;--bad-ink:#ffd2d0;--s0:#6ea8e0;--s1:#f0965c;--s2:#6cc794;--s3:#c59be6;--s4:#d8c04a;--s5:#ee84a8}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:920px;margin:2em auto;padding:0 1em}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}
td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid var(--line);vertical-align:top}
td:first-child,th:first-child{text-align:left}
h1,h2,p,li{overflow-wrap:anywhere}
td.text,th.text{text-align:left;overflow-wrap:anywhere;min-width:9em}.wide{overflow-x:auto}
th{color:var(--soft);font-weight:normal}svg{width:100%;min-width:620px;height:auto}svg text{fill:var(--soft);font-size:11px}
.mark{fill:var(--mark)}.axis{stroke:var(--line)}.soft{color:var(--soft)}
.verdict{padding:.6em 1em;border-radius:.4em;font-weight:600}
.clean{background:var(--good);color:var(--good-ink)}.dirty{background:var(--bad);color:var(--bad-ink)}polyline{fill:none;stroke-width:1.5}
"""
Shown = Callable[[float], str]
"""A number of a plot as text."""


def safe(text: str) -> str:
    """In HTML, whatever names and texts hold: control characters and broken Unicode are shown as escapes."""
    return html.escape(printable(text.encode("utf-8", "backslashreplace").decode()))


def head(title: str, heading: str) -> str:
    """The beginning of a document, its style with it; `</html>` ends it."""
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\n"
        f"<title>{safe(title)}</title><style>{STYLE}</style><h1>{safe(heading)}</h1>"
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None, texts: Sequence[bool] = ()) -> str:
    """Numbers to the right, the first column and those that `texts` says to the left.  total: of rows, where more exist."""
    left = [" class=text" if at < len(texts) and texts[at] else "" for at in range(len(titles))]
    lines = ["<div class=wide><table>"]
    if any(titles):
        lines.append(_row("th", titles, left))
    lines += [_row("td", row, left) for row in rows[:ROWS_MAX]]
    return "".join(lines) + "</table></div>" + _more((len(rows) if total is None else total) - min(len(rows), ROWS_MAX))


def _row(tag: str, row: Sequence[str], marks: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}{mark}>{safe(cell)}" for mark, cell in zip(marks, row, strict=True))


def bars(rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: name before, the value's text behind."""
    drawn = list(rows[:BARS_MAX])
    if not drawn:
        return "<p class=soft>none</p>"
    top = max((value for _, value, _ in drawn if math.isfinite(value)), default=0) or 1
    lines = []
    for at, (name, value, text) in enumerate(drawn):
        y, wide = 20 * at, min(max(480 * value / top, 0), 480) if math.isfinite(value) else 0
        cut = name if len(name) <= NAME_CHARACTERS else name[: NAME_CHARACTERS - 1] + "…"
        lines.append(
            f"<text x=230 y={y + 14} text-anchor=end>{safe(cut)}</text>"
            f"<rect class=mark x=240 y={y + 3} width={wide:.1f} height=14 />"
            f"<text x={246 + wide:.1f} y={y + 14}>{safe(text)}</text>"
        )
    return picture(20 * len(drawn) + 6, lines) + _more(len(rows) - len(drawn))


def lines(series: Mapping[str, Sequence[tuple[float, float]]], x_text: Shown, y_text: Shown, step: float | None = None) -> str:
    """One or more lines over the same axis, y from 0 (or below) up; points that are no finite numbers are left out.

    step: of x from a point to the next; where one is missing there is no line.
    """
    taken = {name: points for name, given in list(series.items())[:SERIES_MAX] if (points := list(_points(given)))}
    if not taken:
        return "<p class=soft>none</p>"
    every = [point for points in taken.values() for point in points]
    left, right = min(x for x, _ in every), max(x for x, _ in every)
    low, high = min(0.0, *(y for _, y in every)), max(0.0, *(y for _, y in every))
    across, up = (PLOT_WIDTH - 2 * MARGIN) / ((right - left) or 1), (PLOT_HEIGHT - 44) / ((high - low) or 1)
    base = PLOT_HEIGHT - 30
    parts = list(_axes((left, right), (low, high), x_text, y_text))
    for number, (name, points) in enumerate(taken.items()):
        places = [(2 * MARGIN + (x - left) * across, base - (y - low) * up) for x, y in points]
        apart = math.inf if step is None else 1.5 * step * _stride(len(series[name])) * across
        for run in _runs(places, apart):
            if len(run) == 1:
                parts.append(f"<circle cx={run[0][0]:.1f} cy={run[0][1]:.1f} r=3 style='fill:var(--s{number})' />")
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            parts.append(f"<polyline points='{path}' style='stroke:var(--s{number})'><title>{safe(name)}</title></polyline>")
    return picture(PLOT_HEIGHT, parts) + _legend(list(taken), len(series))


def picture(height: int, parts: Sequence[str]) -> str:
    """An SVG of the usual width; where there is no room for it, it can be moved."""
    return f"<div class=wide><svg viewBox='0 0 {PLOT_WIDTH} {height}' role=img>{''.join(parts)}</svg></div>"


def _points(given: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    return ((x, y) for x, y in sorted(given)[:: _stride(len(given))] if math.isfinite(x) and math.isfinite(y))


def _stride(count: int) -> int:
    """Of so many points every how manieth is drawn."""
    return max(math.ceil(count / POINTS_MAX), 1)


def _runs(places: Sequence[tuple[float, float]], apart: float) -> Iterator[Sequence[tuple[float, float]]]:
    """Cut where two are further apart than that."""
    begin = 0
    for at in range(1, len(places) + 1):
        if at == len(places) or places[at][0] - places[at - 1][0] > apart:
            yield places[begin:at]
            begin = at


def _axes(x: tuple[float, float], y: tuple[float, float], x_text: Shown, y_text: Shown) -> Iterator[str]:
    base, top = PLOT_HEIGHT - 30, 14
    for tick in range(TICKS + 1):
        share = tick / TICKS
        at = base - (base - top) * share
        yield f"<line class=axis x1={2 * MARGIN} y1={at:.1f} x2={PLOT_WIDTH} y2={at:.1f} />"
        if y[1] > y[0] or not tick:
            yield f"<text x={2 * MARGIN - 6} y={at + 4:.1f} text-anchor=end>{safe(y_text(y[0] + (y[1] - y[0]) * share))}</text>"
    yield f"<text x={2 * MARGIN} y={PLOT_HEIGHT - 12}>{safe(x_text(x[0]))}</text>"
    if x[1] > x[0]:
        yield f"<text x={PLOT_WIDTH} y={PLOT_HEIGHT - 12} text-anchor=end>{safe(x_text(x[1]))}</text>"


def _legend(names: Sequence[str], of: int) -> str:
    if of < 2:
        return ""
    marks = (f"<span style='color:var(--s{number})'>■</span> {safe(name)}" for number, name in enumerate(names))
    return f"<p class=soft>{' &ensp; '.join(marks)}</p>{_more(of - len(names))}"


def _more(count: int) -> str:
    return f"<p class=soft>and {count:,} more</p>" if count > 0 else ""
