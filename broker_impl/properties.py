"""The properties of a server, broker or name server: read from Java's property files and `KEY=VALUE` pairs, checked, changed
while it runs, listed, written back.

Everything is read and checked before anything starts, and all faults are reported at once, each with key, value and what was
expected.  Effective keys are typed attributes; all keys are kept as text, for Java's tools list them (26, 319) and the file is
rewritten whole when one is changed from afar (25, 318).  What the environment decides in Java (host name, address, processors)
is handed in.

Java: `Configuration`, `MixAll.properties2Object` (which swallows values it cannot read; we name them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, NamedTuple

from broker_impl.config_keys import MASK, Key, suggestions
from rmq_net.log import plain_text
from rmq_wire.bodies import properties_text
from rmq_wire.errors import BadBody

_SECRET = re.compile(r"password|passwd|secret|credential|accesskey", re.IGNORECASE)
"""Names of unknown properties whose values are nobody's business."""


class BadConfig(Exception):
    """A configuration that the server cannot start with, or a change that is not made.

    `faults`: one line each.  `forbidden`: of a change, when its key may not be changed at all; else its value is not lawful.
    """

    def __init__(self, faults: Iterable[str], *, forbidden: bool = False) -> None:
        self.faults = list(faults)
        self.forbidden = forbidden
        super().__init__("; ".join(self.faults))


class Change(NamedTuple):
    """What a request has changed."""

    names: set[str]
    """Those with a new value."""
    passed_over: list[str]
    """One line for each value that could not be read."""


def read_properties(data: bytes) -> dict[str, str]:
    """A property file: ISO 8859-1 with `\\uXXXX` as Java's `Properties.load(InputStream)` reads it.  Raises `BadConfig`."""
    try:
        return properties_text.loads(data.decode("latin-1"))
    except BadBody as wrong:
        raise BadConfig([str(wrong)]) from None


def read_pair(text: str) -> tuple[str, str]:
    """`KEY=VALUE` of a command line.  Raises `BadConfig`."""
    key, mark, value = text.partition("=")
    if not mark or not key.strip():
        raise BadConfig([f"{plain_text(text, 64)!r} is not KEY=VALUE"])
    return key.strip(), value.strip()


def unknown(name: str, keys: Iterable[str]) -> str:
    """What is said of a property that is none of the keys, with those nearest to it."""
    near = suggestions(name, keys)
    return f"unknown property {plain_text(name, 64)}" + (f" (near: {', '.join(near)})" if near else "")


def bad_value(key: Key, text: str, expected: object) -> str:
    """What is said of a value that is not lawful."""
    return f"{key.name}={plain_text(text, 64)!r}: {expected} is expected"


class Properties:
    """The effective properties as attributes, the others as text.

    `keys`: those that a request may name.  `entries`: what was set.  `path`: the file that changes are written to.  Raises
    `BadConfig`.
    """

    BLACK_LIST: ClassVar[tuple[str, ...]]
    """Keys that no request may touch; the property `configBlackList` adds others."""
    passes_over_bad_values: ClassVar[bool] = False
    """Does a change leave out what it cannot read, as Java does, or refuse the whole?"""
    config_black_list: str

    def __init__(self, keys: Mapping[str, Key], entries: Mapping[str, str], *, path: str | None = None) -> None:
        self.keys = keys
        self.path = path
        self.notices: list[str] = []
        """One line for each property that was set in vain."""
        self.unknown: dict[str, str] = {}
        """Properties that are none of the keys; kept, for the file may be a Java server's too."""
        self.on_update: list[Callable[[set[str]], None]] = []
        """Called with the names of the keys that a request has changed."""
        self._texts: dict[str, str] = {}
        self._set: set[str] = set()
        faults: list[str] = []
        for name, text in entries.items():
            if name in keys:
                self._take(keys[name], text, faults)
            else:
                self.unknown[name] = text
                self.notices.append(self._of_unknown(name, text))
        self._derive()
        for key in keys.values():
            if key.status == "effective":
                setattr(self, key.attribute, None if (found := self._readable(key)) is None else key.read(found))
        faults += self._faults_of_the_whole()
        if faults:
            raise BadConfig(faults)

    # -- what a server adds

    def _derive(self) -> None:
        """Give values to keys whose default depends on the surroundings: `_default`."""

    def _faults_of_the_whole(self) -> list[str]:
        """What is wrong with values that can be read, one line each."""
        return []

    def _of_unknown(self, name: str, text: str) -> str:
        """What is said of a property that is none of the keys."""
        return unknown(name, self.keys)

    def _is_listed(self, name: str) -> bool:
        """Is a key shown and written?"""
        return True

    def _default(self, name: str, value: str | int | None) -> None:
        """The value of a key that was not set, or set to nothing."""
        if value is not None and not (name in self._set and self._texts[name]):
            self._texts[name] = str(value)

    # -- reading

    def text(self, name: str) -> str | None:
        """The value of any property as text, as set or by default."""
        found = self._texts.get(name, self.unknown.get(name))
        return self.keys[name].default if found is None and name in self.keys else found

    def is_set(self, name: str) -> bool:
        """Was it given, rather than left at its default?"""
        return name in self._set

    def _take(self, key: Key, text: str, faults: list[str]) -> None:
        text = text.strip()
        try:
            key.read(text)
        except ValueError as expected:
            faults.append(bad_value(key, text, expected))
            return
        text = key.plain(text)
        if key.refuses(text):
            faults.append(f"{key.name}={plain_text(text, 64)} is refused: {key.why}")
        elif key.status == "accepted" and text != (key.default or ""):
            self.notices.append(f"property {key.name}={plain_text(text, 64)} has no effect: {key.why}")
        self._texts[key.name] = text
        self._set.add(key.name)

    def _readable(self, key: Key) -> str | None:
        """Its text; the default where that cannot be read, as a fault says already."""
        text = self.text(key.name)
        try:
            if text is not None:
                key.read(text)
        except ValueError:
            return key.default
        return text

    def _assign(self, key: Key, text: str, *, now: bool = True) -> None:
        self._texts[key.name] = text
        self._set.add(key.name)
        if now and key.status == "effective":
            setattr(self, key.attribute, key.read(text))

    # -- requests 25 and 318

    def change(self, entries: Mapping[str, str]) -> Change:
        """Change what a request names, all or nothing.  Raises `BadConfig`.

        Names that are neither keys nor in the file are passed over as in Java (`Configuration.update`).  The caller writes the
        file (`file_text`), and when it cannot takes the change back (`way_back`).  A key that counts from the next start only
        (`Key.next_start`) has its new text in listing and file, its attribute stays.
        """
        black = {*self.BLACK_LIST, *(piece.strip() for piece in self.config_black_list.split(";"))}
        passed_over: list[str] = []
        wanted: dict[str, str] = {}
        for name, text in entries.items():
            if not (properties_text.is_one_line(name) and properties_text.is_one_line(text)):
                raise BadConfig([f"The value of {plain_text(name, 64)} must be one line."])
        if any(name in black for name in entries):
            raise BadConfig(["Can not update config in black list."], forbidden=True)
        for name, text in entries.items():
            key = self.keys.get(name)
            if key is None:
                continue
            if key.start_only:
                raise BadConfig([f"Can not update config {name} while the server runs."], forbidden=True)
            try:
                wanted[name] = key.plain(text)
            except ValueError as expected:
                if not self.passes_over_bad_values:
                    raise BadConfig([bad_value(key, text, expected)]) from None
                passed_over.append(bad_value(key, text, expected))
                continue
            if key.refuses(wanted[name]):
                raise BadConfig([f"{name}={plain_text(text, 64)} is refused: {key.why}"])
        names = {name for name, text in wanted.items() if self.text(name) != text}
        self._check_whole(names, wanted)
        for name in names:
            self._assign(self.keys[name], wanted[name], now=not self.keys[name].next_start)
        others = {name for name, text in entries.items() if self.unknown.get(name, text) != text}
        self.unknown |= {name: entries[name] for name in others}
        for listener in self.on_update:
            listener(names)
        return Change(names | others, passed_over)

    def _check_whole(self, names: set[str], wanted: Mapping[str, str]) -> None:
        """Whether a server starts with these values.  Raises `BadConfig`."""
        texts, was_set = self._texts.copy(), self._set.copy()
        effective = [key for key in map(self.keys.__getitem__, names) if key.status == "effective"]
        now = [(key.attribute, getattr(self, key.attribute)) for key in effective]
        for name in names:
            self._assign(self.keys[name], wanted[name])
        faults = self._faults_of_the_whole()
        self._texts, self._set = texts, was_set
        for attribute, value in now:
            setattr(self, attribute, value)
        self._faults_of_the_whole()  # what it derives is that of the values which count
        if faults:
            raise BadConfig(faults)

    def later(self, names: Iterable[str]) -> list[str]:
        """Those of the changed ones that count from the next start, sorted."""
        return sorted(name for name in names if name in self.keys and self.keys[name].next_start)

    def way_back(self) -> Callable[[], None]:
        """What makes all values again what they are now, and calls the listeners."""
        texts, was_set, unknown = self._texts.copy(), self._set.copy(), self.unknown.copy()
        now = [(key.attribute, getattr(self, key.attribute)) for key in self.keys.values() if key.status == "effective"]

        def restore() -> None:
            changed = {name for name in self._texts.keys() | texts.keys() if self._texts.get(name) != texts.get(name)}
            self._texts, self._set, self.unknown = texts, was_set, unknown
            for name, value in now:
                setattr(self, name, value)
            for listener in self.on_update:
                listener(changed)

        return restore

    # -- requests 26 and 319, and the file

    def shown(self, name: str) -> str:
        """The value of a property for other eyes: a secret is masked."""
        text = self.text(name) or ""
        return MASK if text and name in (self._set | self.unknown.keys()) and self._is_secret(name) else text

    def listing(self) -> str:
        """Every property that is not null as sorted `key=value` lines, secrets masked (`getAllConfigsFormatString`)."""
        found = {name: self.shown(name) for name in self.values()}
        return properties_text.dumps({name: text for name, text in found.items() if properties_text.is_one_line(name + text)})

    def file_text(self) -> bytes:
        """The same with its secrets, as a file that reads back as it was (*differs*: Java escapes nothing)."""
        return properties_text.dumps_escaped(self.values(), ascii_only=True).encode("ascii")

    def values(self) -> dict[str, str]:
        """Every property that has a value, as text."""
        known = {name: self.text(name) for name in self.keys if self._is_listed(name)}
        return {**self.unknown, **{name: text for name, text in known.items() if text is not None}}

    def _is_secret(self, name: str) -> bool:
        key = self.keys.get(name)
        return key.secret if key is not None else _SECRET.search(name) is not None
