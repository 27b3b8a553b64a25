"""The suite as a whole: subjects by their names, and one run of cases on one of them from its start to its end."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from conformance.subjects.base import Subject, SubjectFailed, Target
from conformance.subjects.named import subject_named
from conformance.subjects.remoting import split_address
from conformance.suite import expected
from conformance.suite.case import Case
from conformance.suite.cleaning import CLEANING_S, CLEANING_SHORT_S, clean, prepare
from conformance.suite.results import CaseResult, Run
from conformance.suite.runner import OWN_KINDS, Limits, run, run_trio

T = TypeVar("T")
WAYS: Final = "ours, jars:VERSION, docker:IMAGE, addr:HOST:PORT, compose:FILE or kept:FILE"
"""How a subject is named in one word."""
CONNECT_S: Final = 5.0
_NAMED: Final = ("jars", "docker", "compose")
_ALONE: Final = ("ours", "kept")


def subject_of(word: str, directory: Path, *, java: str | None = None) -> Subject:
    """The subject that `WAYS` describes, not started.  directory: for what its servers write.  Raises `SubjectFailed`."""
    kind, colon, rest = word.partition(":")
    if kind == "kept" and rest:
        return KeptSubject(Path(rest))
    if kind == "addr":
        word = rest
    elif kind in _NAMED and colon:
        word = f"{kind}-{rest}" if rest else kind
    elif kind in _ALONE and colon:
        raise SubjectFailed(f"no subject {word!r}: say {WAYS}")
    return subject_named(word, directory, java=java)


class KeptSubject:
    """A subject of the suite's own that somebody else keeps running: `python -m conformance.subjects NAME --json > FILE`."""

    def __init__(self, file: Path) -> None:
        self.label = "kept"
        self._file = file

    def __enter__(self) -> Target:
        try:
            target = msgspec.json.decode(self._file.read_bytes(), type=Target, dec_hook=lambda kind, value: kind(value))
        except (OSError, msgspec.MsgspecError) as error:
            raise SubjectFailed(f"{self._file} does not say where a subject is: {error}") from None
        self.label = target.label
        try:
            for address in (target.namesrv, target.broker):
                socket.create_connection(split_address(address), timeout=CONNECT_S).close()
        except OSError as error:
            raise SubjectFailed(f"{self._file}: {target.label} is not at {address} any more: {error}") from None
        return target

    def __exit__(self, *_: object) -> None:
        pass

    def alive(self) -> bool:
        """It is somebody else's: taken to live."""
        return True

    def log_tail(self, characters: int = 4_000) -> str:
        """Out of reach."""
        return ""

    def collect_logs(self, into: Path) -> None:
        """Out of reach."""


def expect_anew(run: Run, expectations: str = "") -> None:
    """Write into a run what is expected now.  Raises `BadExpectations`."""
    for case in run.cases:
        case.expected = case.reason = case.see = ""
    expected.apply(run.cases, expected.load(expectations or run.target.label))


def _was_found(subject: Subject, target: Target) -> bool:
    """It goes on after the run."""
    return target.kind not in OWN_KINDS or isinstance(subject, KeptSubject)


def run_on(
    subject: Subject,
    cases: Sequence[Case],
    *,
    seed: int,
    limits: Limits = Limits(),  # noqa: B008 (immutable)
    expectations: str = "",
    begun: Callable[[Target], None] = lambda target: None,
    done: Callable[[CaseResult], None] = lambda ended: None,
    logs: Path | None = None,
) -> Run:
    """Start the subject, run the cases, end it.  The result says of each case what was expected of it.

    expectations: the label whose file holds, where it is not the subject's own.  logs: a directory for what the servers wrote.
    Raises `SubjectFailed` when the subject cannot be had, `BadExpectations`.
    """
    with subject as target:
        rules = expected.load(expectations or target.label)
        begun(target)

        def ended(case: CaseResult) -> None:
            expected.apply([case], rules)
            done(case)

        if _was_found(subject, target):
            run_trio(prepare, target)
        restart = getattr(subject, "restart_broker", None)
        outcome = run_trio(
            partial(run, cases, target, seed=seed, limits=limits, alive=subject.alive, restart=restart, done=ended)
        )
        expected.apply(outcome.cases, rules)
        if _was_found(subject, target):
            outcome.target.details["deleted afterwards"] = run_trio(
                partial(clean, target, outcome.mark, seconds=CLEANING_SHORT_S if outcome.ended else CLEANING_S)
            )
        if logs is not None:
            subject.collect_logs(logs)
    return outcome
