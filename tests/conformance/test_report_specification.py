"""`docs/conformance.md` is what the cases say now, and its links lead somewhere."""

from __future__ import annotations

import re

import pytest

from conformance.suite.case import load
from conformance.suite.coverage import coverage
from conformance.suite.report.markdown import escaped
from conformance.suite.report.specification import document
from conformance.suite.report.specification_codes import _answer, _joined_fields, _taken_apart
from conformance.suite.report.specification_rules import anchor_of, sources

TEXT = document(load())


def test_every_case_and_every_code_has_its_place() -> None:
    places = re.findall(r'<a id="([^"]+)"></a>', TEXT)
    assert len(places) == len(set(places))
    assert {anchor_of(id) for id in load()} <= set(places)
    assert {f"grid.{covered.name.lower().replace('_', '-')}" for covered in coverage(())} <= set(places)


def test_links_lead_somewhere() -> None:
    places = set(re.findall(r'<a id="([^"]+)"></a>', TEXT))
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) <= places


def test_tables_are_tables() -> None:
    """A bar in a cell would push the others aside."""
    for block in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_every_question_of_the_grid_is_listed() -> None:
    """Fields that are left out or mistyped stand in the rows of their code."""
    section = TEXT[TEXT.index('<a id="grid.pull-message"></a>') : TEXT.index('<a id="grid.query-message"></a>')]
    reported = [line for line in section.splitlines() if line.startswith("| without")]
    abouts = "\n".join(case.about for id, case in load().items() if id.startswith("grid.pull-message.missing"))
    asked = re.findall(r"^- without (\w+):", abouts, re.MULTILINE)
    assert asked
    assert set(asked) == {name for line in reported for name in re.findall(r"`(\w+)`", line.split("|")[1])}


# The pieces


def test_lines_are_taken_apart() -> None:
    about = "- good (a: b): 0 SUCCESS.\n- x=1: 1 SYSTEM_ERROR; 4.x: 0 SUCCESS.\n- no cell `limit`: w\n- not asked without `y`: w"
    assert list(_taken_apart(about)) == [("good (a: b)", "0 SUCCESS"), ("x=1", "1 SYSTEM_ERROR; 4.x: 0 SUCCESS")]


@pytest.mark.parametrize(
    ("answer", "remark", "expected"),
    [
        ("0 SUCCESS", "", "0 SUCCESS"),
        ("0 SUCCESS; 4.x: 0 SUCCESS", "", "0 SUCCESS"),
        ("0 SUCCESS, with a, b; 4.x: 1 SYSTEM_ERROR", "", "0 SUCCESS, with `a`, `b`; 4.x: 1 SYSTEM_ERROR"),
        ("17 TOPIC_NOT_EXIST", "remark 'no \\\\d'", "17 TOPIC_NOT_EXIST, remark like `no \\d`"),
        ("1 X", "remark 'a'; 4.x: remark 'b'", "1 X, remark like `a`; 4.x: 1 X, remark like `b`"),
        ("16 X, with a; 4.x: 16 X", "remark 'a'; 4.x: remark 'a'", "16 X, with `a`, remark like `a`; 4.x: 16 X"),
    ],
)
def test_answers(answer: str, remark: str, expected: str) -> None:
    assert _answer(answer, remark) == expected


def test_fields_of_one_consequence_share_a_row() -> None:
    assert _joined_fields(["without a", "without a body"]) == "without `a`, a body"
    assert _joined_fields(["a=x", "a=2147483648", "b=yes"]) == "of another type: `a`, `b`"
    assert _joined_fields(["a body that is no JSON"]) == "a body that is no JSON"


def test_marks_are_escaped_outside_of_code() -> None:
    assert escaped("a_b *x* `a*b` <y> _z_") == "a_b \\*x\\* `a*b` \\<y> \\_z\\_"
    assert sources("NettyDecoder.decode, the fast port") == "`NettyDecoder.decode`, the fast port"


def test_no_default_is_shown_by_its_place_in_memory() -> None:
    """Such a page would be another one each time it is made."""
    assert " object at 0x" not in TEXT
