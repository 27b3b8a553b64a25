"""`docs/conformance.md`: the protocol's specification, made from what the suite and the registry declare.

First the rules, capability by capability: a case's title is the rule, its docstring explains it.  Then every request code with
its fields and the grid's cells as one table, and the bodies.  Nothing is written here but the frame around it, so that it cannot
promise an answer that no case asks for.  Anchors are case ids, and `grid.<code>` for a code's cells.

    python -m conformance.report.specification            writes docs/conformance.md
    python -m conformance.report.specification --check    says by its exit status whether it is current
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance import grid
from conformance.case import Case, Level, load
from rmq_wire.codes import RequestCode
from rmq_wire.declare import REQUESTS, Role

ROOT: Final = Path(__file__).resolve().parents[2]
DOCUMENT: Final = ROOT / "docs" / "conformance.md"
HEAD: Final = Path(__file__).with_name("specification_head.md")
GRID: Final = "grid"
TITLES: Final = {
    "frame": "Frames",
    "header": "Headers",
    "names": "Name server",
    "send": "Sending",
    "pull": "Pulling",
    "hold": "Waiting for messages",
    "offsets": "Progress and places",
    "clients": "Clients and groups online",
    "locks": "Queue locks",
    "retry": "Retry and dead letters",
    "delay": "Delay levels",
    "timer": "Timers",
    "transaction": "Transactions",
    "filter": "Filters",
    "pop": "POP",
    "reply": "Request and reply",
    "query": "Looking messages up",
    "topics": "Topics",
    "groups": "Groups",
    "paging": "Paging",
    "runtime": "What a broker says of itself",
    "store": "Files on disk",
}
"""The capabilities in the order of the document; one that is not named here comes last, under its own name."""
OTHERS: Final = {
    "grid.not-supported": "Codes that nobody answers",
    "grid.base-fields": "Fields of every request",
    "grid.broker-permission": "Permission of the whole broker",
    "grid.fast-port": "The fast port",
}
"""Sections of the grid that are no request code."""
CODES_NAMED_MAX: Final = 8
_THEN: Final = """\
Then [every request](#requests) with its fields and answers, the [requests to clients](#to-clients), the [bodies](#bodies), and an
[index by code](#index-by-code)."""
_MARK: Final = re.compile(r"[*<\[\]]|(?<!\w)_|_(?!\w)")
_SOURCE_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$]+)*(?:\([^)]*\))?")


def anchor_of(id: str) -> str:
    """Where the document speaks of a case: a cell of the grid shares its code's place."""
    return ".".join(id.split(".")[:2]) if id.startswith(f"{GRID}.") else id


def introductions() -> dict[str, list[str]]:
    """Capability -> the docstrings of the modules that declare its cases."""
    made: dict[str, list[str]] = {GRID: [inspect.getdoc(grid) or ""]}
    for case in sorted(load({}).values(), key=lambda case: case.module):
        if case.capability == GRID:
            continue
        texts = made.setdefault(case.capability, [])
        module = sys.modules.get(case.module)
        text = ((module and module.__doc__) or "").strip()
        if text and text not in texts:
            texts.append(text)
    return made


def document(cases: Mapping[str, Case]) -> str:
    """The whole document."""
    from conformance.report.specification_bodies import bodies
    from conformance.report.specification_codes import index_of_codes, requests

    head = HEAD.read_text(encoding="utf-8").rstrip()
    cells = sum(case.capability == GRID for case in cases.values())
    head = head.replace("{cases}", str(len(cases))).replace("{grid}", str(cells))
    by_capability = _by_capability(cases.values())
    parts: list[str] = [
        head,
        *_contents(by_capability),
        "# Rules",
        *_rules(by_capability),
        *requests(cases),
        *bodies(),
        *index_of_codes(cases),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part.strip()) + "\n"


def _by_capability(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Without the grid, in the order of `TITLES`; cases in the order in which their modules declare them."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.capability != GRID:
            found.setdefault(case.capability, []).append(case)
    order = list(TITLES)
    names = sorted(found, key=lambda name: (order.index(name) if name in order else len(order), name))
    return {name: found[name] for name in names}


def _contents(by_capability: Mapping[str, Sequence[Case]]) -> Iterator[str]:
    lines = ["| capability | rules | of them MUST | about |", "| --- | ---: | ---: | --- |"]
    told = introductions()
    for name, cases in by_capability.items():
        must = sum(case.level is Level.MUST for case in cases)
        about = _first_sentence(told.get(name, [""])[0])
        lines.append(f"| [{title_of(name)}](#{name}) | {len(cases)} | {must} | {cell(escaped(about))} |")
    yield "\n".join(lines)
    yield _THEN


def _rules(by_capability: Mapping[str, Sequence[Case]]) -> Iterator[str]:
    told = introductions()
    for name, cases in by_capability.items():
        yield f'<a id="{name}"></a>\n\n## {title_of(name)}'
        yield escaped("\n\n".join(told.get(name, [])))
        for case in cases:
            yield rule(case)


def title_of(name: str) -> str:
    """A capability's heading."""
    return TITLES.get(name, name)


def rule(case: Case) -> str:
    """One case as a paragraph: the rule, why, and the small print."""
    title = case.title.rstrip(".")
    lines = [f'<a id="{case.id}"></a>**{escaped(title)}.** {escaped(case.about)}'.rstrip()]
    small = [case.level.name, *links_of(case.codes), *conditions(case)]
    lines.append(f"\n*{'; '.join(small)}; case `{case.id}`; rests on {sources(case.rests_on)}.*")
    return "\n".join(lines)


def conditions(case: Case) -> list[str]:
    """When it is asked at all."""
    found = [f"since {'.'.join(map(str, case.since))}"] if case.since else []
    found += needs(case)
    if case.slow:
        found.append("takes more than 20 s")
    return found


def needs(case: Case) -> list[str]:
    """What the suite must have to ask."""
    return [f"needs: {need.value}" for need in sorted(case.needs, key=lambda need: need.name)]


def links_of(codes: Sequence[int]) -> list[str]:
    """Codes by name, each leading to its section; many of them by number."""
    if len(codes) > CODES_NAMED_MAX:
        return [f"{len(codes)} codes: {', '.join(map(str, codes))}"]
    return [f"{_name_of(code)} {code}".strip() for code in codes]


def _name_of(code: int) -> str:
    """With a link where there is a section: codes that only controllers answer have none."""
    name = next((known.name for known in RequestCode if known == code), "")
    answered = any((role, code) in REQUESTS for role in (Role.BROKER, Role.NAME_SERVER, Role.CLIENT))
    return f"[{name}](#{section_of(name)})" if answered else name


def section_of(name: str) -> str:
    """The anchor of a code's section, from its Java name."""
    return f"{GRID}.{name.lower().replace('_', '-')}"


def sources(rests_on: str) -> str:
    """Names of classes and keys as code; other words as they are."""
    words = [part.strip() for part in rests_on.split(",")]
    return ", ".join(f"`{word}`" if _SOURCE_WORD.fullmatch(word) and not word.islower() else escaped(word) for word in words)


def escaped(text: str) -> str:
    """Of Markdown's marks, those that would be read as such outside of code."""
    parts = text.split("`")
    parts[::2] = [_MARK.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "`".join(parts)


def cell(text: str) -> str:
    """Fit to stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m conformance.report.specification", description="Write docs/conformance.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 when the file is not current")
    check = parser.parse_args(arguments).check
    text = document(load())
    if check:
        current = DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf-8") == text
        print(f"{DOCUMENT.relative_to(ROOT)} is {'current' if current else 'not current: make specification'}")
        return 0 if current else 1
    DOCUMENT.write_text(text, encoding="utf-8")
    print(f"{DOCUMENT.relative_to(ROOT)}: {len(text.splitlines())} lines")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
