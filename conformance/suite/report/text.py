"""Runs as lines for a terminal: what did not come as it should, and the matrix of capabilities x subjects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from conformance.suite.results import ERROR, FAILED, NOT_RUN, OUTCOMES, PASSED, SKIPPED, CaseResult, Run

LEVELS: Final = ("must", "should", "info", "quirk")
SEEN_CHARACTERS_MAX: Final = 160
"""Of an expected or seen value in a line."""
_SIGNS: Final = {PASSED: "passed", FAILED: "FAILED", SKIPPED: "skipped", ERROR: "ERROR", NOT_RUN: "not run"}


def run_lines(run: Run, *, all_known: bool = True) -> list[str]:
    """One run: whom it asked, every case that did not pass, and how many of each level did.

    all_known: those that failed as expected one by one, too, and not only how many there are of each cause.
    """
    target = run.target
    version = f", held to {target.version}" if target.version else ""
    lines = [f"{target.label}: broker {target.broker}, name server {target.namesrv}{version}"]
    for case in run.cases:
        if case.outcome in (FAILED, ERROR) and (all_known or not case.as_expected):
            lines += case_lines(case)
        elif case.outcome == PASSED and not case.as_expected:
            lines.append(f"  passed, though expected to fail  {case.id}: {case.reason}")
    skipped = [case for case in run.cases if case.outcome == SKIPPED]
    for why in sorted({case.why for case in skipped}):
        lines.append(f"  {sum(case.why == why for case in skipped)} skipped: {why}")
    lines += [f"  {line}" for line in _counts(run)]
    lines.append(f"  {len(run.cases)} cases in {run.seconds:.1f} s, seed {run.seed}")
    if run.ended:
        lines.append(f"  stopped early: {run.ended}; {run.count(NOT_RUN)} cases were not run")
    if known := run.known:
        lines += ["  known, by cause:", *(f"  {count:6}  {_short(cause)}" for cause, count in known.items())]
    lines.append(f"  {run.expectation_line}")
    return lines


def case_lines(case: CaseResult) -> list[str]:
    """A case that did not pass: which, and the check that did not hold."""
    note = f"  (expected: {case.reason})" if case.expected == case.outcome else ""
    lines = [f"  {_SIGNS[case.outcome]} {case.level:6} {case.id}{note}"]
    failing = next((check for check in case.checks if not check.holds), None)
    if case.outcome == FAILED and failing is not None:
        lines.append(f"      {_short(failing.what)}")
        if failing.expected or failing.seen:
            lines.append(f"      expected {_short(failing.expected)}, seen {_short(failing.seen)}")
        if case.why and case.why != failing.what:
            lines.append(f"      {_short(case.why)}")
    else:
        lines.append(f"      {_short(case.why)}")
    return lines


def _counts(run: Run) -> list[str]:
    outcomes = [outcome for outcome in OUTCOMES if run.count(outcome)]
    rows = [["", *outcomes, "all"]]
    for level in LEVELS:
        total = sum(case.level == level for case in run.cases)
        if total:
            rows.append([level, *(str(run.count(outcome, level) or "") for outcome in outcomes), str(total)])
    return _table(rows)


def matrix_lines(runs: Sequence[Run]) -> list[str]:
    """Capabilities x subjects: passed of judged cases; a mark where something failed."""
    capabilities = sorted({case.capability for run in runs for case in run.cases})
    rows = [["", *(run.target.label for run in runs)]]
    for capability in capabilities:
        rows.append([capability, *(_cell(case for case in run.cases if case.capability == capability) for run in runs)])
    rows.append(["all", *(_cell(run.cases) for run in runs)])
    return _table(rows)


def _cell(cases: Iterable[CaseResult]) -> str:
    judged = [case for case in cases if case.outcome != SKIPPED]
    if not judged:
        return "-"
    passed = sum(case.outcome == PASSED for case in judged)
    surprises = sum(not case.as_expected for case in judged)
    return f"{passed}/{len(judged)}" + (f" !{surprises}" if surprises else "")


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return lines


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SEEN_CHARACTERS_MAX else f"{line[:SEEN_CHARACTERS_MAX]}…"
