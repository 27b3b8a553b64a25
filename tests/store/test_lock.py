"""One broker writes to a store: what happens to its lock, and to a ticket that is out when it stops."""

from __future__ import annotations

import pytest

from rmq_store.errors import Closed, StoreLocked, Unwritable
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, open_store


def test_who_finds_another_lock_in_its_place_writes_no_more() -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    disk.unlink(f"{ROOT}/lock")
    rig.wait(1_000)
    assert rig.store.refusal is None, "the name was gone, and is made anew"
    with pytest.raises(StoreLocked):
        open_store(rig.settings, disk=disk)
    disk.unlink(f"{ROOT}/lock")
    disk.create(f"{ROOT}/lock", 4)
    rig.wait(1_000)
    assert rig.store.refusal is Closed.FENCED
    with pytest.raises(Unwritable, match="another broker may be writing"):
        rig.put(draft(1))
    assert rig.numbers() == [0]
    assert not rig.store.close(rig.wall_ms), "a store that another may write to is not left as after a clean stop"


def test_a_stop_beside_a_sync_that_hangs_is_no_clean_one() -> None:
    """Its error would be heard by nobody, and the system reports it once: the next start must not believe the page cache."""
    disk = MemoryDisk()
    rig = Rig(disk)
    rig.put(draft(0))
    assert rig.store.begin_sync(rig.mono_ms, True) is not None
    assert not rig.store.close(rig.wall_ms)
    assert f"{ROOT}/abort" in disk.contents()
    assert f"{ROOT}/abort.boot" not in disk.contents()
    rig.open()
    assert rig.numbers() == [0]
