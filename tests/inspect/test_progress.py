"""Progress: on a terminal only, not too often, and gone before anything else is printed."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from rmq_cli import inspect_common
from rmq_inspect.decode.directory import list_store
from rmq_inspect.decode.log import pieces
from rmq_inspect.explain.stats import collect
from rmq_inspect.progress import quiet
from tests.support.stores import golden_store


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert inspect_common.progress() is quiet
    inspect_common.clear_progress()
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]


def test_a_line_five_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = Terminal(), [0.0]
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(inspect_common.time, "monotonic", lambda: now[0])
    show = inspect_common.progress()
    for step in range(1000):
        now[0] = step / 1000
        show("commitlog", step, 1000)
    lines = terminal.getvalue().split("\r")
    assert sum("commitlog" in line for line in lines) == 4
    assert "##........  20 %  commitlog" in lines[1]
    assert all(len(line) <= inspect_common.WIDTH_MIN for line in lines)
    show("empty", 0, 0)
    inspect_common.clear_progress()
    assert terminal.getvalue().endswith(" \r")


def test_long_work_says_how_far_it_is(tmp_path: Path) -> None:
    store = list_store(golden_store(tmp_path))
    reported: list[tuple[str, int, int]] = []
    list(pieces(store.commit_log, progress=lambda *step: reported.append(step)))
    assert {total for _, _, total in reported} == {3 * 16384}
    assert [done for _, done, _ in reported] == sorted(done for _, done, _ in reported)
    assert reported[-1][1] == 3 * 16384
    collect(store, lambda *step: reported.append(step))
    assert reported[-1][1] == 3 * 16384
