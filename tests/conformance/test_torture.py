"""The torture by scripts passes a client that does everything right, and catches each planted mistake."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest
import trio
from msgspec import structs

from conformance.torture.client import resident
from conformance.torture.judge import Verdict
from conformance.torture.run import torment, torment_all
from conformance.torture.script import Script, find, find_all, names
from tests.conformance.torture_client import DEFECTS, Defect, PythonClient

BEYOND = {
    "asked-members-changed",
    "consumer-list-error",
    "glued-answers",
    "heartbeat-refused",
    "lock-refused",
    "lost-answer-async",
    "offset-query-error",
    "oneway-close",
    "pull-lost",
    "reordered-answers",
    "reset-async",
    "send-back-refused",
    "slow-reader",
}
"""About what the small client does not do (groups, locks, asynchronous sends), or half a minute long."""

IN_VAIN = "pull-retry-immediately"
"""In it a good client waits for messages that never come."""
HURRIED_MS = 2_500
HANGS_S = 300
LAST_WORDS = "print('so it goes', file=sys.stderr); sys.exit(3)"

CAUGHT_BY: dict[Defect, tuple[str, ...]] = {
    "answers-in-any-order": ("unknown-opaque", "doubled-answers"),
    "crashes-on-new-fields": ("extra-fields", "unknown-opaque"),
    "hides-failures": ("message-illegal",),
    "ignores-questions": ("asked-unknown-code",),
    "keeps-broken-connections": ("half-answer", "reset-send", "oversized-send"),
    "never-retries": ("close-before-storing", "service-not-available", "go-away-send"),
    "one-read-one-frame": ("split-every-byte",),
    "reconnects-for-each-request": ("doubled-answers", "null-fields"),
    "retries-everything": ("message-illegal",),
    "retries-same-broker": ("system-error", "close-before-storing"),
    "sends-twice": ("doubled-answers", "null-fields"),
    "skips-after-errors": ("pull-error", "close-pull", "half-pull"),
    "stays-with-first-route": ("route-moves",),
}


def hurried(name: str) -> Script:
    """The script with a consumer that gives up soon: for runs in which its messages never come."""
    script = find(name)
    return structs.replace(script, client=structs.replace(script.client, patience_ms=min(script.client.patience_ms, HURRIED_MS)))


def failures(verdict: Verdict) -> list[str]:
    """What counts against a client that owes no oddities."""
    bad = [one for one in verdict.expectations if one.passed is False and one.level == "MUST"]
    return [f"{verdict.script}: {one.what} ({one.seen})" for one in bad]


async def test_a_good_client_passes() -> None:
    scripts = [*find_all(sorted(set(names()) - BEYOND - {IN_VAIN})), hurried(IN_VAIN)]
    with trio.fail_after(HANGS_S):
        verdicts = await torment_all(scripts, PythonClient())
    assert [line for verdict in verdicts for line in failures(verdict)] == []
    assert {verdict.outcome for verdict in verdicts} == {"passed"}
    assert len(verdicts) == len(scripts) >= 40


def test_every_defect_has_scripts_that_catch_it() -> None:
    assert set(CAUGHT_BY) == set(DEFECTS)
    assert set(names()) >= BEYOND


@pytest.mark.parametrize(("defect", "script"), [(defect, name) for defect, by in CAUGHT_BY.items() for name in by])
async def test_a_planted_defect_is_caught(defect: Defect, script: str) -> None:
    with trio.fail_after(HANGS_S):
        verdict = await torment(hurried(script), PythonClient(defect))
    assert verdict.outcome == "failed"
    assert failures(verdict)


async def test_runs_beside_each_other_do_not_meet() -> None:
    limit = trio.CapacityLimiter(math.inf)
    found: list[Verdict] = []

    async def one(name: str) -> None:
        async with limit:
            found.append(await torment(find(name), PythonClient()))

    with trio.fail_after(HANGS_S):
        async with trio.open_nursery() as nursery:
            for name in ("doubled-answers", "split-every-byte", "system-error", "split-pull") * 5:
                nursery.start_soon(one, name)
    assert len(found) == 20
    assert [line for verdict in found for line in failures(verdict)] == []


@pytest.mark.parametrize("program", [f"import sys; {LAST_WORDS}", f"import sys; sys.stdin.readline(); {LAST_WORDS}"])
async def test_a_resident_client_that_ends_is_broken(tmp_path: Path, program: str) -> None:
    command = [sys.executable, "-c", program]
    with trio.fail_after(HANGS_S):
        async with resident(
            command, label="gone", behaves_like=(5, 5, 0), environment=os.environ, log=tmp_path / "log"
        ) as client:
            verdict = await torment(find("numbers"), client)
    assert verdict.outcome == "broken"
    assert "gone has ended with status 3: so it goes" in verdict.expectations[0].seen
