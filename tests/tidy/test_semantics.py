"""The ledger of the articles' statements: whole, given out as agreed, and every test that it names exists."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.suite import expected
from conformance.suite.case import load as load_cases
from conformance.torture import script
from tests.support.ledger import CASE, OWNERS, TORTURE, Ledger, Statement, load
from tests.support.node_ids import is_test

LAST = {"000": 44, "001": 96, "002": 26, "003": 14, "004": 16}
"""The number of each article's last statement."""
LETTERED = {"001-5": ("a", "b", "c"), "001-6": ("", "b"), "001-7": ("", "b", "c")}
SHARES = {
    "order and time": "000-4,5,7,8,12,15,16,19,31,41,44; 002-1..4,6..25; 003-8..13",
    "groups": "001-1,2,5a,5b,5c,39,42,43,50,51,60..63,67,83..85,87..95",
    "pop": "004-1..3,5..16",
    "later": "004-4",
    "client": "000-1..3,6,9..11,13,14,17,18,20..30,32..40,42,43;"
    " 001-3,4,6,6b,7,7b,7c,34,35,37,38,40,41,44..49,52..59,64..66,68..70,80..82,86; 002-5; 003-1..7,14",
    "advice": "001-21,36,71,96; 002-26",
    "store": "001-8..20,22..33,72..79",
}
"""Owner: whose statements they are."""
LEDGER = load()


def numbers(shares: str) -> list[str]:
    """The ids that a line of `SHARES` stands for."""
    found: list[str] = []
    for part in shares.split(";"):
        article, _, several = part.strip().partition("-")
        for piece in several.split(","):
            first, _, last = piece.partition("..")
            found += [f"{article}-{n}" for n in range(int(first), int(last) + 1)] if last else [f"{article}-{first}"]
    return found


def is_there(test: str) -> bool:
    """Whether this test exists: a case and a script by their registries, a function by its module's text."""
    if test.startswith(CASE):
        return test.removeprefix(CASE) in load_cases()
    if test.startswith(TORTURE):
        return test.removeprefix(TORTURE) in script.names()
    return is_test(test)


def faults(ledger: Ledger) -> list[str]:
    """What is wrong with a table."""
    said = [f"{row.id}: no test {test}" for row in ledger.statement for test in row.tests if not is_there(test)]
    said += [f"{row.id}: a test twice" for row in ledger.statement if len(set(row.tests)) < len(row.tests)]
    missing = [fails for one in expected.load("ours") for fails in one.cases]
    for row in ledger.statement:
        if row.owner not in OWNERS:
            said.append(f"{row.id}: owner {row.owner}")
        if not row.fact or bool(row.said) is not (row.verdict in ("partly", "outdated", "wrong")):
            said.append(f"{row.id}: a fact, and what the article says where that is not the fact")
        if row.owner in ledger.landed:
            if not row.tests:
                said.append(f"{row.id}: {row.owner} has landed, and no test shows it")
            cases = [test.removeprefix(CASE) for test in row.tests if test.startswith(CASE)]
            said += [f"{row.id}: ours fails {case}" for case in cases if any(fnmatchcase(case, one) for one in missing)]
    return said


def test_every_statement_has_its_row() -> None:
    ids = [row.id for row in LEDGER.statement]
    wanted = [
        f"{article}-{n}{letter}"
        for article, last in LAST.items()
        for n in range(1, last + 1)
        for letter in LETTERED.get(f"{article}-{n}", ("",))
    ]
    assert len(wanted) == 201
    assert ids == wanted


def test_every_statement_is_given_out() -> None:
    given_out = {number: owner for owner, shares in SHARES.items() for number in numbers(shares)}
    assert {row.id: row.owner for row in LEDGER.statement} == given_out


def test_what_it_names_exists() -> None:
    assert set(LEDGER.landed) <= OWNERS.keys()
    assert faults(LEDGER) == []


@pytest.mark.parametrize(
    ("test", "there"),
    [
        ("case:pull.found", True),
        ("case:pull.lost", False),
        ("torture:lock-refused", True),
        ("torture:lock", False),
        ("tests/tidy/test_semantics.py::test_what_it_names_exists", True),
        ("tests/tidy/test_semantics.py::test_it_sees[a-True]", True),
        ("tests/tidy/test_semantics.py::is_there", False),
        ("tests/tidy/test_nothing.py::test_it_sees", False),
        ("tests/tidy/test_semantics.py", False),
    ],
)
def test_it_sees(test: str, there: bool) -> None:
    assert is_there(test) is there


GOOD = Statement("001-8", "store", "holds", "A fact.", tests=("case:pull.found",))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        ({"owner": "pop", "tests": ()}, []),
        ({"owner": "pop", "tests": ("case:transaction.commit-once",)}, []),
        ({"tests": ("case:transaction.commit-once",)}, ["001-8: ours fails transaction.commit-once"]),
        ({"tests": ()}, ["001-8: store has landed, and no test shows it"]),
        ({"tests": ("case:pull.lost",)}, ["001-8: no test case:pull.lost"]),
        ({"tests": ("case:pull.found", "case:pull.found")}, ["001-8: a test twice"]),
        ({"owner": "nobody", "tests": ()}, ["001-8: owner nobody"]),
        ({"fact": ""}, ["001-8: a fact, and what the article says where that is not the fact"]),
        ({"verdict": "wrong"}, ["001-8: a fact, and what the article says where that is not the fact"]),
        ({"said": "Another."}, ["001-8: a fact, and what the article says where that is not the fact"]),
    ],
)
def test_it_says_what_is_wrong(changes: dict[str, Any], said: list[str]) -> None:
    assert faults(Ledger(("store",), (replace(GOOD, **changes),))) == said
