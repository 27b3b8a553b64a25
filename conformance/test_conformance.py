"""The cases as tests; `conftest.py` says how."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.report.text import case_lines
from conformance.results import ERROR, FAILED, PASSED, SKIPPED
from conformance.suite import Session


def test_case(conformance_case: Case, conformance_session: Session) -> None:
    told, ended = conformance_session.run(conformance_case)
    if ended:
        pytest.exit(f"rmq: {ended}", returncode=2)
    if told.outcome == SKIPPED:
        pytest.skip(told.why)
    shown = "\n".join(case_lines(told))
    if told.outcome == FAILED and told.as_expected:
        pytest.xfail(told.reason or f"reported, not counted: {told.why}")
    if told.outcome == PASSED and not told.as_expected:
        pytest.fail(f"passed, though expected to fail: {told.reason}", pytrace=False)
    if told.outcome in (FAILED, ERROR):
        pytest.fail("\n".join([told.title, shown, told.trace]).rstrip(), pytrace=False)
