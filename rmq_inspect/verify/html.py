"""The report as one HTML file that needs nothing else: a picture of the store's files with their damage, and every finding.

A bar for each file: what is used of it, and a mark where something is wrong.  Of many files those with damage come first.
Everything that comes from the store is escaped; no script, nothing is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rmq_columns.checks.findings import NOWHERE, Finding
from rmq_columns.checks.kinds import KINDS, Severity, remedy_of
from rmq_columns.decode.scan import Ending
from rmq_columns.page import safe
from rmq_inspect.times import bytes_text, text_of
from rmq_inspect.verify.report import Report, by_kind, summary, where

BARS_MAX: Final = 300
"""Files drawn of each kind."""
TOPICS_MAX: Final = 50
WIDTH: Final = 1000
"""Of a bar, in units of the picture."""
_KINDS: Final = {
    "commit log": "Commit log",
    "consume queue": "Consume queues",
    "batch consume queue": "Batch consume queues",
    "index": "Index",
}
_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1d2433;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}code,td.place{font-family:ui-monospace,monospace;font-size:.86em}
.verdict{padding:.6rem 1rem;border-radius:.4rem;font-weight:600}.clean{background:#dff3e4;color:#12562a}
.dirty{background:#fde2e1;color:#7d1614}table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .6rem;
border-bottom:1px solid #e4e7ee;vertical-align:top;overflow-wrap:anywhere}th{font-weight:600}.error{color:#a3201c;font-weight:600}
.warning{color:#8a5a00;font-weight:600}svg{width:100%;height:14px;display:block}.bar td{border:0;padding:.1rem .6rem}
.bar td:first-child{width:24rem}.bar td:last-child{width:9rem;text-align:right;white-space:nowrap}p.rule{margin:.2rem 0 .2rem 0}
details{margin:.5rem 0}summary{cursor:pointer}
@media(prefers-color-scheme:dark){body{background:#14171f;color:#dde2ee}td,th{border-color:#2a3040}.clean{background:#123a20;
color:#b5ecc6}.dirty{background:#4a1513;color:#ffd2d0}.error{color:#ff8a85}.warning{color:#ffc766}}
"""


def page(report: Report) -> str:
    """The whole document."""
    return "".join(_page(report))


def _page(report: Report) -> Iterator[str]:
    errors, warnings = report.count(Severity.ERROR), report.count(Severity.WARNING)
    verdict = "Clean: nothing is wrong" if report.is_clean else f"{errors} errors, {warnings} warnings"
    yield f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Store {safe(report.root)}</title>'
    yield '<meta name="viewport" content="width=device-width,initial-scale=1">'
    yield f"<style>{_STYLE}</style></head><body><h1>Store <code>{safe(report.root)}</code></h1>"
    yield f'<p class="verdict {"clean" if report.is_clean else "dirty"}">{verdict}</p><p>{safe(summary(report))}</p>'
    if report.notes:
        yield "<ul>" + "".join(f"<li>{safe(note)}</li>" for note in report.notes) + "</ul>"
    yield from _findings(report)
    yield from _picture(report)
    yield from _log(report)
    yield from _topics(report)
    yield "</body></html>\n"


def _findings(report: Report) -> Iterator[str]:
    hidden = {(code, file): times for code, file, times in report.findings.hidden()}
    for code, found in by_kind(report).items():
        kind = KINDS[code]
        remedy = remedy_of(code, report.log_is_whole)
        yield f'<h2><span class="{kind.severity}">{kind.severity}</span> {safe(kind.title)} <code>{code}</code></h2>'
        yield f'<p class="rule"><b>Consequence.</b> {safe(kind.consequence)}</p>'
        yield f'<p class="rule"><b>Remedy.</b> {safe(remedy)}</p><table><tr><th>Where</th><th>What</th></tr>'
        for one in found:
            yield f'<tr><td class="place">{safe(where(one))}</td><td>{safe(one.detail)}</td></tr>'
        for file in dict.fromkeys(one.file for one in found):
            if times := hidden.get((code, file)):
                yield f'<tr><td class="place">{safe(file)}</td><td>and {times} more</td></tr>'
        yield "</table>"


def _picture(report: Report) -> Iterator[str]:
    marks: dict[str, list[Finding]] = {}
    for one in report.listed():
        marks.setdefault(one.file, []).append(one)
    used = {one.name: one.size if one.how is Ending.BLANK else one.end_at for one in report.log}
    for kind, title in _KINDS.items():
        files = [(name, size) for name, size, its_kind in report.files if its_kind == kind]
        if not files:
            continue
        drawn = sorted(files, key=lambda file: file[0] not in marks)[:BARS_MAX]
        drawn.sort()
        yield f"<h2>{title}</h2>"
        if len(drawn) < len(files):
            yield f"<p>{len(drawn)} of {len(files)} files, those with findings first.</p>"
        yield '<table class="bar">'
        for name, size in drawn:
            bar = _bar(size, used.get(name, size), marks.get(name, []))
            yield f'<tr><td class="place">{safe(name)}</td><td>{bar}</td><td>{bytes_text(size)}</td></tr>'
        yield "</table>"


def _bar(size: int, used: int, found: list[Finding]) -> str:
    """Grey: room; blue or red edge: used, and whether something is wrong with the file as a whole; marks where it is."""
    scale = WIDTH / max(size, 1)
    whole = any(one.offset == NOWHERE for one in found)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} 14" preserveAspectRatio="none" role="img">',
        f'<rect width="{WIDTH}" height="14" fill="#c9cfdb"/>',
        f'<rect width="{used * scale:.1f}" height="14" fill="{"#d9534f" if whole else "#5b8def"}"/>',
    ]
    for one in found:
        if one.offset != NOWHERE:
            color = "#a30f0b" if one.kind.severity is Severity.ERROR else "#e6a100"
            at = min(max(one.offset * scale, 0), WIDTH - 4)
            parts.append(f'<rect x="{at:.1f}" width="4" height="14" fill="{color}"><title>{safe(one.detail)}</title></rect>')
    return "".join(parts) + "</svg>"


def _log(report: Report) -> Iterator[str]:
    if not report.log:
        return
    yield "<h2>Log files</h2><details><summary>Messages and times</summary><table>"
    yield "<tr><th>File</th><th>Messages</th><th>First stored</th><th>Last stored</th><th>Ends</th></tr>"
    for one in report.log[:BARS_MAX]:
        times = [text_of(ms) if ms >= 0 else "" for ms in (one.first_timestamp, one.last_timestamp)]
        yield f'<tr><td class="place">{safe(one.name)}</td><td>{one.units}</td><td>{times[0]}</td><td>{times[1]}</td>'
        yield f"<td>{one.how} at {one.end_at}</td></tr>"
    yield "</table></details>"


def _topics(report: Report) -> Iterator[str]:
    if not report.topics:
        return
    yield "<h2>Topics</h2><details><summary>Messages in the log</summary><table><tr><th>Topic</th><th>Messages</th></tr>"
    for topic, count in sorted(report.topics.items(), key=lambda pair: -pair[1])[:TOPICS_MAX]:
        yield f"<tr><td>{safe(topic)}</td><td>{count}</td></tr>"
    yield "</table></details>"
