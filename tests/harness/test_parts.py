"""The table of parts: every test module is run by exactly one of them, and what they may take fits into CI."""

from __future__ import annotations

import sys
from pathlib import Path
from threading import Event

import pytest

from tests import parts

HERE = Path(parts.__file__).parent


def runs(part: parts.Part, module: str) -> bool:
    """Does its command take this module?"""
    words = parts.command_of(part)
    named = [Path(word) for word in words if word.startswith(str(HERE))]
    ignored = [Path(word.removeprefix("--ignore=")) for word in words if word.startswith("--ignore=")]
    path = HERE / module
    return any(path.is_relative_to(place) for place in named) and not any(path.is_relative_to(place) for place in ignored)


def test_every_module_is_in_one_part() -> None:
    modules = [path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")]
    taken = {module: [part.name for part in parts.PARTS if part.places and runs(part, module)] for module in modules}
    assert not {module: names for module, names in taken.items() if len(names) != 1}


def test_every_place_is_there() -> None:
    assert all((HERE / place).exists() for part in parts.PARTS for place in part.places)


def test_the_budgets_fit() -> None:
    assert sum(part.cpu_budget_s for part in parts.PARTS) <= parts.CPU_BUDGET_S


def test_what_is_over_its_budget_is_named_and_fails_nothing() -> None:
    first, second = parts.PARTS[:2]
    slow = parts.Outcome(1, 0, 0, 1.0, parts.OVER * first.cpu_budget_s + 1)
    lines = list(parts.table({first: slow, second: parts.Outcome(1, 0, 0, 1.0, 1.0)}))
    assert [line for line in lines if "times its budget" in line] == [lines[-1]]
    assert first.name in lines[-1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def test_a(): pass\ndef test_b(): assert 0\ndef test_c():\n    import pytest; pytest.skip('why')", (1, 1, 1)),
        ("import nothing_of_that_name", (0, 1, 0)),
        ("", (0, 0, 0)),
        ("def test_a():\n    import os; os._exit(3)", (0, 1, 0)),
    ],
)
def test_counts(source: str, expected: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "test_m.py"
    module.write_text(source)
    report = tmp_path / "report.xml"
    monkeypatch.setattr(parts, "command_of", lambda _: [sys.executable, "-m", "pytest", str(module), "-c", "/dev/null"])
    monkeypatch.setattr(parts, "HERE", tmp_path)
    outcome = parts.run_part(parts.PARTS[0], parts.PYTHON, nightly=False, seed=1, extra=[], printing=parts.Lock())
    assert outcome[:3] == expected
    assert outcome.cpu_s > 0
    assert not report.exists()


def test_a_part_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "test_m.py"
    module.write_text("def test_a(): input()\ndef test_b():\n    import threading; threading.Event().wait()")
    monkeypatch.setattr(parts, "command_of", lambda _: [sys.executable, "-m", "pytest", str(module), "-c", "/dev/null"])
    monkeypatch.setattr(parts, "PART_SECONDS_MAX", 0.5)
    outcome = parts.run_part(parts.PARTS[0], parts.PYTHON, nightly=False, seed=1, extra=[], printing=parts.Lock())
    assert outcome[:3] == (0, 1, 0)


def test_a_lane_that_has_ended_takes_what_computes_and_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (parts.Part(name, parts.PYTHON, (), 1) for name in ("first", "second", "third"))
    other, spark = parts.Part("other", parts.JAVA, (), 1), parts.Part("spark", parts.SPARK, (), 1)
    begun, ended = {one: Event() for one in (first, other, spark)}, Event()
    ran: list[tuple[str, str]] = []

    def run(part: parts.Part, lane: str, **_: object) -> parts.Outcome:
        ran.append((part.name, lane))
        if part in begun:
            begun[part].set()
            assert all(one.wait(60) for one in begun.values())
        if part in (first, spark):
            assert ended.wait(60), "nobody took what waits behind the first one"
        if part is second:
            ended.set()
        return parts.Outcome(1, 0, 0, 1.0, 1.0)

    monkeypatch.setattr(parts, "run_part", run)
    monkeypatch.setattr(parts, "LANES", dict.fromkeys((parts.PYTHON, parts.JAVA, parts.SPARK), ""))
    found = parts.run_lanes([first, second, third, other, spark], nightly=False, seed=1, extra=())
    assert list(found) == [first, second, third, other, spark]
    assert sorted(ran[:3]) == [("first", parts.PYTHON), ("other", parts.JAVA), ("spark", parts.SPARK)]
    assert ran[3:] == [("third", parts.JAVA), ("second", parts.JAVA)]
