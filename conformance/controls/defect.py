"""A defect: what a bad server would do wrong, how a good one is made to do it, and which cases must notice.

The tables in `wire_*` and `store_files` hold a row for each; the first part of its name is the capability.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from conformance.controls.proxy import Mutate
from conformance.suite.case import Case

if TYPE_CHECKING:
    from conformance.controls.shadow import Spoil

WIRE, STORE = "wire", "store"


class Row(NamedTuple):
    """A defect under its name in a table."""

    wrong: str
    caught_by: str
    """With spaces between them."""
    mutate: Mutate | None = None
    spoil: Spoil | None = None


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
