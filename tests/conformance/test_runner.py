"""The runner sorts planted outcomes rightly, whatever the server does, and keeps what it found when the server dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from conformance.suite.case import Case, Level, Need
from conformance.suite.link import ANSWER_S, NoAnswer
from conformance.suite.results import ERROR, FAILED, NOT_RUN, PASSED, SKIPPED, CaseResult, Run
from conformance.suite.runner import INTERRUPTED, Limits, Selection, absent_needs, not_for, run
from conformance.suite.trial import Trial
from rmq_wire.command import Command
from rmq_wire.errors import BadHeader
from tests.support.fake_remoting import HangUp, Script, agreeable, answer, serve, target_at
from tests.support.planted import ASKED, breaks, fails, passes, planted, skips

IDLE_S = 0.05
"""Real time in which nothing happens, after which the clock jumps to the next deadline."""


def outcome_of(cases: Sequence[Case], script: Script = agreeable, **options: Any) -> Run:
    """Run them against a server in process; time passes only where everybody waits."""

    async def main() -> Run:
        async with trio.open_nursery() as nursery:
            target = target_at(await serve(nursery, script), kind=options.pop("kind", "ours"))
            found = await run(cases, target, **options)
            nursery.cancel_scope.cancel()
        return found

    return trio.run(main, clock=MockClock(autojump_threshold=IDLE_S))


def the_one(run: Callable[[Trial], Any], script: Script = agreeable, **more: Any) -> CaseResult:
    [result] = outcome_of([planted("planted.one", run, **more)], script).cases
    return result


def test_what_holds_has_passed_with_its_evidence() -> None:
    result = the_one(passes)
    assert (result.outcome, result.why) == (PASSED, "")
    assert [(check.what, check.holds) for check in result.checks] == [("the answer: code", True)]
    assert [(frame.kind, frame.code) for frame in result.frames if frame.kind != "end"] == [("request", ASKED), ("response", 0)]


def test_a_check_that_does_not_hold_fails() -> None:
    result = the_one(fails)
    assert result.outcome == FAILED
    assert (result.checks[-1].holds, result.checks[-1].expected, result.checks[-1].seen) == (False, "17", "0")


def test_a_bug_of_the_suite_is_an_error_with_its_trace() -> None:
    result = the_one(breaks)
    assert (result.outcome, result.why) == (ERROR, "LookupError: a bug")
    assert "planted.py" in result.trace


def test_a_case_may_skip_itself() -> None:
    result = the_one(skips)
    assert (result.outcome, result.why) == (SKIPPED, "not on a Monday")


def test_a_silent_server_fails_the_case() -> None:
    result = the_one(passes, lambda asked: b"")
    assert result.outcome == FAILED
    assert f"nothing came within {ANSWER_S:g} s" in result.why
    assert not result.checks[-1].holds


def test_a_server_that_hangs_up_fails_the_case() -> None:
    def hang_up(asked: Command) -> bytes:
        raise HangUp

    result = the_one(passes, hang_up)
    assert result.outcome == FAILED
    assert "the connection ended" in result.why


def test_garbage_fails_the_case() -> None:
    result = the_one(passes, lambda asked: b"\0\0\0\x04\0\0\0\x05hello")
    assert result.outcome == FAILED


def test_an_answer_that_cannot_be_read_fails_the_case() -> None:
    async def reads(trial: Trial) -> None:
        raise BadHeader("SendMessageResponse: msgId is missing")

    result = the_one(reads)
    assert (result.outcome, result.why) == (FAILED, "the answer cannot be read: SendMessageResponse: msgId is missing")


@pytest.mark.parametrize(("slow", "limit"), [(False, "3 s"), (True, "5 s")])
def test_a_case_has_a_time_limit(slow: bool, limit: str) -> None:
    async def never(trial: Trial) -> None:
        await trial.broker.ask_raw(ASKED)
        await trio.sleep_forever()

    [result] = outcome_of([planted("time.up", never, slow=slow)], limits=Limits(case_s=3, slow_case_s=5)).cases
    assert (result.outcome, result.why) == (FAILED, f"it did not end within {limit}")
    assert [frame.kind for frame in result.frames[:2]] == ["request", "response"], "the evidence is kept"


def test_what_tasks_of_a_case_raise_is_sorted_as_well() -> None:
    async def together(trial: Trial) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails, trial)
            nursery.start_soon(trio.sleep_forever)

    assert the_one(together).outcome == FAILED


def test_a_bug_weighs_more_than_a_failure() -> None:
    async def both(trial: Trial) -> None:
        raise ExceptionGroup("", [NoAnswer("none"), ExceptionGroup("", [KeyError("a bug")])])

    assert the_one(both).outcome == ERROR


def test_a_task_in_the_background_may_have_the_bug() -> None:
    async def case(trial: Trial) -> None:
        trial._nursery.start_soon(breaks, trial)
        await trio.sleep_forever()

    assert the_one(case).why == "LookupError: a bug"


def order_of(seed: int) -> list[str]:
    seen: list[str] = []

    async def notes(trial: Trial, id: str) -> None:
        seen.append(id)

    ids = [f"order.n{number}" for number in range(12)]
    found = outcome_of([planted(id, partial(notes, id=id)) for id in ids], seed=seed, limits=Limits(jobs=1))
    assert [case.id for case in found.cases] == sorted(ids), "listed in order"
    return seen


def test_the_seed_decides_the_order() -> None:
    assert order_of(1) == order_of(1) != order_of(2)
    assert sorted(order_of(1)) == sorted(order_of(2))


def test_so_many_run_at_once_and_those_that_must_be_alone_are() -> None:
    running = 0
    most: dict[str, int] = {}

    async def counts(trial: Trial, id: str) -> None:
        nonlocal running
        running += 1
        for _ in range(20):
            most[id] = max(most.get(id, 0), running)
            await trio.lowlevel.checkpoint()
        running -= 1

    cases = [planted(f"many.n{number}", partial(counts, id="many")) for number in range(9)]
    cases += [planted(f"alone.n{number}", partial(counts, id="alone"), alone=True) for number in range(3)]
    outcome_of(cases, limits=Limits(jobs=4))
    assert most == {"many": 4, "alone": 1}


def test_a_dead_process_ends_the_run_and_what_was_found_is_kept() -> None:
    ended = 0

    def one_more(result: CaseResult) -> None:
        nonlocal ended
        ended += 1

    async def waits(trial: Trial) -> None:
        await trio.sleep(5)

    cases = [planted(f"death.n{number}", waits) for number in range(6)]
    found = outcome_of(cases, alive=lambda: ended < 2, done=one_more, limits=Limits(jobs=1))
    assert found.ended == "the server ended in the middle of the run"
    assert [found.count(outcome) for outcome in (PASSED, NOT_RUN)] == [2, 4]
    whys = {case.why for case in found.cases if case.outcome == NOT_RUN}
    assert whys == {f"{found.ended}, {when} this case was run" for when in ("before", "while")}


def test_an_address_that_takes_no_connections_any_more_ends_the_run() -> None:
    async def main() -> Run:
        async with trio.open_nursery() as nursery:
            target = target_at(await serve(nursery))

            async def kills(trial: Trial) -> None:
                await passes(trial)
                nursery.cancel_scope.cancel()

            found = await trio_shielded(run([planted("a.kills", kills), *others], target, limits=Limits(jobs=1), seed=1))
        return found

    async def trio_shielded(running: Any) -> Run:
        with trio.CancelScope(shield=True):
            result: Run = await running
            return result

    others = [planted(f"b.n{number}", passes) for number in range(20)]
    found = trio.run(main, clock=MockClock(autojump_threshold=IDLE_S))
    assert "takes no connections any more" in found.ended
    assert found.count(FAILED) == 1, "one case finds it out"
    assert found.count(NOT_RUN) > 0
    assert found.count(PASSED) + found.count(NOT_RUN) + 1 == 21


def test_an_interrupted_run_keeps_what_was_found() -> None:
    async def interrupts(trial: Trial) -> None:
        raise KeyboardInterrupt

    cases = [planted("a.interrupts", interrupts, alone=True), planted("b.passes", passes)]
    found = outcome_of(cases, limits=Limits(jobs=1))
    assert found.ended == INTERRUPTED
    assert {case.id: case.outcome for case in found.cases} == {"a.interrupts": NOT_RUN, "b.passes": PASSED}


def test_a_restart_is_no_death() -> None:
    restarted: list[bool] = []
    living = True

    def restart(*, kill: bool) -> None:
        nonlocal living
        living = False
        restarted.append(kill)
        living = True

    async def restarts(trial: Trial) -> None:
        await trial.restart_broker(kill=True)
        await passes(trial)

    case = planted("store.restart", restarts, needs=frozenset({Need.RESTART}), alone=True)
    found = outcome_of([case], restart=restart, alive=lambda: living)
    assert (found.ended, found.cases[0].outcome, restarted) == ("", PASSED, [True])
    [skipped] = outcome_of([case]).cases
    assert (skipped.outcome, skipped.why) == (SKIPPED, "needs: the suite may stop and start the broker")


def test_what_a_target_cannot_give_is_skipped() -> None:
    async def main() -> None:
        own = await absent_needs(target_at("127.0.0.1:3"))
        found = await absent_needs(target_at("127.0.0.1:3", kind="address"))
        assert own == {Need.RESTART, Need.STORE}
        assert found == own | {Need.OWN, Need.NAMESRV, Need.FAST_PORT}

    trio.run(main)


@pytest.mark.parametrize(("version", "why"), [((4, 9, 7), "since 5.0"), ((5, 0, 0), ""), ((5, 5, 0), ""), (None, "")])
def test_a_case_may_be_newer_than_the_server(version: tuple[int, ...] | None, why: str) -> None:
    case = planted("a.b", passes, since=(5, 0))
    assert not_for(case, target_at("127.0.0.1:3", version=version), frozenset()) == why


def test_selection() -> None:
    cases = [
        planted("pull.one", passes),
        planted("pull.two", passes, Level.INFO),
        planted("pull.slow", passes, slow=True),
        planted("send.one", passes),
    ]

    def chosen(**options: Any) -> list[str]:
        return [case.id for case in Selection(**options).of(cases)]

    assert chosen() == ["pull.one", "pull.two", "send.one"]
    assert chosen(slow=True) == ["pull.one", "pull.two", "pull.slow", "send.one"]
    assert chosen(only=["pull"]) == ["pull.one", "pull.two"]
    assert chosen(only=["*.one"]) == ["pull.one", "send.one"]
    assert chosen(only=["pull.two", "send.*"]) == ["pull.two", "send.one"]
    assert chosen(levels=frozenset({Level.INFO})) == ["pull.two"]
    assert chosen(only=["pul"]) == []


def test_names_are_unique_over_cases_and_runs() -> None:
    names: list[str] = []

    async def notes(trial: Trial) -> None:
        names.extend((trial.name(), trial.name("g")))

    cases = [planted(f"a.n{number}", notes) for number in range(40)]
    marks = [outcome_of(cases).mark for _ in range(2)]
    assert len(set(names)) == len(names) == 160
    assert sum(f"CONF_{marks[0]}" in name for name in names) == 80


def test_an_answer_to_another_request_is_none() -> None:
    def shifted(asked: Command) -> bytes:
        asked.opaque += 1
        return answer(asked)

    assert the_one(passes, shifted).outcome == FAILED
