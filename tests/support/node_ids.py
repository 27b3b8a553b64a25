"""Node ids of tests that a table names: is there such a test, and which function is it?"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def is_test(node_id: str) -> bool:
    """Whether a test function of that name stands in that module; parameters are not looked at."""
    path, _, name = node_id.partition("::")
    name = name.partition("[")[0]
    if re.fullmatch(r"tests/\w+/test_\w+\.py", path) is None or not name.startswith("test_"):
        return False
    return (ROOT / path).is_file() and name in _functions(ROOT / path)


def function_of(node_id: str) -> Callable[..., Any]:
    """The function of a test, or the check that a test makes of each seed, to be called with what it takes."""
    path, _, name = node_id.partition("::")
    assert name in _functions(ROOT / path), f"no such function: {node_id}"
    function: Callable[..., Any] = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    return function


@cache
def _functions(path: Path) -> set[str]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
