"""Runs as JUnit XML: a test suite for each subject, a test for each case."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from conformance.suite.results import ERROR, FAILED, PASSED, CaseResult, CheckResult, Run

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold, not even escaped."""


def write_junit(runs: Sequence[Run], path: Path, *, judged: bool) -> None:
    """Write the runs to a file; its directory is made.  Raises `OSError`.

    judged: by expectation.  A failure that was expected is then `skipped`, as of a test that is known to fail, and a case that
    passed against it is a failure.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    tree = ElementTree.ElementTree(junit(runs, judged=judged))
    ElementTree.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def junit(runs: Sequence[Run], *, judged: bool) -> ElementTree.Element:
    """The document's root."""
    root = ElementTree.Element("testsuites", name="conformance")
    for run in runs:
        suite = ElementTree.SubElement(root, "testsuite", name=_text(run.target.label))
        for case in run.cases:
            _add(suite, case, judged)
        kinds = [child.tag for case in suite for child in case]
        suite.attrib |= {
            "tests": str(len(run.cases)),
            "failures": str(kinds.count("failure")),
            "errors": str(kinds.count("error")),
            "skipped": str(kinds.count("skipped")),
            "time": f"{run.seconds:.3f}",
            "timestamp": run.started.rstrip("Z"),
        }
        properties = ElementTree.Element("properties")
        for name, value in {"seed": str(run.seed), "broker": run.target.broker, **run.target.details}.items():
            ElementTree.SubElement(properties, "property", name=_text(name), value=_text(value))
        suite.insert(0, properties)
        if run.ended:
            ElementTree.SubElement(suite, "system-err").text = _text(run.ended)
    return root


def _add(suite: ElementTree.Element, case: CaseResult, judged: bool) -> None:
    entry = ElementTree.SubElement(
        suite, "testcase", classname=f"{suite.get('name')}.{case.capability}", name=case.id, time=f"{case.seconds:.3f}"
    )
    has_rule = judged and bool(case.expected)
    if case.outcome == PASSED:
        if has_rule and not case.as_expected:
            ElementTree.SubElement(entry, "failure", type="passed", message=_text(f"expected to fail: {case.reason}"))
        return
    if case.outcome == FAILED and judged and case.as_expected:
        why = f"expected to fail: {case.reason}" if case.expected else "reported, not counted"
        ElementTree.SubElement(entry, "skipped", message=_text(why))
        return
    tag = {FAILED: "failure", ERROR: "error"}.get(case.outcome, "skipped")
    element = ElementTree.SubElement(entry, tag, message=_text(case.why))
    if tag != "skipped":
        element.set("type", case.level)
        element.text = _text("\n".join([case.title, f"rests on {case.rests_on}", *map(_check, case.checks), case.trace]))


def _check(check: CheckResult) -> str:
    detail = f": expected {check.expected}, seen {check.seen}" if not check.holds else ""
    return f"{'holds' if check.holds else 'DOES NOT HOLD'}: {check.what}{detail}"


def _text(text: str) -> str:
    return _NOT_XML.sub("�", text)
