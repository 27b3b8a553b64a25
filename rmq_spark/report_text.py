"""The summary of a job, for a terminal: the verdict first, then figures, the worst rows of each table, notes.

No line is longer than asked: wide texts of a table are cut, and a table that would still not fit becomes a sheet for each row,
of which there are few.  JSON and page have all rows of the outcome, `--out` everything.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from rmq_columns.shown import Zone, cells, fit, pad, printable
from rmq_spark.outcome import Outcome, Table, Unit
from rmq_spark.report_values import heading, is_left, text

GAP: Final = 2
"""Between columns."""
SHEETS_MAX: Final = 10
"""Rows that fit no line."""
CUT_TO_MIN: Final = 12
"""Characters that a cut text keeps."""


def lines(outcome: Outcome, width: int) -> Iterator[str]:
    """The whole summary; no line takes more than `width` columns."""
    yield from _wrapped(f"{outcome.job}: {outcome.verdict}", width, indent=0)
    if outcome.figures:
        yield ""
        yield from _figures(outcome, width)
    for table in outcome.tables:
        yield ""
        yield from _table(table, width, outcome.zone)
    if outcome.notes:
        yield ""
    for note in outcome.notes:
        yield from _wrapped(f"note: {note}", width, indent=2)


def _figures(outcome: Outcome, width: int) -> Iterator[str]:
    rows = [(printable(one.label), printable(text(one.value, one.unit, outcome.zone))) for one in outcome.figures]
    label = min(max(cells(row[0]) for row in rows), width // 2)
    value = min(max(cells(row[1]) for row in rows), width - label - 2 * GAP)
    for row in rows:
        shown = fit(row[1], value)
        yield f"{' ' * GAP}{pad(row[0], label)}{' ' * GAP}{' ' * (value - cells(shown))}{shown}"


def _table(table: Table, width: int, zone: Zone) -> Iterator[str]:
    if not table.rows:
        yield from _wrapped(f"{table.title}: none", width, indent=0)
        return
    titles = [printable(heading(column, zone)) for column in table.columns]
    rows = [
        [printable(text(cell, column.unit, zone, says_zone=False)) for cell, column in zip(row, table.columns, strict=True)]
        for row in table.rows
    ]
    left = [is_left(column) for column in table.columns]
    wide = _widths([titles, *rows], [column.unit is Unit.TEXT for column in table.columns], width)
    if wide is None:
        rows = rows[:SHEETS_MAX]
    shown = f", {len(rows):,} of {table.total:,} shown" if len(rows) < table.total else ""
    yield from _wrapped(f"{table.title}{shown}", width, indent=0)
    if wide is None:
        for row in rows:
            yield from _sheet(titles, row, width)
        return
    for line in (titles, *rows):
        yield _line(line, wide, left)


def _widths(rows: Sequence[Sequence[str]], may_be_cut: Sequence[bool], width: int) -> list[int] | None:
    """Of each column; texts give way, the widest first.  None: it cannot be done."""
    wide = [min(max(cells(row[at]) for row in rows), width) for at in range(len(may_be_cut))]
    texts = [at for at, gives in enumerate(may_be_cut) if gives]
    while sum(wide) + GAP * len(wide) > width:
        widest = max(texts, key=lambda at: wide[at], default=None)
        if widest is None or wide[widest] <= CUT_TO_MIN:
            return None
        wide[widest] -= 1
    return wide


def _line(row: Sequence[str], wide: Sequence[int], left: Sequence[bool]) -> str:
    made = []
    for cell, columns, to_left in zip(row, wide, left, strict=True):
        shown = fit(cell, columns)
        space = " " * (columns - cells(shown))
        made.append(shown + space if to_left else space + shown)
    return (" " * GAP + (" " * GAP).join(made)).rstrip()


def _sheet(titles: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    name = min(max(map(cells, titles)), width // 3)
    for at, (title, cell) in enumerate(zip(titles, row, strict=True)):
        yield f"{'- ' if not at else '  '}{pad(title, name)}  {fit(cell, width - name - 4)}".rstrip()


def _wrapped(line: str, width: int, indent: int) -> list[str]:
    return textwrap.wrap(printable(line), width, subsequent_indent=" " * indent, break_on_hyphens=False) or [""]
