"""A frame as mutators handle it: taken apart, changed, put together again, in either header form.

Written without `rmq_wire`'s encoder, which refuses to write what is wrong; a mutator must be able to.  Where bytes are, the
layouts say.  Fields of message units are changed in place.  Sources: `RemotingCommand`, `RocketMQSerializable`, `MessageDecoder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from conformance.frames import split
from conformance.suite.means import raw
from rmq_wire.command import Command, decode_header
from rmq_wire.errors import WireError
from rmq_wire.layout import frame as layout
from rmq_wire.layout import message as units
from rmq_wire.layout.flat import Flat, flat, length_of
from rmq_wire.message import read_unit

JSON, BINARY = 0, 1
RESPONSE, ONE_WAY = 1, 2
"""Bits of the flag."""
_HEAD: Final = flat(layout.BINARY_HEAD).packed
_FIELDS_SIZE: Final = length_of(layout.BINARY_HEADER, "ext")
_NAME_SIZE: Final = length_of(layout.EXT_ENTRY, "name")
_VALUE_SIZE: Final = length_of(layout.EXT_ENTRY, "value")
_PROPERTIES_SIZE: Final = length_of(units.PROPERTIES)
HOST: Final = flat(units.HOST_V4).packed
"""Address and port, as units hold them."""
UNIT: Final[Flat] = units.FIXED[0]
"""The fixed part of a unit whose hosts are IPv4: all that the suite's clients make."""
BODY_AT: Final = UNIT.size

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
        return cls(form, _read_binary(header), body)

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
            "code": code,
            "language": "JAVA" if self.form == JSON else 0,
            "version": self.version,
            "opaque": self.opaque,
            "flag": RESPONSE,
            "remark": remark,
            "extFields": ext or {},
        }
        return Message(self.form, head, body)

    def copy(self) -> Message:
        """Another one with the same content."""
        return Message.read(self.encode())

    def encode(self) -> bytes:
        """The frame."""
        header = self._json() if self.form == JSON else self._binary()
        return raw.frame(header, self.body, form=self.form)

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
            _NAME_SIZE.pack(len(name)) + name + _VALUE_SIZE.pack(len(value)) + value
            for name, value in ((str(name).encode(), str(value).encode()) for name, value in self.ext.items())
        )
        head = _HEAD.pack(code, language, self.version, self.opaque, self.flag, len(remark))
        return head + remark + _FIELDS_SIZE.pack(len(fields)) + fields


def _read_binary(header: bytes) -> dict[str, Any]:
    """As the members of a JSON header."""
    try:
        command = decode_header(header, BINARY)
        if not isinstance(command, Command):
            raise ValueError(command.why)
        fields = command.ext_map()
    except WireError as wrong:
        raise ValueError(str(wrong)) from None
    return {
        "code": command.code,
        "language": command.language_name,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "extFields": fields or None,
    }


def units_of(body: bytes) -> list[bytearray]:
    """The message units of a body, one after the other."""
    found, at = [], 0
    while at < len(body):
        size = number(body[at : at + BODY_AT], "total_size") if len(body) - at > BODY_AT else 0
        if not BODY_AT < size <= len(body) - at:
            raise ValueError("no message units")
        found.append(bytearray(body[at : at + size]))
        at += size
    return found


def edit_units(body: bytes, edit: Edit) -> bytes:
    """A body of units with each one edited."""
    edited = (edit(unit) for unit in units_of(body))
    return b"".join(bytes(unit) for unit in edited if unit is not None)


def number(unit: bytes | bytearray, field: str) -> int:
    """A number in a unit, by its name in the layout."""
    return int(UNIT.field(field).unpack_from(unit, UNIT.at[field])[0])


def put(unit: bytearray, field: str, value: int) -> bytearray:
    """The unit with another number there."""
    UNIT.field(field).pack_into(unit, UNIT.at[field], value)
    return unit


def born_at(unit: bytearray) -> tuple[bytes, int]:
    """Whose message it is: address and port."""
    address, port = HOST.unpack_from(unit, UNIT.at["born_host"])
    return address, port


def put_born_at(unit: bytearray, address: bytes, port: int) -> bytearray:
    """The unit with another client."""
    HOST.pack_into(unit, UNIT.at["born_host"], address, port)
    return unit


def properties_text(unit: bytearray) -> bytes:
    """A unit's properties as they are stored."""
    return bytes(read_unit(bytes(unit), 0).properties)


def with_properties(unit: bytearray, text: bytes) -> bytearray:
    """The unit with other properties, its size put right."""
    end = len(unit) - len(properties_text(unit)) - _PROPERTIES_SIZE.size
    changed = unit[:end] + _PROPERTIES_SIZE.pack(len(text)) + text
    return put(changed, "total_size", len(changed))
