"""The outcome of a job as one HTML file: verdict, figures, plots, the worst rows, notes, and what was looked at how."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rmq_columns.page import bars, head, lines, safe, table
from rmq_columns.shown import Zone
from rmq_spark.outcome import Outcome, Plot, Unit
from rmq_spark.report_values import heading, text


def page(outcome: Outcome, about: Sequence[tuple[str, str]]) -> str:
    """The whole document.  about: what was run, name and text each; the first is what the heading names."""
    return "\n".join(_page(outcome, about))


def _page(outcome: Outcome, about: Sequence[tuple[str, str]]) -> Iterator[str]:
    subject = about[0][1] if about else ""
    yield head(f"{outcome.job} {subject}", f"{outcome.job}: {subject}")
    yield f"<p class='verdict {'clean' if outcome.is_clean else 'dirty'}'>{safe(outcome.verdict)}</p>"
    if outcome.figures:
        yield table(("", ""), [(one.label, text(one.value, one.unit, outcome.zone)) for one in outcome.figures])
    for plot in outcome.plots:
        yield f"<h2>{safe(plot.title)}</h2>{_plot(plot, outcome.zone)}"
    for one in outcome.tables:
        yield f"<h2>{safe(one.title)}</h2>"
        rows = [
            [text(cell, column.unit, outcome.zone, says_zone=False) for cell, column in zip(row, one.columns, strict=True)]
            for row in one.rows
        ]
        texts = [column.unit is Unit.TEXT for column in one.columns]
        yield (
            table([heading(column, outcome.zone) for column in one.columns], rows, one.total, texts)
            if rows
            else "<p class=soft>none</p>"
        )
    if outcome.notes:
        yield "<h2>Notes</h2><ul>" + "".join(f"<li>{safe(note)}" for note in outcome.notes) + "</ul>"
    yield "<h2>How</h2>" + table(("", ""), about, texts=(False, True))
    yield "</html>\n"


def _plot(plot: Plot, zone: Zone) -> str:
    if plot.bars or not plot.series:
        return bars([(name, value, text(value, plot.y_unit, zone)) for name, value in plot.bars])
    return lines(
        plot.series, lambda x: text(x, plot.x_unit, zone, says_zone=False), lambda y: text(y, plot.y_unit, zone), plot.step
    )
