"""How one class statement becomes a header codec and a row of the registry.

A header is a `msgspec.Struct`; its wire names are the camel case of its field names, or what `wire("name")` says.  A request
names its code, who answers it and with which header in the class statement; the statement itself enters it into `REQUESTS`.
Decoding is typed first (lax: every value of the wire is text); when that fails, `decode_lenient` reads once more as Java does
(`RemotingCommand.decodeCommandCustomHeader`), which takes more spellings and forgives what the handler can do without.
Where the typed reader takes more than Java it is harmless (`1.0` for an integer), or put right here (`1` is not true).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, TypeVar, Union, dataclass_transform, get_args, get_origin

import msgspec

from rmq_wire.errors import BadHeader

I32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's `int`."""
I64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""Java's `long`."""

# Java marks some primitive members not-null.  A sender must fill them in, yet where one does not, the receiver's member keeps
# Java's zero and the request goes on.  These types say so: required of us, forgiven to others.
I32OrZero = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1, extra={"absent": 0})]
I64OrZero = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra={"absent": 0})]
BoolOrFalse = Annotated[bool, msgspec.Meta(extra={"absent": False})]


NULL: Final = "null"
"""A text that is null, where Java joins it with others: in the key of a row, in a remark."""


class Role(enum.Flag):
    """Who answers a request."""

    BROKER = enum.auto()
    CLIENT = enum.auto()
    NAME_SERVER = enum.auto()
    CONTROLLER = enum.auto()


class Field(NamedTuple):
    """One header field: our name, its name on the wire, its type (`str`, `int`, `bool`) with `bits` for integers.

    `required`: Java marks it not-null.  `absent`: what stands in for a required one that is missing or unreadable, if anything.
    """

    name: str
    wire: str
    kind: type
    bits: int
    required: bool
    absent: int | None = None


def wire(name: str, *, default: Any = msgspec.NODEFAULT) -> Any:
    """Give a field the name it has on the wire, where camel case is not it."""
    return msgspec.field(name=name, default=default)


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
        fast: bool | None = None,
        unmissed: Mapping[str, str | int] | None = None,
        **options: Any,
    ) -> Any:
        options.setdefault("rename", "camel")
        options.setdefault("kw_only", True)
        options.setdefault("gc", False)
        options.setdefault("omit_defaults", False)
        cls: Any = super().__new__(mcls, name, bases, namespace, **options)
        if fast is not None:
            cls.fast = fast
        if unmissed is not None:
            cls.unmissed = unmissed
        if code is not None:
            cls.code, cls.reply = code, reply or Header
            cls.to = to if to is not None else cls.to
            _register(cls)
        return cls

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_: Any) -> None:
        super().__init__(name, bases, namespace)


@dataclass_transform(kw_only_default=True, field_specifiers=(wire,))
class Header(msgspec.Struct, metaclass=_HeaderMeta):
    """The named fields of one command.  No default: Java marks it not-null.  `| None = None`: may be absent.

    The keyword `fast=True` says that Java decodes it by hand (`FastCodesHeader`): there an unreadable optional field fails the
    request, elsewhere it counts as absent.  `unmissed`: required fields that Java's handler does without, and what stands in for
    one that is missing; or, where Java does not decode by hand, unreadable.
    """

    fast: ClassVar[bool] = False
    unmissed: ClassVar[Mapping[str, str | int]] = {}

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """The declared fields, those of base classes first; cached per class."""
        return _codec(cls).fields

    @classmethod
    def decode(cls, ext: Mapping[str, str]) -> Self:
        """Read a map of texts.  Raises `BadHeader` naming the field that is missing or mistyped."""
        try:
            header = msgspec.convert(ext, cls, strict=False)
        except msgspec.ValidationError:
            return decode_lenient(cls, ext)
        codec = _codec(cls)
        if codec.truths is not None and True in codec.truths(header) and not _spelled_true(codec, header, ext):
            return decode_lenient(cls, ext)
        return header

    @classmethod
    def decode_json(cls, ext: bytes | memoryview) -> Self:
        """Read the JSON text of extFields without making a map of it.  Raises `BadHeader`, also when it is no JSON object."""
        codec = _CODECS.get(cls) or _codec(cls)
        _, typed, truths, _ = codec
        try:
            header: Self = typed(ext)
        except msgspec.DecodeError:
            return decode_lenient(cls, _read_map(cls, ext))
        if truths is not None and True in truths(header):
            read = _read_map(cls, ext)
            return header if _spelled_true(codec, header, read) else decode_lenient(cls, read)
        return header

    def encode(self) -> dict[str, str]:
        """The map of texts that Java would put into extFields: absent fields are left out, booleans are `true`/`false`."""
        codec = _CODECS.get(type(self)) or _codec(type(self))
        found: dict[str, str] = {}
        for name, own in codec.names:
            value = getattr(self, own)
            if value is not None:
                kind = type(value)
                found[name] = value if kind is str else str(value) if kind is int else _text(value)
        return found


class Request(Header):
    """A header with a code of its own.  `code`, `to` and `reply` come from the class statement."""

    code: ClassVar[int]
    to: ClassVar[Role]
    reply: ClassVar[type[Header]] = Header


REQUESTS: dict[tuple[Role, int], type[Request]] = {}
"""Every declared request, by who answers it and its code.  Filled by importing `rmq_wire.headers.*`."""


class _Codec(NamedTuple):
    """What decoding needs to know of a class, made when it is first decoded.

    `truths` fetches its booleans: the typed reader takes `1` for true, which Java does not, so a true one is looked at again.
    """

    fields: tuple[Field, ...]
    json: Callable[[bytes | memoryview], Any]
    truths: Callable[[Any], tuple[Any, ...]] | None
    names: tuple[tuple[str, str], ...]
    """Of the fields: on the wire, and ours."""


_CODECS: dict[type[Header], _Codec] = {}
_H = TypeVar("_H", bound=Header)
_INTEGER = re.compile(r"[+-]?(?:(?![\U00010000-\U0010ffff])\d)+")
"""What `Integer.parseInt` takes: a sign and decimal digits of any script, of one UTF-16 unit each (`Character.digit`)."""


def _codec(cls: type[Header]) -> _Codec:
    codec = _CODECS.get(cls)
    if codec is None:
        fields = tuple(_field(info) for info in msgspec.structs.fields(cls))
        booleans = [field.name for field in fields if field.kind is bool]
        truths = attrgetter(*booleans, *booleans[:1]) if booleans else None  # two names at least: it returns a tuple then
        names = tuple((field.wire, field.name) for field in fields)
        codec = _CODECS[cls] = _Codec(fields, msgspec.json.Decoder(cls, strict=False).decode, truths, names)
    return codec


def typed_reader(cls: type[_H]) -> tuple[Callable[[Any], _H], Callable[[Any], tuple[Any, ...]] | None]:
    """The quick half of `decode_json`: a decoder of JSON text, and what fetches the booleans of its result, if there are any.

    When the decoder raises, or one of the booleans is true, `decode_json` has the last word.
    """
    codec = _codec(cls)
    return codec.json, codec.truths


def _spelled_true(codec: _Codec, header: Header, ext: Mapping[str, Any]) -> bool:
    """Whether every boolean that was read as true says `true`, in any case, as `Boolean.parseBoolean` wants it."""
    return all(
        _text(ext[field.wire]).lower() == "true"
        for field in codec.fields
        if field.kind is bool and field.wire in ext and getattr(header, field.name) is True
    )


def _register(cls: type[Request]) -> None:
    for role in cls.to:
        taken = REQUESTS.setdefault((role, cls.code), cls)
        if taken is not cls:
            raise TypeError(f"code {cls.code} to {role.name} is both {taken.__name__} and {cls.__name__}")


def _field(info: msgspec.structs.FieldInfo) -> Field:
    kind, bits, absent = _kind(info.type)
    return Field(info.name, info.encode_name, kind, bits, info.required, absent)


def _kind(hint: Any) -> tuple[type, int, int | None]:
    if get_origin(hint) in (UnionType, Union):
        [hint] = [part for part in get_args(hint) if part is not type(None)]
    if hint in (str, bool):
        return hint, 0, None
    if hint == BoolOrFalse:
        return bool, 0, False
    if hint in (I32, I32OrZero):
        return int, 32, 0 if hint == I32OrZero else None
    if hint in (I64, I64OrZero):
        return int, 64, 0 if hint == I64OrZero else None
    raise TypeError(f"no text form for {hint!r}: a header field is str, bool, I32 or I64")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _read_map(cls: type[Header], ext: bytes | memoryview) -> dict[str, Any]:
    try:
        read = msgspec.json.decode(ext)
    except msgspec.DecodeError as wrong:
        raise BadHeader(f"{cls.__name__}: extFields are not JSON: {wrong}") from None
    if not isinstance(read, dict):
        raise BadHeader(f"{cls.__name__}: extFields are not a JSON object")
    return read


def decode_lenient(cls: type[_H], ext: Mapping[str, Any]) -> _H:
    """Read as Java's decoders do.

    `007`, `+7` and digits of any script are numbers, any text but `true` is false, a JSON number may stand for a text.  An
    optional field that cannot be read counts as absent (in a `fast` header it is an error); a missing or unreadable primitive
    is zero.  Raises `BadHeader` that names every missing required field, or the first unreadable one: Java fills in null there
    and mostly fails later, in the handler, with the same code.  Where it does not, the class may say so (`unmissed`).
    """
    values: dict[str, Any] = {}
    missing = []
    for field in cls.fields():
        given = ext.get(field.wire)
        value = None if given is None else _read(field, _text(given))
        if value is not None:
            values[field.name] = value
        elif field.absent is not None:
            values[field.name] = field.absent
        elif field.name in cls.unmissed and (given is None or not cls.fast):
            values[field.name] = cls.unmissed[field.name]
        elif given is not None and (field.required or cls.fast):
            expected = "a truth value" if field.kind is bool else f"a {field.bits}-bit integer"
            raise BadHeader(f"{cls.__name__}: {field.wire} is not {expected}: {_text(given)[:64]!r}")
        elif field.required:
            missing.append(field.wire)
    if missing:
        raise BadHeader(f"{cls.__name__}: the custom field <{'>, <'.join(missing)}> is null")
    return cls(**values)


def _read(field: Field, text: str) -> str | int | None:
    """The value of a text, or None when the field's type does not take it."""
    if field.kind is str:
        return text
    if field.kind is bool:
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        try:
            number = int(text)
        except ValueError:  # more digits than Python cares to convert
            return None
        if -(1 << (field.bits - 1)) <= number < 1 << (field.bits - 1):
            return number
    return None
