"""Who may import whom: the rooms of the house, over the transitive imports, those inside functions included."""

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
    "conformance",
    "rmq_cli",
    "tests",
    "bench",
)
MAY_ENTER = {
    "rmq_wire": set(),
    "rmq_net": {"rmq_wire"},
    "rmq_store": {"rmq_wire"},
    "broker_impl": {"rmq_wire", "rmq_net", "rmq_store"},
    "rmq_client": {"rmq_wire", "rmq_net"},
    "rmq_columns": {"rmq_wire"},
    "rmq_inspect": {"rmq_wire", "rmq_columns"},
    "rmq_spark": {"rmq_wire", "rmq_client", "rmq_columns"},
    "conformance": {"rmq_wire", "rmq_net", "rmq_client", "rmq_inspect"},
    "rmq_cli": set(ROOMS) - {"tests", "bench"},
}
EXTRA_ARROWS = {"rmq_inspect.repair": {"rmq_store"}, "rmq_spark.__main__": {"rmq_cli"}}
"""Module -> rooms that this one module may enter besides."""
TRIO_ROOMS = {"rmq_net", "rmq_client", "rmq_cli", "conformance"}
TRIO_MODULES = {"broker_impl.broker"}
"""The composition root is the only module of broker_impl that knows trio."""
SERVER_ROOMS = ("rmq_wire", "rmq_net", "rmq_store", "broker_impl")
NEVER_IN_A_SERVER = {"subprocess", "pickle", "marshal", "shelve", "pty", "multiprocessing", "ctypes"}
STORE_NEVER = {"time", "datetime", "threading", "socket", "select", "asyncio", "random"}
"""The store gets its time and its disk handed in.  (`rmq_store.disk` alone talks to the operating system.)"""


def modules(room: str) -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / room).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path: Path, module: str, *, nested: bool = True) -> set[str]:
    """Every module that the text names in an import, relative ones resolved; `nested`: those inside functions too."""
    found: set[str] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree) if nested else when_loaded(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                head = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*head, base]).rstrip(".")
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module", "import_module"):
            argument = node.args[0] if node.args else None
            found.add(argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else "<computed>")
    return found


def when_loaded(node: ast.AST) -> Iterator[ast.AST]:
    """What runs when the module is loaded: everything but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from when_loaded(child)


def path_of(module: str) -> Path:
    path = ROOT / Path(*module.split("."))
    alone = path.with_suffix(".py")
    return alone if alone.exists() else path / "__init__.py"


GRAPH = {name: imports(path, name) for room in ROOMS if (ROOT / room).is_dir() for name, path in modules(room)}


def reached(module: str) -> set[str]:
    """Everything that a module imports, directly or through modules of this repository."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        for name in GRAPH.get(todo.pop(), ()):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def room_of(module: str) -> str:
    return module.partition(".")[0]


PRODUCT = [name for name in GRAPH if room_of(name) in MAY_ENTER]


@pytest.mark.parametrize("module", PRODUCT)
def test_arrows_go_left(module: str) -> None:
    allowed = MAY_ENTER[room_of(module)] | {room_of(module)} | EXTRA_ARROWS.get(module, set())
    entered = {room_of(name) for name in GRAPH[module]} & set(ROOMS)
    assert entered <= allowed, f"{module} enters {sorted(entered - allowed)}"


@pytest.mark.parametrize("module", PRODUCT)
def test_construct_stays_in_the_layouts(module: str) -> None:
    if not module.startswith("rmq_wire.layout"):
        assert "construct" not in {room_of(name) for name in GRAPH[module]}


@pytest.mark.parametrize("module", PRODUCT)
def test_trio_enters_where_it_may(module: str) -> None:
    if room_of(module) not in TRIO_ROOMS and module not in TRIO_MODULES:
        assert "trio" not in {room_of(name) for name in GRAPH[module]}


@pytest.mark.parametrize("room", ["rmq_wire", "rmq_store"])
def test_no_path_leads_to_trio(room: str) -> None:
    for module in PRODUCT:
        if room_of(module) == room:
            assert "trio" not in {room_of(name) for name in reached(module)}, module


@pytest.mark.parametrize("module", [name for name in PRODUCT if room_of(name) in SERVER_ROOMS])
def test_no_server_starts_processes_or_unpickles(module: str) -> None:
    assert not NEVER_IN_A_SERVER & {room_of(name) for name in GRAPH[module]}
    assert "<computed>" not in GRAPH[module]


@pytest.mark.parametrize("module", [name for name in PRODUCT if room_of(name) in SERVER_ROOMS])
def test_no_server_evaluates_text(module: str) -> None:
    source = path_of(module).read_text(encoding="utf-8")
    called = {ast.unparse(n.func) for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)}
    assert not called & {"eval", "exec", "compile", "os.system", "os.popen", "os.fork", "os.execv", "os.posix_spawn"}


@pytest.mark.parametrize("module", [name for name in PRODUCT if room_of(name) == "rmq_store" and name != "rmq_store.disk"])
def test_the_store_has_no_clock(module: str) -> None:
    assert not STORE_NEVER & {room_of(name) for name in GRAPH[module]}


OPTIONAL = {"docker": {"conformance"}, "requests": {"conformance"}}
"""Not among the dependencies -> the rooms that may use it, and only where it is needed: never when a module is loaded."""


@pytest.mark.parametrize("module", PRODUCT)
def test_what_is_optional_is_imported_where_it_is_used(module: str) -> None:
    used = {room_of(name) for name in GRAPH[module]} & set(OPTIONAL)
    assert all(room_of(module) in OPTIONAL[package] for package in used)
    assert not used & {room_of(name) for name in imports(path_of(module), module, nested=False)}


def test_the_rules_see_an_import_inside_a_function(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text("def f():\n    from . import x\n    import trio.lowlevel\n    import_module(name)\n")
    assert imports(source, "room.m") == {"room", "room.x", "trio.lowlevel", "<computed>"}
    assert not imports(source, "room.m", nested=False)
    source.write_text("class C:\n    if x:\n        import docker\n")
    assert imports(source, "room.m", nested=False) == {"docker"}


def test_rmq_wire_imports_nothing_by_itself() -> None:
    assert not GRAPH["rmq_wire"]
