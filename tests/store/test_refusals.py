"""Directories that a store does not open: in use, with foreign things in them, or damaged where nothing may be cut."""

from __future__ import annotations

import pytest

from rmq_store.disk.disk import Kind, RealDisk
from rmq_store.errors import ForeignFile, StoreDamaged, StoreLocked, StoreRefused
from tests.store.restart_kit import FILE, filled
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small


def refused(disk: MemoryDisk | RealDisk, kind: type[StoreRefused], *parts: str, root: str = ROOT) -> None:
    with pytest.raises(kind) as caught:
        Rig(disk, small(store_path_root_dir=root))
    for part in parts:
        assert part in str(caught.value)


def test_a_second_broker_is_refused_before_a_byte_is_touched() -> None:
    disk, _ = filled(10)
    before = disk.contents()
    refused(disk, StoreLocked, ROOT)
    assert disk.contents() == before


@pytest.mark.parametrize("kind", [Kind.LINK, Kind.OTHER])
@pytest.mark.parametrize(
    "path",
    ["lock", "abort", "checkpoint", "commitlog/1", "consumequeue/T", "consumequeue/T/0", "consumequeue/T/0/1", "index/1"],
)
def test_links_and_devices_are_refused(kind: Kind, path: str) -> None:
    disk = MemoryDisk()
    disk.place(f"{ROOT}/{path}", kind)
    before = disk.contents()
    refused(disk, ForeignFile, path)
    assert {k: v for k, v in disk.contents().items() if not k.endswith("/lock")} == before
    assert disk.locked == set()


@pytest.mark.parametrize(
    ("path", "size", "said"),
    [
        ("commitlog/00000000000000000000", 5000, "bytes"),
        ("commitlog/temp", FILE, "does not belong"),
        ("commitlog/0000000000000000000x", FILE, "does not belong"),
        ("commitlog/00000000000000000077", FILE, "multiple"),
        ("consumequeue/T/0/00000000000000000000", 999, "bytes"),
        ("consumequeue/T/0/notes.txt", 200, "does not belong"),
    ],
)
def test_files_that_java_refuses_are_refused(path: str, size: int, said: str) -> None:
    disk = MemoryDisk()
    disk.make_directories(f"{ROOT}/{path}".rpartition("/")[0])
    disk.create(f"{ROOT}/{path}", size)
    refused(disk, ForeignFile, path, said)


def test_files_that_java_ignores_are_ignored() -> None:
    disk = MemoryDisk()
    stray = ("commitlog/sub/x", "consumequeue/readme", "consumequeue/T/readme", "consumequeue/T/x/y", "index/readme", "stray")
    for path in stray:
        disk.make_directories(f"{ROOT}/{path}".rpartition("/")[0])
        disk.create(f"{ROOT}/{path}", 3)
    rig = Rig(disk)
    rig.put(draft(1))
    rig.reopen()
    assert rig.numbers() == [1]


def test_a_log_that_is_gone_is_not_taken_for_an_empty_store() -> None:
    disk, rig = filled(20)
    rig.store.close(rig.wall_ms)
    for path in disk.contents():
        if "/commitlog/" in path:
            disk.unlink(path)
    before = disk.contents()
    refused(disk, StoreDamaged, "consumequeue")
    assert disk.contents() == before


def test_damage_before_what_was_safe_is_refused_not_cut() -> None:
    disk, rig = filled()
    rig.wait(2000)
    rig.sync()
    rig.wait(1000)
    after = disk.crash("all")
    after.open(f"{ROOT}/commitlog/{2 * FILE:020d}").write_at(0, b"\xff" * 8)
    before = after.contents()
    refused(after, StoreDamaged, "restore")
    for path, data in before.items():
        assert "commitlog" not in path or after.contents()[path] == data


def test_damage_after_a_clean_stop_is_refused_again_and_again() -> None:
    disk, rig = filled()
    rig.store.close(rig.wall_ms)
    disk.open(f"{ROOT}/commitlog/{FILE:020d}").write_at(FILE - 3000, b"\xff" * 2000)
    for path in disk.contents():
        if "/consumequeue/" in path or "/checkpoint" in path:
            disk.unlink(path)
    for _ in range(2):
        refused(disk, StoreDamaged, "holds more")
        assert f"{ROOT}/abort" not in disk.contents()
