"""The methods of the client's two other faces, made from those of its core (`make pages`).

A type checker, an editor and `help` see the core's own signature and text in each face, and a face is imported without the core:
no decorator can give both.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from rmq_client import client, groups, topics
from rmq_client.consuming import pulling
from rmq_client.producing import producer

METHODS: Final[dict[type, tuple[str, ...]]] = {
    producer.Producer: ("send", "send_oneway", "send_batch", "queues"),
    pulling.Puller: (
        "queues",
        "pull",
        "messages",
        "min_offset",
        "max_offset",
        "offset_at",
        "earliest_store_time",
        "committed_offset",
        "commit_offset",
    ),
    topics.Topics: ("names", "show", "create", "delete"),
    groups.Groups: ("names", "lag"),
    client.Client: ("producer", "puller", "topics", "groups"),
}
"""What the faces have.  A coroutine is waited for, what makes an object makes the face of that object."""
READING: Final = {"messages": "reading"}
"""An iterator over messages: from what gives the same pull by pull."""
WIDTH: Final = 130


class Way(NamedTuple):
    """How a face waits."""

    name: str
    thread: str
    thread_module: str
    define: str
    call: str
    iterator: str
    give_all: tuple[str, ...]


BLOCKING: Final = Way("blocking", "BlockingThread", "rmq_client.faces.loop_thread", "def", "", "Iterator", ("yield from found",))
AIO: Final = Way(
    "asyncio",
    "AsyncioThread",
    "rmq_client.faces.asyncio_thread",
    "async def",
    "await ",
    "AsyncIterator",
    ("for message in found:", "    yield message"),
)


def source(way: Way) -> str:
    """The module's text."""
    made = [_Class(kind, names, way) for kind, names in METHODS.items()]
    loaded: defaultdict[str, set[str]] = defaultdict(set, {"functools": {"partial"}})
    typed: defaultdict[str, set[str]] = defaultdict(set, {way.thread_module: {way.thread}})
    for one in made:
        typed[one.package].add(one.module)
        for module, names in one.loaded.items():
            loaded[module] |= names
        for module, names in one.typed.items():
            typed[module] |= names
    for module, names in loaded.items():
        typed[module] -= names
    loaded["typing"].add("TYPE_CHECKING")
    lines = [
        f'"""What the {way.name} face has of each object: the core\'s methods, as they are there.',
        "",
        "Made from those by `make pages` (`tests/support/face_methods.py`); change them, not this.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *_imports(loaded, ""),
        "",
        "if TYPE_CHECKING:",
        *_imports(typed, "    "),
    ]
    for one in made:
        lines += ["", "", *one.lines]
    return "\n".join(lines) + "\n"


class _Class:
    def __init__(self, kind: type, names: tuple[str, ...], way: Way) -> None:
        self._module = sys.modules[kind.__module__]
        self._way = way
        self.package, _, self.module = kind.__module__.rpartition(".")
        self.loaded: defaultdict[str, set[str]] = defaultdict(set)
        self.typed: defaultdict[str, set[str]] = defaultdict(set)
        [tree] = [one for one in ast.parse(inspect.getsource(self._module)).body if getattr(one, "name", "") == kind.__name__]
        assert isinstance(tree, ast.ClassDef)
        methods = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
        self.lines = [
            f"class {kind.__name__}:",
            f'    """As `{kind.__module__}.{kind.__name__}`."""',
            "",
            f"    def __init__(self, loop: {way.thread}, own: {self.module}.{kind.__name__}) -> None:",
            "        self._loop = loop",
            "        self._own = own",
        ]
        for name in names:
            self.lines += ["", *(f"    {line}" if line else "" for line in self._method(methods[name]))]

    def _method(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
        """A property, what makes an object, an iterator, or what is waited for."""
        assert method.returns is not None
        way, returns, own = self._way, ast.unparse(method.returns), f"self._own.{method.name}"
        self._note(method)
        given = _passed_on(method.args)
        if isinstance(method, ast.FunctionDef):
            made = f"lambda: {own}" if method.decorator_list else f"partial({', '.join([own, *given])})"
            if method.decorator_list:
                yield "@property"
            yield from self._opened(method, "def", returns)
            yield f"    return {returns}(self._loop, self._loop.run_sync({made}))"
        elif method.name in READING:
            self.typed["collections.abc"] -= {"AsyncIterator"}
            self.typed["collections.abc"].add(way.iterator)
            yield from self._opened(method, way.define, returns.replace("AsyncIterator", way.iterator))
            yield f"    reading = self._own.{READING[method.name]}({', '.join(given)})"
            yield f"    while (found := {way.call}self._loop.call(reading.next)) is not None:"
            yield from (f"        {line}" for line in way.give_all)
        else:
            yield from self._opened(method, way.define, returns)
            made = f"partial({', '.join([own, *given])})" if given else own
            call = f"{'' if returns == 'None' else 'return '}{way.call}self._loop.call("
            if len(f"{call}{made})") <= WIDTH - 8:
                yield f"    {call}{made})"
            else:
                yield from (
                    f"    {call}",
                    *(f"        {line}" for line in _broken("partial", [own, *given], WIDTH - 12)),
                    "    )",
                )

    def _opened(self, method: ast.FunctionDef | ast.AsyncFunctionDef, define: str, returns: str) -> Iterator[str]:
        """Its signature, as the formatter breaks it, and its text."""
        yield from _broken(f"{define} {method.name}", _parameters(method.args), WIDTH - 4, f" -> {returns}:")
        text = ast.get_docstring(method)
        assert text
        first, *others = text.splitlines()
        if not others:
            yield f'    """{first}"""'
            return
        yield f'    """{first}'
        yield from (f"    {line}" if line else "" for line in others)
        yield '    """'

    def _note(self, method: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """What its signature names: defaults are needed when the module is loaded, the rest by type checkers alone."""
        defaults = [one for one in (*method.args.defaults, *method.args.kw_defaults) if one is not None]
        for one in defaults:
            self._needs(one, self.loaded)
        annotations = [one.annotation for one in _all(method.args) if one.annotation is not None]
        for one in (*annotations, method.returns):
            if one is not None:
                self._needs(one, self.typed)

    def _needs(self, said: ast.expr, into: defaultdict[str, set[str]]) -> None:
        faces = {kind.__name__ for kind in METHODS}
        for one in ast.walk(said):
            if isinstance(one, ast.Name) and one.id not in faces and not hasattr(builtins, one.id):
                into[self._home_of(one.id)].add(one.id)

    def _home_of(self, name: str) -> str:
        for one in ast.walk(ast.parse(inspect.getsource(self._module))):
            if isinstance(one, ast.ImportFrom) and any(alias.name == name for alias in one.names):
                return one.module or ""
        return self._module.__name__


def _all(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.args, *arguments.kwonlyargs, *([arguments.kwarg] if arguments.kwarg else [])]


def _parameters(arguments: ast.arguments) -> list[str]:
    """As they are declared.  `ast.unparse` writes defaults without blanks round the sign where there is an annotation."""
    found = []
    plain = [None] * (len(arguments.args) - len(arguments.defaults)) + list[Any](arguments.defaults)
    for one, default in zip(arguments.args, plain, strict=True):
        found.append(_parameter(one, default))
    if arguments.kwonlyargs:
        found.append("*")
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_parameter(one, default))
    if arguments.kwarg:
        found.append(f"**{ast.unparse(arguments.kwarg)}")
    return found


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(one) + (f" = {ast.unparse(default)}" if default is not None else "")


def _passed_on(arguments: ast.arguments) -> list[str]:
    """As the core gets them."""
    own = [one.arg for one in arguments.args if one.arg != "self"]
    own += [f"{one.arg}={one.arg}" for one in arguments.kwonlyargs]
    return own + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg else [])


def _broken(before: str, inside: list[str], room: int, after: str = "") -> Iterator[str]:
    """`before(inside)after` as the formatter breaks it: on one line, what is inside on one line, or each on one."""
    if len(f"{before}({', '.join(inside)}){after}") <= room:
        yield f"{before}({', '.join(inside)}){after}"
    elif len(f"    {', '.join(inside)}") <= room:
        yield from (f"{before}(", f"    {', '.join(inside)}", f"){after}")
    else:
        yield from (f"{before}(", *(f"    {one}," for one in inside), f"){after}")


def _imports(of: dict[str, set[str]], indent: str) -> Iterator[str]:
    """In the order of the linter: the library's, then ours."""
    found = {
        module: f"from {module} import {', '.join(sorted(names, key=_order))}" for module, names in sorted(of.items()) if names
    }
    library = [line for module, line in found.items() if not module.startswith("rmq_")]
    ours = [line for module, line in found.items() if module.startswith("rmq_")]
    yield from (indent + line for line in library)
    if library and ours:
        yield ""
    yield from (indent + line for line in ours)


def _order(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name
