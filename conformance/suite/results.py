"""The outcome of runs, as it is written to JSON: plain records, everything readable without the suite.

One file holds one or several runs (`Matrix`), each of one subject; files are merged by putting their runs side by side.
`conformance/suite/schema.json` is generated from these classes.  Times are seconds unless the name says otherwise.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

FORMAT: Final = 1
"""Of the JSON file: raised when a reader of the old one would misread the new one."""
PASSED, FAILED, SKIPPED, ERROR, NOT_RUN = "passed", "failed", "skipped", "error", "not run"
_ANSWERED: Final = re.compile(r" \([^()]*\)$")
"""At the end of a reason: how that shows."""
ONLY_REPORTED: Final = "only reported (level info)"
OUTCOMES: Final = (PASSED, FAILED, SKIPPED, ERROR, NOT_RUN)


class BadResults(Exception):
    """A file is not an outcome of this suite; one line."""


class CheckResult(msgspec.Struct, omit_defaults=True):
    """One judged statement of a case."""

    what: str
    holds: bool
    expected: str = ""
    seen: str = ""


class FrameRecord(msgspec.Struct, omit_defaults=True):
    """One frame of a case's evidence, decoded as far as it can be."""

    connection: int
    """Number of the connection within the case."""
    to_server: bool
    at_s: float
    """Since the case began."""
    size: int
    """Bytes of the frame, its length field included."""
    kind: str = "bytes"
    """`request`, `one-way`, `response`, `bytes` (no frame that can be read) or `end` (of the connection)."""
    code: int | None = None
    code_name: str = ""
    """Of a response: the response code's name."""
    opaque: int | None = None
    form: str = ""
    """`JSON` or `ROCKETMQ`."""
    language: str = ""
    version: int = 0
    remark: str | None = None
    fields: dict[str, str] = {}
    body: str = ""
    """Text or hexadecimal digits, cut."""
    body_hex: bool = False
    """The body is written in hexadecimal digits."""
    body_bytes: int = 0
    """Size of the whole body."""
    note: str = ""


class CaseResult(msgspec.Struct, omit_defaults=True):
    """What came of one case."""

    id: str
    level: str
    """must, should, info or quirk."""
    title: str
    rests_on: str
    outcome: str
    """passed, failed, skipped, error (the suite's own fault) or not run."""
    seconds: float = 0.0
    why: str = ""
    """Of a case that did not pass: one line."""
    expected: str = ""
    """The outcome that `conformance/suite/expected` names, where that is not `passed`."""
    reason: str = ""
    """Why it is expected."""
    see: str = ""
    """The place in the documents that explains it."""
    codes: list[int] = []
    checks: list[CheckResult] = []
    notes: dict[str, str] = {}
    frames: list[FrameRecord] = []
    trace: str = ""
    """The traceback of an error."""

    @property
    def capability(self) -> str:
        """The part of the id before the first dot."""
        return self.id.partition(".")[0]

    @property
    def as_expected(self) -> bool:
        """It came as expected: a skipped case, and one that is only reported, always do."""
        if self.outcome == SKIPPED or self.level == "info":
            return True
        return self.outcome == (self.expected or PASSED)


class TargetInfo(msgspec.Struct):
    """Whom the run asked: `conformance.subjects.base.Target` in plain values."""

    label: str
    kind: str
    version: str
    """Of the reference whose behaviour was expected; empty: unknown, held to the newest."""
    namesrv: str
    broker: str
    broker_name: str
    cluster: str
    store_readable: bool
    details: dict[str, str]
    config: dict[str, str]


class Run(msgspec.Struct):
    """One run of the suite against one subject."""

    target: TargetInfo
    started: str
    """UTC, ISO 8601."""
    seconds: float
    seed: int
    jobs: int
    """Cases at once."""
    mark: str
    """In the name of every topic and group that it made."""
    ended: str
    """Empty: all cases were run; else why it stopped before."""
    cases: list[CaseResult]

    @property
    def failed_must(self) -> list[CaseResult]:
        """The MUST cases that failed, and the errors of any level."""
        return [case for case in self.cases if case.outcome == ERROR or (case.outcome == FAILED and case.level == "must")]

    @property
    def surprises(self) -> list[CaseResult]:
        """The cases that came otherwise than expected."""
        return [case for case in self.cases if not case.as_expected]

    @property
    def known(self) -> dict[str, int]:
        """Of the cases that failed as expected: why -> how many, the most first."""
        causes: dict[str, int] = {}
        for case in self.cases:
            if case.outcome == FAILED and case.as_expected:
                cause = _ANSWERED.sub("", case.reason) or ONLY_REPORTED
                causes[cause] = causes.get(cause, 0) + 1
        return dict(sorted(causes.items(), key=lambda one: (-one[1], one[0])))

    @property
    def expectation_line(self) -> str:
        """One line: how much of it came as expected."""
        known, unexpected = sum(self.known.values()), len(self.surprises)
        verdict = "as expected" if not unexpected and not self.ended else "not as expected"
        passed = sum(case.outcome == PASSED and case.as_expected for case in self.cases)
        return f"{verdict}: {passed} passed, {known} known, {self.count(SKIPPED)} skipped, {unexpected} unexpected"

    def count(self, outcome: str, level: str = "") -> int:
        """How many cases came out so."""
        return sum(case.outcome == outcome and level in ("", case.level) for case in self.cases)


class Matrix(msgspec.Struct):
    """What a JSON file holds."""

    format: int
    suite_version: str
    runs: list[Run]


def brief(run: Run) -> Run:
    """The run as it is kept for reading later: without the evidence of what came as expected, and without this machine's paths.

    What did not come as expected keeps its checks and frames.
    """
    cases = [_without_evidence(case) if case.as_expected else case for case in run.cases]
    return msgspec.structs.replace(run, target=anywhere(run.target), cases=cases)


def anywhere(target: TargetInfo) -> TargetInfo:
    """The target without this machine's paths: command lines, directories."""
    config = {name: value for name, value in target.config.items() if os.sep not in value}
    details = {name: value for name, value in target.details.items() if not name.startswith("command")}
    return msgspec.structs.replace(target, config=config, details=details)


def _without_evidence(case: CaseResult) -> CaseResult:
    return msgspec.structs.replace(case, checks=[check for check in case.checks if not check.holds], frames=[], trace="")


def suite_version() -> str:
    """Of the package that the suite belongs to."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("rmq-py-broker")
    except PackageNotFoundError:
        return "unknown"


def write(path: Path, runs: Iterable[Run]) -> None:
    """Write the runs as one file; its directory is made.  Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = msgspec.json.encode(Matrix(FORMAT, suite_version(), [])).removesuffix(b"]}")
    path.write_bytes(head + b",".join(map(_lines, runs)) + b"\n]}\n")


def _lines(run: Run) -> bytes:
    """A run with each case on a line of its own: small, and two runs can be compared line by line."""
    head = msgspec.json.encode(msgspec.structs.replace(run, cases=[])).removesuffix(b"]}")
    return b"\n" + head + b",".join(b"\n" + msgspec.json.encode(case) for case in run.cases) + b"\n]}"


def read(path: Path) -> Matrix:
    """A written file.  Raises `BadResults`."""
    try:
        matrix = msgspec.json.decode(path.read_bytes(), type=Matrix)
    except OSError as error:
        raise BadResults(f"{path}: {error.strerror or error}") from None
    except msgspec.MsgspecError as error:
        raise BadResults(f"{path}: not an outcome of the conformance suite: {error}") from None
    if matrix.format != FORMAT:
        raise BadResults(f"{path}: format {matrix.format}; this is the suite of format {FORMAT}")
    return matrix


def merge(matrices: Iterable[Matrix]) -> list[Run]:
    """The runs of several files; of several runs of one label the one that started last."""
    latest: dict[str, Run] = {}
    for matrix in matrices:
        for run in matrix.runs:
            known = latest.get(run.target.label)
            if known is None or run.started >= known.started:
                latest[run.target.label] = run
    return list(latest.values())


def rows(runs: Iterable[Run]) -> Mapping[str, dict[str, CaseResult]]:
    """The matrix: case id -> label -> what came of it, capability by capability."""
    found: dict[str, dict[str, CaseResult]] = {}
    for run in runs:
        for case in run.cases:
            found.setdefault(case.id, {})[run.target.label] = case
    return dict(sorted(found.items()))


def schema() -> str:
    """The JSON schema of `Matrix`, as it stands in `schema.json`."""
    made: dict[str, Any] = msgspec.json.schema(Matrix)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=1, sort_keys=True) + "\n"
