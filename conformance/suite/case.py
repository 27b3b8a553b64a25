"""What a conformance case is: an id, a level, what it rests on and needs, and the function that asks the server and judges.

A module of `conformance.suite.cases` declares the cases of one capability with `@case`; importing it enters them into `CASES`.  A
case gets a `Trial` and talks to the server through it.  It fails by a check that does not hold; it never raises on purpose.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from conformance.version import Version

if TYPE_CHECKING:
    from conformance.suite.trial import Trial


class Level(enum.Enum):
    """How much a case weighs."""

    MUST = "must"
    """A client or an operator relies on it.  The reference passes every one."""
    SHOULD = "should"
    """Better so, and the reference does so; a client can live without it."""
    INFO = "info"
    """Reported, never counted: the case notes what it saw."""
    QUIRK = "quirk"
    """The reference does this against its own documents or plain sense.  A server may do better."""


class Need(enum.Enum):
    """What a case cannot do without; where it is missing the case is skipped, with this as the reason."""

    STORE = "the store directory can be read"
    NAMESRV = "a name server that the suite may change"
    OWN = "a server of the suite's own, with its shortened intervals"
    FAST_PORT = "the fast port, listenPort - 2"
    RESTART = "the suite may stop and start the broker"
    """With `alone`."""


class Case(NamedTuple):
    """One declared case."""

    id: str
    """`capability.what`, lower case, dots and dashes: unique, and stable over releases."""
    level: Level
    title: str
    """One sentence that says what holds when it passes."""
    rests_on: str
    """The reference's class, method or document."""
    codes: tuple[int, ...]
    """Request codes that it exercises with a judged answer."""
    needs: frozenset[Need]
    since: Version
    """The first version of the reference that does this; skipped where an older one is expected."""
    slow: bool
    """Takes more than 20 s."""
    alone: bool
    """Changes what all others see (configuration, write permission): no other case runs beside it."""
    run: Callable[[Trial], Awaitable[None]]
    module: str

    @property
    def capability(self) -> str:
        """The part of the id before the first dot."""
        return self.id.partition(".")[0]

    @property
    def about(self) -> str:
        """What the case function's docstring says below the title, for the documents; may be empty."""
        text = inspect.getdoc(self.run) or ""
        first, _, rest = text.partition("\n")
        return rest.strip() if first.removesuffix(".") == self.title else text


CASES: Final[dict[str, Case]] = {}
"""Every declared case by id; complete after `load`."""
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*(?:\.[a-z0-9]+(?:-[a-z0-9]+)*)+")


def case(
    id: str,
    level: Level,
    *,
    rests_on: str,
    title: str = "",
    codes: int | Iterable[int] = (),
    needs: Need | Iterable[Need] = (),
    since: Version = (),
    slow: bool = False,
    alone: bool = False,
) -> Callable[[Callable[[Trial], Awaitable[None]]], Callable[[Trial], Awaitable[None]]]:
    """Declare the function below as a case.  Raises `ValueError` for an id that is taken or misspelled.

    title: of a function that declares several cases; else the first line of the docstring, less its full stop.
    """

    def declare(run: Callable[[Trial], Awaitable[None]]) -> Callable[[Trial], Awaitable[None]]:
        enter(
            Case(
                id,
                level,
                title or (inspect.getdoc(run) or "").partition("\n")[0].removesuffix("."),
                rests_on,
                tuple(int(code) for code in ([codes] if isinstance(codes, int) else codes)),
                frozenset([needs] if isinstance(needs, Need) else needs),
                since,
                slow,
                alone,
                run,
                run.__module__,
            )
        )
        return run

    return declare


def enter(declared: Case) -> None:
    """Add a case that was made without the decorator, such as a cell of the grid."""
    if declared.id in CASES:
        raise ValueError(f"case {declared.id} is declared in {CASES[declared.id].module} and in {declared.module}")
    if Need.RESTART in declared.needs and not declared.alone:
        raise ValueError(f"case {declared.id} stops the broker: it must be alone")
    if not declared.title:
        raise ValueError(f"case {declared.id}: the docstring's first line says what holds when it passes")
    if not _ID.fullmatch(declared.id):
        raise ValueError(f"case id {declared.id!r}: lower case words joined by dashes, at least two parts joined by dots")
    CASES[declared.id] = declared


def load(broken: dict[str, Exception] | None = None) -> dict[str, Case]:
    """Import every module of `conformance.suite.cases`; all cases by id.

    broken: takes what a module raises that cannot be imported, by its name; without it, that is raised here.
    """
    from conformance.suite import cases as package

    for found in pkgutil.walk_packages(package.__path__, "conformance.suite.cases."):
        try:
            importlib.import_module(found.name)
        except Exception as error:
            if broken is None:
                raise
            broken[found.name] = error
    return CASES
