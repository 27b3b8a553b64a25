"""Things in a store directory that do not belong there: links and strays are not followed or removed, lengths not believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmq_store.disk.config_files import load_config, persist_config
from rmq_store.disk.disk import RealDisk
from rmq_store.errors import ForeignFile, StoreRefused
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, START_MS, Rig, draft, small


def test_deleting_a_topic_leaves_what_is_not_a_queue_file(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "00000000000000000000").write_bytes(b"precious")
    root = tmp_path / "store"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(root)))
    rig.put(draft(1))
    queue = root / "consumequeue" / "TopicA" / "0"
    (queue / "notes.txt").write_text("mine")
    os.symlink(outside, queue / "00000000000000000200")
    os.symlink(outside, root / "consumequeue" / "TopicA" / "7")
    assert rig.store.delete_topics(["TopicA"]) == 1
    assert sorted(os.listdir(queue)) == ["00000000000000000200", "notes.txt"]
    assert (outside / "00000000000000000000").read_bytes() == b"precious"
    rig.store.close(START_MS)


def test_a_link_in_the_way_of_a_new_queue_file_is_not_written_through(tmp_path: Path) -> None:
    root, target = tmp_path / "store", tmp_path / "target"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(root)))
    directory = root / "consumequeue" / "TopicA" / "0"
    directory.mkdir(parents=True)
    os.symlink(target, directory / f"{0:020d}")
    rig.put(draft(1))
    assert rig.store.refusal is not None
    assert not target.exists()
    rig.store.close(START_MS)


def test_a_directory_in_the_way_of_a_new_queue_file_is_named(tmp_path: Path) -> None:
    """It said `File exists`, of a file that was never there."""
    (tmp_path / f"{0:020d}").mkdir()
    with pytest.raises(FileExistsError, match="not a regular file, move it away"):
        RealDisk().create(f"{tmp_path}/{0:020d}", 0)


def test_configuration_is_not_read_or_written_through_a_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("[1]")
    (tmp_path / "config").mkdir()
    path = f"{tmp_path}/config/topics.json"
    os.symlink(secret, path)
    with pytest.raises((ForeignFile, OSError)):
        load_config(RealDisk(), path, lambda data: data, print)
    try:
        persist_config(RealDisk(), path, [b"[2]"])
    except (ForeignFile, OSError):
        pass
    assert secret.read_text() == "[1]"


def test_a_link_for_a_whole_configured_directory_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "big disk").mkdir()
    os.symlink(tmp_path / "big disk", tmp_path / "store")
    rig = Rig(RealDisk(), small(store_path_root_dir=f"{tmp_path}/store"))
    rig.put(draft(1))
    rig.reopen()
    assert rig.numbers() == [1]
    assert (tmp_path / "big disk" / "commitlog").is_dir()
    rig.store.close(START_MS)


@pytest.mark.parametrize("size", [(1 << 31) - 1, -1, 0, 5, 91, 1 << 24])
@pytest.mark.parametrize("clean", [True, False])
def test_units_of_impossible_length(size: int, clean: bool) -> None:
    disk = MemoryDisk()
    rig = Rig(disk)
    placed = [one for number in range(20) for one in rig.put(draft(number))]
    if clean:
        rig.store.close(START_MS)
    after = disk.crash("all")
    after.open(f"{ROOT}/commitlog/{0:020d}").write_at(placed[12].physical_offset, size.to_bytes(4, "big", signed=True))
    try:
        again = Rig(after)
    except StoreRefused:
        return
    assert again.store.lookup(placed[12].physical_offset) is None or clean
    assert again.numbers()[:12] == list(range(12)) if not clean else True
    again.put(draft(30))
    assert again.store.close(START_MS)
