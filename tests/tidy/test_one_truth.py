"""Where bytes are is declared in `rmq_wire.layout` and nowhere else: no other module makes a struct or cuts a number by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tidy.trees import Module, listed, parsed, product

LAYOUTS = "rmq_wire.layout"
APART = {
    "conformance.frames": "looks at foreign frames with its own eyes: what it records judges `rmq_wire`",
    "conformance.subjects.process": "asks the kernel, through ctypes, to end a child with its parent: cuts no bytes",
}
HARMLESS = {"struct.error"}
CALLS = {"Packed", "calcsize"}
BY_HAND = (".from_bytes", ".to_bytes")
JUDGES = ("conformance",)
"""Rooms that look at foreign bytes with their own eyes: they may cut them by hand, and derive what they need by themselves."""
DERIVES = "flat"
"""What derives the flat form of a layout: layouts export theirs, no room makes it again."""


def sins(module: Module) -> Iterator[str]:
    """Every place that knows where bytes are by itself."""
    judges = module.room in JUDGES
    for name, line, _ in module.imports:
        if name.partition(".")[0] in ("struct", "_struct", "ctypes") and name not in HARMLESS:
            yield f"{module.at(line)}: imports {name}"
    for called, line, _ in module.calls:
        if called in CALLS or (not judges and (called.endswith(BY_HAND) or called == DERIVES)):
            yield f"{module.at(line)}: {called}(…)"
    for text, line in module.texts:
        if text[:1] in (">", "<", "!") and text[1:].isalpha():
            yield f"{module.at(line)}: {text!r} looks like a layout"


def test_no_layout_outside_the_layouts() -> None:
    looked_at = [module for module in product() if module.name.rpartition(".")[0] != LAYOUTS and module.name not in APART]
    offences = [sin for module in looked_at for sin in sins(module)]
    assert not offences, listed(offences)


@pytest.mark.parametrize(
    "line",
    [
        "import struct",
        "def f():\n    import struct as s",
        "from struct import Struct",
        "from struct import error, unpack_from",
        "x = Packed('i')",
        "x = int.from_bytes(b'1234', 'big')",
        "x = size.to_bytes(4, 'big')",
        "x = flat(UNIT)",
        "x = made_somewhere('>hxi')",
    ],
)
def test_it_sees(line: str) -> None:
    for room in ("rmq_store", "rmq_columns", "rmq_inspect", "planted_stores"):
        assert list(sins(parsed(line, f"{room}/m.py")))


def test_it_lets_pass() -> None:
    harmless = "from struct import error as PackedError\nx: Packed = UNIT_FLAT.packed\nx.pack(1)\ny = '>'\n"
    assert not list(sins(parsed(harmless, "rmq_store/m.py")))
    assert not list(sins(parsed("x = int.from_bytes(b'1234', 'big')", "conformance/m.py")))
