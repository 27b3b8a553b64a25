"""One remoting command as a value, and how a received header becomes one.

A JSON header is decoded in one go into `Command` itself, its `extFields` left as raw text until somebody asks: a handler asks for
its own header class, and that text is decoded straight into it.  What the strict decoder refuses is read once more as
Java's library reads it (numbers in quotes, single quotes, `null` for a number).  A binary header is walked with every length
checked.  A header that cannot be read, but whose number (opaque) can, becomes `Unreadable`, so that the asker gets an answer.
Sources: `RemotingCommand`, `RemotingCommand.decode`, `RocketMQSerializable.rocketMQProtocolDecode`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import error as PackedError
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from rmq_wire import fastjson
from rmq_wire.codes import LanguageCode, RequestCode
from rmq_wire.declare import I32, Header, typed_reader
from rmq_wire.encoding import ONE_WAY, RESPONSE, AnswerTemplate, Buffer, Form, encode_request, encode_response
from rmq_wire.errors import BadBody, BadFrame, BadHeader
from rmq_wire.layout.flat import length_of, lengths_of
from rmq_wire.layout.frame import BINARY_HEAD_FLAT, BINARY_HEADER, EXT_ENTRY

__all__ = [
    "ONE_WAY",
    "RESPONSE",
    "AnswerTemplate",
    "Command",
    "Form",
    "Limits",
    "Unreadable",
    "decode_header",
    "encode_request",
    "encode_response",
]

H = TypeVar("H", bound=Header)

UNKNOWN_LANGUAGE: Final = -1
"""A language that 5.5.0 has no name for.  Java keeps null."""


class Limits(NamedTuple):
    """What one command may cost before it is even looked at."""

    frame_bytes_max: int = 16_777_216
    """With the length field.  `com.rocketmq.remoting.frameMaxLength`: both sides of the reference close above it."""
    header_bytes_max: int = 1 << 20
    """Real headers have some hundred bytes; properties, the largest field, end at 32 KiB."""
    ext_fields_max: int = 1024
    """Real headers have up to 20."""
    json_depth_max: int = 64
    """Levels of nesting in a header; real ones have 2.  The C decoder recurses, so it must not meet what is deeper."""


DEFAULT_LIMITS: Final = Limits()


class Unreadable(msgspec.Struct, gc=False):
    """A command that cannot be served, because its header is broken or over a limit.  `why` says it in one line."""

    opaque: int
    form: Form
    flag: int
    why: str

    def kept(self) -> Unreadable:
        """Itself: it holds no view."""
        return self


class Texts(dict[str, str]):
    """Ext fields by name.  A class of its own, so that no JSON value passes for one."""


class Command(msgspec.Struct, gc=False):
    """One request or response.  The names on the wire are those of Java's class."""

    code: I32 = 0
    flag: I32 = 0
    opaque: I32 = 0
    version: I32 = 0
    language_name: str | int = msgspec.field(name="language", default="JAVA")
    remark: str | None = None
    raw_ext: msgspec.Raw = msgspec.field(name="extFields", default=msgspec.Raw())
    """The text of extFields in the JSON form.  Empty: there are none, or they are in `map_ext`."""
    # What follows is not in the header.  Should one use these names: the strict decoder knows no `Texts`, the others do no harm.
    map_ext: Texts | None = msgspec.field(name=" map", default=None)
    """The ext fields where they are known already."""
    form: Form = msgspec.field(name=" form", default=Form.JSON)
    body: Any = msgspec.field(name=" body", default=b"")
    """bytes or memoryview; a view of what was received dies with the turn."""

    @property
    def is_response(self) -> bool:
        """It answers an earlier request of ours."""
        return self.flag & RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Its sender does not wait for an answer."""
        return self.flag & ONE_WAY != 0

    @property
    def language(self) -> int:
        """A `LanguageCode`, or `UNKNOWN_LANGUAGE`."""
        name = self.language_name
        if isinstance(name, str):
            return _LANGUAGES[name] if name in _LANGUAGES else _odd_language(name)
        return name if name in _LANGUAGE_NUMBERS else UNKNOWN_LANGUAGE

    def kept(self) -> Command:
        """Itself, with a body of its own: what outlives the turn calls this first."""
        if not isinstance(self.body, bytes):
            self.body = bytes(self.body)
        return self

    def ext_map(self) -> dict[str, str]:
        """All ext fields as texts; numbers and truth values as Java prints them.  Raises `BadHeader`."""
        if self.map_ext is None:
            self.map_ext = _texts(_read_raw(self.raw_ext))
        return self.map_ext

    def header(self, kind: type[H]) -> H:
        """The ext fields as this class.  Raises `BadHeader` that names the field at fault."""
        if self.map_ext is not None:
            return kind.decode(self.map_ext)
        reader = _READERS.get(kind)
        if reader is None:
            reader = _READERS[kind] = typed_reader(kind)
        read, truths = reader
        try:
            header: H = read(self.raw_ext)
            if truths is None or True not in truths(header):
                return header
        except (ValueError, RecursionError):
            pass
        return self._header_exactly(kind)

    def _header_exactly(self, kind: type[H]) -> H:
        try:
            return kind.decode_json(self.raw_ext)
        except BadHeader:
            if bytes(self.raw_ext) in (b"", b"null"):
                return kind.decode({})
            raise
        except (ValueError, RecursionError) as wrong:  # not UTF-8
            raise BadHeader(f"{kind.__name__}: {wrong}") from None


_READERS: Final[dict[type[Header], tuple[Callable[[Any], Any], Callable[[Any], tuple[Any, ...]] | None]]] = {}
_LANGUAGES: Final = {language.name: int(language) for language in LanguageCode}
_LANGUAGE_NUMBERS: Final = frozenset(_LANGUAGES.values())
_decode_strictly: Final = msgspec.json.Decoder(Command, strict=False).decode
_ANY: Final = msgspec.json.Decoder()
_BINARY_HEAD: Final = BINARY_HEAD_FLAT.packed
_EXT_LENGTH: Final = length_of(BINARY_HEADER, "ext")
_NAME_LENGTH_SIZE: Final = length_of(EXT_ENTRY, "name").size
_VALUE_LENGTH: Final = length_of(EXT_ENTRY, "value")
_VALUE_LENGTH_SIZE: Final = _VALUE_LENGTH.size
_SHORT_ENTRY: Final = lengths_of(EXT_ENTRY, 1).unpack_from
"""Size of a name of one byte, that byte skipped, size of the value."""
_NO_EXT: Final = msgspec.Raw()
_NARROWED: Final = {(code & 0xFFFF ^ 0x8000) - 0x8000: int(code) for code in RequestCode if code > 0x7FFF}
"""What the binary form leaves of a code that needs more than 16 bits (3442 of 200050), to the code."""
_SMALL_HEADER: Final = 768
"""A text up to this is not searched for nesting: it has no room for the thousand levels at which the C decoder stops itself."""
_ROOM_FOR_FIELDS: Final = 6 * 1024
"""A text up to this is not searched for fields: 1,024 of them need at least `"a":1,` each."""
_EDGE: Final = 4096
"""Where the number of a broken header is looked for: so much of its beginning and end."""
_OPAQUE: Final = re.compile(rb'["\']?\bopaque["\']?\s*:\s*["\']?([+-]?[0-9]{1,10})\b')
_FLAG: Final = re.compile(rb'["\']?\bflag["\']?\s*:\s*["\']?([+-]?[0-9]{1,10})\b')


def decode_header(header: bytes, form: int, body: Buffer = b"", limits: Limits = DEFAULT_LIMITS) -> Command | Unreadable:
    """The command of one frame.  Raises `BadFrame` when not even its number can be read."""
    return _decode_binary(header, body, limits) if form else _decode_json(header, body, limits)


def _decode_json(text: bytes, body: Buffer, limits: Limits) -> Command | Unreadable:
    size = len(text)
    if size > limits.header_bytes_max:
        return _unreadable(text, f"a header of {size} bytes")
    if size > _SMALL_HEADER and fastjson.nests_deeper(text, limits.json_depth_max):
        return _unreadable(text, f"a header of more than {limits.json_depth_max} levels")
    try:
        command = _decode_strictly(text)
    except (ValueError, RecursionError):
        try:
            command = _lenient(fastjson.loads(text))
        except (BadBody, BadHeader) as wrong:
            return _unreadable(text, str(wrong))
    command.body = body
    if size > _ROOM_FOR_FIELDS:
        try:
            fields = len(command.ext_map())
        except BadHeader as wrong:
            return Unreadable(command.opaque, Form.JSON, command.flag, str(wrong))
        if fields > limits.ext_fields_max:
            return Unreadable(command.opaque, Form.JSON, command.flag, f"{fields} ext fields")
    return command


def _unreadable(text: bytes, why: str) -> Unreadable:
    """The number and the flag of a broken JSON header.  The last one wins, as in a sound one."""
    edges = text if len(text) <= 2 * _EDGE else text[:_EDGE] + b" " + text[-_EDGE:]
    opaques = _OPAQUE.findall(edges)
    if not opaques or not -(1 << 31) <= int(opaques[-1]) < 1 << 31:
        raise BadFrame(f"header without a readable opaque: {why}")
    flags = _FLAG.findall(edges)
    return Unreadable(int(opaques[-1]), Form.JSON, int(flags[-1]) if flags else 0, why)


class _Odd(msgspec.Struct, rename="camel"):
    """What `Command` takes of a header that only Java's library takes."""

    code: I32 = 0
    flag: I32 = 0
    opaque: I32 = 0
    version: I32 = 0
    remark: str | None = None
    ext_fields: dict[str, str] | None = None


def _lenient(read: Any) -> Command:
    """A header of sound JSON whose members have types that only Java's library takes.  Raises `BadBody`."""
    from rmq_wire.bodies import lenience  # by those alone who meet such a header

    odd = lenience.read_as(_Odd, read)
    language = read.get("language", "JAVA")
    if isinstance(language, float):
        language = int(language)
    elif not isinstance(language, str | int):
        language = ""
    ext = None if odd.ext_fields is None else Texts(odd.ext_fields)
    return Command(odd.code, odd.flag, odd.opaque, odd.version, language, odd.remark, map_ext=ext)


def _odd_language(name: str) -> int:
    """A name in other letters, or an ordinal in quotes."""
    from rmq_wire.bodies import lenience

    found = lenience.name_of(tuple(_LANGUAGES), name)
    return UNKNOWN_LANGUAGE if found is None else _LANGUAGES[found]


def _read_raw(raw: msgspec.Raw) -> Any:
    text = bytes(raw)
    try:
        return _ANY.decode(text) if text else None
    except (ValueError, RecursionError) as wrong:  # the outer decoder has seen its syntax, but not its UTF-8
        raise BadHeader(f"extFields: {wrong}") from None


def _texts(ext: Any) -> Texts:
    if ext in (None, "", "null"):
        return Texts()
    if not isinstance(ext, dict):
        raise BadHeader("extFields is not a JSON object")
    if not all(isinstance(value, str) for value in ext.values()):
        from rmq_wire.bodies.lenience import text_of

        ext = {name: text for name, value in ext.items() if (text := text_of(value)) is not None}
    return Texts(ext)


def _decode_binary(header: bytes, body: Buffer, limits: Limits) -> Command | Unreadable:
    try:
        code, language, version, opaque, flag, remark_size = _BINARY_HEAD.unpack_from(header)
        if len(header) > limits.header_bytes_max:
            return Unreadable(opaque, Form.ROCKETMQ, flag, f"a header of {len(header)} bytes")
        remark_end = _BINARY_HEAD.size + remark_size
        ext_at = remark_end + _EXT_LENGTH.size
        [ext_size] = _EXT_LENGTH.unpack_from(header, remark_end)
        if remark_size < 0 or ext_size < 0 or ext_at + ext_size != len(header):
            raise BadFrame(f"binary header of {len(header)} bytes: remark of {remark_size}, ext fields of {ext_size}")
        entries = _entries(header, ext_at, limits.ext_fields_max)
    except PackedError:
        raise BadFrame(f"binary header of {len(header)} bytes ends too early") from None
    if len(entries) > limits.ext_fields_max:
        return Unreadable(opaque, Form.ROCKETMQ, flag, f"more than {limits.ext_fields_max} ext fields")
    try:
        texts = Texts({name.decode(): value.decode() for name, value in entries if name and value})
        remark = header[_BINARY_HEAD.size : remark_end].decode() or None
    except UnicodeDecodeError:
        return Unreadable(opaque, Form.ROCKETMQ, flag, "the header has text that is not UTF-8")
    if not flag & RESPONSE:
        code = _NARROWED.get(code, code)
    return Command(code, flag, opaque, version, language, remark, _NO_EXT, texts, Form.ROCKETMQ, body)


def _entries(header: bytes, at: int, most: int) -> list[tuple[bytes, bytes]]:
    """Name and value of every entry, at most one more than most.  Raises `BadFrame`, or `struct.error` at a cut length."""
    found: list[tuple[bytes, bytes]] = []
    end = len(header)
    while at < end and len(found) <= most:
        size, value_size = _SHORT_ENTRY(header, at)  # right for names of one letter, which the longest headers have
        name_at = at + _NAME_LENGTH_SIZE
        value_at = name_at + size + _VALUE_LENGTH_SIZE
        if size != 1:
            if size < 0:
                raise BadFrame(f"binary header: a name of {size} bytes at {at}")
            [value_size] = _VALUE_LENGTH.unpack_from(header, name_at + size)
        at = value_at + value_size
        if value_size < 0 or at > end:
            raise BadFrame(f"binary header: a value of {value_size} bytes at {value_at}")
        found.append((header[name_at : name_at + size], header[value_at:at]))
    return found
