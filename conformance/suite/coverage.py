"""Which request codes the cases exercise, of those that a broker or a name server answers.

The registry says what is answered; a case names the codes that it judges an answer of (`Case.codes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from conformance.suite.case import Case
from rmq_wire import registry
from rmq_wire.declare import Role

SERVERS: Final = ("broker", "name_server")
SHOWN: Final = 4
"""Cases that are named for a code."""


class Covered(NamedTuple):
    """One request code and the cases that exercise it."""

    code: int
    name: str
    roles: tuple[str, ...]
    """Who answers it, of `SERVERS`."""
    cases: tuple[str, ...]


def coverage(cases: Iterable[Case]) -> list[Covered]:
    """Every code that a server answers, in order."""
    by_code: dict[int, list[str]] = {}
    for case in cases:
        for code in case.codes:
            by_code.setdefault(code, []).append(case.id)
    return [
        Covered(
            row.code, row.name, tuple(role for role in row.roles if role in SERVERS), tuple(sorted(by_code.get(row.code, ())))
        )
        for row in registry.rows(Role.BROKER | Role.NAME_SERVER)
    ]


def lines(cases: Iterable[Case]) -> list[str]:
    """A line a code; those that no case exercises last."""
    found = coverage(cases)
    width = max(len(covered.name) for covered in found)
    shown = []
    for covered in sorted(found, key=lambda covered: not covered.cases):
        ids = ", ".join(covered.cases[:SHOWN]) + (", …" if len(covered.cases) > SHOWN else "")
        shown.append(f"{covered.code:>7}  {covered.name:{width}}  {len(covered.cases):>4}  {ids or 'NO CASE'}")
    missing = sum(not covered.cases for covered in found)
    return [*shown, f"{len(found)} codes that a server answers; {missing} are exercised by no case"]
