"""The grid: each request code × {good, missing field, mistyped field, unknown name, wrong permission, at a limit}.

A row declares one code: how a good request is made (`good`), what answers it (`ok`), and where the server departs from Java's
rule for a broken header; everything else - which fields there are, which are required, their types - is read off the registry.
`grid()` enters the cells as cases `grid.<code>.<cell>`.  A cell that probes field by field names the field in each check and goes
on after one that does not hold, so that one run shows all of them.

Java's rule (`RemotingCommand.decodeCommandCustomHeader`).  Missing and required: SYSTEM_ERROR, either because the quick decoder
says so ("the custom field <x> is null") or because the handler trips over the null; a Java `int` or `boolean` keeps 0 or false.
No integer: as if it were missing, and in a header with a quick decoder SYSTEM_ERROR also for an optional one.  No boolean: false.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.case import Case, Level, Need, Version, enter
from conformance.link import ANSWER_S, Answer, Form, Link, NoAnswer
from conformance.trial import CaseFailed, Trial, fits
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.declare import Field, Request, Role
from rmq_wire.headers.base import TopicRequest

Asked = Request | tuple[Request, bytes]
"""A request, with its body if it has one."""
Good = Callable[[Trial], Awaitable[Asked]]
Then = Callable[[Trial, Answer], Awaitable[None]]

KINDS: Final = ("good", "missing", "mistyped", "unknown", "permission", "limit")
NOTHING_NAMED: Final = "names no topic, group or client"
NO_PERMISSION: Final = "no permission of a topic or group is looked at"
NO_LIMIT: Final = "no number or length in it has a limit of its own"
NEVER_MIND: Final = {"unknown": NOTHING_NAMED, "permission": NO_PERMISSION, "limit": NO_LIMIT}
"""Of requests that ask for the server's whole state."""

_BASE: Final = frozenset(found.wire for found in TopicRequest.fields())
"""Of the base classes: they steer calls from broker to broker, and are probed by a case of their own."""
_WORDS: Final = {32: ("x", str(2**31)), 64: ("x", str(2**63))}
"""No Java `int`, no Java `long`: no number, and the first beyond the range."""
_NO_TRUTH: Final = ("yes",)
_SHORT_MAX: Final = 2**15 - 1
"""What a binary header has room for; a higher code arrives as another one."""
_EXTRA: Final = "conformanceUnknownField"
SILENCE_S: Final = 0.5
NO_JSON: Final = b"{no json"


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
"""One for all versions, or a table by version (`conformance.case.by_version`)."""

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


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One more cell of a row: the good request with some ext fields changed or left out, or a request of its own (`ask`)."""

    expect: Expected
    change: Mapping[str, str] | Callable[[Trial], Mapping[str, str]] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    ask: Good | None = None
    body: bytes | None = None
    level: Level = Level.MUST
    title: str = ""
    then: Then | None = None
    needs: tuple[Need, ...] = ()
    since: Version = ()


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One question of a cell."""

    label: str
    expect: Expected
    ask: Good
    change: Mapping[str, str] | Callable[[Trial], Mapping[str, str]] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    body: bytes | None = None
    then: Then | None = None
    since: Version = ()
    form: Form = Form.JSON


@dataclass(frozen=True, kw_only=True)
class Row:
    """One request code.

    missing, mistyped   expectations that differ from Java's rule, by the field's name on the wire; "body" for the body
    cells               by name; a name begins with its kind: `unknown-…`, `permission-…`, `limit-…`; others are free
    none                kind -> why there is no such cell; every kind has cells or a reason
    each                the good request is made anew for each probe, as it can be asked only once
    undo                runs after each cell, whatever came of it
    """

    request: type[Request]
    good: Good
    rests_on: str
    ok: Expected = field(default_factory=Expect)
    then: Then | None = None
    missing: Mapping[str, Expected] = field(default_factory=dict)
    mistyped: Mapping[str, Expected] = field(default_factory=dict)
    cells: Mapping[str, Cell] = field(default_factory=dict)
    none: Mapping[str, str] = field(default_factory=dict)
    level: Level = Level.MUST
    since: Version = ()
    needs: tuple[Need, ...] = ()
    alone: bool = False
    each: bool = False
    body: bool = False
    undo: Callable[[Trial], Awaitable[None]] | None = None

    @property
    def name(self) -> str:
        """The code's name, in the spelling of case ids."""
        return RequestCode(self.request.code).name.lower().replace("_", "-")

    @property
    def own_fields(self) -> list[Field]:
        """Its fields without those of the base classes."""
        return [found for found in self.request.fields() if found.wire not in _BASE]

    def link(self, t: Trial) -> Link:
        """The connection on which it is asked."""
        return t.broker if Role.BROKER in self.request.to else t.names


ROWS: Final[dict[int, Row]] = {}
"""Every row by its code, complete when all modules of cases are imported."""


def grid(request: type[Request], good: Good, rests_on: str, **more: Any) -> Row:
    """Declare a row and enter its cells.  more: fields of `Row`."""
    row = Row(request=request, good=good, rests_on=rests_on, **more)
    if request.code in ROWS:
        raise ValueError(f"code {request.code} has two rows in the grid")
    known = {found.wire for found in row.own_fields} | {"body"}
    if unknown := (set(row.missing) | set(row.mistyped)) - known:
        raise ValueError(f"{row.name}: no such field: {', '.join(sorted(unknown))}")
    ROWS[request.code] = row
    for name, level, title, probes, options in cells(row):
        _enter(row, name, level, title, probes, **options)
    return row


Plan = tuple[str, Level, str, list[Probe], dict[str, Any]]


def cells(row: Row) -> Iterator[Plan]:
    """The row's cases: name, level, title, questions, options of `_enter`."""
    said = row.name
    title = f"{said}: a good request is answered in either form of header, unknown ext fields are passed over"
    yield "good", row.level, title, list(_good(row)), {}
    remarked: list[Probe] = []
    for name, what, found in (
        ("missing-field", "a field that is missing", list(_missing(row))),
        ("mistyped-field", "a field of another type", list(_mistyped(row))),
    ):
        rules = [probe for probe in found if not newest(probe.expect).quirk]
        quirks = [probe for probe in found if newest(probe.expect).quirk]
        remarked += rules
        if rules:
            yield name, Level.SHOULD, f"{said}: {what} has the consequence that it has for every request", rules, {}
        if quirks:
            why = "; ".join(sorted({newest(probe.expect).quirk for probe in quirks}))
            yield f"{name}-quirk", Level.QUIRK, f"{said}: {what} that goes unnoticed: {why}", quirks, {}
    for name, cell in row.cells.items():
        probe = Probe(
            label=name.replace("-", " "), expect=cell.expect, ask=cell.ask or row.good, change=cell.change, without=cell.without,
            body=cell.body, then=cell.then, since=cell.since,
        )  # fmt: skip
        remarked.append(probe)
        title = cell.title or f"{said}: {name.replace('-', ' ')}"
        yield name, cell.level, title, [probe], {"needs": cell.needs, "since": cell.since}
    if remarked := [probe for probe in remarked if any(one.remark is not ... for one in _all(probe.expect))]:
        yield "remarks", Level.SHOULD, f"{said}: refusals say why", remarked, {"remarks": True}


def _good(row: Row) -> Iterator[Probe]:
    yield Probe(label="good", expect=row.ok, ask=row.good, then=row.then)
    codes = _each_version(row.ok, lambda one: Expect(code=one.code))
    yield Probe(label="with an unknown ext field", expect=codes, ask=row.good, change={_EXTRA: "1"})
    if row.request.code <= _SHORT_MAX:
        yield Probe(label="as a binary frame", expect=codes, ask=row.good, form=Form.ROCKETMQ)


def _missing(row: Row) -> Iterator[Probe]:
    for found in row.own_fields:
        if found.wire not in row.missing and not found.required:
            continue
        expect = row.missing.get(found.wire) or (REFUSED if found.absent is None else _accepted(row))
        if not newest(expect).drop:
            yield Probe(label=f"without {found.wire}", expect=expect, ask=row.good, without=(found.wire,))
    if row.body and not newest(nothing := row.missing.get("body", REFUSED)).drop:
        yield Probe(label="without a body", expect=nothing, ask=row.good, body=b"")


def _mistyped(row: Row) -> Iterator[Probe]:
    for found in row.own_fields:
        if found.kind is str and found.wire not in row.mistyped:
            continue
        passes = found.kind is bool or found.absent is not None or not (found.required or row.request.fast)
        expect = row.mistyped.get(found.wire) or (_accepted(row) if passes else REFUSED)
        if not newest(expect).drop:
            for word in _WORDS.get(found.bits, _NO_TRUTH):
                yield Probe(label=f"{found.wire}={word}", expect=expect, ask=row.good, change={found.wire: word})
    if row.body and not newest(broken := row.mistyped.get("body", REFUSED)).drop:
        yield Probe(label="a body that is no JSON", expect=broken, ask=row.good, body=NO_JSON)


def _accepted(row: Row) -> Expected:
    return _each_version(row.ok, lambda one: Expect(code=one.code))


def _each_version(expected: Expected, change: Callable[[Expect], Expect]) -> Expected:
    return change(expected) if isinstance(expected, Expect) else {key: change(one) for key, one in expected.items()}


def _all(expected: Expected) -> Iterable[Expect]:
    return (expected,) if isinstance(expected, Expect) else expected.values()


def newest(expected: Expected) -> Expect:
    """What is expected of the newest reference."""
    return expected if isinstance(expected, Expect) else expected[""]


def _enter(
    row: Row, name: str, level: Level, title: str, probes: list[Probe], *, remarks: bool = False,
    needs: tuple[Need, ...] = (), since: Version = (),
) -> None:  # fmt: skip
    async def run(t: Trial) -> None:
        try:
            await run_probes(t, row, probes, remarks=remarks)
        finally:
            if row.undo is not None:
                await row.undo(t)

    run.__doc__ = "\n".join(f"- {probe.label}: {described(newest(probe.expect), remarks=remarks)}" for probe in probes)
    enter(
        Case(
            f"grid.{row.name}.{name}", level, title, row.rests_on, () if remarks else (row.request.code,),
            frozenset((*row.needs, *needs)), max(row.since, since), False, row.alone, run, row.good.__module__,
        )
    )  # fmt: skip


async def run_probes(t: Trial, row: Row, probes: Iterable[Probe], *, remarks: bool = False) -> None:
    """Ask each question and judge its answer; the case fails at the end when one of several does not hold."""
    made: dict[Good, Asked] = {}
    failed: list[str] = []
    for probe in probes:
        if t.version is not None and t.version[: len(probe.since)] < probe.since:
            continue
        try:
            asked = made.get(probe.ask) or await probe.ask(t)
            if not row.each:
                made[probe.ask] = asked
            await _judge(t, row, probe, asked, remarks=remarks)
        except CaseFailed as failure:
            failed.append(str(failure))
    if failed:
        raise CaseFailed("; ".join(failed))


async def ask(t: Trial, row: Row, probe: Probe, asked: Asked, *, seconds: float = ANSWER_S) -> Answer:
    """The answer to one question.  Raises `NoAnswer`."""
    request, body = asked if isinstance(asked, tuple) else (asked, b"")
    change = probe.change(t) if callable(probe.change) else probe.change
    link = row.link(t)
    if probe.form is not Form.JSON:
        link = t.connect(link.address, form=probe.form)
    return await link.ask(
        request, body if probe.body is None else probe.body, ext=change, without=probe.without, seconds=seconds
    )


async def _no_answer(t: Trial, row: Row, probe: Probe, asked: Asked) -> None:
    seen: Answer | None = None
    with contextlib.suppress(NoAnswer):
        seen = await ask(t, row, probe, asked, seconds=SILENCE_S)
    t.equal(f"{probe.label}: no answer", seen, None)


async def _judge(t: Trial, row: Row, probe: Probe, asked: Asked, *, remarks: bool) -> None:
    expect = probe.expect if isinstance(probe.expect, Expect) else t.by_version(probe.expect)
    if expect.silent:
        if not remarks:
            await _no_answer(t, row, probe, asked)
        return
    try:
        answer = await ask(t, row, probe, asked)
    except NoAnswer as why:
        t.fail(f"{probe.label}: an answer", expected=described(expect), seen=why)
    if remarks:
        if expect.remark is not ...:
            t.equal(f"{probe.label}: remark", answer.remark, expect.remark)
        return
    t.answer(probe.label, answer, code=expect.code, ext=expect.ext, body=expect.body, absent=expect.absent)
    if probe.then is not None:
        await probe.then(t, answer)


def described(expect: Expect, *, remarks: bool = False) -> str:
    """An expectation in words, for documents."""
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


# What rows say about bodies


def has(*names: str) -> Callable[[bytes], bool]:
    """Of a body: a JSON object with at least these members."""

    def fitting(body: bytes) -> bool:
        from rmq_wire import fastjson

        found = fastjson.loads(body)
        return isinstance(found, dict) and all(name in found for name in names)

    fitting.__name__ = f"a JSON object with {', '.join(names)}"
    return fitting


def holds(**wanted: Any) -> Callable[[bytes], bool]:
    """Of a body: a JSON object whose members of these names (`__` stands for a step down) fit."""

    def fitting(body: bytes) -> bool:
        from rmq_wire import fastjson

        for path, value in wanted.items():
            found = fastjson.loads(body)
            for step in path.split("__"):
                found = found.get(step) if isinstance(found, dict) else None
            if not fits(found, value):
                return False
        return True

    words = (f"{path.replace('__', '.')} = {getattr(value, '__name__', value)!r}" for path, value in wanted.items())
    fitting.__name__ = f"a JSON object with {', '.join(words)}"
    return fitting


def changed(expect: Expect, **more: Any) -> Expect:
    """The same expectation with some members changed."""
    return dataclasses.replace(expect, **more)
