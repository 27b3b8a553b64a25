"""A declared defect: what a bad server would do wrong, how a good one is made to do it, and which cases must notice.

A wire defect names the request codes whose requests, answers or notices its function changes; everything else passes.  The name's
first part is the capability.  Declaring enters into `DEFECTS`; `load` imports all that are declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from conformance.case import Case
from conformance.controls.proxy import Mutate, Seen, Step

if TYPE_CHECKING:
    from conformance.controls.shadow import Spoil

WIRE, STORE = "wire", "store"


class Defect(NamedTuple):
    """One thing that a server does wrong."""

    name: str
    """`capability.what`, unique."""
    wrong: str
    """One sentence: what the server does."""
    caught_by: tuple[str, ...]
    """Ids or patterns of the cases that must notice; at least one of them must fail."""
    mutate: Mutate | None = None
    """Of a wire defect."""
    spoil: Spoil | None = None
    """Of a defect in the files."""

    @property
    def capability(self) -> str:
        """The part of the name before the first dot."""
        return self.name.partition(".")[0]

    @property
    def side(self) -> str:
        """Where it is made: `wire` or `store`."""
        return WIRE if self.mutate is not None else STORE

    def cases(self, cases: Iterable[Case]) -> list[Case]:
        """Those of the cases that must notice."""
        return [case for case in cases if any(fnmatchcase(case.id, pattern) for pattern in self.caught_by)]


DEFECTS: Final[dict[str, Defect]] = {}
"""By name; complete after `load`."""

Edit = Callable[[Seen], Iterable[Step] | None]


def enter(defect: Defect) -> None:
    """Declare a defect.  Raises `ValueError` when the name is taken or nothing is to catch it."""
    if defect.name in DEFECTS:
        raise ValueError(f"defect {defect.name} is declared twice")
    if not defect.caught_by or "." not in defect.name:
        raise ValueError(f"defect {defect.name}: name it capability.what, and the cases that catch it")
    DEFECTS[defect.name] = defect


def wire(
    name: str,
    wrong: str,
    *caught_by: str,
    requests: Iterable[int] = (),
    answers: Iterable[int] = (),
    notices: Iterable[int] = (),
    everything: bool = False,
) -> Callable[[Edit], Edit]:
    """Declare the function below as what happens to these requests on their way, to the answers of these requests, and to these
    requests of the server's own.  everything: to all requests and answers, whatever their codes."""
    asked, answered, told = (frozenset(int(code) for code in codes) for codes in (requests, answers, notices))

    def declare(edit: Edit) -> Edit:
        def mutate(seen: Seen) -> Iterable[Step] | None:
            codes = told if seen.own else answered if seen.answer is not None else asked
            return edit(seen) if (everything and not seen.own) or seen.request.code in codes else None

        enter(Defect(name, wrong, caught_by, mutate=mutate))
        return edit

    return declare


def load() -> dict[str, Defect]:
    """All defects by name, in the order of their declaration."""
    from conformance.controls import store_mutators, wire_mutators

    assert store_mutators
    assert wire_mutators
    return DEFECTS
