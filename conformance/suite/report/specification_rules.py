"""One rule of the specification, and what its parts are called: titles, anchors, sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from conformance.suite.case import Case
from conformance.suite.report.markdown import escaped
from rmq_wire.codes import RequestCode
from rmq_wire.declare import REQUESTS, Role

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
_SOURCE_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*(?:\.[\w$]+)*(?:\([^)]*\))?")


def anchor_of(id: str) -> str:
    """Where the document speaks of a case: a cell of the grid shares its code's place."""
    return ".".join(id.split(".")[:2]) if id.startswith(f"{GRID}.") else id


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
