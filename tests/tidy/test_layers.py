"""Who may import whom: the rooms of the harness, imports inside functions included; no circle among modules; nobody has a clock,
a process or a network of his own where it is handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.tidy.trees import COMPUTED, PRODUCT_ROOMS, ROOMS, SERVER_ROOMS, Module, listed, modules, parsed, product, room_of

MAY_ENTER = {
    "rmq_wire": set(),
    "rmq_net": {"rmq_wire"},
    "rmq_store": {"rmq_wire"},
    "broker_impl": {"rmq_wire", "rmq_net", "rmq_store"},
    "rmq_client": {"rmq_wire", "rmq_net"},
    "rmq_columns": {"rmq_wire"},
    "planted_stores": {"rmq_wire", "rmq_columns"},
    "rmq_inspect": {"rmq_wire", "rmq_columns"},
    "rmq_spark": {"rmq_wire", "rmq_client", "rmq_columns"},
    "conformance": {"rmq_wire", "rmq_net", "rmq_client", "rmq_inspect"},
    "rmq_cli": set(PRODUCT_ROOMS),
}
EXTRA_ARROWS = {"rmq_inspect.repair.repair": {"rmq_store"}}
"""Module -> rooms that this one module may enter besides."""
OURS_ALONE = {"construct": ("rmq_wire.layout",), "docker": ("conformance",), "requests": ("conformance",)}
"""Package -> those (rooms, packages, modules) that may import it."""
LATE = {"docker", "requests"}
"""Not among the dependencies: imported only where they are needed, never when a module is loaded."""
TRIO = ("rmq_net", "rmq_client", "rmq_cli", "conformance", "broker_impl.broker")
"""Who may know trio: of broker_impl the composition root alone."""

NEVER_IN_A_SERVER = {"subprocess", "pickle", "marshal", "shelve", "pty", "multiprocessing", "ctypes", COMPUTED}
NEVER_CALLED = {"eval", "exec", "compile", "os.system", "os.popen", "os.fork", "os.execv", "os.posix_spawn"}
WORLD = {"time", "random", "threading", "socket", "select", "asyncio"}
HANDED_IN = {"rmq_wire": WORLD | {"os"}, "rmq_store": WORLD | {"os", "datetime"}, "broker_impl": WORLD}
"""Room -> what it gets handed in instead."""
GIVERS = {
    "rmq_store.disk.disk": {"os"},
    "rmq_store.disk.lock": {"os"},
    "broker_impl.env": {"time", "random"},
    "broker_impl.broker": {"socket"},
}
"""The modules that make what is handed in."""


def is_of(name: str, places: Iterable[str]) -> bool:
    """Whether it is one of these modules, or within one of these packages."""
    return any(f"{name}.".startswith(f"{place}.") for place in places)


def wrong_arrows(module: Module) -> Iterator[str]:
    """Imports of what is not for this module."""
    allowed = MAY_ENTER[module.room] | {module.room} | EXTRA_ARROWS.get(module.name, set())
    for name, line, at_load in module.imports:
        first = room_of(name)
        if (
            (first in ROOMS and first not in allowed)
            or (first in OURS_ALONE and not is_of(module.name, OURS_ALONE[first]))
            or (first == "trio" and not is_of(module.name, TRIO))
            or (first in LATE and at_load)
        ):
            yield f"{module.at(line)}: {module.name} imports {name}{' when it is loaded' * at_load}"
    if module.name == "rmq_wire" and module.imports:  # every start would pay for it
        yield f"{module.at(module.imports[0].line)}: the package itself imports nothing"


def own_means(module: Module) -> Iterator[str]:
    """Clocks, chance, processes, evaluated text where there must be none."""
    never = HANDED_IN.get(module.room, set()) - GIVERS.get(module.name, set()) | NEVER_IN_A_SERVER
    for name, line, _ in module.imports:
        if room_of(name) in never:
            yield f"{module.at(line)}: {module.name} imports {name}"
    yield from (f"{module.at(line)}: {module.name} calls {called}" for called, line, _ in module.calls if called in NEVER_CALLED)


def graph_of(all_modules: Iterable[Module]) -> dict[str, dict[str, str]]:
    """Module -> each module that it imports, and where it says so."""
    known = {module.name: module for module in all_modules}

    def meant(name: str) -> str:
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    return {
        name: {to: module.at(line) for imported, line, _ in module.imports if (to := meant(imported)) and to != name}
        for name, module in known.items()
    }


def circles(graph: dict[str, dict[str, str]]) -> list[list[str]]:
    """Sets of modules each of which imports all the others, through one another."""
    number: dict[str, int] = {}
    least: dict[str, int] = {}
    open_ones: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:  # Tarjan
        number[name] = least[name] = len(number)
        open_ones.append(name)
        for to in graph[name]:
            if to not in number:
                visit(to)
                least[name] = min(least[name], least[to])
            elif to in open_ones:
                least[name] = min(least[name], number[to])
        if least[name] == number[name]:
            circle = open_ones[open_ones.index(name) :]
            del open_ones[-len(circle) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for name in graph:
        if name not in number:
            visit(name)
    return found


def shown(circle: list[str], graph: dict[str, dict[str, str]]) -> Iterator[str]:
    """The imports that make it."""
    for name in circle:
        yield from (f"{place}: {name} imports {to}" for to, place in graph[name].items() if to in circle)


def test_arrows_go_left() -> None:
    offences = [one for module in product() for one in wrong_arrows(module)]
    assert not offences, listed(offences)


def test_imports_make_no_circle() -> None:
    """In no room, imports inside functions and those for types alone included."""
    graph = graph_of(modules())
    offences = [line for circle in circles(graph) for line in shown(circle, graph)]
    assert not offences, listed(offences)


def test_what_is_handed_in_is_not_taken() -> None:
    offences = [one for module in product() if module.room in SERVER_ROOMS for one in own_means(module)]
    assert not offences, listed(offences)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("rmq_wire/m.py", "import rmq_net"),
        ("rmq_store/m.py", "def f():\n    from broker_impl import engine"),
        ("rmq_store/m.py", "import_module('pyspark_rocketmq_store')"),
        ("rmq_inspect/show.py", "import rmq_store.store"),
        ("rmq_net/m.py", "from tests.support import java"),
        ("rmq_wire/frame.py", "import construct"),
        ("broker_impl/engine/engine.py", "import trio.lowlevel"),
        ("rmq_cli/m.py", "def f():\n    import docker"),
        ("conformance/subjects/m.py", "class C:\n    if x:\n        import docker"),
        ("rmq_wire/__init__.py", "from rmq_wire import frame"),
    ],
)
def test_arrows_are_seen(place: str, line: str) -> None:
    assert list(wrong_arrows(parsed(line, place)))


def test_arrows_that_may_be() -> None:
    for place, line in (
        ("rmq_inspect/repair/repair.py", "from rmq_store import store"),
        ("rmq_wire/layout/frame.py", "import construct"),
        ("broker_impl/broker.py", "import trio"),
        ("conformance/subjects/m.py", "def f():\n    import docker"),
    ):
        assert not list(wrong_arrows(parsed(line, place))), line


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("rmq_store/m.py", "def f():\n    from time import monotonic"),
        ("rmq_store/m.py", "import os.path"),
        ("rmq_wire/m.py", "import socket"),
        ("broker_impl/m.py", "import random"),
        ("rmq_net/m.py", "from subprocess import run"),
        ("rmq_net/m.py", "import_module(name)"),
        ("rmq_net/m.py", "eval('1')"),
        ("rmq_net/m.py", "import os\nos.system('true')"),
    ],
)
def test_own_means_are_seen(place: str, line: str) -> None:
    assert list(own_means(parsed(line, place)))


def test_circles_are_seen() -> None:
    sources = {
        "room/a.py": "from . import b",
        "room/b.py": "def f():\n    import room.c",
        "room/c.py": "from room.a import name",
        "room/d.py": "from room import a, e",
        "room/e.py": "",
    }
    graph = graph_of([parsed(source, place) for place, source in sources.items()])
    [circle] = circles(graph)
    assert circle == ["room.a", "room.b", "room.c"]
    assert list(shown(circle, graph)) == [
        "room/a.py:1: room.a imports room.b",
        "room/b.py:2: room.b imports room.c",
        "room/c.py:1: room.c imports room.a",
    ]
