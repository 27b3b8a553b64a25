"""Two answers to one question, the recorded one and another server's: in what do they differ in meaning?

Code, remark, ext fields and body are compared in that order, member by member, each value by its kind
(`conformance.captures.kinds`).
The header's form, language, version and number say nothing about meaning and are left out.  Texts are the same when they are
equal after names and addresses have been put in; times and long numbers in a remark count as such.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from conformance.captures.bodies import MESSAGES, PROPERTIES
from conformance.captures.decoding import UNREADABLE, Said
from conformance.captures.kinds import FIGURES_OF, KINDS, PLACES_OF, PROPERTY_NAMES, UNORDERED, Kind, Learned, Queue
from rmq_wire.encoding import Form

ABSENT: Final = "(absent)"
"""Stands in a difference for what is not there."""
_IN_REMARK: Final = re.compile(r"\d{12,}|\b\d+(?= ?ms\b)|[0-9A-F]{32,}|/?\d{1,3}(?:\.\d{1,3}){3}:\d{1,5}")
"""What differs in a remark by nature: times, durations, ids, addresses."""
_QUEUE_KEY: Final = re.compile(r"(.+)@(.*):(-?\d+)")
"""`topic@brokerName:queueId`, as `bodies.jsonable` writes the key of a table of queues."""

_PATH_IN_KEY: Final = re.compile(r"(?<=Ratio)_/.*")
"""`commitLogDiskRatio_` and the directory, in the runtime information of a broker."""


class Finding(NamedTuple):
    """One difference between two frames."""

    path: str
    """`code`, `remark`, `ext.NAME`, `body…` down to the member."""
    expected: Any
    """As recorded."""
    found: Any
    why: str


def findings(old: Said, new: Said, learned: Learned, question: Said | None) -> list[Finding]:
    """In what `new`, from the other server, differs from `old`.  `question`: what was asked, for an answer."""
    return list(_Comparison(learned, question or old, old.asked_name).frames(old, new))


class _Comparison:
    """Of one pair of frames."""

    def __init__(self, learned: Learned, question: Said, asked: str) -> None:
        self._learned = learned
        self._queue = _queue_of(question)
        self._everything: Kind | None = None
        """What all values of the body are, where only the names count."""
        if asked in FIGURES_OF:
            self._everything = Kind.FIGURE
        elif asked in PLACES_OF:
            self._everything = Kind.PLACE

    def frames(self, old: Said, new: Said) -> Iterator[Finding]:
        if UNREADABLE in (old.what, new.what):
            if (old.what, old.problem) != (new.what, new.problem):
                yield Finding("frame", old.problem or old.what, new.problem or new.what, "a frame cannot be read")
            return
        if old.code != new.code:
            yield Finding("code", old.name, new.name, "another code")
        yield from self._remark(old, new)
        if bool(old.flag & 2) != bool(new.flag & 2):
            yield Finding("flag", old.flag, new.flag, "one-way or not")
        yield from self._ext(old, new)
        yield from self._bodies(old, new)

    def _remark(self, old: Said, new: Said) -> Iterator[Finding]:
        before, now = old.remark, new.remark
        if Form.ROCKETMQ in (old.form, new.form):  # this form cannot tell an empty text from none
            before, now = before or None, now or None
        if before == now:
            return
        if before is None or now is None:
            yield Finding("remark", _or_absent(before), _or_absent(now), "only one has a remark")
        elif _IN_REMARK.sub("#", self._learned.text(before)) != _IN_REMARK.sub("#", now):
            yield Finding("remark", before, now, "another remark")

    def _ext(self, old: Said, new: Said) -> Iterator[Finding]:
        before, now = old.ext or {}, new.ext or {}
        for name in [*before, *(name for name in now if name not in before)]:
            path = f"ext.{name}"
            if name not in now:
                yield Finding(path, before[name], ABSENT, "a field is missing")
            elif name not in before:
                yield Finding(path, ABSENT, now[name], "a field more")
            elif why := self._leaf_problem(name, before[name], now[name], self._queue):
                yield Finding(path, before[name], now[name], why)

    def _bodies(self, old: Said, new: Said) -> Iterator[Finding]:
        if old.body is None or new.body is None:
            if old.body is not new.body:
                kinds = [ABSENT if body is None else body.kind for body in (old.body, new.body)]
                yield Finding("body", kinds[0], kinds[1], "only one has a body")
            return
        if (old.body.kind, old.body.problem) != (new.body.kind, new.body.problem):
            kinds = [body.problem or body.kind for body in (old.body, new.body)]
            yield Finding("body", kinds[0], kinds[1], "a body of another kind")
            return
        if old.body.kind == PROPERTIES and self._everything is None:
            self._everything = Kind.PLACE
        yield from self._values("body", "", old.body.value, new.body.value, self._queue, in_order=old.body.kind == MESSAGES)

    def _values(
        self, path: str, name: str, old: Any, new: Any, queue: Queue | None, *, in_order: bool = False
    ) -> Iterator[Finding]:
        if isinstance(old, dict) and isinstance(new, dict):
            yield from self._members(path, old, new, _queue_within(old, queue))
        elif isinstance(old, list) and isinstance(new, list):
            yield from self._lists(path, name, old, new, queue, in_order=in_order)
        elif why := self._leaf_problem(name, old, new, queue):
            yield Finding(path, old, new, why)

    def _members(self, path: str, old: dict[str, Any], new: dict[str, Any], queue: Queue | None) -> Iterator[Finding]:
        renamed = {self._key(key): key for key in old}
        new = {_PATH_IN_KEY.sub("_PATH", key): item for key, item in new.items()}
        name = path.rpartition(".")[2]
        for key in [*renamed, *(key for key in new if key not in renamed)]:
            below = f"{path}.{key}"
            if key not in new:
                yield Finding(below, old[renamed[key]], ABSENT, "a member is missing")
            elif key not in renamed:
                yield Finding(below, ABSENT, new[key], "a member more")
            else:
                named = _QUEUE_KEY.fullmatch(renamed[key])
                within = (named[1], named[3]) if named else queue
                yield from self._values(below, _known_name(name, key), old[renamed[key]], new[key], within)

    def _lists(
        self, path: str, name: str, old: list[Any], new: list[Any], queue: Queue | None, *, in_order: bool
    ) -> Iterator[Finding]:
        if name in UNORDERED and not in_order:
            old = sorted(old, key=lambda item: self._canonical(name, item, recorded=True))
            new = sorted(new, key=lambda item: self._canonical(name, item, recorded=False))
            if all(isinstance(item, str) for item in old + new):
                yield from self._sets(path, [self._learned.text(item) for item in old], new)
                return
        if len(old) != len(new):
            yield Finding(f"{path}.length", len(old), len(new), "another number of elements")
        for at, (before, now) in enumerate(zip(old, new, strict=False)):
            yield from self._values(f"{path}[{at}]", name, before, now, queue)

    def _sets(self, path: str, old: list[str], new: list[str]) -> Iterator[Finding]:
        for one in old:
            if one not in new:
                yield Finding(f"{path}[{one}]", one, ABSENT, "an element is missing")
        for one in new:
            if one not in old:
                yield Finding(f"{path}[{one}]", ABSENT, one, "an element more")

    def _leaf_problem(self, name: str, old: Any, new: Any, queue: Queue | None) -> str | None:
        kind = self._everything or KINDS.get(name)
        if kind is Kind.FIGURE and self._everything and isinstance(old, str) and isinstance(new, str):
            return None
        if kind is not None:
            return self._learned.problem(kind, old, new, queue)
        if isinstance(old, str) and isinstance(new, str):
            return None if self._learned.text(old) == new else "another text"
        if type(old) is not type(new):
            return "another type"
        return None if old == new else "another value"

    def _key(self, key: str) -> str:
        named = _QUEUE_KEY.fullmatch(key)
        if named:
            return f"{named[1]}@{self._learned.text(named[2])}:{named[3]}"
        return _PATH_IN_KEY.sub("_PATH", self._learned.text(key))

    def _canonical(self, name: str, value: Any, *, recorded: bool) -> str:
        """What to sort by: everything that is not tied to a server."""
        return json.dumps(self._masked(name, value, recorded), sort_keys=True)

    def _masked(self, name: str, value: Any, recorded: bool) -> Any:
        if isinstance(value, dict):
            return {self._key(key) if recorded else key: self._masked(key, item, recorded) for key, item in value.items()}
        if isinstance(value, list):
            return [self._masked(name, item, recorded) for item in value]
        if name in KINDS:
            return KINDS[name]
        return self._learned.text(value) if recorded and isinstance(value, str) else value


def _queue_of(said: Said) -> Queue | None:
    """The queue that a question is about."""
    fields = said.fields()
    topic, queue = fields.get("topic"), fields.get("queueId")
    return None if topic is None or queue is None else (str(topic), str(queue))


def _queue_within(value: dict[str, Any], queue: Queue | None) -> Queue | None:
    """The queue that a stored message, or a queue as a value, names itself."""
    if isinstance(value.get("topic"), str) and isinstance(value.get("queueId"), int):
        return (value["topic"], str(value["queueId"]))
    return queue


def _known_name(of: str, key: str) -> str:
    """The name of the kind of a member of the object that has the name `of`."""
    if of == "brokerAddrs":  # stand under the brokers' numbers
        return "brokerAddr"
    if of == "properties":  # applications choose names, too
        return key if key in PROPERTY_NAMES else ""
    return of if of in UNORDERED else key


def _or_absent(text: str | None) -> str:
    return ABSENT if text is None else text
