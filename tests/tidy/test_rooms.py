"""Tests use their own room and `tests.support`, never a module of tests; and none of them sleeps: it waits for an event."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tidy.trees import Module, listed, modules, parsed

SHARED = ("support", "parts", "night")
SLEEPS = ("sleep", "sleep_until", "sleep_forever")
SLEEPERS = {
    "conformance.test_runner",
    "conformance.torture_client",
    "spark.cluster_probe",
    "spark.mortal",
}
"""Modules that still sleep.  The list only gets shorter."""


def all_tests() -> Iterator[Module]:
    return (module for module in modules() if module.room == "tests")


def short(name: str) -> str:
    return name.removeprefix("tests.")


def borrowed(module: Module) -> Iterator[tuple[str, str]]:
    """What it imports of other rooms of tests, or of modules of tests, and where."""
    for name, line, _ in module.imports:
        first, *parts = name.split(".")
        place = next((at for at, part in enumerate(parts) if part.startswith("test_")), None)
        if first == "tests" and (place is not None or parts[0] not in (short(module.name).split(".")[0], *SHARED)):
            yield ".".join(parts[:2] if place is None else parts[: place + 1]), module.at(line)


def sleeps(module: Module) -> Iterator[str]:
    """Where it does."""
    return (f"{module.at(line)}: {called}" for called, line, _ in module.calls if called.split(".")[-1] in SLEEPS)


def test_a_room_borrows_of_support_alone() -> None:
    offences = [f"{place}: {name}" for module in all_tests() for name, place in borrowed(module)]
    assert not offences, listed(offences)


def test_no_test_sleeps() -> None:
    found = {short(module.name): list(sleeps(module)) for module in all_tests()}
    offences = [place for module, places in found.items() if module not in SLEEPERS for place in places]
    assert not offences, listed(offences)
    awake = {module for module in SLEEPERS if not found.get(module)}
    assert not awake, f"they sleep no more, strike them from the list: {sorted(awake)}"


@pytest.mark.parametrize(
    ("place", "line", "seen"),
    [
        ("tests/a/test_x.py", "from tests.b.kit import made", "b.kit"),
        ("tests/a/test_x.py", "def f():\n    from tests.a import test_y", "a.test_y"),
        ("tests/a/kit.py", "from tests.a.test_y import made", "a.test_y"),
        ("tests/support/kit.py", "from tests.a import kit", "a.kit"),
        ("tests/a/test_x.py", "from tests.a.kit import made", None),
        ("tests/a/test_x.py", "from tests.support import kit", None),
    ],
)
def test_what_is_borrowed_is_seen(place: str, line: str, seen: str | None) -> None:
    assert [name for name, _ in borrowed(parsed(line, place))] == ([] if seen is None else [seen])


def test_sleep_is_seen() -> None:
    seen = list(
        sleeps(parsed("import time\nasync def f():\n    time.sleep(1)\n    await trio.sleep_forever()", "tests/a/test_x.py"))
    )
    assert seen == ["tests/a/test_x.py:3: time.sleep", "tests/a/test_x.py:4: trio.sleep_forever"]
