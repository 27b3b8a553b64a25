"""Values of JSON body classes to draw, whatever class it is."""

from __future__ import annotations

import typing
from functools import cache
from typing import Annotated, Any

import msgspec
from hypothesis import strategies as st

from rmq_wire.fastjson import MessageQueue

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """What may stand in a field of this type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return TEXT
    if origin is Annotated:
        mark = inner[1]
        return st.sampled_from(mark.extra["names"]) if mark.extra else st.integers(mark.ge, mark.le)
    if inner and type(None) in inner:
        return st.none() | values(next(part for part in inner if part is not type(None)))
    if origin is dict:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if origin is list:
        return st.lists(values(inner[0]), max_size=3)
    if hint is MessageQueue:
        return st.builds(MessageQueue, TEXT, TEXT, st.integers(-(2**31), 2**31 - 1))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return bodies(hint)
    found: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXT,
        int: st.integers(-(2**63), 2**63 - 1),
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
    }
    return found[hint]


@cache
def bodies(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a body class."""
    return st.builds(kind, **{field.name: values(field.type) for field in msgspec.structs.fields(kind)})
