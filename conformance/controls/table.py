"""The defect table: as lines for a terminal, and as a page for the documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.controls.defect import Defect
from conformance.controls.run import CAUGHT, NOT_CAUGHT, NOT_SHOWN, Controls, DefectResult
from conformance.suite.report.markdown import table

HEAD = """# Negative controls

A suite that passes proves little until it has been seen to fail. Here good servers are made bad on purpose: a relay in front of
name server and broker changes what passes, and copies of the store's files are spoiled. Each defect must be noticed by at least
one of the cases that are declared for it; these pass without it, through the same relay.

    rmq conform controls --jars 5.5.0 --json conformance/reports/controls-java-5.5.0.json
    rmq conform controls --ours --json conformance/reports/controls-ours.json

`make pages` writes this page from the declarations in `conformance/controls` and from those two files.
"""


def good_failures(results: Controls) -> list[str]:
    """A line for each case that failed without a defect."""
    return [f"{case.case} failed without a defect: {case.why}" for case in results.good_failures]


def lines(results: Iterable[DefectResult]) -> list[str]:
    """A line for each defect: its name, what came of it, and who noticed."""
    rows = list(results)
    width = max((len(row.name) for row in rows), default=0)
    return [f"{row.name:{width}}  {_outcome(row)}" for row in rows]


def _outcome(row: DefectResult) -> str:
    if row.outcome == CAUGHT:
        missed = f"  (not by {', '.join(row.overlooked_by)})" if row.overlooked_by else ""
        return f"caught by {', '.join(caught.case for caught in row.caught_by)}{missed}"
    if row.outcome == NOT_SHOWN:
        return f"not shown: {row.why}" if row.expected else f"NOT SHOWN: {row.why}"
    return f"NOT CAUGHT by {', '.join(row.overlooked_by)}"


def summary(results: Controls) -> str:
    """One line."""
    counts = {outcome: sum(row.outcome == outcome for row in results.defects) for outcome in (CAUGHT, NOT_CAUGHT, NOT_SHOWN)}
    shown = [f"{counts[CAUGHT]} caught", f"{counts[NOT_CAUGHT]} not caught"]
    if counts[NOT_SHOWN]:
        shown.append(f"{counts[NOT_SHOWN]} not shown")
    return f"{results.target.label}: {len(results.defects)} defects: {', '.join(shown)} in {results.seconds:.0f} s"


def document(declared: Sequence[Defect], runs: Sequence[Controls]) -> str:
    """The page, in Markdown: every declared defect by capability, and for each subject who noticed it."""
    found = [{row.name: row for row in run.defects} for run in runs]
    parts = [HEAD, *_subjects(runs), ""]
    for capability in sorted({one.capability for one in declared}):
        heads = ("defect", "the server …", *(run.target.label for run in runs))
        rows = (
            (f"`{one.name}`", one.wrong, *(_cell(of.get(one.name)) for of in found))
            for one in declared
            if one.capability == capability
        )
        parts += [f"## {capability}", "", table(heads, rows), ""]
    return "\n".join(parts).rstrip() + "\n"


def _subjects(runs: Sequence[Controls]) -> list[str]:
    return [f"- {summary(run)} ({run.started[:10]})" for run in runs]


def _cell(row: DefectResult | None) -> str:
    if row is None:
        return "not run"
    if row.outcome == CAUGHT:
        return "<br>".join(f"`{caught.case}`" for caught in row.caught_by)
    if row.outcome == NOT_SHOWN:
        return f"not shown here: {row.why}"
    return "**not caught**"
