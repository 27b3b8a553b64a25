"""The table of mutants: each row's text still stands in its file, and its tests are there."""

from __future__ import annotations

import pytest

from tests.support.mutants import ROOT, Mutant, load
from tests.support.node_ids import is_test

MUTANTS = load()


def faults(mutant: Mutant) -> list[str]:
    """What is wrong with a row."""
    said = [f"{mutant}: no test {test}" for test in mutant.tests if not is_test(test)]
    if bool(mutant.tests) is bool(mutant.why):
        said.append(f"{mutant}: either tests or a reason")
    try:
        compile(mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8")), mutant.file, "exec")
    except (ValueError, SyntaxError) as wrong:
        said.append(str(wrong))
    return said


def test_every_mutant_can_still_be_tried() -> None:
    assert [fault for mutant in MUTANTS for fault in faults(mutant)] == []
    assert len({(one.file, one.before, one.after, one.occurrence) for one in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("before", "test"),
    [
        ("a line that went", "tests/tidy/test_mutants.py::test_a_row_that_has_rotted_is_seen"),
        ("import ", ""),
        ("LIMIT_S: Final", "tests/x.py::y"),
    ],
)
def test_a_row_that_has_rotted_is_seen(before: str, test: str) -> None:
    assert (
        faults(Mutant("tests/support/mutants.py", before="LIMIT_S: Final = 120", after="LIMIT_S: Final = 1", why="an example"))
        == []
    )
    assert faults(
        Mutant("tests/support/mutants.py", before=before, after="", tests=(test,) if test else (), why="" if test else "why")
    )
