"""Commands as bytes: requests and responses in both header forms, and templates for the answers that leave most often.

The JSON header is written member by member as Java's library writes it: names in alphabetical order, nulls left out, ext
fields in the order of Java's map, text as UTF-8 with the same escapes.  A template has everything constant as text already
and only formats the few values in; what it writes is what `encode_response` writes, byte for byte.
Sources: `RemotingCommand.encodeHeader`, `makeCustomHeaderToNet`, `RocketMQSerializable.rocketMQProtocolEncode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final

import msgspec

from rmq_wire.codes import VERSION, LanguageCode
from rmq_wire.declare import Header
from rmq_wire.java import permutation
from rmq_wire.layout.flat import length_of
from rmq_wire.layout.frame import (
    BINARY_HEAD_FLAT,
    BINARY_HEADER,
    EXT_ENTRY,
    FRAME_BYTES_MAX,
    HEADER_SIZE_MASK,
    PREFIX_FLAT,
    TYPE_SHIFT,
)

Buffer = bytes | bytearray | memoryview


class Form(IntEnum):
    """How a header is written; the top byte of the frame's second word.  Source: `SerializeType`."""

    JSON = 0
    ROCKETMQ = 1


RESPONSE: Final = 1
"""Bit of the flag: this command answers another one."""
ONE_WAY: Final = 2
"""Bit of the flag: nobody waits for an answer."""

_PREFIX: Final = PREFIX_FLAT.packed
_BINARY_HEAD: Final = BINARY_HEAD_FLAT.packed
_EXT_LENGTH: Final = length_of(BINARY_HEADER, "ext")
_NAME_LENGTH: Final = length_of(EXT_ENTRY, "name")
_VALUE_LENGTH: Final = length_of(EXT_ENTRY, "value")
_BUCKETS: Final = 16
"""`makeCustomHeaderToNet` makes a plain `HashMap`."""
_BUCKETS_ADDED: Final = 256
"""`addExtField` makes a larger one, before the header goes into it."""
_ADDED_FIRST: Final = frozenset({"MSG_REGION", "TRACE_ON", "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE", "_UNIQUE_KEY_QUERY"})
"""Members of our header classes that the reference puts in with `addExtField`."""
_MARK: Final = "\0 %d \0"
"""Stands for a value while a template is made; no text of a constant looks like it."""
_LANGUAGES: Final = {int(one): one.name for one in LanguageCode}
_json: Final = msgspec.json.Encoder().encode
_BARE: Final = _json(
    {
        "code": _MARK,
        "flag": _MARK,
        "language": LanguageCode.JAVA.name,
        "opaque": _MARK,
        "serializeTypeCurrentRPC": "JSON",
        "version": VERSION,
    }
).replace(_json(_MARK), b"%d")
"""The header of a command with no fields: what most of those are answered who only want to know that it is done."""


def encode_request(
    code: int,
    header: Header | None = None,
    body: Buffer = b"",
    *,
    opaque: int,
    form: Form = Form.JSON,
    oneway: bool = False,
    ext: Mapping[str, str] | None = None,
    language: int = LanguageCode.JAVA,
    version: int = VERSION,
) -> bytes:
    """A whole request frame.  ext: fields beside those of the header, such as a signature."""
    flag = ONE_WAY if oneway else 0
    head = _head(code, flag, opaque, form, None, header, ext, len(body), language, version)
    return head + body if body else head


def encode_response(
    code: int,
    opaque: int,
    *,
    form: Form,
    remark: str | None = None,
    header: Header | None = None,
    ext: Mapping[str, str] | None = None,
    body: Buffer | Sequence[Buffer] = b"",
    language: int = LanguageCode.JAVA,
    version: int = VERSION,
) -> bytes | list[Buffer]:
    """A response frame: one bytes object without a body, else the head and the pieces of the body, not copied.

    A header without any field set still writes an empty `extFields`, as Java does for a response that has a header class.
    """
    if not body:
        return _head(code, RESPONSE, opaque, form, remark, header, ext, 0, language, version)
    pieces = [body] if isinstance(body, bytes | bytearray | memoryview) else list(body)
    size = sum(map(len, pieces))
    return [_head(code, RESPONSE, opaque, form, remark, header, ext, size, language, version), *pieces]


def encode_bare(code: int, opaque: int) -> bytes:
    """`encode_response` in JSON of a code that says all."""
    written = _BARE % (code, RESPONSE, opaque)
    size = len(written)
    return _PREFIX.pack(4 + size, size) + written


def frame_prefix(header_size: int, body_size: int, form: int) -> bytes:
    """The 8 bytes before a header.  Raises ValueError for a frame that every receiver would close the connection for."""
    length = 4 + header_size + body_size
    if length + 4 > FRAME_BYTES_MAX or header_size > HEADER_SIZE_MASK:
        raise ValueError(f"a frame of {length + 4} bytes; {FRAME_BYTES_MAX} is the most")
    return _PREFIX.pack(length, form << TYPE_SHIFT | header_size)


def _head(
    code: int,
    flag: int,
    opaque: int,
    form: int,
    remark: str | None,
    header: Header | None,
    ext: Mapping[str, str] | None,
    body_size: int,
    language: int,
    version: int,
) -> bytes:
    if header is None and ext is None and remark is None and not form and language == LanguageCode.JAVA and version == VERSION:
        written = _BARE % (code, flag, opaque)
        return frame_prefix(len(written), body_size, form) + written
    texts = None if header is None and ext is None else _ext_texts(header, ext, form)
    if form:
        written = _binary_header(code, language, version, opaque, flag, remark, texts or {})
    else:
        members: dict[str, Any] = {"code": code}
        if texts is not None:
            members["extFields"] = texts
        members["flag"] = flag
        members["language"] = _LANGUAGES[language]
        members["opaque"] = opaque
        if remark is not None:
            members["remark"] = remark
        members["serializeTypeCurrentRPC"] = "JSON"
        members["version"] = version
        written = _json(members)
    return frame_prefix(len(written), body_size, form) + written


def _ext_texts(header: Header | None, ext: Mapping[str, str] | None, form: int) -> dict[str, str]:
    fields = {} if header is None else header.encode()
    if not ext and not form and _ADDED_FIRST.isdisjoint(fields):
        return _in_order(fields, _BUCKETS)
    added = dict(ext) if ext else {}
    added |= {name: fields.pop(name) for name in _ADDED_FIRST & fields.keys()}
    if form and header is not None and header.fast:
        return {**fields, **_in_order(added, _BUCKETS_ADDED)}  # hand-written encoders go field by field, the map comes after
    return _in_order({**added, **fields}, _BUCKETS_ADDED if added else _BUCKETS)


def _in_order(texts: dict[str, str], buckets: int) -> dict[str, str]:
    names = tuple(texts)
    return {names[at]: texts[names[at]] for at in permutation(names, buckets)}


def _binary_header(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, texts: Mapping[str, str]
) -> bytes:
    remark_bytes = remark.encode("utf-8", "replace") if remark else b""
    entries = b"".join([_binary_entry(name.encode(), value.encode("utf-8", "replace")) for name, value in texts.items()])
    narrow = (code & 0xFFFF ^ 0x8000) - 0x8000  # Java writes a short: POP codes lose their high bits
    head = _BINARY_HEAD.pack(narrow, language, version, opaque, flag, len(remark_bytes))
    return b"".join((head, remark_bytes, _EXT_LENGTH.pack(len(entries)), entries))


def _binary_entry(name: bytes, value: bytes) -> bytes:
    return b"".join((_NAME_LENGTH.pack(len(name)), name, _VALUE_LENGTH.pack(len(value)), value))


class AnswerTemplate:
    """A response whose set of ext fields never changes.  `render` fills in the values.  Quick for JSON, correct for binary."""

    def __init__(
        self,
        kind: type[Header],
        names: Sequence[str],
        *,
        constants: Mapping[str, str] | None = None,
        code: int = 0,
        remark: str | None = None,
    ) -> None:
        """names: the fields (our names) whose values `render` takes, in that order; numbers and texts, no booleans.

        constants: wire names and texts of what is the same in each answer: fields of kind, or what Java adds beside them.
        """
        known = {field.name: field for field in kind.fields()}
        slots = [known[name] for name in names]
        if any(slot.kind is bool for slot in slots):
            raise TypeError(f"{kind.__name__}: a truth value can only be a constant")
        self._code, self._remark = code, remark
        self._texts = tuple(at for at, slot in enumerate(slots) if slot.kind is str)
        self._constants = dict(constants or {})
        self._wires = tuple(slot.wire for slot in slots)
        own = {field.wire for field in known.values()}
        added = {name: value for name, value in self._constants.items() if name in _ADDED_FIRST or name not in own}
        sources: dict[str, str | int] = dict(added)
        for field in known.values():
            if field.wire in self._constants:
                sources[field.wire] = self._constants[field.wire]
            elif field.wire in self._wires:
                sources[field.wire] = self._wires.index(field.wire)
        listed = tuple(sources)
        ordered = [listed[at] for at in permutation(listed, _BUCKETS_ADDED if added else _BUCKETS)]
        self._form, self._pick = self._json_form({name: sources[name] for name in ordered})
        self._binary_order = ordered
        if kind.fast:
            self._binary_order = [*(name for name in sources if name not in added), *_in_order(added, _BUCKETS_ADDED)]

    def _json_form(self, sources: Mapping[str, str | int]) -> tuple[bytes, itemgetter[Any]]:
        """The header as a format, and what picks its arguments out of [values…, opaque]."""
        empty: dict[str, Any] = {"code": self._code}
        empty["extFields"] = {name: _MARK % source if isinstance(source, int) else source for name, source in sources.items()}
        empty |= {"flag": RESPONSE, "language": LanguageCode.JAVA.name, "opaque": _MARK % -1}
        if self._remark is not None:
            empty["remark"] = self._remark
        empty |= {"serializeTypeCurrentRPC": "JSON", "version": VERSION}
        form = _json(empty).replace(b"%", b"%%").replace(_json(_MARK % -1), b"%d")
        places = [source for source in sources.values() if isinstance(source, int)]
        for place in places:
            form = form.replace(_json(_MARK % place), b"%b" if place in self._texts else b'"%d"')
        return form, itemgetter(*places, -1)

    def render(self, form: int, opaque: int, *values: Any, body_size: int = 0) -> bytes:
        """The frame up to its body.  values: for the names, in their order."""
        if form:
            return self._render_binary(opaque, values, body_size)
        filled = [*values, opaque]
        for at in self._texts:
            filled[at] = _json(filled[at])
        header: bytes = self._form % self._pick(filled)
        size = len(header)
        return _PREFIX.pack(4 + size + body_size, size) + header

    def _render_binary(self, opaque: int, values: Sequence[Any], body_size: int) -> bytes:
        texts = {**self._constants, **dict(zip(self._wires, map(str, values), strict=True))}
        ordered = {name: texts[name] for name in self._binary_order}
        written = _binary_header(self._code, LanguageCode.JAVA, VERSION, opaque, RESPONSE, self._remark, ordered)
        return frame_prefix(len(written), body_size, Form.ROCKETMQ) + written
