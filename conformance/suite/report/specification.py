"""`docs/conformance.md`: the protocol's specification, made from what the suite and the registry declare.

First the rules, capability by capability: a case's title is the rule, its docstring explains it.  Then every request code with
its fields and the grid's cells as one table, and the bodies.  Nothing is written here but the frame around it, so that it cannot
promise an answer that no case asks for.  Anchors are case ids, and `grid.<code>` for a code's cells.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from conformance.suite.case import Case, Level, load
from conformance.suite.grid import grid
from conformance.suite.report.markdown import escaped, table
from conformance.suite.report.specification_bodies import bodies
from conformance.suite.report.specification_codes import index_of_codes, requests
from conformance.suite.report.specification_rules import GRID, TITLES, rule, title_of

HEAD: Final = Path(__file__).with_name("specification_head.md")
_THEN: Final = """\
Then [every request](#requests) with its fields and answers, the [requests to clients](#to-clients), the [bodies](#bodies), and an
[index by code](#index-by-code)."""


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
    rows = []
    texts = introductions()
    for name, cases in by_capability.items():
        must = sum(case.level is Level.MUST for case in cases)
        about = _first_sentence(texts.get(name, [""])[0])
        rows.append((f"[{title_of(name)}](#{name})", len(cases), must, escaped(about)))
    yield table(("capability", ":rules", ":of them MUST", "about"), rows)
    yield _THEN


def _rules(by_capability: Mapping[str, Sequence[Case]]) -> Iterator[str]:
    texts = introductions()
    for name, cases in by_capability.items():
        yield f'<a id="{name}"></a>\n\n## {title_of(name)}'
        yield escaped("\n\n".join(texts.get(name, [])))
        for case in cases:
            yield rule(case)


def _first_sentence(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].rstrip(".")
