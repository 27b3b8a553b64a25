"""What was found wrong with a store: a finding is of one of the kinds (`kinds`), and names a file and the byte in it.

Of one kind in one file only the first few are kept, the others counted: a report of a ruined terabyte stays a page that a person
reads, and memory stays bounded whatever is in the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rmq_columns.checks.kinds import KINDS, Kind, Severity

KEPT_PER_FILE_MAX: Final = 20
"""Of one kind."""
KEPT_MAX: Final = 10_000
"""Of all kinds in all files."""
NOWHERE: Final = -1
"""Offset of a finding that concerns a whole file."""


class Finding(NamedTuple):
    """One thing that is wrong.  offset: byte of the file, or `NOWHERE`.  times: for how many like it this one stands."""

    code: str
    file: str
    offset: int
    detail: str
    times: int = 1

    @property
    def kind(self) -> Kind:
        return KINDS[self.code]


@dataclass
class Findings:
    """A bounded collection.  May be pickled, and merged with those of other processes."""

    kept: list[Finding] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    """(code, file) -> how many there are, the kept ones included"""
    shown: dict[tuple[str, str], int] = field(default_factory=dict)
    """(code, file) -> findings in `kept`"""

    def add(self, code: str, file: str, offset: int, detail: str, count: int = 1) -> None:
        self._take(Finding(code, file, offset, detail, count))

    def merge(self, others: Findings) -> None:
        """Take over what another process found in other files."""
        for finding in others.kept:
            self._take(finding)
        for code, file, count in others.hidden():
            self.counts[code, file] = self.counts.get((code, file), 0) + count

    def drop(self, code: str, file: str) -> None:
        """Take back what turned out to be none."""
        self.kept = [one for one in self.kept if (one.code, one.file) != (code, file)]
        self.counts.pop((code, file), None)
        self.shown.pop((code, file), None)

    def _take(self, finding: Finding) -> None:
        key = (finding.code, finding.file)
        self.counts[key] = self.counts.get(key, 0) + finding.times
        shown = self.shown.get(key, 0)
        if len(self.kept) < KEPT_MAX and shown < KEPT_PER_FILE_MAX:
            self.kept.append(finding)
            self.shown[key] = shown + 1

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def hidden(self) -> Iterator[tuple[str, str, int]]:
        """(code, file, how many) of those that were counted only."""
        reported: dict[tuple[str, str], int] = {}
        for one in self.kept:
            reported[one.code, one.file] = reported.get((one.code, one.file), 0) + one.times
        for (code, file), count in self.counts.items():
            if count > reported.get((code, file), 0):
                yield code, file, count - reported.get((code, file), 0)

    def codes(self) -> set[str]:
        return {code for code, _ in self.counts}


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Errors first, then by file and place."""
    return sorted(findings, key=lambda one: (one.kind.severity is not Severity.ERROR, one.file, one.offset, one.code))
