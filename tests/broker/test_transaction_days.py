"""Random days of transactions, and bugs planted into the broker that they find."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.transaction_check import TransactionCheck
from broker_impl.capabilities.transactions import Transactions
from broker_impl.half_copies import HalfCopies
from broker_impl.half_messages import HalfMessages
from broker_impl.state.ended_halves import EndedHalves, HalfState
from rmq_wire.implied import transactions as rule
from rmq_wire.names import TRANS_GROUP, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from tests.support.engine import Harness
from tests.support.node_ids import function_of
from tests.support.planting import Plant, find, find_by_seed
from tests.support.transaction_sim import day
from tests.support.transactions import learn_at_once

DAYS = 15
SEEDS_MAX = 40


@pytest.mark.parametrize("seed", range(DAYS))
def test_a_day(seed: int, tmp_path: Path) -> None:
    day(seed, tmp_path)


@pytest.mark.parametrize("seed", range(DAYS))
def test_a_busy_day(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of half messages that take the fast path."""
    learn_at_once(monkeypatch)
    day(seed, tmp_path)


def an_end_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfMessages, "_gather", lambda *_: None)


def a_check_passes_them_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCheck, "_look_at", lambda *_: 0)


def ends_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = EndedHalves.state
    patch.setattr(
        EndedHalves, "state", lambda self, offset: HalfState.PASSED if real(self, offset) is HalfState.PASSED else HalfState.OPEN
    )


def what_was_rolled_back_may_be_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "_still_open", lambda _self, half, _topic: (half.unit.queue_offset, half.unit.physical_offset))


def op_messages_are_passed_with_a_gap(patch: pytest.MonkeyPatch) -> None:
    def finish(self: TransactionCheck, queue_id: int) -> Generator[Any]:
        self._halves.say(queue_id, self._store.queue_bounds(TRANS_OP_HALF_TOPIC, queue_id)[1])
        yield None

    patch.setattr(TransactionCheck, "_finish", finish)


def a_late_end_does_not_find_the_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfCopies, "newest", lambda *_: None)


def a_crash_is_not_thought_of(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfCopies, "is_settled", lambda *_: False)


def a_stop_forgets_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfMessages, "stop", lambda _: None)


def the_neighbour_ends(patch: pytest.MonkeyPatch) -> None:
    real = EndedHalves.end
    patch.setattr(EndedHalves, "end", lambda self, offset: real(self, offset + 1))


def progress_is_one_too_far(patch: pytest.MonkeyPatch) -> None:
    real = EndedHalves.pass_to
    patch.setattr(EndedHalves, "pass_to", lambda self, offset: real(self, offset + 1))


SEEDS_OF_BUGS: dict[Plant, int] = {
    an_end_is_not_noted: 0,
    a_check_passes_them_over: 0,
    ends_are_forgotten: 0,
    what_was_rolled_back_may_be_committed: 0,
    a_late_end_does_not_find_the_copy: 0,
    a_crash_is_not_thought_of: 0,
    a_stop_forgets_ends: 0,
    the_neighbour_ends: 0,
    progress_is_one_too_far: 0,
}
"""Bug: the first seed that finds it."""


def every_copy_counts_the_same_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("rmq_wire.implied.transactions.asked_values", lambda values: dict(values))


def progress_is_said_at_once(patch: pytest.MonkeyPatch) -> None:
    def say(self: HalfMessages, queue_id: int, op_first: int) -> None:
        self._offsets.commit(TRANS_GROUP, TRANS_HALF_TOPIC, queue_id, self.first(queue_id))

    patch.setattr(HalfMessages, "say", say)


def a_young_one_is_asked_about(patch: pytest.MonkeyPatch) -> None:
    real = rule.verdict
    patch.setattr(
        "rmq_wire.implied.transactions.verdict",
        lambda values, born_ms, now_ms, rules: real(values, born_ms - 1, now_ms, rules),
    )


BY_TEST: dict[Plant, str] = {
    op_messages_are_passed_with_a_gap: "test_op_messages_are_passed_without_gap",
    every_copy_counts_the_same_check: "test_attack_22_asked_fifteen_times_and_given_up",
    progress_is_said_at_once: "test_progress_is_said_when_the_disk_has_the_copies",
    a_young_one_is_asked_about: "test_one_that_is_six_seconds_old_is_left_in_peace",
}


@pytest.mark.parametrize("plant", BY_TEST, ids=lambda plant: plant.__name__)
def test_planted_and_found_by_a_test(plant: Plant, tmp_path: Path) -> None:
    harness = Harness(tmp_path).begun()
    check = function_of(f"tests/broker/test_transaction_check.py::{BY_TEST[plant]}")
    with pytest.MonkeyPatch.context() as patch:
        arguments = (harness, patch) if "monkeypatch" in inspect.signature(check).parameters else (harness,)
        find(plant, check, *arguments)


def play(seed: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        day(seed, Path(root))


@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_planted(plant: Plant) -> None:
    find_by_seed(plant, play, [SEEDS_OF_BUGS[plant]])


@pytest.mark.nightly
@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first(plant: Plant) -> None:
    assert find_by_seed(plant, play, range(SEEDS_MAX)) == SEEDS_OF_BUGS[plant]
