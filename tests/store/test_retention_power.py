"""What a power cut leaves of a queue whose beginning retention has deleted: its offsets never begin anew.

Found by life 1014534 of the simulation.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from rmq_store.retention import HOUR_MS, Retention
from tests.store.retention_kit import filled
from tests.support.memory_disk import MemoryDisk
from tests.support.planting import find
from tests.support.store_rig import Rig, draft

TOPIC = "Rare"
OLD = 10
"""Messages that fill the topic's first queue file; their log file goes."""


def with_one_late_message() -> Rig:
    """Everything is on the medium but one message, the first of its queue's second file."""
    disk = MemoryDisk()
    first = Rig(disk)
    for number in range(OLD):
        first.put(draft(200_000 + number, TOPIC))
    assert first.store.close(first.wall_ms)
    rig = filled(disk=disk)
    rig.put(draft(300_000, TOPIC))
    return rig


def queue_files(rig: Rig) -> list[str]:
    assert isinstance(rig.disk, MemoryDisk)
    return [path.rpartition("/")[2] for path in rig.disk.contents() if f"/{TOPIC}/" in path]


def after_power_cut(rig: Rig) -> Rig:
    assert isinstance(rig.disk, MemoryDisk)
    return Rig(rig.disk.crash("synced"), rig.settings, rig.wall_ms)


def test_the_last_file_whose_successor_is_not_flushed_stays() -> None:
    rig = with_one_late_message()
    rig.retain(73 * HOUR_MS)
    assert rig.store.min_offset > 0
    assert len(queue_files(rig)) == 2
    after = after_power_cut(rig)
    for _ in range(2):
        assert after.store.queue_bounds(TOPIC, 0) == (OLD, OLD)
        after.reopen()
    rig.sync()
    rig.retain(1 * HOUR_MS)
    assert len(queue_files(rig)) == 1, "as soon as it may"


def test_what_is_flushed_comes_back_from_the_log() -> None:
    rig = with_one_late_message()
    rig.sync()
    rig.retain(73 * HOUR_MS)
    assert len(queue_files(rig)) == 1
    after = after_power_cut(rig)
    for _ in range(2):
        assert after.store.queue_bounds(TOPIC, 0) == (OLD, OLD + 1)
        after.reopen()


def whatever_is_flushed(patch: pytest.MonkeyPatch) -> None:
    """The last file goes."""

    def always(*_: object) -> Generator[Any, None, bool]:
        return True
        yield

    patch.setattr(Retention, "_is_flushed", always)


def test_it_finds_the_bug() -> None:
    find(whatever_is_flushed, test_the_last_file_whose_successor_is_not_flushed_stays)
