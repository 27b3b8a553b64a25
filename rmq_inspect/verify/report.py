"""What a look at a store found; it as lines for a person and as one JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rmq_columns.checks.findings import NOWHERE, Finding, Findings, by_severity
from rmq_columns.checks.kinds import KINDS, Severity, remedy_of
from rmq_columns.checks.report import LogReport
from rmq_inspect.decode.records import printable
from rmq_inspect.times import bytes_text
from rmq_inspect.verify.state import Condition

LISTED: Final = 10
"""Places of one kind that the text names; the rest is counted, `--json` has more."""


@dataclass
class Report:
    """What a look at a store found."""

    root: str
    findings: Findings = field(default_factory=Findings)
    condition: Condition = field(default_factory=Condition)
    notes: list[str] = field(default_factory=list)
    """What is worth knowing and no damage"""
    log: list[LogReport] = field(default_factory=list)
    queues: int = 0
    queue_units: int = 0
    index_entries: int = 0
    topics: dict[str, int] = field(default_factory=dict)
    """topic -> messages in the log"""
    files: list[tuple[str, int, str]] = field(default_factory=list)
    """(name, size, kind) of every file"""

    @property
    def messages(self) -> int:
        """What a repair filled is none."""
        return sum(one.units - one.filler_units for one in self.log)

    @property
    def log_bytes(self) -> int:
        return sum(one.end_at for one in self.log)

    @property
    def is_clean(self) -> bool:
        return not self.findings.total

    @property
    def log_is_whole(self) -> bool:
        """Nothing was found wrong with it; so queues and index can be built of it."""
        return not any(code.startswith("log-") for code in self.findings.codes())

    def listed(self) -> list[Finding]:
        return by_severity(self.findings.kept)

    def count(self, severity: Severity) -> int:
        return sum(n for (code, _), n in self.findings.counts.items() if Finding(code, "", 0, "").kind.severity is severity)


def lines(report: Report, listed: int = LISTED) -> Iterator[str]:
    """Kind by kind, the bad ones first: what it is, where, what follows, what to do."""
    yield printable(f"{report.root}: {summary(report)}")
    for note in report.notes:
        yield printable(f"  note: {note}")
    if report.is_clean:
        yield "clean: nothing is wrong"
        return
    for code, places in by_kind(report).items():
        kind = KINDS[code]
        total = sum(n for (one, _), n in report.findings.counts.items() if one == code)
        yield ""
        yield f"{kind.severity.upper()} {code}: {kind.title}{f' ({total} times)' if total > 1 else ''}"
        for one in places[:listed]:
            yield printable(f"  {where(one)}: {one.detail}" if one.detail else f"  {where(one)}")
        if (more := total - sum(one.times for one in places[:listed])) > 0:
            yield f"  and {more} more"
        yield f"  Consequence: {kind.consequence}"
        yield f"  Remedy: {remedy_of(code, report.log_is_whole)}"
    yield ""
    yield f"{report.count(Severity.ERROR)} errors, {report.count(Severity.WARNING)} warnings"


def where(finding: Finding) -> str:
    """File, and byte where there is one."""
    return finding.file if finding.offset == NOWHERE else f"{finding.file} byte {finding.offset}"


def summary(report: Report) -> str:
    """What was looked at, in one line."""
    log = f"{report.messages} messages ({bytes_text(report.log_bytes)}) in {_files(len(report.log))}"
    queues = f"{report.queues} queues with {report.queue_units} units"
    return f"{log}, {queues}, {report.index_entries} index entries"


def by_kind(report: Report) -> dict[str, list[Finding]]:
    """Code -> its findings, errors first."""
    found: dict[str, list[Finding]] = {}
    for one in report.listed():
        found.setdefault(one.code, []).append(one)
    return found


def as_json(report: Report) -> dict[str, Any]:
    """Everything: `clean`, figures, notes, findings, and how many of which were counted only."""
    condition = report.condition
    return {
        "store": report.root,
        "clean": report.is_clean,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "messages": report.messages,
        "logBytes": report.log_bytes,
        "queues": report.queues,
        "queueUnits": report.queue_units,
        "indexEntries": report.index_entries,
        "lockedBy": condition.locked_by,
        "abort": condition.has_abort,
        "notes": report.notes,
        "findings": [finding_json(one, report.log_is_whole) for one in report.listed()],
        "more": [{"code": code, "file": file, "times": times} for code, file, times in report.findings.hidden()],
    }


def finding_json(finding: Finding, log_is_whole: bool) -> dict[str, Any]:
    """One finding with what its kind says."""
    kind = finding.kind
    return {
        "code": finding.code,
        "severity": str(kind.severity),
        "file": finding.file,
        "offset": None if finding.offset == NOWHERE else finding.offset,
        "times": finding.times,
        "what": kind.title,
        "detail": finding.detail,
        "consequence": kind.consequence,
        "remedy": remedy_of(finding.code, log_is_whole),
    }


def _files(count: int) -> str:
    return f"{count} log file{'' if count == 1 else 's'}"
