"""Statements of the articles about the store: each of 001-8 to 001-33 and 001-72 to 001-79 has a test that names it.

A test names a statement in its name (`test_001_13_…`) or in its docstring.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NUMBERS = (*range(8, 34), *range(72, 80))
NAME = re.compile(r"001_(\d+)_")
MENTION = re.compile(r"001-(\d+)(?: to 001-(\d+))?")


@cache
def named() -> dict[int, list[str]]:
    """Statement: the tests that name it."""
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path != Path(__file__):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    for number in numbers_of(node):
                        found.setdefault(number, []).append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def numbers_of(test: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    numbers = {int(text) for text in NAME.findall(test.name.replace("_and_", "_"))}
    for first, last in MENTION.findall(ast.get_docstring(test) or ""):
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


@pytest.mark.parametrize("number", NUMBERS)
def test_a_test_names_it(number: int) -> None:
    assert named().get(number), f"no test names 001-{number}"
