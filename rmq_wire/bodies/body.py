"""What every JSON body has in common: read what any Java writes, write what any Java reads.

Reading is typed first, by `msgspec`; when that fails the text is read once more as the dialect of RocketMQ's JSON libraries (bare
integer keys, objects as keys); and only then value by value, as leniently as Java (`lenience`).  Writing leaves out what is
`None`, in Java's alphabetical order of names.  A body that nests deeper than any real one is refused before it is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, NamedTuple, Self

import msgspec

from rmq_wire import fastjson
from rmq_wire.errors import BadBody

LENIENT_VALUES_MAX: Final = 20_000
"""Values of a body from the wire that are looked at one by one, 20 ms at most.  Clients that need it send some tens."""
ODD_BYTES_MAX: Final = 256 * 1024
"""A body from the wire that its typed decoder refuses gets its second chance up to this size."""
CLIENTS_BYTES_MAX: Final = 16 << 20
"""The same of what only clients and tools read, of servers that they chose: tables of 100,000 queues, keyed by objects."""

_DECODERS: dict[type[Body], msgspec.json.Decoder[Any]] = {}


class Dialect(NamedTuple):
    """How values and the keys of tables are spelled."""

    value: Callable[[Any], bytes]
    key: Callable[[Any], bytes]


STRICT: Final = Dialect(lambda value: fastjson.dumps_strict(_plain(value)), lambda key: fastjson.dumps_strict(str(key)))
"""Quoted keys, as `Body.encode`."""
FASTJSON: Final = Dialect(lambda value: fastjson.dumps_fastjson(_plain(value)), fastjson.dumps_key)
"""Bare integer keys and objects as keys, as `fastjson.dumps_fastjson`."""


class Body(msgspec.Struct, rename="camel", kw_only=True):
    """A JSON body, or a part of one.  Fields have Java's getter names in camel case; `None` is left out when written."""

    odd_bytes_max: ClassVar[int] = ODD_BYTES_MAX

    @classmethod
    def read(cls, body: bytes | bytearray | memoryview) -> Self:
        """The body as this type.  Raises `BadBody` with the first thing that is wrong; an empty body is wrong too."""
        text = bytes(body)
        if fastjson.nests_deeper(text, fastjson.DEPTH_MAX):
            raise BadBody(f"{cls.__name__}: JSON of more than {fastjson.DEPTH_MAX} levels")
        decoder = _DECODERS.get(cls)
        if decoder is None:
            decoder = _DECODERS[cls] = msgspec.json.Decoder(cls)
        try:
            found: Self = decoder.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as wrong:
            if len(text) > cls.odd_bytes_max:
                raise BadBody(f"{cls.__name__}: {len(text)} bytes: {str(wrong)[:200]}") from None
            return cls.from_plain(fastjson.loads(text), LENIENT_VALUES_MAX)
        return found

    @classmethod
    def from_plain(cls, value: Any, lenient_values_max: int = 1 << 62) -> Self:
        """The same from parsed JSON.  Raises `BadBody`."""
        try:
            return msgspec.convert(value, cls, str_keys=True)
        except (msgspec.ValidationError, RecursionError):
            from rmq_wire.bodies import lenience  # by those alone who meet such a body

            return lenience.read_as(cls, value, lenient_values_max)

    def plain(self) -> dict[str, Any]:
        """The body as plain values under the names of the wire, names in order, absent fields left out."""
        found: dict[str, Any] = without_none(msgspec.to_builtins(self, order="sorted"))
        return found

    def encode(self) -> bytes:
        """Strict JSON, which Java's reader of every version takes."""
        return msgspec.json.encode(self.plain())

    def pieces(self, dialect: Dialect = STRICT) -> Iterator[bytes]:
        """The text of `encode`, tables and lists a row at a time: who must not stop for long joins them in slices."""
        before = b"{"
        for field in sorted(msgspec.structs.fields(type(self)), key=lambda field: field.encode_name):
            value = getattr(self, field.name)
            if value is None:
                continue
            yield before + dialect.value(field.encode_name) + b":"
            before = b","
            if isinstance(value, dict):
                yield from table_pieces(((key, dialect.value(row)) for key, row in value.items() if row is not None), dialect)
            elif isinstance(value, list):
                yield from list_pieces(map(dialect.value, value))
            elif isinstance(value, Body):
                yield from value.pieces(dialect)
            else:
                yield dialect.value(value)
        yield b"{}" if before == b"{" else b"}"


class DialectBody(Body):
    """A body with tables that are keyed by number or queue: keys are written bare, queues as objects, which every Java reads."""

    def encode(self) -> bytes:
        """The dialect's text."""
        return fastjson.dumps_fastjson(self.plain())


def without_none(value: Any) -> Any:
    """The same tree without the entries whose value is `None` (lists keep theirs)."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_none(item) for item in value]
    return value


def table_pieces(rows: Iterable[tuple[Any, bytes]], dialect: Dialect = STRICT) -> Iterator[bytes]:
    """An object of rows that are spelled already."""
    before = b"{"
    for key, text in rows:
        yield before + dialect.key(key) + b":" + text
        before = b","
    yield b"{}" if before == b"{" else b"}"


def list_pieces(texts: Iterable[bytes]) -> Iterator[bytes]:
    """An array of elements that are spelled already."""
    before = b"["
    for text in texts:
        yield before + text
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Body) else without_none(value)
