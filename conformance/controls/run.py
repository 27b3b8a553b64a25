"""Runs the controls: the cases first against the good server, then against each defect those that must notice it.

Everything goes through the relay, also the first time, so that a case which stumbles over the relay itself is seen.  Defects run
several at once, each behind a relay of its own; those whose cases must be alone run one by one afterwards.  A case that fails is
a catch; one that stumbles over the server's answer (`error`) is not: it would be the suite that looks broken.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import string
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import trio

from conformance.controls import defects as declared
from conformance.controls.defect import STORE, WIRE, Defect
from conformance.controls.proxy import Mutate, proxied, unchanged
from conformance.controls.shadow import Shadow, Spoil, shadowed
from conformance.subjects.base import Target
from conformance.suite import expected
from conformance.suite.case import Case, load
from conformance.suite.results import FAILED, PASSED, SKIPPED, CaseResult, TargetInfo, anywhere, suite_version
from conformance.suite.runner import CASE_S, absent_needs, not_for, run_case, target_info

FORMAT: Final = 1
JOBS: Final = 8
"""Defects at once."""
CAUGHT, NOT_CAUGHT, NOT_SHOWN = "caught", "not caught", "not shown"
SLOTS: Final = 5_000_000
"""`maxHashSlotNum` where nothing else is set."""
_LETTERS: Final = string.ascii_lowercase + string.digits
WHY_CHARACTERS_MAX: Final = 240


class Caught(msgspec.Struct):
    """A case that noticed."""

    case: str
    why: str
    """What it says."""
    seconds: float


class DefectResult(msgspec.Struct, omit_defaults=True):
    """What came of one defect."""

    name: str
    capability: str
    side: str
    """`wire` or `store`."""
    wrong: str
    cases: list[str]
    """Those that were run against it: they pass without it."""
    outcome: str
    """`caught`, `not caught`, or `not shown`: the server cannot do what the defect spoils."""
    caught_by: list[Caught] = []
    overlooked_by: list[str] = []
    """Cases that passed all the same, or that could not judge (with the outcome behind a colon)."""
    why: str = ""
    """Of a defect that is not shown."""
    expected: bool = True
    """Of a defect that is not shown: `conformance/suite/expected` says why."""


class Controls(msgspec.Struct):
    """A run of the controls against one subject, as it is written to JSON."""

    format: int
    suite_version: str
    target: TargetInfo
    started: str
    """UTC, ISO 8601."""
    seconds: float
    defects: list[DefectResult]
    good_failures: list[Caught] = []
    """Cases that failed on the good server, though nobody expects that: they say nothing of a defect, and the run is bad."""

    @property
    def bad(self) -> list[DefectResult]:
        """Those that make the exit status 1, as `good_failures` do."""
        return [
            result
            for result in self.defects
            if result.outcome == NOT_CAUGHT or (result.outcome == NOT_SHOWN and not result.expected)
        ]


def read(path: Path) -> Controls:
    """A file of such a run.  Raises `OSError`, `msgspec.MsgspecError`."""
    return msgspec.json.decode(path.read_bytes(), type=Controls)


def write(path: Path, result: Controls) -> None:
    """Write it, indented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(json.loads(msgspec.json.encode(result)), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def chosen(only: Sequence[str]) -> list[Defect]:
    """The declared defects whose names fit; a bare capability means all of it, nothing means all."""
    patterns = [pattern if "." in pattern or "*" in pattern else f"{pattern}.*" for pattern in only]
    return [one for one in declared.load().values() if not patterns or any(fnmatchcase(one.name, pat) for pat in patterns)]


async def control(
    target: Target,
    defects: Iterable[Defect],
    *,
    jobs: int = JOBS,
    done: Callable[[DefectResult], None] = lambda result: None,
    say: Callable[[str], None] = lambda line: None,
    patience: float = 1.0,
) -> Controls:
    """Run them.  jobs: defects at once; done: called with each defect; say: called with progress before.

    patience: of the cases without a defect, as in `Trial`; a defect has to be noticed by cases as they are.
    """
    started, began = datetime.datetime.now(datetime.UTC), trio.current_time()
    wanted = list(defects)
    quick = [case for case in load().values() if not case.slow]
    absent = await absent_needs(target)
    plan = {one.name: [case for case in one.cases(quick) if not not_for(case, target, absent)] for one in wanted}
    course = _Course(target)
    tries = {(one.side, case.id): case for one in wanted for case in plan[one.name]}
    say(f"{target.label}: {len(tries)} cases without a defect")
    await course.try_good(tries, jobs, patience)
    good_failures = course.good_failures()
    say(f"{target.label}: {len(wanted)} defects")
    result: dict[str, DefectResult] = {}

    async def spoil(one: Defect) -> None:
        result[one.name] = await course.spoil(one, plan[one.name])
        done(result[one.name])

    alone = [one for one in wanted if any(case.alone for case in plan[one.name])]
    await _several([partial(spoil, one) for one in wanted if one not in alone], jobs)
    await _several([partial(spoil, one) for one in alone], 1)
    return Controls(
        FORMAT,
        suite_version(),
        anywhere(target_info(target)),
        started.isoformat(timespec="seconds").replace("+00:00", "Z"),
        round(trio.current_time() - began, 3),
        [result[one.name] for one in wanted],
        good_failures,
    )


class _Course:
    """One run under way."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._good: dict[tuple[str, str], CaseResult] = {}
        """What came of a case without a defect, by side and id."""
        self._expected = expected.load(target.label)
        self._mark = "".join(secrets.choice(_LETTERS) for _ in range(5))
        self._runs = 0

    async def try_good(self, tries: Mapping[tuple[str, str], Case], jobs: int, patience: float) -> None:
        """Every case once, on its side, with nothing wrong."""
        async with self._behind(WIRE, unchanged, None) as relayed, self._behind(STORE, unchanged, None) as shown:

            async def attempt(side: str, case: Case) -> None:
                self._good[side, case.id] = await self._run(case, relayed if side == WIRE else shown, patience)

            both = [(side, case) for (side, _), case in sorted(tries.items())]
            await _several([partial(attempt, *one) for one in both if not one[1].alone], jobs)
            await _several([partial(attempt, *one) for one in both if one[1].alone], 1)

    async def spoil(self, one: Defect, cases: Sequence[Case]) -> DefectResult:
        """The cases that pass without the defect, against it."""
        result = DefectResult(one.name, one.capability, one.side, one.wrong, [], NOT_CAUGHT)
        able = [case for case in cases if self._good[one.side, case.id].outcome == PASSED]
        if not able:
            return self._not_shown(result, [self._good[one.side, case.id] for case in cases])
        result.cases = [case.id for case in able]
        async with self._behind(one.side, one.mutate or unchanged, one.spoil) as target:
            for case in able:
                found = await self._run(case, target)
                if found.outcome == FAILED:
                    result.caught_by.append(Caught(case.id, found.why[:WHY_CHARACTERS_MAX], found.seconds))
                else:
                    result.overlooked_by.append(case.id if found.outcome == PASSED else f"{case.id}: {found.outcome} {found.why}")
        if result.caught_by:
            result.outcome = CAUGHT
        return result

    def good_failures(self) -> list[Caught]:
        """Cases that failed without a defect, though nobody expects that."""
        expected.apply(self._good.values(), self._expected)
        unexpected = {result.id: result for result in self._good.values() if result.outcome != PASSED and not result.as_expected}
        return [Caught(result.id, result.why[:WHY_CHARACTERS_MAX], result.seconds) for _, result in sorted(unexpected.items())]

    def _not_shown(self, result: DefectResult, good: Sequence[CaseResult]) -> DefectResult:
        """None of the cases passes here, defect or not."""
        result.outcome = NOT_SHOWN
        result.expected = bool(good) and all(case.expected == FAILED or case.outcome == SKIPPED for case in good)
        result.why = "; ".join(dict.fromkeys(case.reason or f"{case.id} {case.outcome}: {case.why}" for case in good))
        result.why = result.why[:WHY_CHARACTERS_MAX] or "no case of those that must notice it is for this server"
        return result

    async def _run(self, case: Case, target: Target, patience: float = 1.0) -> CaseResult:
        self._runs += 1
        result = await run_case(case, target, f"{self._mark}{self._runs:x}", CASE_S, None, patience)
        result.frames.clear()
        return result

    @asynccontextmanager
    async def _behind(self, side: str, mutate: Mutate, spoil: Spoil | None) -> AsyncIterator[Target]:
        """The target as cases see it: through the relay, or with files that are not quite its own."""
        if side == WIRE:
            async with proxied(self._target, mutate) as target:
                yield target
        elif self._target.store is None:
            yield self._target
        else:
            live = self._target.store
            slots = int(self._target.config.get("maxHashSlotNum", SLOTS))
            with tempfile.TemporaryDirectory(prefix="rmq-controls-", dir=_beside(live), ignore_cleanup_errors=True) as room:
                yield shadowed(self._target, Shadow(live, Path(room, "store"), spoil, slots=slots))


def _beside(store: Path) -> Path | None:
    """Where a directory can be made on the store's own disk; None: anywhere."""
    return store.parent if os.access(store.parent, os.W_OK) else None


async def _several(works: Iterable[Callable[[], Awaitable[None]]], jobs: int) -> None:
    """Do all of it, so many at once."""
    limit = trio.CapacityLimiter(jobs)

    async def one(work: Callable[[], Awaitable[None]]) -> None:
        async with limit:
            await work()

    async with trio.open_nursery() as nursery:
        for work in works:
            nursery.start_soon(one, work)
