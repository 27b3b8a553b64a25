"""Every property of a 5.5.0 broker and name server: its type and default, and what it means here.

The tables are data (`config_keys.json` here and in `namesrv`; names, types and defaults are those that reflection reads out of
the Java classes, a test compares them).  A key is *effective* (obeyed), *accepted* (known, without effect, with the reason) or
*refused* (any but the allowed values would break a promise, so the broker does not start).  `start_only` keys cannot be changed
from afar: paths, classes, sizes of files, addresses of exporters, secrets.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable
from importlib import resources
from typing import Literal

import msgspec

Value = str | int | float | bool

INT_BITS = 32
LONG_BITS = 64
SUGGESTIONS = 3
"""Names offered for one that nobody knows."""
MASK = "******"
"""What stands in an answer for a secret."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One property.  `default`: Java's text, None for null or where `derived` says from what it comes.  `also`: the object that

    has the key too, and whose value is hidden by this one's in the merged listing.  `words`: the values of an enumeration.
    `allowed`: the values of a refused key with which the broker starts.  `settable`: false where Java has no setter.
    `start_only`: cannot be changed from afar.  `next_start`: can, and counts from the next start.
    """

    name: str
    owner: str = msgspec.field(name="in")
    type: Literal["String", "int", "long", "boolean", "double"]
    default: str | None = None
    derived: str | None = None
    status: Literal["effective", "accepted", "refused"]
    why: str | None = None
    words: tuple[str, ...] | None = None
    allowed: tuple[str, ...] | None = None
    least: int | None = None
    most: int | None = None
    start_only: bool = False
    next_start: bool = False
    secret: bool = False
    settable: bool = True
    also: str | None = None

    @property
    def attribute(self) -> str:
        """The name as an attribute of the configuration: `brokerIP1` is `broker_ip1`."""
        return snake_case(self.name)

    def read(self, text: str) -> Value:
        """The value of a text.  Raises `ValueError` with what was expected."""
        text = text.strip()
        if self.words is not None:
            if text not in self.words:
                raise ValueError(f"one of {', '.join(self.words)}")
            return text
        if self.type == "String":
            return text
        if self.type == "boolean":
            if text.lower() not in ("true", "false"):
                raise ValueError("true or false")
            return text.lower() == "true"
        if self.type == "double":
            if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text, re.ASCII):
                raise ValueError("a number")
            return float(text)
        return self._integer(text)

    def plain(self, text: str) -> str:
        """A value's text as Java lists it: `TRUE` as `true`, `007` as `7`.  Raises `ValueError` as `read` does."""
        value = self.read(text)
        return str(value).lower() if isinstance(value, bool) else str(value) if isinstance(value, int) else text.strip()

    def refuses(self, text: str) -> bool:
        """Would this value, plain, break a promise?"""
        return self.status == "refused" and text not in (self.allowed or ())

    def _integer(self, text: str) -> int:
        bits = INT_BITS if self.type == "int" else LONG_BITS
        least = -(1 << bits - 1) if self.least is None else self.least
        most = (1 << bits - 1) - 1 if self.most is None else self.most
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return int(text)


def table(package: str) -> dict[str, Key]:
    """The keys that a package's `config_keys.json` has, by name; where two of Java's objects have one, the first."""
    found: dict[str, Key] = {}
    for key in msgspec.json.decode(resources.files(package).joinpath("config_keys.json").read_bytes(), type=list[Key]):
        found.setdefault(key.name, key)
    return found


@functools.cache
def keys() -> dict[str, Key]:
    """All keys of a broker by name, those of the access control's own object included."""
    return table("broker_impl")


def snake_case(name: str) -> str:
    """`maxMessageSize` as `max_message_size`, `brokerIP1` as `broker_ip1`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def suggestions(name: str, known: Iterable[str]) -> list[str]:
    """The known names nearest to an unknown one, best first."""
    by_lower = {one.lower(): one for one in known}
    return [by_lower[near] for near in difflib.get_close_matches(name.lower(), by_lower, SUGGESTIONS, 0.7)]
