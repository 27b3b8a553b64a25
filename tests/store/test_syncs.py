"""The real disk's syncs: what is said to be safe could not be taken by a power cut at that moment (docs/durability.md).

Every other test of power cuts is on a disk in memory; these look at the system calls.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmq_store.disk.config_files import BACKUP_SUFFIX, load_config, persist_config
from rmq_store.disk.disk import RealDisk, write_all
from rmq_store.settings import FlushDiskType
from tests.store.retention_kit import AT_ALL_HOURS
from tests.support.power import Power
from tests.support.store_rig import Rig, draft, small


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(tmp_path, monkeypatch)


def test_a_file_is_safe_when_it_and_its_directory_are_synced(tmp_path: Path, power: Power) -> None:
    disk = RealDisk()
    disk.make_directories(f"{tmp_path}/d")
    file = disk.create(f"{tmp_path}/d/f", 10)
    write_all(file, 0, b"0123456789")
    assert power.lost() == ["d"], "with all that is in it"
    disk.sync_directory(str(tmp_path))
    assert power.lost() == ["d/f"]
    disk.sync_directory(f"{tmp_path}/d")
    assert power.lost() == ["d/f"], "its name is safe, its bytes are not"
    file.sync()
    assert power.lost() == []
    write_all(file, 3, b"x")
    assert power.lost() == ["d/f"]
    file.sync()
    disk.rename(f"{tmp_path}/d/f", f"{tmp_path}/d/g")
    assert power.lost() == ["d/f", "d/g"]
    disk.sync_directory(f"{tmp_path}/d")
    assert power.lost() == []
    disk.unlink(f"{tmp_path}/d/g")
    assert power.lost() == ["d/g"], "it would come back"


def test_a_config_file_is_safe_before_anybody_hears_of_it_and_one_copy_is_at_every_step(tmp_path: Path, power: Power) -> None:
    disk, path = RealDisk(), f"{tmp_path}/store/config/topics.json"
    steps: list[tuple[str, str]] = []

    def one_copy_is_safe(call: str, name: str) -> None:
        lost = {f"{tmp_path}/{one}" for one in power.lost()}
        copies = {copy for copy in (path, path + BACKUP_SUFFIX) if Path(copy).exists()}
        assert copies - lost, f"before {call} of {name} nothing would be left"
        if call != "unlink" or Path(name).exists():
            steps.append((call, name))

    persist_config(disk, path, [b"[1]"])
    assert power.lost() == []
    power.before_naming = one_copy_is_safe
    for text in (b"[2]", b"[3]"):
        persist_config(disk, path, [text])
        assert power.lost() == []
    assert steps == [("link", path), ("replace", f"{path}.bak.tmp"), ("replace", f"{path}.tmp")] * 2
    Path(path).write_bytes(b"torn")
    assert load_config(disk, path, lambda text: text.decode("ascii").index("["), print) == 0
    assert power.lost() == ["store/config/topics.json.broken"], "its name is safe, and nobody's are the bytes"


def rig_at(root: Path, kind: FlushDiskType = FlushDiskType.ASYNC_FLUSH) -> Rig:
    return Rig(RealDisk(), small(store_path_root_dir=str(root), flush_disk_type=kind))


def log_lost(power: Power, rig: Rig) -> list[str]:
    """But for the next file, which is made ahead and has nothing in it."""
    return [path for path in power.lost("commitlog") if path == "commitlog" or int(path[-20:]) < rig.store.written_offset]


@pytest.mark.parametrize("kind", list(FlushDiskType))
def test_what_counts_as_flushed_is_safe_over_several_files(tmp_path: Path, power: Power, kind: FlushDiskType) -> None:
    rig = rig_at(tmp_path, kind)
    for number in range(400):
        rig.put(draft(number))
        if number % 7 == 0:
            assert power.lost("commitlog")
            rig.sync()
            assert rig.store.flushed_offset == rig.store.written_offset
            assert log_lost(power, rig) == []
    assert len(list((tmp_path / "commitlog").iterdir())) > 2
    assert power.lost("consumequeue"), "these are made again from the log"


def test_a_round_of_the_queues_makes_them_safe_and_full_index_files_too(tmp_path: Path, power: Power) -> None:
    rig = rig_at(tmp_path)
    for number in range(100):
        rig.put(draft(number, queue_id=number % 3))
    rig.sync_queues()
    assert power.lost("consumequeue") == []
    for _ in range(20):
        rig.wait(100)
        rig.sync()
    indexes = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert len(indexes) > 2
    assert not set(power.lost("index")) - {f"index/{indexes[-1]}"}, "the newest is still written to"
    assert rig.store.close(rig.wall_ms)


def test_a_clean_stop_leaves_nothing_to_lose_and_its_mark_goes_last(tmp_path: Path, power: Power) -> None:
    rig = rig_at(tmp_path)
    for number in range(100):
        rig.put(draft(number, queue_id=number % 3))
    left: list[list[str]] = []

    def at_the_mark(call: str, path: str) -> None:
        if (call, path) == ("unlink", f"{tmp_path}/abort"):
            left.append(power.lost("commitlog", "consumequeue", "index", "checkpoint"))

    power.before_naming = at_the_mark
    assert rig.store.close(rig.wall_ms)
    assert left == [[]]
    assert power.lost() in ([], ["lock"])
    rig.open()
    assert rig.numbers(queue_id=1) == list(range(1, 100, 3))
    assert rig.store.close(rig.wall_ms)


def test_a_start_after_a_kill_makes_safe_what_it_serves(tmp_path: Path, power: Power) -> None:
    rig = rig_at(tmp_path)
    for number in range(400):
        rig.put(draft(number))
    assert power.lost("commitlog")
    rig.store._lock.release()
    rig.open()
    assert rig.numbers() == list(range(400))
    assert log_lost(power, rig) == []
    assert rig.store.close(rig.wall_ms)


def test_old_files_go_one_by_one_for_good(tmp_path: Path, power: Power) -> None:
    """A cut leaves no gap: each name is gone for good before the next is taken."""
    rig = rig_at(tmp_path)
    rig.store.retain_by(AT_ALL_HOURS)
    for number in range(600):
        rig.put(draft(number))
    rig.sync_queues()
    for path in (tmp_path / "commitlog").iterdir():
        os.utime(path, (0, 0))
    gone: list[str] = []

    def none_comes_back(_call: str, path: str) -> None:
        if "/commitlog/" in path:
            assert log_lost(power, rig) == []
            gone.append(path)

    power.before_naming = none_comes_back
    rig.store.retention.delete_now()
    rig.retain(200_000)
    assert len(gone) > 2
    assert gone == sorted(gone)
    assert log_lost(power, rig) == []
