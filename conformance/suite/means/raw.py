"""Frames that no encoder of ours would make: pieces put together by hand, right or wrong, out of the declared layouts."""

from __future__ import annotations

from typing import Final

from rmq_wire.layout.flat import flat
from rmq_wire.layout.frame import BINARY_HEAD, PREFIX, TYPE_SHIFT

_PREFIX: Final = flat(PREFIX).packed
_HEAD: Final = flat(BINARY_HEAD).packed
_UNSIGNED: Final = 0xFFFFFFFF
JAVA: Final = 0
VERSION: Final = 513
JSON: Final = 0
ROCKETMQ: Final = 1


def i16(number: int) -> bytes:
    """Two bytes as Java writes a short."""
    return number.to_bytes(2, "big", signed=True)


def i32(number: int) -> bytes:
    """Four bytes as Java writes an int."""
    return number.to_bytes(4, "big", signed=True)


def prefix(length: int, header_size: int, *, form: int = JSON) -> bytes:
    """A frame's first eight bytes, whatever they announce."""
    return _PREFIX.pack(length & _UNSIGNED, form << TYPE_SHIFT | header_size)


def frame(header: bytes, body: bytes = b"", *, form: int = JSON) -> bytes:
    """A frame round this header, with true lengths."""
    return prefix(4 + len(header) + len(body), len(header), form=form) + header + body


def binary_header(code: int, opaque: int, rest: bytes) -> bytes:
    """A binary header of a request up to the remark's length; `rest` begins with that length."""
    return bytes(_HEAD.pack(code, JAVA, VERSION, opaque, 0, 0))[: -len(i32(0))] + rest
