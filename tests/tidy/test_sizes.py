"""The big file is always the ugly one: modules and functions stay small."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tidy.trees import Module, listed, modules, parsed

MODULE_LINES_MAX = 405
STILL_BIGGER = {"rmq_spark/jobs/rebuild_queues.py": 440}
"""Modules that wait for their split, and what they may not grow beyond.  It only gets shorter."""
TEST_MODULE_LINES_MAX = 520
FUNCTION_LINES_MAX = 85


def too_big(module: Module) -> Iterator[str]:
    usual = TEST_MODULE_LINES_MAX if module.room == "tests" else MODULE_LINES_MAX
    most = STILL_BIGGER.get(module.place, usual)
    if module.lines > most:
        yield f"{module.at(module.lines)}: {module.lines} lines, {most} at most"
    elif most > usual >= module.lines:
        yield f"{module.at(module.lines)}: {module.lines} lines: strike it from the list of what is still bigger"
    for name, line, lines in module.functions:
        if lines > FUNCTION_LINES_MAX:
            yield f"{module.at(line)}: {name}: {lines} lines, {FUNCTION_LINES_MAX} at most"


def test_sizes() -> None:
    offences = [one for module in modules() for one in too_big(module)]
    assert not offences, listed(offences)
    assert STILL_BIGGER.keys() <= {module.place for module in modules()}


def test_they_are_seen() -> None:
    body = "    x = 1\n" * (FUNCTION_LINES_MAX - 1)
    assert not list(too_big(parsed(f"def f():\n{body}", "rmq_store/m.py")))
    assert list(too_big(parsed(f"async def f():\n{body}    y = 2\n", "rmq_store/m.py")))
    assert not list(too_big(parsed("x = 1\n" * MODULE_LINES_MAX, "rmq_store/m.py")))
    assert list(too_big(parsed("x = 1\n" * (MODULE_LINES_MAX + 1), "rmq_store/m.py")))
    assert not list(too_big(parsed("x = 1\n" * TEST_MODULE_LINES_MAX, "tests/store/m.py")))
    assert list(too_big(parsed("x = 1\n" * (TEST_MODULE_LINES_MAX + 1), "tests/store/m.py")))
