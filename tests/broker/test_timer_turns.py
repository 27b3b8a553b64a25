"""How much of the timer's work one turn does, however much is due at once, or has come."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.timers import STEPS_PER_TURN
from rmq_store.errors import Cold
from rmq_store.timer.machine import Timer
from rmq_store.timer.steps import DELIVERIES_PER_STEP, ENTRIES_PER_STEP, UNITS_PER_STEP, Step
from tests.support.engine import Harness
from tests.support.requests import pairs, send

MANY = 3 * UNITS_PER_STEP * STEPS_PER_TURN
SLOT_MS = 20_000
SENDERS = 4


class Turns:
    """A broker whose timer's steps are counted, by turn."""

    def __init__(self, harness: Harness, patch: pytest.MonkeyPatch) -> None:
        self.harness = harness
        self.steps: list[list[Step]] = [[]]
        real = Timer.step

        def step(timer: Timer, *given: Any, **more: Any) -> Step:
            done = real(timer, *given, **more)
            self.steps[-1].append(done)
            return done

        patch.setattr(Timer, "step", step)
        engine = harness.node.engine
        settle: Callable[[], Any] = engine.settle

        def settled() -> Any:
            self.steps.append([])
            return settle()

        patch.setattr(engine, "settle", settled)

    def begin(self) -> None:
        self.steps[:] = [[]]

    @property
    def busy(self) -> list[list[Step]]:
        """Of turns in which the timer did something."""
        return [steps for steps in self.steps if steps]


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Turns:
    sizes = {"mappedFileSizeCommitLog": 1 << 24, "mappedFileSizeConsumeQueue": 600_000, "maxIndexNum": 40_000}
    return Turns(Harness(tmp_path, **sizes).begun(), monkeypatch)


def send_many(turns: Turns, count: int) -> None:
    """Due together, from a few who send at once."""
    harness = turns.harness
    due_ms = (harness.env.wall_ms + SLOT_MS) // 1_000 * 1_000
    clients = [harness.connect() for _ in range(SENDERS)]
    asked = send(properties=pairs(UNIQ_KEY="K", TIMER_DELIVER_MS=str(due_ms)))
    harness.driver.run(*[(one, b"".join(one.frame(asked, b"x") for _ in range(count // SENDERS))) for one in clients])


def test_what_is_due_at_once_has_few_steps_of_a_turn(turns: Turns) -> None:
    send_many(turns, MANY)
    turns.harness.driver.advance(SLOT_MS - 2_000)
    turns.begin()
    turns.harness.driver.advance(4_000)
    assert len(turns.harness.stored("T", 0)) == MANY
    for steps in turns.busy:
        assert len(steps) <= STEPS_PER_TURN
        assert sum(step.looked for step in steps) <= STEPS_PER_TURN * (UNITS_PER_STEP + 1)
        assert sum(step.delivered for step in steps) <= DELIVERIES_PER_STEP
        assert all(not step.end_offset for step in steps[:-1]), "what staged something is the last"


def test_what_came_in_a_turn_enters_the_wheel_with_the_next(turns: Turns) -> None:
    """However much: a backlog does not grow while everybody sends.  What is left from before takes some steps in each."""
    turns.harness.node.config.timer_stop_enqueue = True
    send_many(turns, MANY)
    turns.harness.driver.advance(1_000)
    timer = turns.harness.capability(370)._timer
    assert timer.behind == MANY
    turns.harness.node.config.timer_stop_enqueue = False
    turns.begin()
    turns.harness.driver.advance(1_000)
    assert timer.behind == 0
    for steps in turns.busy:
        assert sum(len(step.entries) for step in steps) <= (STEPS_PER_TURN + 1) * ENTRIES_PER_STEP
    turns.begin()
    send_many(turns, MANY)
    turns.harness.driver.advance(1)
    assert timer.behind == 0
    came = max(sum(len(step.entries) for step in steps) for steps in turns.busy)
    assert came > STEPS_PER_TURN * ENTRIES_PER_STEP, "a turn that brought more takes more in"


def test_what_came_while_the_timer_waited_for_the_disk_is_not_one_turns(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are served all the while, and their turns bring more than one turn may take in."""
    driver, store = turns.harness.driver, turns.harness.node.store
    real, cold = store.copies, [True]

    def copies(*asked: Any) -> Any:
        if cold:
            raise Cold(cold.clear, "the log")
        return real(*asked)

    monkeypatch.setattr(store, "copies", copies)
    driver.held = True
    most = turns.harness.node.engine.limits.dispatch_units_max
    for _ in range(most // MANY + 2):
        send_many(turns, MANY)
    timer = turns.harness.capability(370)._timer
    assert timer.behind > most + MANY
    turns.begin()
    driver.held = False
    driver.run()
    driver.advance(1)
    assert timer.behind == 0
    assert max(map(len, turns.busy)) <= STEPS_PER_TURN + most // ENTRIES_PER_STEP
