"""A walk over the log that finds a queue short of units begins anew with the first file, and what stands about it meanwhile."""

from __future__ import annotations

import pytest

from rmq_store.errors import StoreDamaged
from rmq_store.layouts import CHECKPOINT, QUEUE_UNIT
from rmq_store.log.draft import Draft
from rmq_store.recovery import inventory, missing
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import HOST, LIGHT_QUEUES_ON, ROOT, START_MS, Rig, draft, lit, small

FILE_BYTES = 10 * QUEUE_UNIT.size
CHECKPOINT_PATH = f"{ROOT}/checkpoint"


def promised(disk: MemoryDisk) -> int:
    """Up to where in the log the checkpoint says that queues are safe."""
    return int(CHECKPOINT.unpack(disk.contents()[CHECKPOINT_PATH][: CHECKPOINT.size])[-1])


def stop_as_others(rig: Rig, disk: MemoryDisk, checkpoint: bytes) -> None:
    """Cleanly, but with this checkpoint, and without a word of what there is."""
    assert rig.store.close(rig.wall_ms)
    disk.unlink(f"{ROOT}/{inventory.NAME}")
    disk.open(CHECKPOINT_PATH).write_at(0, checkpoint)


def behind(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """As a broker of another kind may stop: the last message is in no queue yet.  A light queue has only its first file left."""
    monkeypatch.setattr(missing, "FIRST_BYTES", 0)  # a longer log hides that, too
    rig = Rig(settings=small(**LIGHT_QUEUES_ON))
    for number in range(40):
        rig.put(lit(number, "%LMQ%a" if number % 2 else "%LMQ%b"))
    rig.sync_queues()
    rig.wait(1_000)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    checkpoint = disk.contents()[CHECKPOINT_PATH]
    rig.put(lit(40, "%LMQ%a"))
    stop_as_others(rig, disk, checkpoint)
    disk.unlink(f"{ROOT}/consumequeue/%LMQ%a/0/{2 * FILE_BYTES:020d}")
    disk.unlink(f"{ROOT}/consumequeue/%LMQ%a/0/{FILE_BYTES:020d}")
    disk.unlink(f"{ROOT}/consumequeue/TopicA/0/{4 * FILE_BYTES:020d}")
    return rig


def test_a_start_that_makes_queues_again_is_none_after_a_clean_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = behind(monkeypatch)
    rig.open()
    report = rig.store.report
    assert (report.stopped_clean, report.clean, report.rebuilt, report.walked_from) == (True, False, True, 0)
    assert rig.numbers("%LMQ%a") == [*range(1, 40, 2), 40]
    assert rig.numbers("%LMQ%b") == list(range(0, 40, 2))
    assert rig.numbers() == list(range(41))


def test_nothing_is_promised_while_queues_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what the medium has when the first of their files goes."""
    rig = behind(monkeypatch)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    assert promised(disk) > 0
    medium = []

    def before(operation: str, path: str) -> None:
        if operation == "unlink" and "/consumequeue/" in path:
            medium.append(promised(disk.crash("synced")))

    disk.before = before
    rig.open()
    assert set(medium) == {0}


def test_after_a_clean_stop_a_last_message_that_ends_with_a_zero_is_whole() -> None:
    """Nobody was killed in the middle of it, though no queue has it."""
    rig = Rig()
    rig.put(draft(0))
    rig.sync_queues()
    rig.wait(1_000)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    checkpoint = disk.contents()[CHECKPOINT_PATH]
    rig.put(Draft("TopicA", 0, b"1:", b"A\x01b\0", START_MS, HOST, HOST))
    stop_as_others(rig, disk, checkpoint)
    disk.open(f"{ROOT}/consumequeue/TopicA/0/{0:020d}").write_at(QUEUE_UNIT.size, bytes(QUEUE_UNIT.size))
    rig.open()
    assert rig.store.report.clean
    assert rig.numbers() == [0, 1]


def test_a_checkpoint_that_names_a_bad_message_at_the_log_s_end_is_believed() -> None:
    """All before it is whole, but it was safe, too."""
    rig = Rig()
    placed = [rig.put(draft(number))[0] for number in range(5)]
    rig.sync_queues()
    rig.wait(1_000)
    disk = rig.disk
    assert isinstance(disk, MemoryDisk)
    assert promised(disk) == placed[-1].physical_offset
    rig.disk = after = disk.crash("all")
    after.boot += 1
    after.open(f"{ROOT}/commitlog/{0:020d}").write_at(placed[-1].physical_offset + 95, b"\xee")
    with pytest.raises(
        StoreDamaged, match=f"good units end at {placed[-1].physical_offset} .*, but {placed[-1].physical_offset} was"
    ):
        rig.open()
