"""Zeros in what no check sum covers: sent so, or left by a power cut."""

from __future__ import annotations

from rmq_store.log.draft import Draft
from rmq_wire.message import read_unit
from tests.store.restart_kit import reopened
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import Rig, draft


def with_zeros(number: int) -> Draft:
    """A message with more than a sector of zeros in its properties."""
    sent = draft(number)
    sent.properties += b"user\x01" + bytes(2000) + b"\x02"
    return sent


def test_zeros_that_a_client_sent_survive_a_kill() -> None:
    """After a kill nothing is missing, so a sector of zeros in properties is what was sent; after a power cut it is not."""
    disk = MemoryDisk()
    rig = Rig(disk)
    sent = with_zeros(0)
    rig.put(sent)
    killed = reopened(rig, disk.crash("all"))
    assert killed.numbers() == [0]
    [unit] = [killed.store.lookup(0)]
    assert unit is not None
    assert read_unit(unit).properties == sent.properties
    rig.sync()
    rig.wait(1500)
    rig.put(draft(1))
    rig.sync()
    assert reopened(rig, disk.crash("synced")).numbers() == [], "stored when nothing was known to be safe"


def test_zeros_that_were_safe_survive_a_power_cut() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(with_zeros(0))
    rig.sync()
    rig.wait(10)
    rig.put(draft(1))
    rig.sync()
    rig.wait(1500)
    rig.store._checkpoint.file.sync()
    assert reopened(rig, disk.crash("synced")).numbers() == [0, 1]


def with_clock_set_back() -> tuple[MemoryDisk, Rig]:
    """A store whose clock is set back an hour when five messages are safe."""
    rig = Rig()
    for number in range(5):
        rig.put(draft(number))
    rig.sync_queues()
    rig.wait(2000)
    rig.wall_ms -= 3_600_000
    return rig.disk, rig


def test_what_came_after_the_clock_was_set_back_may_be_torn_too() -> None:
    disk, rig = with_clock_set_back()
    sent = draft(5)
    sent.properties += b"user\x01" + b"u" * 1500 + b"\x02"
    [at] = rig.put(sent)
    rig.put(draft(6))
    after = disk.crash("all")
    after.boot += 1
    after.open("/store/commitlog/" + "0" * 20).write_at((at.physical_offset + 700) // 512 * 512, bytes(512))
    assert reopened(rig, after).numbers() == [0, 1, 2, 3, 4]


def test_zeros_that_were_safe_before_the_clock_was_set_back_survive() -> None:
    disk, rig = with_clock_set_back()
    rig.put(with_zeros(5))
    rig.put(draft(6))
    rig.sync_queues()
    rig.wait(2000)
    rig.store._checkpoint.file.sync()
    after = disk.crash("synced")
    after.unlink("/store/consumequeue/TopicA/0/" + "0" * 20)  # so that everything is looked at
    assert reopened(rig, after).numbers() == [0, 1, 2, 3, 4, 5, 6]
