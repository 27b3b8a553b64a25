"""Runs as JUnit XML, as lines; and which codes are exercised."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conformance.suite.case import load
from conformance.suite.coverage import coverage, lines
from conformance.suite.report.junit import junit, write_junit
from conformance.suite.report.markdown import table, with_table
from conformance.suite.report.text import case_lines, matrix_lines, run_lines
from conformance.suite.results import CaseResult, CheckResult
from rmq_wire.codes import RequestCode
from tests.conformance.runs import a_run, case
from tests.support.planted import passes, planted

FAILING = [CheckResult("first", True, "1", "1"), CheckResult("the code", False, "0", "17 <no> & topic\0")]


def bad(id: str, **more: Any) -> CaseResult:
    return case(id, "failed", why="the code", checks=FAILING, **more)


RUN = a_run(
    case("a.passed"),
    bad("a.failed"),
    bad("a.expected", expected="failed", reason="not yet"),
    case("b.surprise", expected="failed", reason="not yet"),
    bad("b.info", level="info"),
    case("b.skipped", "skipped", why="needs: x"),
    case("b.error", "error", why="KeyError: 'x'", trace="Traceback…"),
    case("b.not-run", "not run", why="dead"),
    ended="it died",
)


def children(judged: bool) -> dict[str, str]:
    [suite] = junit([RUN], judged=judged)
    return {case.get("name", ""): next((child.tag for child in case), "") for case in suite.iter("testcase")}


def test_junit_counts_what_failed() -> None:
    assert children(judged=False) == {
        "a.passed": "",
        "a.failed": "failure",
        "a.expected": "failure",
        "b.surprise": "",
        "b.info": "failure",
        "b.skipped": "skipped",
        "b.error": "error",
        "b.not-run": "skipped",
    }
    [suite] = junit([RUN], judged=False)
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["8", "3", "1", "2"]


def test_junit_by_expectation() -> None:
    assert children(judged=True) == {
        "a.passed": "",
        "a.failed": "failure",
        "a.expected": "skipped",
        "b.surprise": "failure",
        "b.info": "skipped",
        "b.skipped": "skipped",
        "b.error": "error",
        "b.not-run": "skipped",
    }


def test_junit_is_xml_whatever_was_seen(tmp_path: Path) -> None:
    write_junit([RUN], tmp_path / "new" / "junit.xml", judged=False)
    root = ElementTree.parse(tmp_path / "new" / "junit.xml").getroot()
    failure = root.find(".//testcase[@name='a.failed']/failure")
    assert failure is not None
    assert "DOES NOT HOLD: the code: expected 0, seen 17 <no> & topic" in (failure.text or "")


def test_lines_of_a_case_name_the_check_that_failed() -> None:
    assert case_lines(bad("a.b")) == ["  FAILED must   a.b", "      the code", "      expected 0, seen 17 <no> & topic\0"]
    [first, second] = case_lines(case("a.b", "error", why="KeyError: 'x'"))
    assert (first, second) == ("  ERROR must   a.b", "      KeyError: 'x'")


def test_lines_of_a_run() -> None:
    text = "\n".join(run_lines(RUN))
    for part in (
        "a.expected  (expected: not yet)",
        "passed, though expected to fail  b.surprise: not yet",
        "1 skipped: needs: x",
        "stopped early: it died; 1 cases were not run",
        "8 cases in 1.5 s, seed 7",
    ):
        assert part in text
    assert "a.passed" not in text
    brief = run_lines(RUN, all_known=False)
    assert "a.expected" not in "\n".join(brief)
    assert "       1  not yet" in brief


def test_the_matrix() -> None:
    java = a_run(case("a.passed"), case("c.skipped", "skipped"), label="java-5.5.0")
    assert matrix_lines([RUN, java]) == [
        "       ours  java-5.5.0",
        "a    1/3 !1         1/1",
        "b    1/4 !3           -",
        "c         -           -",
        "all  2/7 !4         1/1",
    ]


# Codes


def test_coverage_names_the_cases_of_a_code() -> None:
    case = planted("offsets.query", passes, codes=(RequestCode.QUERY_CONSUMER_OFFSET,))
    found = {covered.code: covered for covered in coverage([case])}
    assert found[RequestCode.QUERY_CONSUMER_OFFSET].cases == ("offsets.query",)
    assert found[RequestCode.SEND_MESSAGE_V2].cases == ()
    assert RequestCode.NOTIFY_CONSUMER_IDS_CHANGED not in found, "clients answer that"
    assert any(line.endswith("NO CASE") for line in lines([case]))


def test_every_code_that_our_servers_answer_is_exercised() -> None:
    """Where this fails: a case wants to be written, or `codes=` of one that does it wants the code."""
    from rmq_cli.codes import rows

    answered = {row["code"]: row["name"] for row in rows() if row["roles"] != ["client"] and not row["refused"]}
    missing = {covered.code for covered in coverage(load().values()) if not covered.cases}
    assert [name for code, name in answered.items() if code in missing] == []


@pytest.mark.parametrize("module", sorted({case.module for case in load().values()}))
def test_cases_name_codes_that_there_are(module: str) -> None:
    known = {int(code) for code in RequestCode}
    assert [case.id for case in load().values() if case.module == module and set(case.codes) - known] == []


def test_a_table_of_a_page_is_replaced() -> None:
    made = table(("a", ":n"), [("x|y\nz", 1)])
    assert made == "| a | n |\n| --- | ---: |\n| x\\|y z | 1 |"
    page = "# Page\n\n| b |\n| --- |\n\n| a | n |\n| --- | ---: |\n| old | 1 |\n| older | 2 |\n\nMore.\n"
    assert with_table(page, made) == f"# Page\n\n| b |\n| --- |\n\n{made}\n\nMore.\n"
    with pytest.raises(ValueError, match="no table"):
        with_table(page, table(("c",), []))
