"""Runs cases against one target: seeded order, many at once, each with a time limit and connections of its own.

Cases that must be alone run after all others, one by one.  What a case raises is sorted here: a check that does not hold, an
answer that does not come and an answer that cannot be read are the server's failure; everything else is the suite's own error.
When the server dies in the middle the run stops, and what was found until then is kept.
"""

from __future__ import annotations

import datetime
import random
import secrets
import string
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import trio

from conformance.subjects.base import Target
from conformance.suite.case import Case, Level, Need
from conformance.suite.evidence import decoded_frames
from conformance.suite.link import NoAnswer
from conformance.suite.results import ERROR, FAILED, NOT_RUN, PASSED, SKIPPED, CaseResult, CheckResult, Run, TargetInfo
from conformance.suite.trial import CaseFailed, CaseSkipped, Restart, Trial
from conformance.version import dotted
from rmq_wire.errors import WireError

T = TypeVar("T")
JOBS: Final = 16
"""Cases at once."""
CASE_S: Final = 180.0
SLOW_CASE_S: Final = 300.0
"""How long a case may take; above it, it failed."""
WATCH_S: Final = 0.5
"""How often it is looked whether the server lives."""
KNOCK_S: Final = 3.0
KNOCKS: Final = 3
"""A server that so many times in a row takes no connection is dead."""
OWN_KINDS: Final = frozenset({"jars", "docker", "ours"})
"""Kinds of subjects that the suite starts, with its shortened intervals."""
INTERRUPTED: Final = "the run was interrupted"
"""`Run.ended` after Ctrl-C."""
ROOT: Final = Path(__file__).resolve().parents[2]
"""Shown paths begin here: whose machine it was is nobody's business."""
_FAILURES: Final = CaseFailed | NoAnswer | WireError | TimeoutError | trio.TooSlowError
"""What a case raises when it is the server's fault."""
_MARK_LETTERS: Final = string.ascii_lowercase + string.digits
_MARK_LENGTH: Final = 5


class Selection(NamedTuple):
    """Which cases are run."""

    only: Sequence[str] = ()
    """Patterns of ids, as file names are matched; a bare capability means all of it.  Empty: all."""
    levels: frozenset[Level] = frozenset(Level)
    slow: bool = False
    """The slow ones too."""

    def of(self, cases: Iterable[Case]) -> list[Case]:
        """The selected ones."""
        return [case for case in cases if case.level in self.levels and (self.slow or not case.slow) and self._named(case)]

    def _named(self, case: Case) -> bool:
        patterns = [pattern if "." in pattern or "*" in pattern else f"{pattern}.*" for pattern in self.only]
        return not patterns or any(fnmatchcase(case.id, pattern) for pattern in patterns)


class Limits(NamedTuple):
    """Of time, and of cases at once.  patience: as in `Trial`; a case may take so many times as long, too."""

    jobs: int = JOBS
    case_s: float = CASE_S
    slow_case_s: float = SLOW_CASE_S
    patience: float = 1.0


Watcher = Callable[[CaseResult], None]


class Restarter(Protocol):
    """`OwnSubject.restart_broker`."""

    def __call__(self, *, kill: bool) -> None: ...


async def run(
    cases: Sequence[Case],
    target: Target,
    *,
    seed: int = 0,
    limits: Limits = Limits(),  # noqa: B008 (immutable)
    alive: Callable[[], bool] = lambda: True,
    restart: Restarter | None = None,
    done: Watcher = lambda result: None,
) -> Run:
    """Run these cases; never raises for what a case or the server does.

    alive: whether the server's processes live; restart: stops the broker, by SIGKILL with `kill=True`, and starts it again;
    blocks; done: called with every case that has ended.  Cases that were not run, because the
    server died, are in the result as `not run`, and `Run.ended` says why.
    """
    started, began = datetime.datetime.now(datetime.UTC), trio.current_time()
    order = sorted(cases, key=lambda case: case.id)
    random.Random(seed).shuffle(order)
    course = _Course(target, limits, alive, restart, done)
    absent = await absent_needs(target, may_restart=restart is not None)
    ready: list[tuple[Case, str]] = []
    for number, case in enumerate(order):
        why = not_for(case, target, absent)
        if why:
            course.end(result_of(case, SKIPPED, why=why))
        else:
            ready.append((case, f"{course.mark}{number:x}"))
    try:
        await course.run(ready)
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        if not any(isinstance(leaf, KeyboardInterrupt) for leaf in _leaves(error)):
            raise
        course.ended = INTERRUPTED
    for case, _ in ready:
        if case.id not in course.results:
            course.results[case.id] = result_of(case, NOT_RUN, why=course.why_not_run(case.id))
    return Run(
        target=target_info(target),
        started=started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        seconds=round(trio.current_time() - began, 3),
        seed=seed,
        jobs=limits.jobs,
        mark=course.mark,
        ended=course.ended,
        cases=[course.results[case.id] for case in sorted(cases, key=lambda case: case.id)],
    )


class _Course:
    """One run under way."""

    def __init__(
        self, target: Target, limits: Limits, alive: Callable[[], bool], restart: Restarter | None, done: Watcher
    ) -> None:
        self.results: dict[str, CaseResult] = {}
        self.ended = ""
        self.mark = "".join(secrets.choice(_MARK_LETTERS) for _ in range(_MARK_LENGTH))
        self._target = target
        self._limits = limits
        self._alive = alive
        self._restarter = restart
        self._restarting = False
        self._done = done
        self._under_way: set[str] = set()

    def end(self, result: CaseResult) -> None:
        self.results[result.id] = result
        self._done(result)

    def why_not_run(self, id: str) -> str:
        """Of a case without an outcome."""
        return f"{self.ended}, {'while' if id in self._under_way else 'before'} this case was run"

    async def run(self, ready: list[tuple[Case, str]]) -> None:
        together = [entry for entry in ready if not entry[0].alone]
        alone = [entry for entry in ready if entry[0].alone]
        async with trio.open_nursery() as watching:
            scope = watching.cancel_scope
            watching.start_soon(self._watch, scope)
            entries = iter(together)
            async with trio.open_nursery() as workers:
                for _ in range(min(self._limits.jobs, len(together))):
                    workers.start_soon(self._work, entries, scope)
            await self._work(iter(alone), scope)
            scope.cancel()

    async def _work(self, entries: Iterator[tuple[Case, str]], scope: trio.CancelScope) -> None:
        for case, mark in entries:
            limit_s = self._limits.slow_case_s if case.slow else self._limits.case_s
            self._under_way.add(case.id)
            result = await run_case(case, self._target, mark, limit_s, self._restart, self._limits.patience)
            self._under_way.discard(case.id)
            self.end(result)
            if result.outcome in (FAILED, ERROR):
                await self._look(scope, knock=True)

    async def _restart(self, kill: bool) -> None:
        """The server's absence meanwhile is no death.  It is not left half-way: the next case would find no server."""
        assert self._restarter is not None
        self._restarting = True
        try:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(partial(self._restarter, kill=kill))
        finally:
            self._restarting = False

    async def _watch(self, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(WATCH_S)
            await self._look(scope)

    async def _look(self, scope: trio.CancelScope, *, knock: bool = False) -> None:
        """End the run when the server is dead.  knock: ask the server itself, too."""
        if self._restarting:
            return
        if not self._alive():
            self.ended = "the server ended in the middle of the run"
        elif knock and not await _takes_connections(self._target.broker):
            self.ended = f"the server at {self._target.broker} takes no connections any more"
        if self.ended:
            scope.cancel()


async def run_case(
    case: Case, target: Target, mark: str, limit_s: float, restart: Restart | None = None, patience: float = 1.0
) -> CaseResult:
    """Run one case and sort what comes of it."""
    limit_s *= patience
    began = trio.current_time()
    found: list[BaseException] = []
    trial: Trial | None = None
    scope = trio.CancelScope(deadline=began + limit_s)
    try:
        with scope:
            async with trio.open_nursery() as nursery:
                trial = Trial(target, nursery, mark=mark, restart=restart, patience=patience)
                try:
                    await case.run(trial)
                except Exception as error:
                    found = list(_leaves(error))
                for link in trial.links:
                    await link.close()
                nursery.cancel_scope.cancel()
    except Exception as error:
        found += _leaves(error)
    result = result_of(case, PASSED)
    if scope.cancelled_caught and not found:
        found = [TimeoutError(f"it did not end within {limit_s:g} s")]
    if found:
        _sort(result, found)
    result.seconds = round(trio.current_time() - began, 3)
    if trial is not None:
        result.checks = [CheckResult(*check) for check in trial.checks]
        result.notes = dict(trial.notes)
        result.frames = decoded_frames(trial.evidence)
        if result.outcome == FAILED and (not result.checks or result.checks[-1].holds):
            result.checks.append(CheckResult(result.why, False))
    return result


def _sort(result: CaseResult, found: list[BaseException]) -> None:
    """Whose fault it is: the worst of what was raised decides."""
    ours = [error for error in found if not isinstance(error, CaseSkipped | _FAILURES)]
    failed = [error for error in found if not isinstance(error, CaseSkipped) and error not in ours]
    result.outcome = ERROR if ours else FAILED if failed else SKIPPED
    worst = (ours or failed or found)[0]
    result.why = " ".join(f"{'' if isinstance(worst, CaseFailed | CaseSkipped) else _kind(worst)}{worst}".split())
    if ours:
        result.trace = "".join(traceback.format_exception(worst))


def _kind(error: BaseException) -> str:
    if isinstance(error, NoAnswer | TimeoutError | trio.TooSlowError):
        return ""
    return "the answer cannot be read: " if isinstance(error, WireError) else f"{type(error).__name__}: "


def run_trio(work: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """`trio.run`; Ctrl-C, or what alone ended it, comes out as it went in, not in a group."""
    try:
        result: T = trio.run(work, *arguments)
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        interrupted = [leaf for leaf in leaves if isinstance(leaf, KeyboardInterrupt)]
        if interrupted or len(leaves) == 1:
            raise (interrupted or leaves)[0] from None
        raise
    return result


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The exceptions themselves, out of the groups that nurseries put them in."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


async def absent_needs(target: Target, *, may_restart: bool = False) -> frozenset[Need]:
    """What cases cannot have from this target."""
    absent = set() if may_restart else {Need.RESTART}
    if target.store is None:
        absent.add(Need.STORE)
    if target.kind not in OWN_KINDS:
        absent |= {Need.OWN, Need.NAMESRV}
        host, _, port = target.broker.rpartition(":")
        if not await _connects(f"{host}:{int(port) - 2}"):  # a server of the suite's has to have it
            absent.add(Need.FAST_PORT)
    return frozenset(absent)


def not_for(case: Case, target: Target, absent: frozenset[Need]) -> str:
    """Why a case is skipped on this target; empty: it is not."""
    missing = sorted(need.value for need in case.needs & absent)
    if missing:
        return f"needs: {'; '.join(missing)}"
    if case.since and target.version is not None and target.version < case.since:
        return f"since {dotted(case.since)}"
    return ""


async def _takes_connections(address: str) -> bool:
    for _ in range(KNOCKS):
        if await _connects(address):
            return True
        await trio.sleep(WATCH_S)
    return False


async def _connects(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with trio.move_on_after(KNOCK_S):
        try:
            stream = await trio.open_tcp_stream(host.strip("[]"), int(port))
        except OSError:
            return False
        await trio.aclose_forcefully(stream)
        return True
    return False


def result_of(case: Case, outcome: str, *, why: str = "") -> CaseResult:
    """A case's record with this outcome."""
    return CaseResult(
        case.id, case.level.value, case.title, case.rests_on, outcome, why=" ".join(why.split()), codes=list(case.codes)
    )


def target_info(target: Target) -> TargetInfo:
    """The target in plain values."""
    return TargetInfo(
        label=target.label,
        kind=target.kind,
        version=dotted(target.version) if target.version else "",
        namesrv=target.namesrv,
        broker=target.broker,
        broker_name=target.broker_name,
        cluster=target.cluster,
        store_readable=target.store is not None,
        details={name: text.replace(f"{ROOT}/", "") for name, text in target.details.items()},
        config=dict(target.config),
    )
