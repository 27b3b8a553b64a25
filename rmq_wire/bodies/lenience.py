"""Bodies that are spelled otherwise than Java spells them, read as Java reads them: one rule per type, none per field.

Clients of other languages write enumerations as ordinals (the C++ client), numbers as texts, texts as numbers, null for what
they do not know.  fastjson2 takes most of it, and what it takes depends on the Java type of the member alone, so the rules here
stand for types: `conformance/truth/bodies.json` has what 5.5.0's own classes made of some 75 spellings of each, and a test holds
us to it.  Only a body that its typed decoder refuses comes here, so this may be slow; how many values one may have is limited.
A null for a number or a truth value is zero or false, for anything else it counts as a missing member; in a list or a table it
is left out.  Where the parser stumbles rather than decides (an object for an `int` is 0, for a `long` an error) we refuse.
Source: `RemotingSerializable.decode`, fastjson2 2.0.59, by experiment.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from math import isfinite
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from rmq_wire import fastjson
from rmq_wire.errors import BadBody
from rmq_wire.fastjson import MessageQueue
from rmq_wire.java import double_text

NUMBER_CHARACTERS_MAX: Final = fastjson.NUMBER_CHARACTERS_MAX
_NUMBER: Final = re.compile(r"[+-]?(?:\d[\d,]*)?(?:\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_ORDINAL: Final = re.compile(r"[+-]?\d{1,20}", re.ASCII)
_NOTHING: Final = ("", "null")
"""Texts that stand for null where an object or a table should be."""
_T = TypeVar("_T")


class Reading:
    """How many values may still be looked at."""

    __slots__ = ("left",)

    def __init__(self, values_max: int) -> None:
        self.left = values_max

    def take(self, values: int) -> None:
        """So many more.  Raises `BadBody` when that is too many."""
        self.left -= values
        if self.left < 0:
            raise BadBody("too many values in a body that is not spelled as Java spells it")


class _Refused(ValueError):
    """A value that Java refuses.  `path`: where, from the inside out."""

    def __init__(self, expected: str, value: Any) -> None:
        shown = value if isinstance(value, str | int | float | None) else type(value).__name__
        super().__init__(f"{expected} expected, got {str(shown)[:64]!r}")
        self.path: list[str] = []


_Reader = Callable[[Any, Reading], Any]


def read_as(cls: type[_T], value: Any, values_max: int = 1 << 62) -> _T:
    """Parsed JSON as this struct.  Raises `BadBody` that names the member which Java would refuse, or for too many values."""
    reading = Reading(values_max)
    try:
        found = reader_of(cls)(value, reading)  # type: ignore[arg-type]
        if found is None:
            raise _Refused("an object", value)
    except _Refused as wrong:
        raise BadBody(f"{cls.__name__}{''.join(reversed(wrong.path))}: {wrong}") from None
    kept: _T = found
    return kept


@functools.cache
def reader_of(hint: Any) -> _Reader:
    """What reads values of a type.  It returns None for "as if it were not there"."""
    bounds: tuple[int, int] | None = None
    if get_origin(hint) is Annotated:
        hint, *marks = get_args(hint)
        for mark in marks:
            if isinstance(mark, msgspec.Meta):
                if mark.extra and "names" in mark.extra:
                    return _enumeration(mark.extra["names"])
                if mark.ge is not None and mark.le is not None:
                    bounds = int(mark.ge), int(mark.le)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (UnionType, Union):
        [kind] = [part for part in inner if part is not type(None)]
        return _optional(reader_of(kind))
    if origin in (list, Sequence):
        return _list(inner[0])
    if origin is dict:
        return _table(inner[0], _held(inner[1]))
    if hint is int:
        return _integer(*(bounds or (-(2**63), 2**63 - 1)))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint)
    return _PLAIN[hint]


def _optional(read: _Reader) -> _Reader:
    return lambda value, reading: None if value is None else read(value, reading)


def _struct(cls: type[msgspec.Struct]) -> _Reader:
    fields: dict[str, tuple[str, _Reader, bool]] | None = None

    def read(value: Any, reading: Reading) -> Any:
        nonlocal fields
        if fields is None:  # not before it is needed: a class may hold itself
            fields = {
                field.encode_name: (field.name, reader_of(field.type), type(None) in get_args(field.type))
                for field in msgspec.structs.fields(cls)
            }
        if value is None or (isinstance(value, str) and value in _NOTHING):
            return None
        if not isinstance(value, dict):
            raise _Refused("an object", value)
        reading.take(len(value))
        found = {}
        for wire, item in value.items():
            known = fields.get(wire)
            if known is None:
                continue
            name, own, optional = known
            try:
                made = own(item, reading)
            except _Refused as wrong:
                wrong.path.append(f".{wire}")
                raise
            if made is not None or optional:
                found[name] = made
        return cls(**found)

    return read


def _held(kind: Any) -> _Reader:
    """In a list or a table Java has boxed numbers, for which these texts are nulls."""
    own = reader_of(kind)
    if _bare(kind) is not int:
        return own
    return lambda value, reading: None if isinstance(value, str) and value in _NOTHING else own(value, reading)


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _list(kind: Any) -> _Reader:
    own, bare = _held(kind), _bare(kind)
    alone: tuple[type, ...] = (dict,)
    if bare is str:
        alone = (str,)
    elif bare is int:
        alone = (str, int, float)

    def read(value: Any, reading: Reading) -> Any:
        if value is None or value == "":
            return None if value is None or bare is not str else []
        if not isinstance(value, list):
            if not isinstance(value, alone):
                raise _Refused("a list", value)
            value = [value]
        reading.take(len(value))
        found = []
        for at, item in enumerate(value):
            try:
                made = None if item is None else own(item, reading)
            except _Refused as wrong:
                wrong.path.append(f"[{at}]")
                raise
            if made is not None:
                found.append(made)
        return found

    return read


def _table(kind: Any, own: _Reader) -> _Reader:
    key_of = _key_reader(kind)

    def read(value: Any, reading: Reading) -> Any:
        if value is None or (isinstance(value, str) and value in _NOTHING):
            return None
        if not isinstance(value, dict):
            raise _Refused("an object", value)
        reading.take(len(value))
        found = {}
        for key, item in value.items():
            try:
                made = None if item is None else own(item, reading)
                known = key_of(key, reading)
            except _Refused as wrong:
                wrong.path.append(f"[{str(key)[:64]}]")
                raise
            if made is not None:
                found[known] = made
        return found

    return read


def _key_reader(kind: Any) -> _Reader:
    if kind is MessageQueue:
        return _queue
    if kind is str:
        return lambda key, _: key if isinstance(key, str) else fastjson.dumps_fastjson({key: ""}).decode()[1:-4]
    number = reader_of(kind)

    def read(key: Any, reading: Reading) -> Any:
        if not isinstance(key, str) or key in _NOTHING:
            raise _Refused("a number as a key", key)
        return number(key, reading)

    return read


def _queue(key: Any, reading: Reading) -> MessageQueue:
    """A queue as a key; members that are spelled otherwise have left it a text."""
    if isinstance(key, MessageQueue):
        return key
    members = fastjson.loads(key.encode()) if isinstance(key, str) and key.startswith("{") else None
    if not isinstance(members, dict):
        raise _Refused("a queue as a key", key)
    topic, broker = (text_of(members.get(name), reading) or "" for name in ("topic", "brokerName"))
    return MessageQueue(topic, broker, reader_of(_I32)(members.get("queueId"), reading))


def _enumeration(names: tuple[str, ...]) -> _Reader:
    """By name in any case, underscores or not; by ordinal, quoted or not.  A text that is neither counts as missing."""

    def read(value: Any, _: Reading) -> str | None:
        if isinstance(value, str):
            if _ORDINAL.fullmatch(value) and abs(int(value)) > _I32_MAX:
                raise _Refused(f"one of {', '.join(names)}", value)
            return name_of(names, value)
        if value is None:
            return None
        at = -1 if isinstance(value, bool) or (whole := _whole(value)) is None else whole
        if not 0 <= at < len(names):
            raise _Refused(f"one of {', '.join(names)}, or its ordinal,", value)
        return names[at]

    return read


def name_of(names: tuple[str, ...], text: str) -> str | None:
    """Which of the names of an enumeration a text says, by name or ordinal; None: none of them."""
    if _ORDINAL.fullmatch(text):
        return names[int(text)] if 0 <= int(text) < len(names) else None
    return _by_folded(names).get(_folded(text))


@functools.cache
def _by_folded(names: tuple[str, ...]) -> dict[str, str]:
    return {_folded(name): name for name in names}


def _folded(name: str) -> str:
    return name.replace("_", "").lower() if len(name) <= 256 else name


def _integer(least: int, most: int) -> _Reader:
    def read(value: Any, reading: Reading) -> int:
        if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], bool | list | dict | None):
            return read(value[0], reading)
        number = _integer_of(value) if isinstance(value, str | None) else _whole(value)
        if number is None or not least <= number <= most:
            raise _Refused(f"an integer from {least} to {most}", value)
        return number

    return read


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int) or (isinstance(value, float) and isfinite(value)) else None


def _integer_of(text: str | None) -> int | None:
    """What a text or a null says, cut at the point."""
    if text is None or text in ("", "null", "false"):
        return 0
    if text == "true":
        return 1
    found = _NUMBER.fullmatch(text) if len(text) <= NUMBER_CHARACTERS_MAX else None
    if found is None:
        return None
    text = text.replace(",", "")
    if found[1] is None:
        whole = text.partition(".")[0]
        return int(whole) if whole.strip("+-") else 0
    try:
        return _whole(float(text))
    except ValueError:
        return None


def _decimal(value: Any, reading: Reading) -> float:
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], bool | list | dict | None):
        return _decimal(value[0], reading)
    if value is None or value in ("", "null", "false", "true"):
        return float(value == "true")
    if isinstance(value, str) and len(value) <= NUMBER_CHARACTERS_MAX and "," not in value and _NUMBER.fullmatch(value.strip()):
        try:
            value = float(value)
        except ValueError:
            pass
    if not isinstance(value, int | float) or not isfinite(value):
        raise _Refused("a number", value)
    return float(value)


def _truth(value: Any, reading: Reading) -> bool:
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], list | dict):
        return _truth(value[0], reading)
    if isinstance(value, int | float):
        return isinstance(value, int) and abs(value) == 1
    if isinstance(value, str):
        if value.lower() == "true" or value in ("1", "Y"):
            return True
        if value.lower() not in ("false", "null") and value not in ("", "0", "N"):
            raise _Refused("a truth value", value)
    elif value is not None:
        raise _Refused("a truth value", value)
    return False


def text_of(value: Any, _: object = None) -> str | None:
    """A value where a text should be."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | None):
        return value[0]
    return fastjson.dumps_fastjson(value).decode()


def _anything(value: Any, _: Reading) -> Any:
    return value


_I32_MAX: Final = 2**31 - 1
_I32: Final = Annotated[int, msgspec.Meta(ge=-_I32_MAX - 1, le=_I32_MAX)]
_PLAIN: Final[dict[Any, _Reader]] = {float: _decimal, bool: _truth, str: text_of, Any: _anything}
