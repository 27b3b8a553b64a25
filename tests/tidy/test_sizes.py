"""The big file is always the ugly one: modules and functions stay small."""

from __future__ import annotations

from collections.abc import Iterator

from tests.tidy.trees import Module, listed, modules, parsed

MODULE_LINES_MAX = 405
TEST_MODULE_LINES_MAX = 520
FUNCTION_LINES_MAX = 85


def too_big(module: Module) -> Iterator[str]:
    most = TEST_MODULE_LINES_MAX if module.room == "tests" else MODULE_LINES_MAX
    if module.lines > most:
        yield f"{module.at(module.lines)}: {module.lines} lines, {most} at most"
    for name, line, lines in module.functions:
        if lines > FUNCTION_LINES_MAX:
            yield f"{module.at(line)}: {name}: {lines} lines, {FUNCTION_LINES_MAX} at most"


def test_sizes() -> None:
    offences = [one for module in modules() for one in too_big(module)]
    assert not offences, listed(offences)


def test_they_are_seen() -> None:
    body = "    x = 1\n" * (FUNCTION_LINES_MAX - 1)
    assert not list(too_big(parsed(f"def f():\n{body}", "rmq_store/m.py")))
    assert list(too_big(parsed(f"async def f():\n{body}    y = 2\n", "rmq_store/m.py")))
    assert not list(too_big(parsed("x = 1\n" * MODULE_LINES_MAX, "rmq_store/m.py")))
    assert list(too_big(parsed("x = 1\n" * (MODULE_LINES_MAX + 1), "rmq_store/m.py")))
    assert not list(too_big(parsed("x = 1\n" * TEST_MODULE_LINES_MAX, "tests/store/m.py")))
    assert list(too_big(parsed("x = 1\n" * (TEST_MODULE_LINES_MAX + 1), "tests/store/m.py")))
