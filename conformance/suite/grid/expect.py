"""What a probe of the grid must be answered with, by version, and in words.

An expectation that differs by version is a table (`conformance.version.by_version`); one that is an accident of Java's says why.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.suite.trial import fits
from rmq_wire import fastjson
from rmq_wire.codes import ResponseCode
from rmq_wire.errors import BadBody

KINDS: Final = ("good", "missing", "mistyped", "unknown", "permission", "limit")
NOTHING_NAMED: Final = "names no topic, group or client"
NO_PERMISSION: Final = "no permission of a topic or group is looked at"
NO_LIMIT: Final = "no number or length in it has a limit of its own"
NEVER_MIND: Final = {"unknown": NOTHING_NAMED, "permission": NO_PERMISSION, "limit": NO_LIMIT}
"""Of requests that ask for the server's whole state."""


SILENCE_S: Final = 0.5
"""How long it is waited for an answer that must not come."""


@dataclass(frozen=True, kw_only=True)
class Expect:
    """What must be seen of an answer; values as in `Trial.equal`, `...` is not looked at.

    remark: judged by the row's case `remarks`, not by the cell.  quirk: why this is an accident rather than a rule; such a probe
    goes into a case of level QUIRK.  silent: no answer comes (waited for `SILENCE_S`).  drop: why nothing is probed here.
    """

    code: Any = 0
    remark: Any = ...
    ext: Mapping[str, Any] = field(default_factory=dict)
    body: Any = ...
    absent: tuple[str, ...] = ()
    silent: bool = False
    quirk: str = ""
    drop: str = ""


Expected = Expect | Mapping[str, Expect]
"""One for all versions, or a table by version (`conformance.version.by_version`)."""

REFUSED: Final = Expect(code=ResponseCode.SYSTEM_ERROR)
NO_TOPIC: Final = Expect(code=ResponseCode.TOPIC_NOT_EXIST, remark=re.compile("topic.*not exist", re.I))
NO_GROUP: Final = Expect(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=re.compile("group.*not exist", re.I))
NO_RIGHT: Final = Expect(code=ResponseCode.NO_PERMISSION)
INVALID: Final = Expect(code=ResponseCode.INVALID_PARAMETER)


def accident(why: str, code: Any = 0, **more: Any) -> Expect:
    """Java answers so, yet nobody decided it."""
    return Expect(code=code, quirk=why, **more)


UNREAD: Final = accident("marked not-null, never looked at")

PAGED: Final = {"": accident("Java trips over a page without a start", 1), "5.3": Expect(), "4": Expect()}
"""Of the field that says where a page starts, which 5.5 brought."""
NOTHING_TO_DO: Final = accident("nothing is given, nothing is done, nothing is said")


def by_handler(code: int) -> Expect:
    """Marked not-null, yet it is the handler that answers, for a name or number that is null."""
    return accident("marked not-null, yet the handler answers for a null", code)


def four(new: Expect, code: Any = ResponseCode.SYSTEM_ERROR, **more: Any) -> Mapping[str, Expect]:
    """What 5.x answers, and what 4.x answers instead."""
    return {"": new, "4": dataclasses.replace(new, code=code, **more)}


def drop(why: str) -> Expect:
    """Not probed, for this reason."""
    return Expect(drop=why)


def newest(expected: Expected) -> Expect:
    """What is expected of the newest reference."""
    return expected if isinstance(expected, Expect) else expected[""]


def each_version(expected: Expected, change: Callable[[Expect], Expect]) -> Expected:
    """The same table with each expectation changed."""
    return change(expected) if isinstance(expected, Expect) else {key: change(one) for key, one in expected.items()}


def all_of(expected: Expected) -> Iterable[Expect]:
    """The expectations of every version."""
    return (expected,) if isinstance(expected, Expect) else expected.values()


def described(expected: Expected, *, remarks: bool = False) -> str:
    """An expectation in words, for documents: that of the newest reference, then those of older ones."""
    if isinstance(expected, Expect):
        return _one(expected, remarks=remarks)
    older = (f"{key}.x: {_one(dataclasses.replace(one, quirk=''), remarks=remarks)}" for key, one in expected.items() if key)
    return "; ".join((_one(expected[""], remarks=remarks), *older))


def _one(expect: Expect, *, remarks: bool) -> str:
    if remarks and expect.remark is ...:
        return "any remark"
    if remarks:
        return f"remark {expect.remark.pattern!r}" if isinstance(expect.remark, re.Pattern) else f"remark {expect.remark!r}"
    if expect.silent:
        return "no answer"
    code = "/".join(map(_code, expect.code)) if isinstance(expect.code, set | frozenset) else _code(expect.code)
    fields = f", with {', '.join(expect.ext)}" if expect.ext else ""
    return f"{code}{fields}{f' ({expect.quirk})' if expect.quirk else ''}"


def _code(code: Any) -> str:
    try:
        return f"{int(code)} {ResponseCode(code).name}"
    except (TypeError, ValueError):
        return str(getattr(code, "__name__", code))


def has(*names: str) -> Callable[[bytes], bool]:
    """Of a body: a JSON object with at least these members."""

    def fitting(body: bytes) -> bool:
        found = _json(body)
        return isinstance(found, dict) and all(name in found for name in names)

    fitting.__name__ = f"a JSON object with {', '.join(names)}"
    return fitting


def holds(**wanted: Any) -> Callable[[bytes], bool]:
    """Of a body: a JSON object whose members of these names (`__` stands for a step down) fit."""

    def fitting(body: bytes) -> bool:
        for path, value in wanted.items():
            found = _json(body)
            for step in path.split("__"):
                found = found.get(step) if isinstance(found, dict) else None
            if not fits(found, value):
                return False
        return True

    words = (f"{path.replace('__', '.')} = {getattr(value, '__name__', value)!r}" for path, value in wanted.items())
    fitting.__name__ = f"a JSON object with {', '.join(words)}"
    return fitting


def _json(body: bytes) -> Any:
    try:
        return fastjson.loads(body)
    except BadBody:
        return None


def changed(expect: Expect, **more: Any) -> Expect:
    """The same expectation with some members changed."""
    return dataclasses.replace(expect, **more)
