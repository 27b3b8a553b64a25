"""JUnit XML as CI systems read it: the elements and attributes of the schema that Jenkins publishes, which others follow."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from xml.etree.ElementTree import Element

import pytest

from conformance.suite.report.junit import junit
from tests.conformance.runs import JAVA, OURS


class Rule(NamedTuple):
    """What an element may have: attributes (those with `!` must be there) and children, in this order."""

    attributes: str
    children: tuple[str, ...] = ()


RULES: Final = {
    "testsuites": Rule("name time tests failures disabled errors", ("testsuite",)),
    "testsuite": Rule(
        "name! tests! failures errors time disabled skipped timestamp hostname id package",
        ("properties", "testcase", "system-out", "system-err"),
    ),
    "properties": Rule("", ("property",)),
    "property": Rule("name! value!"),
    "testcase": Rule("name! classname! time assertions status", ("skipped", "error", "failure", "system-out", "system-err")),
    "skipped": Rule("message type"),
    "error": Rule("message type"),
    "failure": Rule("message type"),
    "system-out": Rule(""),
    "system-err": Rule(""),
}
NUMBERS: Final = {
    "tests": r"\d+",
    "failures": r"\d+",
    "errors": r"\d+",
    "skipped": r"\d+",
    "time": r"\d+\.\d+",
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
}


def complaints(element: Element) -> list[str]:
    """What does not fit the schema."""
    rule = RULES[element.tag]
    known = {name.rstrip("!"): name.endswith("!") for name in rule.attributes.split()}
    found = [f"{element.tag}: no attribute {name}" for name in element.attrib if name not in known]
    found += [f"{element.tag}: lacks {name}" for name, needed in known.items() if needed and name not in element.attrib]
    found += [
        f"{element.tag} {name}={text}"
        for name, text in element.attrib.items()
        if name in NUMBERS and not re.fullmatch(NUMBERS[name], text)
    ]
    order = [child.tag for child in element]
    if set(order) - set(rule.children) or order != sorted(order, key=rule.children.index):
        return [*found, f"{element.tag}: children {order}"]
    return [*found, *(complaint for child in element for complaint in complaints(child))]


@pytest.mark.parametrize("judged", [True, False])
def test_it_fits_the_schema(judged: bool) -> None:
    assert complaints(junit([OURS, JAVA], judged=judged)) == []


def test_what_does_not_fit_is_seen() -> None:
    root = junit([OURS], judged=True)
    case = next(root.iter("testcase"))
    case.attrib["outcome"] = "x"
    del case.attrib["classname"]
    case.append(Element("skipped"))
    case.append(Element("failure"))
    case.append(Element("skipped"))
    assert len(complaints(root)) == 3
