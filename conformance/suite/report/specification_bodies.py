"""The specification's part about bodies: the JSON objects that requests and answers carry, read off `rmq_wire.bodies`."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

import msgspec

import rmq_wire.bodies
from conformance.suite.report.markdown import escaped, table

ABOUT: Final = """\
Most bodies are JSON objects, in the dialect of Java's fastjson: integer keys may stand without quotes, and a table keyed by
queues has objects as keys. A member that is left out has the default. Messages in a body are stored units, one after the other:
their layout, and that of everything else on disk, is in [data.md](data.md); the dialects are in [wire.md](wire.md). Bodies that
are not here are texts of Java properties, lists of names, or described with their request."""
_JAVA_NAME: Final = re.compile(r"\(`(?:[\w.]*\.)?([A-Z]\w+)`\)")
_PLAIN: Final = {int: "number", float: "number", str: "text", bool: "truth value", bytes: "bytes", Any: "anything"}


class Known(NamedTuple):
    """One body."""

    kind: type[msgspec.Struct]
    module: str
    """The documentation of the module that declares it."""


@functools.cache
def known() -> dict[str, Known]:
    """Every body by its name and by its Java name."""
    found: dict[str, Known] = {}
    for module in pkgutil.iter_modules(rmq_wire.bodies.__path__):
        loaded = importlib.import_module(f"rmq_wire.bodies.{module.name}")
        for kind in vars(loaded).values():
            if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == loaded.__name__:
                if not msgspec.structs.fields(kind):
                    continue
                one = Known(kind, inspect.getdoc(loaded) or "")
                found[kind.__name__] = one
                for name in _JAVA_NAME.findall(kind.__doc__ or ""):
                    found.setdefault(name, one)
    return found


def link_to(name: str) -> str:
    """A body's name leading to it, or empty when there is none of that name."""
    one = known().get(name)
    return f"[`{name}`](#body.{one.kind.__name__})" if one else ""


def bodies() -> Iterator[str]:
    """The whole part."""
    yield f'<a id="bodies"></a>\n\n# Bodies\n\n{ABOUT}'
    shown: set[type] = set()
    for one in known().values():
        if one.kind not in shown:
            shown.add(one.kind)
            yield "\n\n".join(
                [
                    f'<a id="body.{one.kind.__name__}"></a>\n\n## {one.kind.__name__}',
                    _doc(one.kind),
                    _fields(one.kind),
                ]
            )


def _doc(kind: type[msgspec.Struct]) -> str:
    """Its documentation in the words of the wire."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
    text = escaped(inspect.cleandoc(kind.__dict__.get("__doc__") or ""))

    def word(match: re.Match[str]) -> str:
        if match[1] == kind.__name__:
            return match[0]
        return link_to(match[1]) or f"`{names.get(match[1], match[1])}`"

    return re.sub(r"`(\w+)`", word, text)


def _fields(kind: type[msgspec.Struct]) -> str:
    fields = msgspec.structs.fields(kind)
    rows = ((f"`{field.encode_name}`", _type(field.type), "" if field.required else _default(field)) for field in fields)
    return table(("member", "type", "default"), rows)


def _default(field: msgspec.structs.FieldInfo) -> str:
    value = field.default
    if value is msgspec.NODEFAULT:
        return "" if isinstance(field.default_factory(), msgspec.Struct) else "empty"
    if value is None:
        return "none"
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode() or "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if not isinstance(value, str) else f"`{value}`" if value else "empty"


def _type(hint: Any) -> str:
    """A type in words: `dict[str, list[int]]` is a table from text to list of number."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(arguments[0])
    if origin in (UnionType, Union):
        return " or ".join(_type(one) for one in arguments if one is not NoneType)
    if origin is dict:
        return f"table: {_type(arguments[0])} → {_type(arguments[1])}"
    if origin in (list, Sequence, set, frozenset, tuple):
        return f"list of {_type(arguments[0])}" if arguments else "list"
    if inspect.isclass(hint) and issubclass(hint, msgspec.Struct):
        return link_to(hint.__name__) or hint.__name__
    return _PLAIN.get(hint) or str(getattr(hint, "__name__", hint))
