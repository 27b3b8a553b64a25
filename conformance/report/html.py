"""Runs as one HTML file: the matrix of cases x subjects, and for each case that did not pass its checks and frames."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from conformance.report.text import matrix_lines
from conformance.results import PASSED, SKIPPED, CaseTold, FrameTold, Run, rows

_STYLE: Final = """
body{font:14px system-ui,sans-serif;margin:2em} table{border-collapse:collapse} td,th{border:1px solid #ccc;padding:.2em .6em;
text-align:left} .passed{background:#dfd} .failed,.error{background:#fdd} .skipped{color:#888}
pre{background:#f6f6f6;padding:.6em}
"""


def write_html(results: list[Run], path: Path) -> None:
    """Write the runs to a file that needs nothing else; its directory is made.  Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(results), encoding="utf-8")


def page(results: Sequence[Run]) -> str:
    """The document."""
    labels = [run.target.label for run in results]
    table = ["<table><tr><th>case</th>", *(f"<th>{escape(label)}</th>" for label in labels), "</tr>"]
    for id, told in rows(results).items():
        title = next(iter(told.values())).title
        table.append(f"<tr><td title='{escape(title, quote=True)}'>{escape(id)}</td>")
        table += [_cell(told.get(label)) for label in labels]
        table.append("</tr>")
    details = [_details(run, case) for run in results for case in run.cases if case.outcome not in (PASSED, SKIPPED)]
    head = f"<!doctype html><meta charset=utf-8><title>RocketMQ conformance</title><style>{_STYLE}</style>"
    summary = escape("\n".join(matrix_lines(results)))
    return "\n".join([head, "<h1>RocketMQ conformance</h1>", f"<pre>{summary}</pre>", *table, "</table>", *details])


def _cell(case: CaseTold | None) -> str:
    if case is None:
        return "<td></td>"
    foretold = " (expected)" if case.expected == case.outcome else ""
    return f"<td class='{case.outcome}' title='{escape(case.why, quote=True)}'>{case.outcome}{foretold}</td>"


def _details(run: Run, case: CaseTold) -> str:
    checks = [
        f"{'ok  ' if check.holds else 'FAIL'} {check.what}: expected {check.expected}, seen {check.seen}" for check in case.checks
    ]
    frames = [_frame(frame) for frame in case.frames]
    text = escape("\n".join([case.why, case.reason, "", *checks, "", *frames, case.trace]).strip())
    title = escape(f"{run.target.label}: {case.id}: {case.title}")
    return f"<details><summary>{title}</summary><pre>{text}</pre></details>"


def _frame(frame: FrameTold) -> str:
    way = "->" if frame.to_server else "<-"
    fields = " ".join(f"{name}={value}" for name, value in frame.fields.items())
    words = [f"{frame.at_s:9.4f} {frame.connection} {way} {frame.kind}", str(frame.code or ""), frame.code_name, fields]
    return " ".join(filter(None, [*words, frame.remark or "", frame.body, frame.note]))
