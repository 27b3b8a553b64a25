"""The counts as one page: no script, no network, plots as inline SVG, readable in light and dark and on paper."""

from __future__ import annotations

from rmq_columns.page import MARGIN, PLOT_HEIGHT, PLOT_WIDTH, bars, head, picture, safe, table
from rmq_inspect.explain.stats import Stats
from rmq_inspect.times import bytes_text, short_text_of, span_text, text_of, zone_text


def page(stats: Stats, title: str) -> str:
    """The whole document."""
    total = stats.total
    span = span_text(max(total.last_ms - total.first_ms, 0)) if total.messages else "none"
    facts = (
        ("messages", f"{total.messages:,}"),
        ("bytes", bytes_text(total.bytes)),
        ("log", f"{stats.log_start:,} to {stats.log_end:,}"),
        ("stored", f"{text_of(total.first_ms)} to {text_of(total.last_ms)} ({span})" if total.messages else "nothing"),
        ("with tags", f"{stats.with_tags:,}"),
        ("with keys", f"{stats.with_keys:,} ({stats.keys:,} keys)"),
        *(
            (
                f"{kind}, still to come",
                f"{one.messages:,}" + (f", next {text_of(one.first_due_ms)}" if one.first_due_ms >= 0 else ""),
            )
            for kind, one in stats.still_to_come.items()
        ),
        ("spoilt", f"{stats.spoilt:,} stretches, {bytes_text(stats.spoilt_bytes)}"),
    )
    parts = [
        head(title, f"Store {title}"),
        table(("", ""), facts),
        f"<h2>Messages over time</h2><p class=soft>per {span_text(stats.buckets.width_ms)}, times {zone_text()}</p>",
        _rates(stats),
        f"<h2>Topics by bytes</h2>{bars([(name, one.bytes, bytes_text(one.bytes)) for name, one in stats.by_size()])}",
        _topics(stats),
        "<h2>Sizes of message units</h2>",
        bars([(f"up to {bytes_text(1 << power)}", count, f"{count:,}") for power, count in sorted(stats.sizes.items())]),
        "<h2>Tags</h2>",
        bars([(tag, count, f"{count:,}") for tag, count in sorted(stats.tags.items(), key=lambda p: -p[1])]),
        "<h2>Files</h2>",
        table(
            ("kind", "files", "length", "on disk"),
            [(kind, f"{f['files']:,}", bytes_text(f["bytes"]), bytes_text(f["allocated"])) for kind, f in stats.files.items()],
        ),
        "</html>\n",
    ]
    return "\n".join(parts)


def _topics(stats: Stats) -> str:
    queues: dict[str, int] = {}
    for topic, _ in stats.queues:
        queues[topic] = queues.get(topic, 0) + 1
    rows = [
        (name, f"{queues.get(name, 0):,}", f"{one.messages:,}", bytes_text(one.bytes), short_text_of(one.last_ms))
        for name, one in stats.by_size()
    ]
    return table(("topic", "queues", "messages", "bytes", "last stored"), rows, texts=(True,))


def _rates(stats: Stats) -> str:
    rows = stats.buckets.rows()
    if not rows:
        return "<p class=soft>none</p>"
    top = max(count for _, count, _ in rows)
    step = (PLOT_WIDTH - MARGIN) / len(rows)
    drawn = []
    for at, (begin, count, size) in enumerate(rows):
        high = (PLOT_HEIGHT - 30) * count / top
        title = f"{short_text_of(begin)}: {count:,} messages, {bytes_text(size)}"
        where = f"x={MARGIN + at * step:.1f} y={PLOT_HEIGHT - 20 - high:.1f} width={max(step - 0.5, 0.5):.1f} height={high:.1f}"
        drawn.append(f"<rect class=mark {where}><title>{safe(title)}</title></rect>")
    base = PLOT_HEIGHT - 20
    end = rows[-1][0] + stats.buckets.width_ms
    axis = (
        f"<line class=axis x1={MARGIN} y1={base} x2={PLOT_WIDTH} y2={base} />"
        f"<text x=0 y=14>{top:,}</text><text x=0 y={base}>0</text>"
        f"<text x={MARGIN} y={PLOT_HEIGHT - 4}>{short_text_of(rows[0][0])}</text>"
        f"<text x={PLOT_WIDTH} y={PLOT_HEIGHT - 4} text-anchor=end>{short_text_of(end)}</text>"
    )
    return picture(PLOT_HEIGHT, [*drawn, axis])
