"""The counts as one page: no script, no network, plots as inline SVG, readable in light and dark and on paper."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Final

from rmq_inspect.records import printable
from rmq_inspect.stats import Stats
from rmq_inspect.times import bytes_text, short_text_of, span_text, text_of, zone_text

PLOT_WIDTH, PLOT_HEIGHT, MARGIN = 860, 180, 46
BARS_MAX: Final = 20
ROWS_MAX: Final = 500
"""Rows of a table: the page stays small whatever the store has."""
STYLE: Final = """
:root{--ink:#1c2430;--soft:#5b6675;--line:#d8dde4;--mark:#2f6fb2;--page:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa5b4;--line:#39424f;--mark:#6ea8e0;--page:#14181e}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:920px;margin:2em auto;padding:0 1em}
h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}table{border-collapse:collapse;width:100%}
td,th{padding:.15em .6em;text-align:right;border-bottom:1px solid var(--line)}td:first-child,th:first-child{text-align:left}
th{color:var(--soft);font-weight:normal}svg{width:100%;height:auto}svg text{fill:var(--soft);font-size:11px}
.mark{fill:var(--mark)}.axis{stroke:var(--line)}.soft{color:var(--soft)}
"""


def page(stats: Stats, title: str) -> str:
    """The whole document."""
    total = stats.total
    span = span_text(max(total.last_ms - total.first_ms, 0)) if total.messages else "none"
    facts = (
        ("messages", f"{total.messages:,}"), ("bytes", bytes_text(total.bytes)),
        ("log", f"{stats.log_start:,} to {stats.log_end:,}"),
        ("stored", f"{text_of(total.first_ms)} to {text_of(total.last_ms)} ({span})" if total.messages else "nothing"),
        ("with tags", f"{stats.with_tags:,}"), ("with keys", f"{stats.with_keys:,} ({stats.keys:,} keys)"),
        ("spoilt", f"{stats.spoilt:,} stretches, {bytes_text(stats.spoilt_bytes)}"),
    )  # fmt: skip
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{_text(title)}</title><style>{STYLE}</style><h1>Store {_text(title)}</h1>",
        _table(("", ""), facts),
        f"<h2>Messages over time</h2><p class=soft>per {span_text(stats.buckets.width_ms)}, times {zone_text()}</p>",
        _rates(stats),
        f"<h2>Topics by bytes</h2>{_bars([(name, one.bytes, bytes_text(one.bytes)) for name, one in stats.by_size()])}",
        _topics(stats),
        "<h2>Sizes of message units</h2>",
        _bars([(f"up to {bytes_text(1 << power)}", count, f"{count:,}") for power, count in sorted(stats.sizes.items())]),
        "<h2>Tags</h2>",
        _bars([(tag, count, f"{count:,}") for tag, count in sorted(stats.tags.items(), key=lambda p: -p[1])]),
        "<h2>Files</h2>",
        _table(
            ("kind", "files", "length", "on disk"),
            [(kind, f"{f['files']:,}", bytes_text(f["bytes"]), bytes_text(f["allocated"])) for kind, f in stats.files.items()],
        ),
        "</html>\n",
    ]
    return "\n".join(parts)


def _text(text: str) -> str:
    return html.escape(printable(text.encode("utf-8", "backslashreplace").decode()))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["<table>"]
    if any(head):
        lines.append("<tr>" + "".join(f"<th>{_text(cell)}" for cell in head))
    lines += ["<tr>" + "".join(f"<td>{_text(cell)}" for cell in row) for row in rows[:ROWS_MAX]]
    more = f"<p class=soft>and {len(rows) - ROWS_MAX:,} more</p>" if len(rows) > ROWS_MAX else ""
    return "".join(lines) + "</table>" + more


def _topics(stats: Stats) -> str:
    queues: dict[str, int] = {}
    for topic, _ in stats.queues:
        queues[topic] = queues.get(topic, 0) + 1
    rows = [
        (name, f"{queues.get(name, 0):,}", f"{one.messages:,}", bytes_text(one.bytes), short_text_of(one.last_ms))
        for name, one in stats.by_size()
    ]
    return _table(("topic", "queues", "messages", "bytes", "last stored"), rows)


def _rates(stats: Stats) -> str:
    rows = stats.buckets.rows()
    if not rows:
        return "<p class=soft>none</p>"
    top = max(count for _, count, _ in rows)
    step = (PLOT_WIDTH - MARGIN) / len(rows)
    bars = []
    for at, (begin, count, size) in enumerate(rows):
        high = (PLOT_HEIGHT - 30) * count / top
        title = f"{short_text_of(begin)}: {count:,} messages, {bytes_text(size)}"
        where = f"x={MARGIN + at * step:.1f} y={PLOT_HEIGHT - 20 - high:.1f} width={max(step - 0.5, 0.5):.1f} height={high:.1f}"
        bars.append(f"<rect class=mark {where}><title>{_text(title)}</title></rect>")
    base = PLOT_HEIGHT - 20
    end = rows[-1][0] + stats.buckets.width_ms
    axis = (
        f"<line class=axis x1={MARGIN} y1={base} x2={PLOT_WIDTH} y2={base} />"
        f"<text x=0 y=14>{top:,}</text><text x=0 y={base}>0</text>"
        f"<text x={MARGIN} y={PLOT_HEIGHT - 4}>{short_text_of(rows[0][0])}</text>"
        f"<text x={PLOT_WIDTH} y={PLOT_HEIGHT - 4} text-anchor=end>{short_text_of(end)}</text>"
    )
    return f"<svg viewBox='0 0 {PLOT_WIDTH} {PLOT_HEIGHT}' role=img>{''.join(bars)}{axis}</svg>"


def _bars(rows: Sequence[tuple[str, int, str]]) -> str:
    """Horizontal bars, name before and value behind."""
    shown = list(rows[:BARS_MAX])
    if not shown:
        return "<p class=soft>none</p>"
    top = max(value for _, value, _ in shown) or 1
    lines = []
    for at, (name, value, text) in enumerate(shown):
        y, wide = 20 * at, 480 * value / top
        cut = name if len(name) <= 34 else name[:33] + "…"
        lines.append(
            f"<text x=230 y={y + 14} text-anchor=end>{_text(cut)}</text>"
            f"<rect class=mark x=240 y={y + 3} width={wide:.1f} height=14 />"
            f"<text x={246 + wide:.1f} y={y + 14}>{_text(text)}</text>"
        )
    more = f"<p class=soft>and {len(rows) - BARS_MAX:,} more</p>" if len(rows) > BARS_MAX else ""
    return f"<svg viewBox='0 0 {PLOT_WIDTH} {20 * len(shown) + 6}' role=img>{''.join(lines)}</svg>{more}"
