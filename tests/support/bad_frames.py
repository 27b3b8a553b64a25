"""Frames that no client sends, byte by byte."""

from __future__ import annotations

import json
import struct
from typing import Any

from rmq_wire.command import Form, encode_request

WITNESS = "Witness"
"""The topic that is asked for; no attack guesses its name: who may administrate may also forbid."""
FRAME_BYTES_MAX = 16_777_216
HEAD = struct.Struct(">hbhii")
"""Fixed part of a binary header: code, language, version, opaque, flag."""


def prefix(length: int, header_size: int, form: int = 0) -> bytes:
    """The first 8 bytes of a frame."""
    return struct.pack(">iI", length, form << 24 | header_size)


def json_frame(header: bytes, body: bytes = b"", form: int = 0) -> bytes:
    """A frame round any header; its lengths are right."""
    return prefix(4 + len(header) + len(body), len(header), form) + header + body


def json_header(opaque: int = 7, code: Any = 30, **more: Any) -> bytes:
    """A sound header (GET_MAX_OFFSET of the witness's queue), but for `more`."""
    fields = {"topic": WITNESS, "queueId": "0"}
    return json.dumps({"code": code, "extFields": fields, "flag": 0, "opaque": opaque, "version": 513, **more}).encode()


def binary(
    *entries: bytes, remark: bytes = b"", remark_size: int | None = None, ext_size: int | None = None, tail: bytes = b""
) -> bytes:
    """A frame with a binary header; sizes are right where none is given."""
    ext = b"".join(entries)
    header = HEAD.pack(30, 0, 513, 7, 0) + struct.pack(">i", len(remark) if remark_size is None else remark_size) + remark
    header += struct.pack(">i", len(ext) if ext_size is None else ext_size) + ext + tail
    return json_frame(header, form=1)


def entry(name: bytes, value: bytes, name_size: int | None = None, value_size: int | None = None) -> bytes:
    """One ext field of a binary header."""
    sizes = (len(name) if name_size is None else name_size, len(value) if value_size is None else value_size)
    return struct.pack(">H", sizes[0] & 0xFFFF) + name + struct.pack(">i", sizes[1]) + value


def header_and_body(code: int, fields: dict[str, str], body: bytes, form: Form) -> bytes:
    """A request number 7; also of texts that are no UTF-8, for JSON spells them with escapes."""
    if form is Form.ROCKETMQ:
        return encode_request(code, None, body, opaque=7, form=form, ext=fields)
    header = json.dumps({"code": code, "opaque": 7, "version": 513, "extFields": fields}).encode()
    return (4 + len(header) + len(body)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body
