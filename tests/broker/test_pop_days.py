"""Random days of POP, and bugs planted into the broker that they find."""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker_impl.capabilities.pop_ends import PopEnds
from broker_impl.capabilities.pop_revive import NotNow, PopRevive
from broker_impl.engine.engine import Engine
from broker_impl.intake import NotTaken
from broker_impl.pop_polling import PopPolling
from broker_impl.pop_records import PopRecords
from broker_impl.pop_selection import PopSelection
from broker_impl.state.consumer_offsets import ConsumerOffsets
from broker_impl.state.order_info import OrderInfos
from broker_impl.state.pop_lines import PopLines, QueueOfGroup, Stretch
from broker_impl.state.pop_waits import Choice, Place, PopWait, PopWaits
from broker_impl.state.revive_queue import ReviveQueue
from broker_impl.state.safe_progress import SafeProgress
from rmq_wire.bodies.pop import AckMsg, PopCheckPoint
from rmq_wire.errors import BadReceipt
from rmq_wire.headers.pop import AckMessage
from rmq_wire.message import StoredMessage
from tests.support.engine import Harness
from tests.support.night_seeds import each_of_the_night
from tests.support.node_ids import function_of
from tests.support.planting import FAILURES, Errors, Plant, find, find_by_seed
from tests.support.pollers import Pollers
from tests.support.pop_sim import day, hard_day, power_day

DAYS = 60
CALM_DAYS = 30
DAYS_WITHOUT_POWER = 30
"""All that is planted below shows by day 32, and where the power goes by day 11."""
DAYS_BY_NIGHT = 1_000
"""Others for each commit, as everywhere by night.  A quarter of a second each where the power goes, a tenth where it does not."""
DAYS_OF_FEW = 15
HARD_DAYS = 30


FOUND_BY_NIGHT = (6310346,)
"""An acknowledgement on its way to the timer at a stop, due at the start, came before its check point, which that moved."""
FOUND_BY_NIGHT_OF_POWER = (373737,)
"""What came again was handed out, the power took it, and the broker was told that it was consumed."""


@pytest.mark.parametrize("seed", [*range(DAYS), *FOUND_BY_NIGHT])
def test_a_day(seed: int, tmp_path: Path) -> None:
    day(seed, tmp_path)


@pytest.mark.parametrize("seed", range(CALM_DAYS))
def test_a_calm_day(seed: int, tmp_path: Path) -> None:
    """Without kills, clocks that are set and full disks the model allows nothing twice."""
    day(seed, tmp_path, calm=True)


@pytest.mark.parametrize("seed", range(DAYS_OF_FEW))
@pytest.mark.parametrize("calm", [False, True])
def test_a_day_with_room_for_few_check_points(seed: int, calm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others wait in the revive topic, and the acknowledgements behind them."""
    monkeypatch.setattr("broker_impl.state.revive_queue.OPEN_MAX", 2)
    day(seed, tmp_path, calm=calm)


@pytest.mark.parametrize("seed", range(HARD_DAYS))
def test_a_day_of_troubles_in_twos(seed: int, tmp_path: Path) -> None:
    """A kill, then another before what the first held up has come; a clock that is set, or a full disk, and then a kill."""
    hard_day(seed, tmp_path)


@pytest.mark.parametrize("seed", [*range(DAYS_WITHOUT_POWER), *FOUND_BY_NIGHT_OF_POWER])
@pytest.mark.parametrize("sync_flush", [False, True])
def test_a_day_on_which_the_power_goes(seed: int, sync_flush: bool) -> None:
    power_day(seed, sync_flush=sync_flush)


@pytest.mark.nightly
@pytest.mark.parametrize("sync_flush", [False, True])
def test_many_days_on_which_the_power_goes(sync_flush: bool) -> None:
    each_of_the_night(DAYS_BY_NIGHT, lambda seed: power_day(seed, sync_flush=sync_flush))


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [day, partial(day, calm=True), hard_day], ids=["any", "calm", "hard"])
def test_many_days(kind: Callable[[int, Path], None], tmp_path: Path) -> None:
    def play(seed: int) -> None:
        with tempfile.TemporaryDirectory(dir=tmp_path) as root:
            kind(seed, Path(root))

    each_of_the_night(DAYS_BY_NIGHT, play)


# Acknowledgements and check points


def an_ack_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopEnds, "_put_ack", lambda *_: 0)


def an_ack_of_another_pop_time_counts(patch: pytest.MonkeyPatch) -> None:
    real = ReviveQueue.take

    def take(self: ReviveQueue, record: PopCheckPoint | AckMsg, offset: int) -> None:
        if isinstance(record, AckMsg):
            for pop in self._named:
                if (pop.topic, pop.group, pop.start_offset) == (record.topic, record.group, record.start_offset):
                    record.pop_time = pop.pop_time
        real(self, record, offset)

    patch.setattr(ReviveQueue, "take", take)


def a_part_of_a_pop_ends_it(patch: pytest.MonkeyPatch) -> None:
    real = PopRecords._end

    def end(self: PopRecords, name: Any, fresh: Any, acked: Sequence[int], *record: int) -> None:
        fresh.left = acked
        real(self, name, fresh, acked, *record)

    patch.setattr(PopRecords, "_end", end)


def the_check_point_follows_the_answer(patch: pytest.MonkeyPatch) -> None:
    def check_point(self: PopSelection, queue: QueueOfGroup, offset: int, offsets: Sequence[int], next_offset: int) -> bool:
        parts = self.parts
        parts.lines.settle(parts.lines.open(queue, next_offset))
        distances = [number - offset for number in offsets]
        invisible_ms = self.asked.invisible_time
        point = PopCheckPoint(
            offset, self.pop_ms, invisible_ms, 0, len(offsets), queue.queue_id, queue.topic, queue.group, 0, distances, "broker-a"
        )

        def put() -> None:
            try:
                parts.records.put_check_point(point, self.revive_queue, parts.env.wall_ms)
            except NotTaken:
                return

        parts.engine.at(parts.env.mono_ms + 1, put)
        return True

    patch.setattr(PopSelection, "_check_point", check_point)


def progress_before_the_check_point(patch: pytest.MonkeyPatch) -> None:
    real = PopLines.open

    def opened(self: PopLines, place: QueueOfGroup, next_offset: int, count: int = 0) -> Stretch:
        self._offsets.commit(place.group, place.topic, place.queue_id, next_offset)
        return real(self, place, next_offset, count)

    patch.setattr(PopLines, "open", opened)


def bits_from_one_on(patch: pytest.MonkeyPatch) -> None:
    real = PopCheckPoint.index_of
    patch.setattr(PopCheckPoint, "index_of", lambda self, offset: real(self, offset) + 1)


def progress_out_of_order(patch: pytest.MonkeyPatch) -> None:
    """P5."""

    def settle(self: PopLines, stretch: Stretch) -> None:
        line = self._line(stretch.place)
        if line and stretch in line:
            line.remove(stretch)
            if not line:
                self._drop(stretch.place)
        topic, group, queue_id = stretch.place
        if stretch.next_offset > self._offsets.query(group, topic, queue_id):
            self._offsets.commit_resting(group, topic, queue_id, stretch.next_offset, stretch.end_offset)

    patch.setattr(PopLines, "settle", settle)


def more_time_ends_the_old_time_first(patch: pytest.MonkeyPatch) -> None:
    """P10: a crash between the two loses the message."""
    real = PopRecords.put_check_point

    def put(self: PopRecords, point: PopCheckPoint, revive_queue: int, now_ms: int) -> Any:
        if sys._getframe(2).f_code.co_name != "change":  # between them is who watches the plant
            return real(self, point, revive_queue, now_ms)

        def later() -> None:
            with suppress(NotTaken):
                real(self, point, revive_queue, now_ms)

        engine = ENGINES[-1]
        engine.at(engine.env.mono_ms + 1, later)
        return SimpleNamespace(end_offset=0)

    patch.setattr(PopRecords, "put_check_point", put)
    made = Engine.__init__

    def init(self: Engine, *given: Any, **more: Any) -> None:
        made(self, *given, **more)
        ENGINES[:] = (self,)

    patch.setattr(Engine, "__init__", init)


ENGINES: list[Engine] = []
"""Of the day that is played."""


def the_last_of_a_queue_cannot_be_acknowledged(patch: pytest.MonkeyPatch) -> None:
    """P13."""
    real = PopEnds._check_queue

    def check(self: PopEnds, peer: Any, asked: Any) -> tuple[int, int]:
        low, high = real(self, peer, asked)
        return low, high - 2 if isinstance(asked, AckMessage) else high

    patch.setattr(PopEnds, "_check_queue", check)


# Revival


def what_is_acked_comes_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopCheckPoint, "has_bit", lambda _self, _index: False)


def revived_twice(patch: pytest.MonkeyPatch) -> None:
    real = PopRevive._copy

    def copy(self: PopRevive, point: PopCheckPoint, topic: str, original: StoredMessage) -> int:
        real(self, point, topic, original)
        return real(self, point, topic, original)

    patch.setattr(PopRevive, "_copy", copy)


def the_neighbour_comes_again(patch: pytest.MonkeyPatch) -> None:
    def original(self: PopRevive, pop: Any, offset: int) -> StoredMessage | None:
        from rmq_wire.message import read_unit

        read = self._store.read_queue(pop.topic, pop.queue_id, offset + 1, 1, 1 << 20)
        return read_unit(read.chunks[0]) if read.message_count else None

    patch.setattr(PopRevive, "_original", original)


def revived_before_the_ack_is_due(patch: pytest.MonkeyPatch) -> None:
    real = ReviveQueue.__init__

    def made(self: ReviveQueue, *arguments: Any) -> None:
        real(self, *arguments)
        self._due_after_ms = -(1 << 40)

    patch.setattr(ReviveQueue, "__init__", made)


def progress_of_revival_is_one_too_far(patch: pytest.MonkeyPatch) -> None:
    real = ReviveQueue.done.fget
    assert real is not None
    patch.setattr(ReviveQueue, "done", property(lambda self: real(self) + 1))


def progress_of_revival_is_one_too_near(patch: pytest.MonkeyPatch) -> None:
    real = ReviveQueue.done.fget
    assert real is not None
    patch.setattr(ReviveQueue, "done", property(lambda self: real(self) - 1))


def a_failed_copy_is_passed_over(patch: pytest.MonkeyPatch) -> None:
    real = PopRevive._copy

    def copy(self: PopRevive, point: PopCheckPoint, topic: str, original: StoredMessage) -> int:
        try:
            return real(self, point, topic, original)
        except NotTaken:
            return 0

    patch.setattr(PopRevive, "_copy", copy)


def attempts_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("rmq_wire.implied.pop.revived_times", lambda _point, reconsume_times: reconsume_times)


def attempts_are_counted_that_were_put_off(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("rmq_wire.implied.pop.revived_times", lambda _point, reconsume_times: reconsume_times + 1)


def retry_topics_are_mixed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("rmq_wire.pop_receipt.flag_of", lambda topic: "2" if topic.startswith("%RETRY%") else "0")


def retries_are_acked_as_first_deliveries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("rmq_wire.pop_receipt.flag_of", lambda _topic: "0")


def a_reset_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerOffsets, "assign_reset", lambda *_: None)


# Order


def order_is_not_blocked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OrderInfos, "is_blocked", lambda *_: False)


def another_attempt_lifts_the_block(patch: pytest.MonkeyPatch) -> None:
    real = OrderInfos.is_blocked

    def is_blocked(self: OrderInfos, attempt: str | None, topic: str, group: str, queue_id: int, invisible_ms: int) -> bool:
        return attempt is None and real(self, attempt, topic, group, queue_id, invisible_ms)

    patch.setattr(OrderInfos, "is_blocked", is_blocked)


def progress_beyond_an_open_batch(patch: pytest.MonkeyPatch) -> None:
    real = OrderInfos.commit_and_next

    def commit_and_next(self: OrderInfos, topic: str, group: str, queue_id: int, offset: int, pop_ms: int, committed: int) -> int:
        following = real(self, topic, group, queue_id, offset, pop_ms, committed)
        return offset + 1 if following >= 0 else following

    patch.setattr(OrderInfos, "commit_and_next", commit_and_next)


def progress_at_the_end_of_the_batch(patch: pytest.MonkeyPatch) -> None:
    real = PopSelection._ordered

    def ordered(self: PopSelection, queue: QueueOfGroup, offset: int, offsets: Sequence[int], flag: str) -> None:
        real(self, queue, offset, offsets, flag)
        self.parts.offsets.commit(queue.group, queue.topic, queue.queue_id, offsets[-1] + 1)

    patch.setattr(PopSelection, "_ordered", ordered)


def a_restart_begins_the_invisible_time_anew(patch: pytest.MonkeyPatch) -> None:
    real = OrderInfos.take

    def take(self: OrderInfos, document: dict[str, Any]) -> None:
        real(self, document)
        for row in self._rows.rows.values():
            for info in row.values():
                info.pop_time = self._env.wall_ms

    patch.setattr(OrderInfos, "take", take)


# When the power goes


def progress_does_not_wait_for_the_disk(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SafeProgress, "of", lambda _self, _key, row: row)


def progress_of_revival_does_not_wait_for_its_copies(patch: pytest.MonkeyPatch) -> None:
    real = PopRevive._note_progress
    patch.setattr(PopRevive, "_note_progress", lambda self, queue, _end_offset=0: real(self, queue))


SEEDS_MAX = 150
"""In which each bug must be found."""
SEEDS_OF_BUGS: dict[Plant, int] = {
    an_ack_is_lost: 0,
    an_ack_of_another_pop_time_counts: 0,
    a_part_of_a_pop_ends_it: 17,
    the_check_point_follows_the_answer: 2,
    progress_before_the_check_point: 3,
    bits_from_one_on: 2,
    progress_out_of_order: 65,
    the_last_of_a_queue_cannot_be_acknowledged: 0,
    what_is_acked_comes_again: 2,
    revived_twice: 0,
    the_neighbour_comes_again: 0,
    revived_before_the_ack_is_due: 0,
    progress_of_revival_is_one_too_far: 3,
    progress_of_revival_is_one_too_near: 2,
    a_failed_copy_is_passed_over: 57,
    attempts_are_not_counted: 0,
    attempts_are_counted_that_were_put_off: 9,
    retry_topics_are_mixed: 0,
    retries_are_acked_as_first_deliveries: 0,
    a_reset_is_ignored: 0,
    order_is_not_blocked: 2,
    another_attempt_lifts_the_block: 2,
    progress_beyond_an_open_batch: 2,
    progress_at_the_end_of_the_batch: 0,
    a_restart_begins_the_invisible_time_anew: 8,
}
"""Bug: the first day of either kind that finds it (`play`)."""
OTHERWISE: dict[Plant, Errors] = {retries_are_acked_as_first_deliveries: BadReceipt}
"""Found by another error than a failed check."""
SEEDS_OF_BUGS_OF_POWER: dict[Plant, int] = {
    progress_does_not_wait_for_the_disk: 11,
    progress_of_revival_does_not_wait_for_its_copies: 0,
}


def play(seed: int) -> None:
    """A day of either kind."""
    with tempfile.TemporaryDirectory() as root:
        day(seed // 2, Path(root), calm=seed % 2 == 0)


def play_of_power(seed: int) -> None:
    power_day(seed, sync_flush=False)


@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_planted(plant: Plant) -> None:
    find_by_seed(plant, play, [SEEDS_OF_BUGS[plant]], OTHERWISE.get(plant, FAILURES))


@pytest.mark.parametrize("plant", SEEDS_OF_BUGS_OF_POWER, ids=lambda plant: plant.__name__)
def test_planted_and_found_when_the_power_goes(plant: Plant) -> None:
    find_by_seed(plant, play_of_power, [SEEDS_OF_BUGS_OF_POWER[plant]])


@pytest.mark.nightly
@pytest.mark.parametrize("plant", SEEDS_OF_BUGS, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first(plant: Plant) -> None:
    assert find_by_seed(plant, play, range(SEEDS_MAX), OTHERWISE.get(plant, FAILURES)) == SEEDS_OF_BUGS[plant]


@pytest.mark.nightly
@pytest.mark.parametrize("plant", SEEDS_OF_BUGS_OF_POWER, ids=lambda plant: plant.__name__)
def test_the_pinned_seed_is_the_first_when_the_power_goes(plant: Plant) -> None:
    assert find_by_seed(plant, play_of_power, range(SEEDS_MAX)) == SEEDS_OF_BUGS_OF_POWER[plant]


# Those that wait


def a_poller_is_lost_between_look_and_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopPolling, "notify_soon", lambda *_: None)


def who_is_woken_waits_on(patch: pytest.MonkeyPatch) -> None:
    def take(self: PopWaits, place: Place, choice: Choice, count: int, *, last: bool) -> list[PopWait]:
        return self._by_place.get(place, {}).get(choice, [])[:count]

    patch.setattr(PopWaits, "take", take)


def the_wrong_end_is_woken(patch: pytest.MonkeyPatch) -> None:
    real = PopWaits.take
    patch.setattr(PopWaits, "take", lambda self, place, choice, count, *, last: real(self, place, choice, count, last=not last))


def retries_wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PopWaits, "retried", lambda *_: [])


def time_begins_anew(patch: pytest.MonkeyPatch) -> None:
    real = PopPolling.hold
    patch.setattr(
        PopPolling, "hold", lambda self, pending, asked, wanted, until_ms=None, *, since=None: real(self, pending, asked, wanted)
    )


BY_TEST: dict[Plant, str] = {
    a_poller_is_lost_between_look_and_wait: "test_what_came_while_one_looked_wakes_it",
    who_is_woken_waits_on: "test_a_message_wakes_one_of_each_kind_of_each_group",
    the_wrong_end_is_woken: "test_a_selector",
    retries_wake_nobody: "test_a_retry_wakes_its_group_whatever_they_want",
    time_begins_anew: "test_it_waits_for_the_rest_of_its_time_however_the_clock_is_set",
}


# Found by a test each: chance seldom leads there


def a_queue_stays_locked_after_an_error(patch: pytest.MonkeyPatch) -> None:
    """P14."""
    patch.setattr(PopSelection, "give_up", lambda _self: None)


def what_is_of_nobody_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    """P15: check points of a group or topic that is gone."""
    real = PopRevive._is_wanted

    def is_wanted(self: PopRevive, point: PopCheckPoint) -> bool:
        if not real(self, point):
            raise NotNow
        return True

    patch.setattr(PopRevive, "_is_wanted", is_wanted)


BY_FAULT: dict[Plant, str] = {
    more_time_ends_the_old_time_first: "test_pop_trouble.py::test_more_time_outlives_a_kill",
    a_queue_stays_locked_after_an_error: "test_pop_faults.py::test_what_cannot_be_read_is_an_error_and_locks_nobody_out",
    what_is_of_nobody_waits_for_ever: "test_pop_trouble.py::test_what_is_of_nobody_holds_nobody_up",
}


@pytest.mark.parametrize("plant", BY_FAULT, ids=lambda plant: plant.__name__)
def test_planted_and_found_by_a_fault(plant: Plant, tmp_path: Path) -> None:
    check = function_of(f"tests/broker/{BY_FAULT[plant]}")

    def checked() -> None:
        broker = Harness(tmp_path, reviveQueueNum=1).begun()
        with pytest.MonkeyPatch.context() as patch:
            given = {"broker": broker, "client": broker.connect(), "monkeypatch": patch, "gone": "group"}
            check(**{name: given[name] for name in inspect.signature(check).parameters})

    find(plant, checked)


@pytest.mark.parametrize("plant", BY_TEST, ids=lambda plant: plant.__name__)
def test_planted_and_found_by_a_test(plant: Plant, tmp_path: Path) -> None:
    find(plant, function_of(f"tests/broker/test_pop_waits.py::{BY_TEST[plant]}"), Pollers(tmp_path))
