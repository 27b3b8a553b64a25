"""Every example of docs/inspect.md, run again: what it prints is what the page says."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest

from rmq_cli.inspect import SUBCOMMANDS
from tests.support.command import look
from tests.support.stores import golden_store

PAGE = Path(__file__).parents[2] / "docs" / "inspect.md"
PROMPT = "    $ rmq inspect "


def examples(text: str) -> list[tuple[str, list[str]]]:
    """(arguments, printed lines)"""
    found: list[tuple[str, list[str]]] = []
    is_open = False
    for line in text.splitlines():
        if line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
            is_open = True
        elif is_open and (line.startswith("    ") or not line):
            found[-1][1].append(line.removeprefix("    "))
        else:
            is_open = False
    return found


def test_every_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    golden_store(tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        shown = examples(PAGE.read_text(encoding="utf-8"))
        assert len(shown) > 10
        for arguments, expected in shown:
            seen = look(*shlex.split(arguments))
            printed = [line.rstrip() for line in seen.out.splitlines()]
            wanted = "\n".join(expected).rstrip().splitlines()
            assert printed[: len(wanted)] == wanted, arguments
    finally:
        monkeypatch.undo()
        time.tzset()


def test_every_subcommand_has_its_place() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (\w+)", text, re.MULTILINE)
    assert set(SUBCOMMANDS) <= set(headings)
    for name in SUBCOMMANDS:
        assert f"| `{name}` |" in text
        assert look(name, "--help").status == 0
