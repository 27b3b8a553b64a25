"""Our SQL92 selectors beside the stock evaluator of 5.5.0: outcomes, and every word of what is wrong with a selector."""

from __future__ import annotations

import os
import subprocess
from urllib.parse import quote_plus, unquote_plus

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from conformance.subjects.jars import shared_classes
from rmq_wire.sql92.errors import NotComparable, SelectorError
from rmq_wire.sql92.selector import compiled
from tests.support import selectors
from tests.support.java import REFERENCE, SMALL, classpath, java, programs

pytestmark = pytest.mark.java

EXAMPLES = 125
TOGETHER = 20
"""Selectors that are asked about the same properties: drawing these costs as much as drawing one of them."""
SETS = 5

Question = tuple[str, list[dict[str, str]]]


def java_answers(questions: list[Question]) -> list[str]:
    """What the reference says of each selector: see `Selectors.java`."""
    lines = [
        "\t".join(
            [
                quote_plus(text),
                *("&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in one.items()) for one in sets),
            ]
        )
        for text, sets in questions
    ]
    shared = shared_classes(REFERENCE, java())
    command = [java(), *shared, *SMALL, "-cp", f"{classpath(REFERENCE)}{os.pathsep}{programs()}", "rmq.Selectors"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True, timeout=300)
    return [f"! {unquote_plus(line[2:])}" if line.startswith("!") else line for line in done.stdout.splitlines()]


def our_answer(text: str, sets: list[dict[str, str]]) -> str:
    try:
        selector = compiled(text)
    except SelectorError as wrong:
        return f"! {wrong}"
    outcomes = ""
    for one in sets:
        try:
            outcomes += {True: "T", False: "F", None: "N"}[selector.evaluate(one)]
        except NotComparable:
            outcomes += "X"
    return outcomes


def compared(questions: list[Question]) -> list[str]:
    """Differences."""
    answers = java_answers(questions)
    assert len(answers) == len(questions)
    return [
        f"{text!r} {sets}\nJava: {theirs!r}\nours: {ours!r}"
        for (text, sets), theirs in zip(questions, answers, strict=True)
        if (ours := our_answer(text, sets)) != theirs
    ]


def test_random_selectors() -> None:
    questions: list[Question] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(selectors.selectors, min_size=TOGETHER, max_size=TOGETHER),
        st.lists(selectors.properties, min_size=SETS, max_size=SETS),
    )
    def collect(texts: list[str], sets: list[dict[str, str]]) -> None:
        questions.extend((text, sets) for text in texts)

    collect()
    assert len(questions) * SETS >= 10_000
    different = compared(questions)
    assert not different, f"{len(different)} differ\n" + "\n\n".join(sorted(different, key=len)[:10])
