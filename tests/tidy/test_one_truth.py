"""Where bytes are is declared in `rmq_wire.layout` and nowhere else: no other module makes a struct or cuts a number by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = (
    "rmq_wire",
    "rmq_net",
    "rmq_store",
    "broker_impl",
    "rmq_client",
    "rmq_inspect",
    "rmq_columns",
    "rmq_spark",
    "rmq_cli",
    "conformance",
)
LAYOUTS = ROOT / "rmq_wire" / "layout"
A_WITNESS = ROOT / "conformance" / "capture" / "recorder.py"
"""Looks at foreign frames with its own eyes: what it records judges `rmq_wire`."""
A_PARENT = ROOT / "conformance" / "subjects" / "process.py"
"""Asks the kernel, through ctypes, to end a child with its parent: cuts no bytes."""
APART = (A_WITNESS, A_PARENT)
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")) if path.parent != LAYOUTS and path not in APART]
STRUCT_MAY_GIVE = {"error"}
CALLS = {"Packed", "calcsize"}
BY_HAND = (".from_bytes", ".to_bytes")
CUTTERS = ("rmq_wire", "rmq_net", "rmq_store", "broker_impl", "rmq_client")
"""Rooms that cut numbers out of bytes by derived structs only; judges and columns have other means."""


def sins(source: str, *, cutter: bool = True) -> Iterator[str]:
    """Every place that knows where bytes are by itself."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names) if any(name.name in ("struct", "_struct", "ctypes") for name in names):
                yield f"line {node.lineno}: {ast.unparse(node)}"
            case ast.ImportFrom(module="struct" | "_struct" | "ctypes", names=names):
                if not {name.name for name in names} <= STRUCT_MAY_GIVE:
                    yield f"line {node.lineno}: {ast.unparse(node)}"
            case ast.Call(func=called) if (text := ast.unparse(called)) in CALLS or (cutter and text.endswith(BY_HAND)):
                yield f"line {node.lineno}: {text}(…)"
            case ast.Constant(value=str(text)) if text[:1] in (">", "<", "!") and text[1:].isalpha():
                yield f"line {node.lineno}: {text!r} looks like a layout"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_layout_outside_the_layouts(path: Path) -> None:
    assert not list(sins(path.read_text(encoding="utf-8"), cutter=path.relative_to(ROOT).parts[0] in CUTTERS))


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
        "x = made_somewhere('>hxi')",
    ],
)
def test_it_sees(line: str) -> None:
    assert list(sins(line))


def test_it_lets_pass() -> None:
    assert not list(sins("from struct import error as PackedError\nx: Packed = flat(UNIT).packed\nx.pack(1)\ny = '>'\n"))
