"""Every module of this repository, read and parsed once for all rules; a rule gives the places that break it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRODUCT_ROOMS = (
    "rmq_wire",
    "rmq_net",
    "rmq_store",
    "broker_impl",
    "rmq_client",
    "rmq_inspect",
    "rmq_columns",
    "planted_stores",
    "rmq_spark",
    "conformance",
    "rmq_cli",
)
SERVER_ROOMS = ("rmq_wire", "rmq_net", "rmq_store", "broker_impl")
ROOMS = (*PRODUCT_ROOMS, "tests", "bench")
FOUND_BY_SPARK = "pyspark_"
"""Top-level modules whose names begin so belong to `rmq_spark`: Spark looks for formats there."""
IMPORTERS = ("__import__", "importlib.import_module", "import_module")
COMPUTED = "<computed>"


class Imported(NamedTuple):
    """What an import names: `base.alias` where it takes something from a module; `COMPUTED` where only a run can show it."""

    name: str
    line: int
    at_load: bool
    """and not only when a function runs"""


class Text(NamedTuple):
    """A text, or a name: `a.b.c`, without its beginning where that is computed."""

    text: str
    line: int


class Called(NamedTuple):
    """What is called, as `Text` has it."""

    text: str
    line: int
    says: bool
    """its first argument is a text that stands there"""


class Function(NamedTuple):
    name: str
    line: int
    lines: int


class Module(NamedTuple):
    """What rules look at; the tree itself is dropped."""

    name: str
    place: str
    """of its file, from the repository's root on"""
    lines: int
    imports: list[Imported]
    calls: list[Called]
    texts: list[Text]
    functions: list[Function]

    @property
    def room(self) -> str:
        return room_of(self.name)

    def at(self, line: int) -> str:
        """The place of an offence."""
        return f"{self.place}:{line}"


def room_of(name: str) -> str:
    """That of a module, or the package that it is of."""
    first = name.partition(".")[0]
    return "rmq_spark" if first.startswith(FOUND_BY_SPARK) else first


def parsed(source: str, place: str) -> Module:
    """A module with this text."""
    path = Path(place)
    parts = path.with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    module = Module(name, place, source.count("\n"), [], [], [], [])
    _walk(ast.parse(source), True, module, name if is_package else name.rpartition(".")[0])
    return module


@cache
def modules() -> tuple[Module, ...]:
    """All of every room."""
    paths = [*ROOT.glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]
    return tuple(parsed(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()) for path in sorted(paths))


def product() -> Iterator[Module]:
    """Those that an installed package has."""
    return (module for module in modules() if module.room in PRODUCT_ROOMS)


def listed(offences: Iterable[str]) -> str:
    """What a failed rule shows: all of them."""
    return "".join(f"\n  {offence}" for offence in offences)


def _walk(node: ast.AST, at_load: bool, module: Module, package: str) -> None:
    match node:
        case ast.Import():
            module.imports.extend(Imported(alias.name, node.lineno, at_load) for alias in node.names)
        case ast.ImportFrom():
            base = node.module or ""
            if node.level:
                head = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*head, base]).rstrip(".")
            module.imports.extend(Imported(f"{base}.{alias.name}", node.lineno, at_load) for alias in node.names)
        case ast.Call():
            name = _called(node.func)
            says = bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
            module.calls.append(Called(name, node.lineno, says))
            if name in IMPORTERS:
                given = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
                module.imports.append(Imported(given if isinstance(given, str) else COMPUTED, node.lineno, at_load))
        case ast.Constant(value=str(text)):
            module.texts.append(Text(text, node.lineno))
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            module.functions.append(Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1))
            at_load = False
        case ast.Lambda():
            at_load = False
        case ast.Name() | ast.Constant():
            return
    for child in ast.iter_child_nodes(node):
        _walk(child, at_load, module, package)


def _called(node: ast.AST) -> str:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return ".".join([node.id if isinstance(node, ast.Name) else "", *names])
