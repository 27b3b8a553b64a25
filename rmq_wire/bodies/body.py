"""What every JSON body has in common: read what any Java writes, write what any Java reads.

Reading is typed first (`msgspec`, lax about numbers in quotes); when that fails the text is read once more as the dialect of
RocketMQ's JSON libraries (bare integer keys, objects as keys, `null` for "leave the default").  Writing leaves out what is
`None`, in Java's alphabetical order of names.  A body that nests deeper than any real one is refused before it is parsed.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec

from rmq_wire import fastjson
from rmq_wire.errors import BadBody

_DECODERS: dict[type[Body], msgspec.json.Decoder[Any]] = {}


class Body(msgspec.Struct, rename="camel", kw_only=True):
    """A JSON body, or a part of one.  Fields have Java's getter names in camel case; `None` is left out when written."""

    @classmethod
    def read(cls, body: bytes | bytearray | memoryview) -> Self:
        """The body as this type.  Raises `BadBody` with the first thing that is wrong; an empty body is wrong too."""
        text = bytes(body)
        if fastjson.nests_deeper(text, fastjson.DEPTH_MAX):
            raise BadBody(f"{cls.__name__}: JSON of more than {fastjson.DEPTH_MAX} levels")
        decoder = _DECODERS.get(cls)
        if decoder is None:
            decoder = _DECODERS[cls] = msgspec.json.Decoder(cls, strict=False)
        try:
            found: Self = decoder.decode(text)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return cls.from_plain(fastjson.loads(text))
        return found

    @classmethod
    def from_plain(cls, value: Any) -> Self:
        """The same from parsed JSON.  Raises `BadBody`."""
        try:
            return msgspec.convert(without_none(value), cls, strict=False)
        except (msgspec.ValidationError, RecursionError) as wrong:
            raise BadBody(f"{cls.__name__}: {str(wrong)[:200]}") from None

    def plain(self) -> dict[str, Any]:
        """The body as plain values under the names of the wire, names in order, absent fields left out."""
        found: dict[str, Any] = without_none(msgspec.to_builtins(self, order="sorted"))
        return found

    def encode(self) -> bytes:
        """Strict JSON, which Java's reader of every version takes."""
        return msgspec.json.encode(self.plain())


def without_none(value: Any) -> Any:
    """The same tree without the entries whose value is `None` (lists keep theirs)."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_none(item) for item in value]
    return value
