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
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from conformance.suite.case import Case, Level, Need, enter
from conformance.suite.grid.expect import REFUSED, SILENCE_S, Expect, Expected, all_of, described, each_version, newest
from conformance.suite.link import ANSWER_S, Answer, Form, Link, NoAnswer
from conformance.suite.trial import CaseFailed, Trial
from conformance.version import Version
from rmq_wire.codes import RequestCode
from rmq_wire.declare import Field, Request, Role
from rmq_wire.headers.base import TopicRequest

Asked = Request | tuple[Request, bytes]
"""A request, with its body if it has one."""
Good = Callable[[Trial], Awaitable[Asked]]
Then = Callable[[Trial, Any, Answer], Awaitable[None]]
"""What is looked at after a good answer: the trial, the request (without its body), the answer."""

_BASE: Final = frozenset(found.wire for found in TopicRequest.fields())
"""Of the base classes: they steer calls from broker to broker, and are probed by a case of their own."""
_WORDS: Final = {32: ("x", str(2**31)), 64: ("x", str(2**63))}
"""No Java `int`, no Java `long`: no number, and the first beyond the range."""
_NO_TRUTH: Final = ("yes",)
_SHORT_MAX: Final = 2**15 - 1
"""What a binary header has room for; a higher code arrives as another one."""
_SHOWN: Final = 40
"""Characters of a changed field that documents show."""
_EXTRA: Final = "conformanceUnknownField"
NO_JSON: Final = b"{no json"
TRIPS_MAX: Final = 50
"""So often in a row nobody trips who trips by chance (`Row.trips`)."""


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
    then                looks, after the good answer, whether it was done
    undo                runs after each cell, whatever came of it
    trips               what the reference says where it trips over others' changes while it reads a table; then it is asked again
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
    trips: str = ""
    module: str = ""

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
    row = Row(request=request, good=good, rests_on=rests_on, module=sys._getframe(1).f_globals["__name__"], **more)
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
    said = f"{RequestCode(row.request.code).name} ({row.request.code})"
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
            label=name.replace("-", " "),
            expect=cell.expect,
            ask=cell.ask or row.good,
            change=cell.change,
            without=cell.without,
            body=cell.body,
            then=cell.then,
            since=cell.since,
        )
        remarked.append(probe)
        title = cell.title or f"{said}: {name.replace('-', ' ')}"
        yield name, cell.level, title, [probe], {"needs": cell.needs, "since": cell.since}
    if remarked := [probe for probe in remarked if any(one.remark is not ... for one in all_of(probe.expect))]:
        yield "remarks", Level.SHOULD, f"{said}: refusals say why", remarked, {"remarks": True}


def _good(row: Row) -> Iterator[Probe]:
    yield Probe(label="good", expect=row.ok, ask=row.good, then=row.then)
    codes = each_version(row.ok, lambda one: Expect(code=one.code))
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
    return each_version(row.ok, lambda one: Expect(code=one.code))


def _enter(
    row: Row,
    name: str,
    level: Level,
    title: str,
    probes: list[Probe],
    *,
    remarks: bool = False,
    needs: tuple[Need, ...] = (),
    since: Version = (),
) -> None:
    async def run(t: Trial) -> None:
        try:
            await run_probes(t, row, probes, remarks=remarks)
        finally:
            if row.undo is not None:
                await row.undo(t)

    lines = [_probe_line(row, probe, remarks=remarks) for probe in probes]
    run.__doc__ = "\n".join(lines + (_left_out(row) if name == "good" else []))
    enter(
        Case(
            f"grid.{row.name}.{name}",
            level,
            title,
            row.rests_on,
            () if remarks else (row.request.code,),
            frozenset((*row.needs, *needs)),
            max(row.since, since),
            False,
            row.alone,
            run,
            row.module,
        )
    )


def _probe_line(row: Row, probe: Probe, *, remarks: bool) -> str:
    """A question and what must answer it, for the documents."""
    known = probe.ask is row.good and probe.label != "good"
    asked = "" if known else inspect.getdoc(probe.ask) or ""
    fields = [] if callable(probe.change) else [f"{wire}={value}" for wire, value in probe.change.items() if len(value) <= _SHOWN]
    words = [word for word in (asked.rstrip("."), ", ".join(fields)) if word and word != probe.label]
    then = f" Then: {inspect.getdoc(probe.then)}" if probe.then and not remarks else ""
    about = f" ({'; '.join(words)})" if words else ""
    return f"- {probe.label}{about}: {described(probe.expect, remarks=remarks)}.{then}"


def _left_out(row: Row) -> list[str]:
    """What the row does not ask, and why: for the documents."""
    kinds = [f"- no cell `{kind}`: {why}" for kind, why in row.none.items()]
    tables = (("without", row.missing), ("mistyped", row.mistyped))
    found = [(how, wire, newest(one).drop) for how, table in tables for wire, one in table.items()]
    return [*kinds, *(f"- not asked {how} `{wire}`: {why}" for how, wire, why in found if why)]


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
    for _ in range(TRIPS_MAX):
        answer = await link.ask(
            request, body if probe.body is None else probe.body, ext=change, without=probe.without, seconds=seconds
        )
        if not row.trips or row.trips not in (answer.remark or ""):
            break
    return answer


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
        await probe.then(t, asked[0] if isinstance(asked, tuple) else asked, answer)
