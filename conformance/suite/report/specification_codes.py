"""The specification's second part: each request code with its fields, and what answers it, read off the registry and the grid.

A code's cells of the grid become one table.  Their lines ("- asked: answer.", the cell's own documentation) are taken apart:
fields with the same consequence share a row, and a refusal's remark stands beside its code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from conformance.suite.case import Case, Level
from conformance.suite.grid import grid
from conformance.suite.report.markdown import escaped, table
from conformance.suite.report.specification_bodies import link_to
from conformance.suite.report.specification_rules import GRID, OTHERS, anchor_of, needs, rule, section_of, sources, title_of
from conformance.version import Version, dotted
from rmq_wire import registry
from rmq_wire.codes import RequestCode, ResponseCode
from rmq_wire.declare import REQUESTS, Field, Header, Role
from rmq_wire.headers.base import TopicRequest

_BASE: Final = frozenset(field.wire for field in TopicRequest.fields())
_SERVERS: Final = Role.BROKER | Role.NAME_SERVER
_WITHOUT: Final = "without "
_VALUE: Final = re.compile(r"([A-Za-z_]\w*)=\S+")
_SOURCE: Final = re.compile(r"\s*Source: (`[^`]+`)\.?")
_WHOSE: Final = {"broker": "a broker", "name_server": "a name server", "client": "clients"}
_CODE: Final = re.compile(r"\b(\d+) ([A-Z][A-Z0-9_]+)\b")
_ABOUT: Final = """\
Each request code of 5.5.0 that a broker or a name server answers. A field that is *required* is marked not-null in the reference;
*required, else 0* means that a reader of the reference takes a missing one for zero (or false). Integers are decimal digits,
`int` of 32 bits and `long` of 64, truth values `true` and `false`; all are sent as text. The answers in the tables are those of
5.5.0; where an older version answers otherwise it stands behind a semicolon. Remarks are regular expressions that are found
somewhere in the remark. A good request is asked in both forms of the header, and with a field that nobody knows, which changes
nothing."""
_RULE: Final = (grid.__doc__ or "").strip().split("\n\n")[-1]
"""How Java reads a header that lacks something."""
_SEE_ALSO_MAX: Final = 8
"""Rules that are named one by one; of more their capabilities are."""
_KIND: Final = re.compile(r"(permission|limit) ")
_VERSIONS: Final = re.compile(r"; (\d[\dx.]*): ")
_WITH: Final = re.compile(r", with ([\w, ]+)")
_CHOSEN: Final = {"missing-field", "mistyped-field", "missing-field-quirk", "mistyped-field-quirk"}


class Line(NamedTuple):
    """One row of a code's table."""

    asked: str
    answer: str
    level: Level


def requests(cases: Mapping[str, Case]) -> Iterator[str]:
    """The whole part."""
    yield '<a id="requests"></a>\n\n# Requests'
    yield _ABOUT
    yield escaped(_RULE)
    yield from _base_fields()
    by_anchor: dict[str, list[Case]] = {}
    for case in cases.values():
        if case.capability == GRID:
            by_anchor.setdefault(anchor_of(case.id), []).append(case)
    answered = registry.rows(_SERVERS)
    sections = {section_of(row.name) for row in answered}
    for anchor, found in by_anchor.items():
        if anchor not in sections:
            title = OTHERS.get(anchor) or anchor.partition(".")[2].replace("-", " ").capitalize()
            yield f'<a id="{anchor}"></a>\n\n## {title}'
            yield from map(rule, found)
    exercised = _exercised(cases.values())
    for row in answered:
        yield _section(row, by_anchor.get(section_of(row.name), []), exercised.get(row.code, []))
    yield '<a id="to-clients"></a>\n\n# Requests to clients\n\nWhat a broker asks, on a connection that the client has made.'
    for row in to_clients():
        yield _section(row, [], exercised.get(row.code, []))


def to_clients() -> list[registry.Row]:
    """Those that clients alone answer."""
    answered = {row.code for row in registry.rows(_SERVERS)}
    return [row for row in registry.rows(Role.CLIENT) if row.code not in answered]


def index_of_codes(cases: Mapping[str, Case]) -> Iterator[str]:
    """Code by code: who answers, and how many cases look at the answer."""
    yield '<a id="index-by-code"></a>\n\n# Index by code'
    counts: dict[int, int] = {}
    for case in cases.values():
        for code in case.codes:
            counts[code] = counts.get(code, 0) + 1
    rows = []
    for row in sorted([*registry.rows(_SERVERS), *to_clients()]):
        roles = ", ".join(_WHOSE[role].split()[-1] for role in row.roles if role in _WHOSE)
        rows.append((row.code, f"[{row.name}](#{section_of(row.name)})", roles, counts.get(row.code, 0)))
    yield table((":code", "name", "answered by", ":cases"), rows)
    yield "# Response codes"
    used = _answers(cases.values())
    yield "Those that some answer above has, and how many of its rows."
    found = ((int(code), code.name, used[int(code)]) for code in ResponseCode if used.get(int(code)))
    yield table((":code", "name", ":rows"), found)


def _answers(cases: Iterable[Case]) -> dict[int, int]:
    used: dict[int, int] = {}
    for case in cases:
        if case.capability == GRID:
            for code in {int(code) for line in case.about.splitlines() for code, _ in _CODE.findall(line)}:
                used[code] = used.get(code, 0) + 1
    return used


def _base_fields() -> Iterator[str]:
    yield "## Fields that any request may carry"
    yield (
        _prose(inspect.getdoc(TopicRequest.__mro__[1]) or "", TopicRequest)
        + " "
        + _prose(inspect.getdoc(TopicRequest) or "", TopicRequest)
    )
    yield _fields(TopicRequest.fields())


def _exercised(cases: Iterable[Case]) -> dict[int, list[Case]]:
    found: dict[int, list[Case]] = {}
    for case in cases:
        for code in case.codes:
            if case.capability != GRID:
                found.setdefault(code, []).append(case)
    return found


def _section(row: registry.Row, cells: list[Case], others: list[Case]) -> str:
    request = REQUESTS[_role(row), row.code]
    whose = " and ".join(_WHOSE[role] for role in row.roles if role in _WHOSE)
    since = grid.ROWS[row.code].since if row.code in grid.ROWS else ()
    common = [need for need in needs(cells[0]) if all(need in needs(case) for case in cells)] if cells else []
    said = (
        "; ".join(
            [
                "Sent to a client" if row.roles == ("client",) else f"Answered by {whose}",
                *([f"since {dotted(since)}"] if since else []),
                *common,
            ]
        )
        + "."
    )
    parts = [
        f'<a id="{section_of(row.name)}"></a>\n\n## {row.name} ({row.code})',
        f"{_prose(_doc(request), request)}\n\n*{said}*",
    ]
    own = [field for field in request.fields() if field.wire not in _BASE]
    parts.append(_fields(own) if own else "No fields of its own.")
    if row.reply_fields:
        parts += [f"**Answer.** {_prose(_doc(request.reply), request.reply)}", _fields(row.reply_fields)]
    if cells:
        parts.append(_table(cells, since))
        parts.append(f"*Rests on {sources(cells[0].rests_on)}.*")
    if others:
        parts.append(f"See also: {_see_also(others)}.")
    return "\n\n".join(parts)


def _see_also(others: list[Case]) -> str:
    if len(others) <= _SEE_ALSO_MAX:
        return "; ".join(f"[{escaped(case.title.rstrip('.'))}](#{case.id})" for case in others)
    capabilities = dict.fromkeys(case.capability for case in others)
    counts = {name: sum(case.capability == name for case in others) for name in capabilities}
    return ", ".join(f"[{title_of(name)}](#{name}) ({count} rule{'s' * (count != 1)})" for name, count in counts.items())


def _role(row: registry.Row) -> Role:
    return next(role for role in (Role.BROKER, Role.NAME_SERVER, Role.CLIENT) if str(role.name).lower() in row.roles)


def _doc(kind: type[Header]) -> str:
    """Its own documentation; a base class's says nothing of it."""
    return inspect.cleandoc(kind.__dict__.get("__doc__") or "")


def _prose(text: str, kind: type[Header]) -> str:
    """A header's documentation in the words of the wire: fields by their names there, requests by their codes'."""
    names = {field.name: field.wire for field in kind.fields()}
    codes = {request.__name__: RequestCode(request.code) for request in REQUESTS.values()}

    def word(match: re.Match[str]) -> str:
        name = match[1]
        if name in codes:
            return f"[{codes[name].name}](#{section_of(codes[name].name)})"
        return (name not in names and link_to(name)) or f"`{names.get(name, name)}`"

    text = _SOURCE.sub(lambda match: f" Java: {match[1]}.", text)
    return re.sub(r"`(\w+)`", word, text).strip()


def _fields(fields: Iterable[Field]) -> str:
    rows = []
    for field in fields:
        meaning = f" ({field.name.replace('_', ' ')})" if len(field.wire) <= 1 else ""
        kind = {str: "text", bool: "truth value"}.get(field.kind) or ("long" if field.bits == 64 else "int")
        required = "" if not field.required else "required" if field.absent is None else "required, else 0"
        rows.append((f"`{field.wire}`{meaning}", kind, required))
    return table(("field", "type", ""), rows)


def _table(cells: list[Case], since: Version) -> str:
    """The grid's cells of one code."""
    remarks = {asked: answer for case in cells if case.id.endswith(".remarks") for asked, answer in _taken_apart(case.about)}
    lines: list[Line] = []
    left_out: list[str] = []
    for case in cells:
        if not case.id.endswith(".remarks"):
            lines += _lines(case, remarks, since)
            left_out += _left_out(case.about)
    rows = ((line.asked, line.answer, line.level.name) for line in lines)
    return table(("asked", "answer", "level"), rows) + (f"\n\n*Not asked:* {'; '.join(left_out)}." if left_out else "")


def _left_out(about: str) -> Iterator[str]:
    """Of the lines "- no cell `unknown`: why" and "- not asked without `x`: why"."""
    for line in about.splitlines():
        if match := re.fullmatch(r"- (?:no cell|not asked) (.*?): (.*)", line):
            yield f"{match[1].replace('`', '') if line.startswith('- no cell') else match[1]} ({match[2].rstrip('.')})"


def _lines(case: Case, remarks: Mapping[str, str], since: Version) -> Iterator[Line]:
    """The rows of one cell; those of one consequence joined."""
    name = case.id.rpartition(".")[2]
    own_title = "" if re.match(r"[A-Za-z0-9_-]+( \(\d+\))?: ", case.title) else case.title
    joined: dict[str, list[str]] = {}
    for asked, answer in _taken_apart(case.about):
        joined.setdefault(_answer(answer, remarks.get(asked, "")), []).append(asked)
    later = f" (since {dotted(case.since)})" if case.since > since else ""
    for answer, alike in joined.items():
        if name in _CHOSEN:
            yield Line(_joined_fields(alike) + later, answer, case.level)
        elif name == "good":
            if alike[0].startswith("good"):
                detail = _detail(alike[0])
                yield Line(f"a good request{f': {escaped(_lowered(detail))}' if detail else ''}" + later, answer, case.level)
        else:
            detail = "; ".join(dict.fromkeys(_lowered(_detail(one)) for one in alike if _detail(one)))
            words = f"{own_title} ({detail})" if own_title and detail else own_title or _KIND.sub(r"\1: ", "; ".join(alike), 1)
            yield Line(escaped(words) + later, answer, case.level)


def _lowered(sentence: str) -> str:
    """Its first letter small, unless the word is a name."""
    return sentence[:1].lower() + sentence[1:] if sentence[1:2] in (" ", "") or sentence[1:2].islower() else sentence


def _joined_fields(asked: list[str]) -> str:
    """`without a`, `without b` -> without `a`, `b`; `a=x`, `a=2147483648` -> `a` of another type."""
    without = dict.fromkeys(one.removeprefix(_WITHOUT) for one in asked if one.startswith(_WITHOUT))
    typed = dict.fromkeys(match[1] for one in asked if (match := _VALUE.fullmatch(one)))
    others = [one for one in asked if not one.startswith(_WITHOUT) and not _VALUE.fullmatch(one)]
    parts = []
    if without:
        parts.append("without " + ", ".join(name if " " in name else f"`{name}`" for name in without))
    if typed:
        parts.append("of another type: " + ", ".join(f"`{name}`" for name in typed))
    return "; ".join([*parts, *map(escaped, others)])


def _detail(asked: str) -> str:
    """What stands in parentheses behind a label."""
    return asked[asked.index("(") + 1 : -1] if asked.endswith(")") and "(" in asked else ""


def _answer(answer: str, remark: str) -> str:
    """Version by version, those that do as the newest left out; remarks are patterns, shown as code."""
    answers, remarks = _by_version(answer), _by_version(remark)
    by_version: dict[str, str] = {}
    for version in dict.fromkeys([*answers, *remarks]):
        words = _WITH.sub(_fields_as_code, escaped(answers.get(version, answers[""])))
        pattern = remarks.get(version, remarks.get("", ""))
        if pattern.startswith("remark ") and not (version and pattern == remarks.get("")):
            shown = pattern.removeprefix("remark ")[1:-1].replace("\\\\", "\\")
            words += f", remark like `{shown}`"
        by_version[version] = words
    newest = by_version.pop("")
    return "; ".join([newest, *(f"{version}: {words}" for version, words in by_version.items() if words != newest)])


def _fields_as_code(match: re.Match[str]) -> str:
    return ", with " + ", ".join(f"`{name.strip()}`" for name in match[1].split(","))


def _by_version(text: str) -> dict[str, str]:
    """ "new; 4.x: old" -> {"": "new", "4.x": "old"}."""
    newest, *others = _VERSIONS.split(text)
    return {"": newest, **dict(zip(others[::2], others[1::2], strict=True))}


def _taken_apart(about: str) -> Iterator[tuple[str, str]]:
    """The lines "- asked: answer." of a cell; lines about what is not asked are no such."""
    for line in about.splitlines():
        if not line.startswith("- ") or line.startswith(("- no cell", "- not asked")):
            continue
        depth = 0
        for at, letter in enumerate(line):
            depth += (letter == "(") - (letter == ")")
            if not depth and line.startswith(": ", at):
                yield line[2:at], line[at + 2 :].rstrip(".")
                break
