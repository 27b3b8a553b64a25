"""The JSON that RocketMQ's libraries write and read, where it is not JSON: bare integers and whole objects as keys, and the rest.

Reading: the strict C decoder first, since nearly every text is plain JSON.  Where it refuses, keys that are bare integers or
flat objects (tables of offsets, of queues) are put in quotes, and it gets a second try.  Only what is left goes through a
parser of our own, which keeps its stack itself and so can be neither nested nor numbered to death.  Writing: `dumps_strict`
for whatever any JSON reader should take, `dumps_fastjson` as Java writes a body, `dumps_pretty` as 5.5.0 writes a
configuration file.
Sources: fastjson 1.2.83 and fastjson2 2.0.59 as `RemotingSerializable` uses them, by experiment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec

from rmq_wire.errors import BadBody
from rmq_wire.java import double_text

DEPTH_MAX: Final = 64
"""Levels of nesting that are read; the deepest body of the protocol has 7."""
PARSED_BYTES_MAX: Final = 64 * 1024
"""What our own parser takes on: it needs half a second for a megabyte, and nobody sends it anything but a spelling by hand."""
NUMBER_CHARACTERS_MAX: Final = 64
"""Longer numbers are no Java numbers, and Python takes quadratic time for them."""


class MessageQueue(NamedTuple):
    """Java's `MessageQueue` as a key: written as an object, read from an object or from the text of one."""

    topic: str
    broker_name: str
    queue_id: int


_DECODE: Final = msgspec.json.Decoder().decode
_ENCODE: Final = msgspec.json.Encoder().encode
_STRING_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
"""A string, or one without an end up to the text's: looking for its end again at every quote in it would take quadratic time."""
_BRACE: Final = ord("{")
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
"""What a bracket adds to the depth."""
_NO_BRACKETS: Final = bytes(set(range(256)) - _STEPS.keys() - {ord('"')})
"""What says nothing about nesting: all but brackets and the quotes that may hold some."""
_BRACKETS_AT_ONCE: Final = 1 << 16
"""What nests too deep shows that early; looking at all its brackets takes 25 ms for a megabyte of them."""
_ODD_KEY: Final = rb'(?:[+-]?[0-9]{1,20}|\{(?:[^{}"]++|' + _STRING_TEXT + rb")*+\})"
_UP_TO_ODD_KEY: Final = re.compile(
    rb'((?:[^"{,]++|%b|[{,](?!\s*+%b\s*+:))*+[{,]\s*+)(%b)(?=\s*+:)' % (_STRING_TEXT, _ODD_KEY, _ODD_KEY), re.DOTALL
)
"""All up to a key that is a bare integer or a flat object, and that key.  Never tried twice at one place: time stays linear."""


def loads(text: bytes | bytearray | memoryview, *, depth_max: int = DEPTH_MAX) -> Any:
    """The value of a text that Java wrote.  Keys are str, or `MessageQueue` where they are such objects; `$ref` is resolved.

    Raises `BadBody` for what Java would refuse, for bad Unicode, and for texts and numbers that are larger than any real one.
    """
    raw = bytes(text)
    if nests_deeper(raw, depth_max):
        raise BadBody(f"JSON of more than {depth_max} levels")
    try:
        found = _DECODE(raw)
    except (ValueError, RecursionError):
        raw = _with_quoted_keys(raw)
        try:
            found = _DECODE(raw)
        except (ValueError, RecursionError):
            found = _parse(raw, depth_max)
    if b'"{' in raw:
        found = _with_queue_keys(found)
    if b"$ref" in raw:
        from rmq_wire.fastjson_refs import resolve

        found = resolve(found)
    return found


def nests_deeper(text: bytes, levels: int) -> bool:
    """Whether brackets nest deeper than this.  Costs two counts for anything small, some 3 ms for a megabyte of rows."""
    if text.count(b"{") + text.count(b"[") <= levels:
        return False
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes with no bracket between them can go, whether they are one text's or the end of one and the start of the next.
    outside = b"".join(text.translate(None, _NO_BRACKETS).replace(b'""', b"").split(b'"')[::2])
    depth = 0
    for at in range(0, len(outside), _BRACKETS_AT_ONCE):
        depths = list(accumulate(map(_STEPS.__getitem__, outside[at : at + _BRACKETS_AT_ONCE]), initial=depth))
        if max(depths) > levels:
            return True
        depth = depths[-1]
    return False


def queue_of(value: Any) -> MessageQueue | None:
    """The queue that an object is, or None: a mapping with the three names of Java's class and nothing else."""
    if not isinstance(value, dict) or not value.keys() <= {"topic", "brokerName", "queueId"} or not value:
        return None
    topic, broker_name, queue_id = value.get("topic", ""), value.get("brokerName", ""), value.get("queueId", 0)
    if isinstance(topic, str) and isinstance(broker_name, str) and isinstance(queue_id, int):
        return MessageQueue(topic, broker_name, queue_id)
    return None


def _with_quoted_keys(raw: bytes) -> bytes:
    pieces: list[bytes] = []
    at = 0
    try:
        while found := _UP_TO_ODD_KEY.match(raw, at):
            before, key = found.groups()
            pieces += (before, _ENCODE(key.decode()) if key[0] == _BRACE else b'"%b"' % key)
            at = found.end()
    except UnicodeDecodeError:
        raise BadBody("JSON that is not UTF-8") from None
    return b"".join([*pieces, raw[at:]])


def _parse(raw: bytes, depth_max: int) -> Any:
    if len(raw) > PARSED_BYTES_MAX:
        raise BadBody(f"JSON that is not strict, of {len(raw)} bytes")
    try:
        return _Parser(raw.decode(), depth_max).parse()
    except UnicodeDecodeError:
        raise BadBody("JSON that is not UTF-8") from None


def _with_queue_keys(value: Any) -> Any:
    """Keys that are the text of a queue object become queues: how strict writers spell such a table."""
    if isinstance(value, list):
        return [_with_queue_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        queue = None
        if isinstance(key, str) and key.startswith("{"):
            try:
                queue = queue_of(_DECODE(key))
            except ValueError:
                pass
        found[key if queue is None else queue] = _with_queue_keys(item)
    return found


_TOKEN: Final = re.compile(
    r"""[ \t\r\n\f\v]*(?:(/\*.*?\*/|//[^\n]*)|([{}\[\]:,])|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|([+-]?[0-9][0-9.eE+-]*[BSLFD]?)|(true|false|null)(?![\w$])|([A-Za-z_$][\w$]*)(?=\s*:))""",
    re.DOTALL,
)
_PUNCTUATION, _STRING, _NUMBER, _LITERAL = range(2, 6)
"""Groups of the pattern; group 1 is a comment, group 6 a key without quotes."""
_BLANK_END: Final = re.compile(r"[ \t\r\n\f\v]*\Z")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|v|0(?![0-7])|(.))|([\x00-\x1f\"])", re.DOTALL)
_LITERALS: Final = {"true": True, "false": False, "null": None}
_OPEN, _KEYED, _COLON, _VALUED = range(4)
"""An object waits for a key, a colon, a value, a comma.  A list is open or valued."""


class _Frame:
    """A container that is being read.  `is_key`: it is itself the key of the one around it."""

    __slots__ = ("is_key", "key", "state", "value")

    def __init__(self, value: Any, is_key: bool) -> None:
        self.value = value
        self.is_key = is_key
        self.key: Any = None
        self.state = _OPEN


class _Parser:
    """One text of the dialect: besides JSON single quotes, comments, a comma too many at an end, `+5`, `05`, `5L`, odd keys."""

    def __init__(self, text: str, depth_max: int) -> None:
        self._text = text
        self._depth_max = depth_max
        self._stack: list[_Frame] = []
        self._at = 0

    def parse(self) -> Any:
        """The value.  Raises `BadBody`."""
        root = _Frame([], False)
        self._stack = [root]
        for kind, token in self._tokens():
            if root.state == _VALUED:
                raise self._bad("more than one value")
            self._take(kind, token)
        if len(self._stack) != 1 or root.state != _VALUED:
            raise self._bad("an early end")
        return root.value[0]

    def _tokens(self) -> Iterator[tuple[int, str]]:
        text, size = self._text, len(self._text)
        while self._at < size:
            found = _TOKEN.match(text, self._at)
            if found is None:
                if _BLANK_END.match(text, self._at):
                    return
                raise self._bad("no JSON")
            self._at = found.end()
            if found.lastindex != 1:
                yield found.lastindex or 0, found[found.lastindex or 0]

    def _take(self, kind: int, token: str) -> None:
        top = self._stack[-1]
        wants_key = top.state == _OPEN and isinstance(top.value, dict)
        if kind == _PUNCTUATION:
            self._punctuate(top, token, wants_key)
        elif kind == _STRING:
            self._put(top, self._string(token))
        elif wants_key:
            self._put(top, token)
        elif kind == _NUMBER:
            self._put(top, self._number(token))
        elif kind == _LITERAL:
            self._put(top, _LITERALS[token])
        else:
            raise self._bad("a bare word")

    def _punctuate(self, top: _Frame, token: str, wants_key: bool) -> None:
        if token in "{[":
            if len(self._stack) > self._depth_max:
                raise self._bad(f"more than {self._depth_max} levels")
            if token == "[" and wants_key:
                raise self._bad("a list as a key")
            self._stack.append(_Frame({} if token == "{" else [], wants_key))
        elif token in "}]":
            if isinstance(top.value, dict) != (token == "}") or top.state not in (_OPEN, _VALUED) or len(self._stack) == 1:
                raise self._bad("a bracket too many")
            self._stack.pop()
            self._put(self._stack[-1], _as_key(top.value) if top.is_key else top.value)
        elif token == "," and top.state == _VALUED:
            top.state = _OPEN
        elif token == ":" and top.state == _KEYED:
            top.state = _COLON
        else:
            raise self._bad(f"'{token}' in the wrong place")

    def _put(self, top: _Frame, value: Any) -> None:
        if isinstance(top.value, list):
            if top.state == _VALUED:
                raise self._bad("a missing comma")
            top.value.append(value)
            top.state = _VALUED
        elif top.state == _OPEN:
            top.key, top.state = value, _KEYED
        elif top.state == _COLON:
            top.value[top.key] = value
            top.state = _VALUED
        else:
            raise self._bad("a missing colon or comma")

    def _number(self, token: str) -> int | float:
        token = token.rstrip("BSLFD")
        if len(token) <= NUMBER_CHARACTERS_MAX:
            try:
                return int(token)
            except ValueError:
                pass
            try:
                number = float(token)
            except ValueError:
                number = float("inf")
            if abs(number) != float("inf"):
                return number
        raise self._bad("not a number")

    def _string(self, token: str) -> str:
        inner = _ESCAPE.sub(_strict_escape, token[1:-1])
        try:
            found: str = _DECODE(f'"{inner}"')
        except ValueError:
            raise self._bad("a broken string") from None
        return found

    def _bad(self, what: str) -> BadBody:
        return BadBody(f"JSON: {what} at character {self._at}")


def _as_key(value: dict[Any, Any]) -> MessageQueue | str:
    """An object that stands before a colon.  Java knows only one class of such; any other is kept as its text."""
    return queue_of(value) or dumps_strict({str(key): item for key, item in value.items()}).decode()


def _strict_escape(found: re.Match[str]) -> str:
    hexadecimal, letter, raw = found.groups()
    if raw is not None:
        return f"\\u{ord(raw):04x}"
    if hexadecimal is not None:
        return f"\\u00{hexadecimal}"
    if letter is None:
        return "\\u000b" if found[0] == "\\v" else "\\u0000"
    return "'" if letter == "'" else found[0]


# Writing


def dumps_strict(value: Any) -> bytes:
    """JSON that every reader takes; keys that are numbers in quotes.  Structs as msgspec writes them."""
    return _ENCODE(value)


def dumps_fastjson(value: Any) -> bytes:
    """A body as Java writes it, in the order given: bare integer keys, queues as keys, members that are None left out."""
    found: list[str] = []
    _write(value, found)
    return "".join(found).encode("utf-8", "replace")


def dumps_pretty(value: Any) -> bytes:
    """A configuration file as 5.5.0 writes it: tabs, an entry a line, no line end at the end.

    A list of integers is Java's `List<Long>` or `int[]` and stays on one line; every other list, and a set or tuple of integers,
    has one element a line.
    """
    found: list[str] = []
    _write_pretty(value, "\n", found)
    return "".join(found).encode("utf-8", "replace")


def dumps_key(key: Any) -> bytes:
    """A key of a table as `dumps_fastjson` writes it."""
    return _key(key).encode("utf-8", "replace")


def _scalar(value: Any) -> str:
    if isinstance(value, int) and value is not True and value is not False:
        return str(int(value))
    if isinstance(value, float):
        return double_text(value)
    return _ENCODE(value).decode()


def _write(value: Any, found: list[str]) -> None:
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value, order="sorted")
    if isinstance(value, Mapping):
        before = "{"
        for key, item in value.items():
            if item is not None:
                found.append(before)
                found.append(_key(key))
                found.append(":")
                _write(item, found)
                before = ","
        found.append("{}" if before == "{" else "}")
    elif isinstance(value, list | tuple | set | frozenset):
        before = "["
        for item in value:
            found.append(before)
            _write(item, found)
            before = ","
        found.append("[]" if before == "[" else "]")
    else:
        found.append(_scalar(value))


def _key(key: Any) -> str:
    if isinstance(key, tuple):
        return _ENCODE(_members(key)).decode()
    return str(int(key)) if isinstance(key, int) else _ENCODE(key).decode()


def _members(queue: tuple[Any, ...]) -> dict[str, Any]:
    topic, broker_name, queue_id = queue
    return {"brokerName": broker_name, "queueId": queue_id, "topic": topic}


def _write_pretty(value: Any, line: str, found: list[str]) -> None:
    """line: a line end and the tabs of the level that value stands on."""
    inner = line + "\t"
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value, order="sorted")
    if isinstance(value, Mapping):
        if value and all(type(key) is int and type(item) is int for key, item in value.items()):  # progress: 5 times as fast
            found.append("{" + ",".join([f"{inner}{key}:{item}" for key, item in value.items()]) + line + "}")
            return
        held = [(key, item) for key, item in value.items() if item is not None]
        for at, (key, item) in enumerate(held):
            found.append(("," if at else "{") + inner)
            if isinstance(key, tuple):
                _write_pretty(_members(key), inner, found)
            else:
                found.append(_key(key))
            found.append(":")
            _write_pretty(item, inner, found)
        found.append(line + "}" if held else "{}")
    elif isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        found.append("[" + ",".join(map(str, value)) + "]")
    elif isinstance(value, list) and all(type(item) is str for item in value):
        found.append("[" + inner + ("," + inner).join([_ENCODE(item).decode() for item in value]) + line + "]")
    elif isinstance(value, list | tuple | set | frozenset):
        for at, item in enumerate(value):
            found.append(("," if at else "[") + inner)
            _write_pretty(item, inner, found)
        found.append(line + "]" if value else "[" + inner + line + "]")  # Java writes an empty set like this
    else:
        found.append(_scalar(value))
