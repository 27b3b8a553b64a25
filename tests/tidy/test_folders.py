"""Which folder of a room may import which: one table for each room.  Modules beside the folders are free; no circle is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tidy.trees import ROOT, Module, listed, parsed, product

ARROWS = {
    "rmq_wire": {
        "layout": "",
        "headers": "",
        "bodies": "layout",
        "implied": "bodies",
        "sql92": "",
    },
    "broker_impl": {
        "engine": "",
        "state": "engine",
        "capabilities": "engine state",
        "namesrv": "engine",
    },
    "rmq_store": {
        "disk": "",
        "queues": "disk",
        "log": "disk queues",
        "index": "disk queues log",
        "read": "disk queues log index",
        "recovery": "disk queues log index",
        "timer": "disk read log",
    },
    "rmq_client": {
        "producing": "",
        "consuming": "producing",
        "faces": "producing consuming",
    },
    "rmq_inspect": {
        "decode": "",
        "explain": "decode",
        "verify": "decode",
        "repair": "decode verify",
    },
    "rmq_columns": {
        "files": "",
        "decode": "files",
        "read": "files decode",
        "checks": "files decode read",
        "export": "files decode read",
        "rebuild": "files decode read",
    },
    "conformance": {
        "subjects": "",
        "truth": "subjects",
        "suite": "subjects",
        "captures": "subjects suite",
        "torture": "subjects suite",
        "controls": "subjects suite",
    },
}
"""Room -> each of its folders -> those that it may import besides itself."""


def wrong_arrows(module: Module) -> Iterator[str]:
    """Imports of folders that are not for the module's own."""
    table = ARROWS.get(module.room, {})
    folder = folder_of(module.place.replace("/", "."))
    if folder in table:
        for name, line, _ in module.imports:
            to = folder_of(name)
            if name.startswith(f"{module.room}.") and to in table and to not in (folder, *table[folder].split()):
                yield f"{module.at(line)}: {folder} imports {to}"


def folder_of(name: str) -> str:
    """That of a module's name, or of its place with dots."""
    return f"{name}.".split(".")[1]


def test_folders_import_what_is_below_them() -> None:
    offences = [one for module in product() for one in wrong_arrows(module)]
    assert not offences, listed(offences)


@pytest.mark.parametrize("room", ARROWS)
def test_every_folder_is_in_the_table(room: str) -> None:
    assert {path.parent.name for path in (ROOT / room).glob("*/__init__.py")} <= ARROWS[room].keys()
    for folder, below in ARROWS[room].items():
        assert set(below.split()) <= ARROWS[room].keys() - {folder}


@pytest.mark.parametrize(
    ("place", "line", "seen"),
    [
        ("rmq_columns/decode/units.py", "from rmq_columns.read import plan", True),
        ("rmq_columns/decode/units.py", "def f():\n    import rmq_columns.read.plan", True),
        ("broker_impl/engine/engine.py", "from broker_impl.capabilities.pull import Pull", True),
        ("rmq_columns/read/plan.py", "from rmq_columns.decode.units import Units", False),
        ("rmq_columns/shown.py", "from rmq_columns.read import plan", False),
        ("rmq_inspect/explain/lookup.py", "from rmq_columns.read import plan", False),
    ],
)
def test_arrows_are_seen(place: str, line: str, seen: bool) -> None:
    assert bool(list(wrong_arrows(parsed(line, place)))) is seen
