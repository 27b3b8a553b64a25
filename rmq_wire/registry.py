"""The declared requests as rows to print: what `rmq codes` shows and documents are made from.

Nothing is kept here: rows are read off the classes.  Importing this module imports every header.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import rmq_wire.headers.all  # noqa: F401  (fills REQUESTS)
from rmq_wire.codes import RequestCode
from rmq_wire.declare import REQUESTS, Field, Header, Request, Role


class Row(NamedTuple):
    """One request code that a role of 5.5.0 answers."""

    code: int
    name: str
    """Java's name of the code."""
    roles: tuple[str, ...]
    """Who answers: `broker`, `name_server`, `client`."""
    request: str
    """The class that declares it."""
    fields: tuple[Field, ...]
    reply: str
    """The class of the answer's header; `Header` when it has no fields."""
    reply_fields: tuple[Field, ...]
    doc: str
    """The first line of the class's documentation, without the Java class that it names."""


def rows(role: Role | None = None) -> list[Row]:
    """Every declared request once, or those that `role` answers, in the order of their codes."""
    answering: dict[type[Request], list[str]] = {}
    for (who, _), request in sorted(REQUESTS.items(), key=lambda entry: (entry[0][1], entry[0][0].value)):
        if role is None or who in role:
            answering.setdefault(request, []).append(str(who.name).lower())
    return [_row(request, tuple(roles)) for request, roles in answering.items()]


def as_json(role: Role | None = None) -> list[dict[str, Any]]:
    """The rows as plain lists and dicts; a field is `{"name", "type", "required"}` under its wire name."""
    return [
        {
            "code": row.code,
            "name": row.name,
            "roles": list(row.roles),
            "request": row.request,
            "fields": [_plain(field) for field in row.fields],
            "reply": row.reply,
            "reply_fields": [_plain(field) for field in row.reply_fields],
            "doc": row.doc,
        }
        for row in rows(role)
    ]


def type_name(field: Field) -> str:
    """A field's type in Java's words: `String`, `int`, `long` or `boolean`."""
    if field.kind is str:
        return "String"
    if field.kind is bool:
        return "boolean"
    return "int" if field.bits == 32 else "long"


def _row(request: type[Request], roles: tuple[str, ...]) -> Row:
    reply: type[Header] = request.reply
    return Row(
        code=request.code,
        name=RequestCode(request.code).name,
        roles=roles,
        request=request.__name__,
        fields=request.fields(),
        reply=reply.__name__,
        reply_fields=reply.fields(),
        doc=inspect.cleandoc(request.__doc__ or "").partition("\n")[0].partition("  Source: ")[0],
    )


def _plain(field: Field) -> dict[str, Any]:
    return {"name": field.wire, "type": type_name(field), "required": field.required}
