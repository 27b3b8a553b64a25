"""Random days of transactions, and bugs planted into the broker that they find."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from broker_impl.capabilities.transaction_check import TransactionCheck
from broker_impl.capabilities.transactions import Transactions
from broker_impl.half_copies import HalfCopies
from broker_impl.half_messages import HalfMessages
from broker_impl.state.half_messages import EndedHalves, HalfState
from rmq_wire.names import TRANS_OP_HALF_TOPIC
from tests.support.planting import FAILURES, Plant, find_by_seed
from tests.support.transaction_sim import day

DAYS = 15
SEEDS_MAX = 40


@pytest.mark.parametrize("seed", range(DAYS))
def test_a_day(seed: int, tmp_path: Path) -> None:
    day(seed, tmp_path)


def an_end_is_not_noted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HalfMessages, "_gather", lambda *_: None)


def a_check_passes_them_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionCheck, "_look_at", lambda *_: None)


def ends_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = EndedHalves.state
    patch.setattr(
        EndedHalves, "state", lambda self, offset: HalfState.PASSED if real(self, offset) is HalfState.PASSED else HalfState.OPEN
    )


def what_was_rolled_back_may_be_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "_still_open", lambda _self, half, _topic: half.unit.queue_offset)


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


PLANTS: tuple[Plant, ...] = (
    an_end_is_not_noted,
    a_check_passes_them_over,
    ends_are_forgotten,
    what_was_rolled_back_may_be_committed,
    op_messages_are_passed_with_a_gap,
    a_late_end_does_not_find_the_copy,
    a_crash_is_not_thought_of,
    a_stop_forgets_ends,
    the_neighbour_ends,
    progress_is_one_too_far,
)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_planted(plant: Plant) -> None:
    def play(seed: int) -> None:
        with tempfile.TemporaryDirectory() as root:
            day(seed, Path(root))

    find_by_seed(plant, play, range(SEEDS_MAX), by=(*FAILURES, StopIteration))
