"""A frame as mutators handle it: taken apart, changed, put together again, in either header form.

Written without `rmq_wire`'s encoder, which refuses to write what is wrong; a mutator must be able to.  Message units in bodies
are changed in place at their fixed offsets.  Sources: `RemotingCommand`, `RocketMQSerializable`, `MessageDecoder`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from conformance.capture.recorder import split
from rmq_wire.message import read_unit

JSON, BINARY = 0, 1
RESPONSE, ONE_WAY = 1, 2
"""Bits of the flag."""
_PREFIX: Final = struct.Struct(">iI")
_HEAD: Final = struct.Struct(">hbhii")
"""Code, language, version, opaque, flag of the binary form."""
_TYPE_SHIFT: Final = 24

QUEUE_OFFSET_AT: Final = 20
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_TIMESTAMP_AT: Final = 56
RECONSUME_AT: Final = 72
BODY_AT: Final = 88
"""Places in a unit whose hosts are IPv4."""
HOST: Final = struct.Struct(">4si")
"""Address and port, as units hold them."""

Edit = Callable[[bytearray], bytearray | None]
"""A unit -> what stands in its place; None: nothing."""


class Message:
    """One request or response.  `read` raises `ValueError` for what cannot be changed; such frames pass as they are."""

    def __init__(self, form: int, head: dict[str, Any], body: bytes) -> None:
        self.form = form
        self.code = int(head.get("code", 0))
        self.language = head.get("language", "JAVA")
        self.version = int(head.get("version", 0))
        self.opaque = int(head.get("opaque", 0))
        self.flag = int(head.get("flag", 0))
        self.remark: str | None = head.get("remark")
        fields = head.get("extFields")
        self.has_fields = fields is not None
        self.ext: dict[str, Any] = dict(fields or {})
        self.body = body

    @classmethod
    def read(cls, frame: bytes) -> Message:
        """A whole frame, its length field included."""
        form, header, body = split(frame)
        if form == JSON:
            try:
                head = json.loads(header)
            except UnicodeDecodeError as wrong:
                raise ValueError(str(wrong)) from None
            if not isinstance(head, dict):
                raise ValueError("a header that is no object")
            return cls(form, head, body)
        if form != BINARY:
            raise ValueError(f"header form {form}")
        try:
            return cls(form, _read_binary(header), body)
        except struct.error as wrong:
            raise ValueError(str(wrong)) from None

    @property
    def is_response(self) -> bool:
        """It answers a request."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Nobody waits for an answer."""
        return bool(self.flag & ONE_WAY)

    def answer(
        self, code: int = 0, *, ext: dict[str, Any] | None = None, remark: str | None = None, body: bytes = b""
    ) -> Message:
        """A response to this request, made up."""
        head = {
            "code": code, "language": "JAVA" if self.form == JSON else 0, "version": self.version, "opaque": self.opaque,
            "flag": RESPONSE, "remark": remark, "extFields": ext or {},
        }  # fmt: skip
        return Message(self.form, head, body)

    def copy(self) -> Message:
        """Another one with the same content."""
        return Message.read(self.encode())

    def encode(self) -> bytes:
        """The frame."""
        header = self._json() if self.form == JSON else self._binary()
        return _PREFIX.pack(4 + len(header) + len(self.body), self.form << _TYPE_SHIFT | len(header)) + header + self.body

    def _json(self) -> bytes:
        head: dict[str, Any] = {"code": self.code}
        if self.ext or self.has_fields:
            head["extFields"] = self.ext
        head |= {"flag": self.flag, "language": self.language, "opaque": self.opaque}
        if self.remark is not None:
            head["remark"] = self.remark
        head |= {"serializeTypeCurrentRPC": "JSON", "version": self.version}
        return json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()

    def _binary(self) -> bytes:
        language = self.language if isinstance(self.language, int) else 0
        code = (self.code & 0xFFFF ^ 0x8000) - 0x8000  # what the form leaves of it
        remark = (self.remark or "").encode()
        fields = b"".join(
            struct.pack(">h", len(name)) + name + struct.pack(">i", len(value)) + value
            for name, value in ((str(name).encode(), str(value).encode()) for name, value in self.ext.items())
        )
        head = _HEAD.pack(code, language, self.version, self.opaque, self.flag)
        return head + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def _read_binary(header: bytes) -> dict[str, Any]:
    code, language, version, opaque, flag = _HEAD.unpack_from(header)
    at = _HEAD.size
    (size,) = struct.unpack_from(">i", header, at)
    remark = header[at + 4 : at + 4 + size].decode() if size > 0 else None
    at += 4 + max(size, 0)
    (size,) = struct.unpack_from(">i", header, at)
    at += 4
    fields: dict[str, str] = {}
    end = at + max(size, 0)
    while at < end:
        (length,) = struct.unpack_from(">h", header, at)
        name = header[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (length,) = struct.unpack_from(">i", header, at)
        fields[name] = header[at + 4 : at + 4 + length].decode()
        at += 4 + length
        if length < 0:
            raise ValueError("a negative length")
    return {
        "code": code, "language": language, "version": version, "opaque": opaque, "flag": flag, "remark": remark,
        "extFields": fields or None,
    }  # fmt: skip


def units_of(body: bytes) -> list[bytearray]:
    """The message units of a body, one after the other."""
    found, at = [], 0
    while at + 4 <= len(body):
        (size,) = struct.unpack_from(">i", body, at)
        if not BODY_AT < size <= len(body) - at:
            raise ValueError("no message units")
        found.append(bytearray(body[at : at + size]))
        at += size
    return found


def edit_units(body: bytes, edit: Edit) -> bytes:
    """A body of units with each one edited."""
    edited = (edit(unit) for unit in units_of(body))
    return b"".join(bytes(unit) for unit in edited if unit is not None)


def properties_text(unit: bytearray) -> bytes:
    """A unit's properties as they are stored."""
    return bytes(read_unit(bytes(unit), 0).properties)


def with_properties(unit: bytearray, text: bytes) -> bytearray:
    """The unit with other properties, its size put right."""
    old = properties_text(unit)
    changed = unit[: len(unit) - len(old) - 2] + struct.pack(">h", len(text)) + text
    struct.pack_into(">i", changed, 0, len(changed))
    return changed


def number_at(unit: bytearray, at: int, form: str = ">q") -> int:
    """A number in a unit."""
    return int(struct.unpack_from(form, unit, at)[0])
