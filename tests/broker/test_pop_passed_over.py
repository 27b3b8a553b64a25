"""A pop that ended on its way to the timer is passed over there: never one of two of its name, nor more than the disk knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.engine.unhurried import GATHER_MS
from broker_impl.pop_records import PopRecords
from rmq_store.timer.machine import Timer
from rmq_store.timer.steps import Step
from tests.support.driver import Driver
from tests.support.engine import Harness
from tests.support.memory_disk import MemoryDisk
from tests.support.planting import Plant, find
from tests.support.pop_client import changed
from tests.support.pop_sim import wheel_of_an_hour
from tests.support.popping import ack, change_of, take
from tests.support.requests import send

SECOND_MS = 1_000
TOLD_MAX = 16
COME_AGAIN_MS = 40_000
SAVING_MS = 110
SAVED_MS = 11_000 + 41 * SAVING_MS
"""Progress is saved so often, first ten seconds after the start, and so this time, too."""


def filled(broker: Harness, messages: int) -> Harness:
    client = broker.begun().connect()
    for number in range(messages):
        client.ask(send(queue_id=0), b"m%d" % number)
    broker.driver.advance(2 * GATHER_MS)
    return broker


def again(broker: Harness) -> list[bytes]:
    """What has come again."""
    broker.driver.advance(COME_AGAIN_MS)
    return [one.body for one in broker.stored("%RETRY%G_T")]


def the_power_goes_before_the_end_is_synced(root: Path) -> None:
    """Somebody asks for more time; the log's sync of that is under way when progress of group and timer gets to the disk."""
    disk = MemoryDisk()
    often = {"timerFlushIntervalMs": "10", "flushConsumerOffsetInterval": str(SAVING_MS)}
    broker = filled(Harness("/store", disk=disk, flushDiskType="SYNC_FLUSH", **often), 2)
    driver = broker.driver
    driver.advance(SAVED_MS - GATHER_MS // 2 - broker.env.mono_ms)
    client = broker.connect()
    take(client, count=1)
    driver.advance(1)
    (popped,) = take(client, count=1)
    driver.advance(GATHER_MS // 2)
    driver.held = True
    client.send(change_of(popped, 5 * SECOND_MS))
    for _ in range(GATHER_MS):
        broker.env.advance(1)
        all_but_syncs(driver)
    assert [job.thread for job in driver.jobs] == ["sync"]
    broker.disk = disk.crash("synced")
    broker.open()
    assert b"m1" in again(broker) + [one.body for one in take(broker.connect())]


def all_but_syncs(driver: Driver) -> None:
    for _ in range(3):
        driver.turn()
        for job in [job for job in driver.jobs if job.thread != "sync"]:
            driver.jobs.remove(job)
            job.done(job.run(), None)


def more_time_twice_in_a_millisecond(root: Path) -> None:
    """A client asks once more, others' message between: two check points of one name, and one acknowledgement of both."""
    broker = filled(Harness(root), 6)
    client = broker.connect()
    take(client, count=1)
    broker.driver.advance(1)
    first, popped, last = take(client, count=3)
    broker.driver.advance(100)
    client.ask(change_of(popped, 10 * SECOND_MS))
    client.ask(send("T", 1), b"other")
    new = changed(popped, client.ask(change_of(popped, 10 * SECOND_MS)))
    ack(client, first, last, new)
    assert again(broker) == [b"m0"]


def the_timer_stands_still(root: Path) -> None:
    """It forgets what it was told when that is too much: of no pop the half."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rmq_store.timer.machine.TOLD_MAX", TOLD_MAX)
        broker = filled(Harness(root), 3 * TOLD_MAX)
        client = broker.connect()
        broker.node.config.timer_stop_enqueue = True
        held = take(client, count=1)
        for _ in range(2 * TOLD_MAX):
            ack(client, *held)
            broker.driver.advance(4)
            held = take(client, count=1)
        ack(client, *held)
        broker.driver.advance(2 * GATHER_MS)
        broker.node.config.timer_stop_enqueue = False
        assert not again(broker)
        assert not timer_of(broker)._told


def timer_of(broker: Harness) -> Timer:
    timer = broker.node.timer
    assert timer is not None
    return timer


def what_is_passed_over_rests_on_nothing(patch: pytest.MonkeyPatch) -> None:
    real = Step.passes
    patch.setattr(Step, "passes", lambda self, place, _end_offset: real(self, place, 0))


def names_that_have_gone_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = PopRecords._number

    def number(self: PopRecords, placed: Any) -> int | None:
        found = real(self, placed)
        self._gone_ms = -1
        self._latest.clear()
        return found

    patch.setattr(PopRecords, "_number", number)


def what_belongs_together_is_told_one_by_one(patch: pytest.MonkeyPatch) -> None:
    real = Timer.tell

    def tell(self: Timer, told: Any) -> None:
        for one in told:
            real(self, [one])

    patch.setattr(Timer, "tell", tell)


Scene = Callable[[Path], None]
SCENES: dict[Scene, Plant] = {
    the_power_goes_before_the_end_is_synced: what_is_passed_over_rests_on_nothing,
    more_time_twice_in_a_millisecond: names_that_have_gone_are_forgotten,
    the_timer_stands_still: what_belongs_together_is_told_one_by_one,
}


@pytest.mark.parametrize("scene", SCENES)
def test_nothing_is_lost_and_nothing_comes_twice(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_of_an_hour(monkeypatch)
    scene(tmp_path)


@pytest.mark.parametrize("scene", SCENES)
def test_what_is_planted_is_found(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel_of_an_hour(monkeypatch)
    find(SCENES[scene], scene, tmp_path)
