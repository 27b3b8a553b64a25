"""How one class statement becomes a header codec and a row of the registry.

A header is a `msgspec.Struct`; its wire names are the camel case of its field names, or what `wire("name")` says.  A request
names its code, who answers it and with which header in the class statement; the statement itself enters it into `REQUESTS`.
Decoding is typed first (lax: every value of the wire is text); when that fails, `decode_lenient` reads once more as Java's
reflection decoder does (`RemotingCommand.decodeCommandCustomHeader`): unreadable text is an error only for the field's own type.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, Union, dataclass_transform, get_args, get_origin

import msgspec

from rmq_wire.errors import BadHeader

I32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's `int`."""
I64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Java's `long`."""


class Role(enum.Flag):
    """Who answers a request."""

    BROKER = enum.auto()
    CLIENT = enum.auto()
    NAME_SERVER = enum.auto()
    CONTROLLER = enum.auto()


class Field(NamedTuple):
    """One header field: our name, its name on the wire, its type (`str`, `int`, `bool`, `float`) with `bits` for integers."""

    name: str
    wire: str
    kind: type
    bits: int
    required: bool


def wire(name: str, *, default: Any = msgspec.NODEFAULT) -> Any:
    """Give a field the name it has on the wire, where camel case is not it."""
    return msgspec.field(name=name, default=default)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
class _HeaderMeta(msgspec.StructMeta):
    """Takes the keywords of a request's class statement; every header is keyword-only, camel case on the wire, unseen by gc."""

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        code: int | None = None,
        to: Role | None = None,
        reply: type[Header] | None = None,
        **options: Any,
    ) -> Any:
        options.setdefault("rename", "camel")
        options.setdefault("kw_only", True)
        options.setdefault("gc", False)
        options.setdefault("omit_defaults", False)
        cls: Any = super().__new__(mcls, name, bases, namespace, **options)
        if code is not None:
            cls.code, cls.reply = code, reply or Header
            cls.to = to if to is not None else cls.to
            _register(cls)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, namespace)


class Header(msgspec.Struct, metaclass=_HeaderMeta):
    """The named fields of one command.  No default: Java marks it not-null.  `| None = None`: may be absent."""

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The declared fields in order; cached per class."""
        known = _FIELDS.get(cls)
        if known is None:
            known = _FIELDS[cls] = tuple(_field(info) for info in msgspec.structs.fields(cls))
        return known

    @classmethod
    def decode(cls, ext: Mapping[str, str]) -> Self:
        """Read a map of texts.  Raises `BadHeader` naming the field that is missing or mistyped."""
        try:
            return msgspec.convert(ext, cls, strict=False)
        except msgspec.ValidationError:
            return decode_lenient(cls, ext)

    def encode(self) -> dict[str, str]:
        """The map of texts that Java would put into extFields: absent fields are left out, booleans are `true`/`false`."""
        return {f.wire: _text(value) for f in self.fields() if (value := getattr(self, f.name)) is not None}


class Request(Header):
    """A header with a code of its own.  `code`, `to` and `reply` come from the class statement."""

    code: ClassVar[int]
    to: ClassVar[Role]
    reply: ClassVar[type[Header]] = Header


REQUESTS: dict[tuple[Role, int], type[Request]] = {}
"""Every declared request, by who answers it and its code.  Filled by importing `rmq_wire.headers.*`."""

_FIELDS: dict[type[Header], tuple[Field, ...]] = {}
_H = TypeVar("_H", bound=Header)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _register(cls: type[Request]) -> None:
    for role in cls.to:
        taken = REQUESTS.setdefault((role, cls.code), cls)
        if taken is not cls:
            raise TypeError(f"code {cls.code} to {role.name} is both {taken.__name__} and {cls.__name__}")


def _field(info: msgspec.structs.FieldInfo) -> Field:
    kind, bits = _kind(info.type)
    return Field(info.name, info.encode_name, kind, bits, info.required)


def _kind(hint: Any) -> tuple[type, int]:
    if get_origin(hint) in (UnionType, Union):
        [hint] = [part for part in get_args(hint) if part is not type(None)]
    if hint == I32:
        return int, 32
    if hint == I64:
        return int, 64
    if hint in (str, bool, float):
        return hint, 0
    raise TypeError(f"no text form for {hint!r}: a header field is str, bool, float, I32 or I64")


def _text(value: Any) -> str:
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


def decode_lenient(cls: type[_H], ext: Mapping[str, Any]) -> _H:
    """Read as Java's parsers do: `007` and `+7` are numbers, any text but `true` is false, a JSON number may stand for text.

    Raises `BadHeader` that names every missing field, or the first whose text its type does not take.
    """
    missing = [f.wire for f in cls.fields() if f.required and ext.get(f.wire) is None]
    if missing:
        raise BadHeader(f"{cls.__name__}: the custom field <{'>, <'.join(missing)}> is null")
    values = {f.name: _read(cls, f, ext[f.wire]) for f in cls.fields() if ext.get(f.wire) is not None}
    return cls(**values)


def _read(cls: type[Header], field: Field, value: Any) -> Any:
    text = value if isinstance(value, str) else _text(value)
    if field.kind is str:
        return text
    if field.kind is bool:
        return text.lower() == "true"
    if field.kind is float:
        try:
            return float(text)
        except ValueError:
            raise BadHeader(f"{cls.__name__}: {field.wire} is not a number: {text[:64]!r}") from None
    if len(text) <= 20 and _INTEGER.fullmatch(text):
        number = int(text)
        if -(1 << (field.bits - 1)) <= number < 1 << (field.bits - 1):
            return number
    raise BadHeader(f"{cls.__name__}: {field.wire} is not a {field.bits}-bit integer: {text[:64]!r}")
