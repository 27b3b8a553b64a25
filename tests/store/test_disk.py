"""One suite for every disk: what holds for the simulated one must hold for the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rmq_store.disk.disk import Disk, Kind, RealDisk, write_all
from rmq_store.errors import ForeignFile
from tests.support.memory_disk import Fault, MemoryDisk


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """What is tested here is the disk."""
    return disk_path


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Disk, str]]:
    if request.param == "real":
        yield RealDisk(), str(tmp_path)
    else:
        disk = MemoryDisk()
        disk.make_directories("/base")
        yield disk, "/base"


def test_a_new_file_has_its_length_and_zeros(place: tuple[Disk, str]) -> None:
    disk, base = place
    file = disk.create(f"{base}/f", 10_000)
    assert file.length() == 10_000
    assert file.read_at(9_990, 100) == bytes(10)
    assert list(file.data_ranges(0)) == []
    with pytest.raises(FileExistsError):
        disk.create(f"{base}/f", 1)


def test_what_is_written_is_read_by_every_way(place: tuple[Disk, str]) -> None:
    disk, base = place
    file = disk.create(f"{base}/f", 20_000)
    view = file.map()
    assert file.write_at(5_000, b"hello") == 5
    assert disk.open(f"{base}/f").read_at(4_999, 7) == b"\0hello\0"
    assert file.read_nowait(5_000, 5) == b"hello"
    assert file.read_nowait(19_999, 5) is None
    assert file.resident(5_000, 5)
    assert bytes(view[5_000:5_005]) == b"hello"
    assert view.readonly
    ranges = list(file.data_ranges(100))
    assert ranges
    assert all(low <= 5_000 and high >= 5_005 for low, high in ranges)
    file.sync()


def test_a_view_outlives_the_name(place: tuple[Disk, str]) -> None:
    disk, base = place
    file = disk.create(f"{base}/f", 4096)
    file.write_at(0, b"kept")
    view = file.map()[0:4]
    disk.unlink(f"{base}/f")
    del file
    assert bytes(view) == b"kept"


def test_names(place: tuple[Disk, str]) -> None:
    disk, base = place
    assert disk.make_directories(f"{base}/a/b") == [base, f"{base}/a"]
    assert disk.make_directories(f"{base}/a/b") == []
    assert disk.is_directory(f"{base}/a/b")
    assert not disk.is_directory(f"{base}/none")
    disk.create(f"{base}/a/z", 3)
    assert disk.entries(f"{base}/a") == [("b", Kind.DIRECTORY, 0), ("z", Kind.FILE, 3)]
    assert disk.entries(f"{base}/none") == []
    disk.create(f"{base}/a/y", 0)
    disk.rename(f"{base}/a/y", f"{base}/a/z")
    assert disk.entries(f"{base}/a")[1] == ("z", Kind.FILE, 0)
    with pytest.raises(OSError, match="not empty"):
        disk.remove_directory(f"{base}/a")
    disk.unlink(f"{base}/a/z")
    with pytest.raises(FileNotFoundError):
        disk.open(f"{base}/a/z")
    with pytest.raises(FileNotFoundError):
        disk.unlink(f"{base}/a/z")
    disk.remove_directory(f"{base}/a/b")
    disk.sync_directory(base)
    with pytest.raises(ForeignFile):
        disk.open(f"{base}/a")
    disk.create(f"{base}/file", 0)
    with pytest.raises(ForeignFile):
        disk.make_directories(f"{base}/file")


def test_length_changes(place: tuple[Disk, str]) -> None:
    disk, base = place
    file = disk.create(f"{base}/f", 10)
    file.write_at(0, b"0123456789")
    file.set_length(4)
    file.set_length(8)
    assert file.read_at(0, 20) == b"0123\0\0\0\0"


def test_one_lock(place: tuple[Disk, str]) -> None:
    disk, base = place
    lock = disk.lock(f"{base}/lock")
    assert lock is not None
    assert disk.lock(f"{base}/lock") is None
    lock.release()
    again = disk.lock(f"{base}/lock")
    assert again is not None
    again.release()


def test_a_lock_whose_name_is_gone_is_taken_anew(place: tuple[Disk, str]) -> None:
    disk, base = place
    lock = disk.lock(f"{base}/lock")
    assert lock is not None
    assert lock.is_held()
    disk.unlink(f"{base}/lock")
    assert lock.is_held()
    assert [entry.name for entry in disk.entries(base)] == ["lock"]
    assert disk.lock(f"{base}/lock") is None
    disk.unlink(f"{base}/lock")
    disk.create(f"{base}/lock", 4)
    assert not lock.is_held(), "the name leads to another file"
    lock.release()


def test_space(place: tuple[Disk, str]) -> None:
    disk, base = place
    total, free, usable = disk.usage(base)
    assert total >= free >= usable > 0


def test_the_real_lock_holds_between_processes(tmp_path: Path) -> None:
    disk = RealDisk()
    lock = disk.lock(f"{tmp_path}/lock")
    assert lock is not None
    code = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "try: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\n"
        "except OSError: sys.exit(7)\n"
    )
    command = [sys.executable, "-c", code, f"{tmp_path}/lock"]
    assert subprocess.run(command, check=False).returncode == 7
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0
    assert (tmp_path / "lock").read_bytes() == b"lock"  # reading it earlier would have dropped the lock: POSIX


def test_a_released_lock_is_free_though_a_child_was_forked_meanwhile(tmp_path: Path) -> None:
    """As between fork and exec of any program that another thread starts: the child shares what the parent had open."""
    code = (
        "import os, sys\n"
        "from rmq_store.disk.disk import RealDisk\n"
        "lock = RealDisk().lock(sys.argv[1])\n"
        "go, end = os.pipe()\n"
        "if not os.fork():\n"
        "    os.close(end)\n"
        "    os._exit(len(os.read(go, 1)))\n"
        "lock.release()\n"
        "sys.exit(0 if RealDisk().lock(sys.argv[1]) else 7)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, f"{tmp_path}/lock"], check=False).returncode == 0


def test_a_deleted_lock_lets_nobody_in(tmp_path: Path) -> None:
    """Not another broker of ours, in this process or in another; and what Java would lock then is seen."""
    lock = RealDisk().lock(f"{tmp_path}/lock")
    assert lock is not None
    code = "import sys\nfrom rmq_store.disk.disk import RealDisk\nsys.exit(7 if RealDisk().lock(sys.argv[1]) is None else 0)\n"
    command = [sys.executable, "-c", code, f"{tmp_path}/lock"]
    (tmp_path / "lock").unlink()
    assert RealDisk().lock(f"{tmp_path}/lock") is None
    assert subprocess.run(command, check=False).returncode == 7
    assert lock.is_held()
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").write_bytes(b"lock")
    assert not lock.is_held()
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    disk = RealDisk()
    (tmp_path / "target").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(ForeignFile):
            disk.open(f"{tmp_path}/{name}")
        with pytest.raises(ForeignFile):
            disk.lock(f"{tmp_path}/{name}")
    assert {entry.name: entry.kind for entry in disk.entries(str(tmp_path))} == {
        "link": Kind.LINK,
        "pipe": Kind.OTHER,
        "target": Kind.FILE,
    }


def test_a_short_write_is_gone_on_with() -> None:
    disk = MemoryDisk()
    file = disk.create("/f", 100)
    disk.faults = [Fault("write", times=3, error=0, partial=4)]
    write_all(file, 10, b"0123456789abcdef")
    assert file.read_at(10, 16) == b"0123456789abcdef"


def test_a_write_that_makes_no_progress_ends() -> None:
    disk = MemoryDisk()
    file = disk.create("/f", 100)
    disk.faults = [Fault("write", times=100, error=0, partial=0)]
    with pytest.raises(OSError, match="returned 0"):
        write_all(file, 0, b"0123456789")


def test_what_a_power_cut_leaves() -> None:
    disk = MemoryDisk()
    disk.make_directories("/d")
    disk.sync_directory("/")
    kept = disk.create("/d/kept", 10)
    kept.write_at(0, b"synced")
    kept.sync()
    disk.sync_directory("/d")
    kept.write_at(0, b"SYNCED")
    disk.create("/d/lost", 10).sync()
    assert disk.crash("synced").contents() == {"/d/kept": b"synced\0\0\0\0"}
    assert disk.crash("all").contents() == {"/d/kept": b"SYNCED\0\0\0\0", "/d/lost": bytes(10)}
