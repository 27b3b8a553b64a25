"""The real disk where the operating system answers otherwise than usual: short, unwilling, unable, with an error."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmq_store.disk.disk import Entry, Kind, RealDisk, RealFile, write_all
from rmq_store.errors import ForeignFile
from tests.support.memory_disk import Fault, MemoryDisk

TEXT = b"0123456789"


@pytest.fixture
def file(tmp_path: Path) -> RealFile:
    made = RealDisk().create(f"{tmp_path}/f", 10)
    write_all(made, 0, TEXT)
    return made


def failing(number: int, calls: list[Any] | None = None) -> Callable[..., Any]:
    """A system call that only fails."""

    def call(*arguments: Any, **_options: Any) -> Any:
        if calls is not None:
            calls.append(arguments)
        raise OSError(number, os.strerror(number))

    return call


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    disk = RealDisk()
    before = descriptors()
    file = disk.create(f"{tmp_path}/f", 10)
    assert descriptors() == before + 1
    del file
    assert descriptors() == before
    with pytest.raises(NotADirectoryError):
        disk.sync_directory(f"{tmp_path}/f")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFile):
        disk.open(f"{tmp_path}/pipe")
    disk.sync_directory(str(tmp_path))
    lock = disk.lock(f"{tmp_path}/lock")
    assert lock is not None
    lock.release()
    lock.release()
    assert descriptors() == before


def test_a_lock_that_another_has_keeps_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    for number, answer in ((errno.EACCES, None), (errno.EAGAIN, None), (errno.ENOLCK, OSError)):
        monkeypatch.setattr("fcntl.lockf", failing(number))
        if answer is None:
            assert RealDisk().lock(f"{tmp_path}/lock") is None
        else:
            with pytest.raises(answer, match="locks"):
                RealDisk().lock(f"{tmp_path}/lock")
        assert descriptors() == before


def test_files_are_for_their_owner_to_write_and_for_all_to_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        disk = RealDisk()
        made = disk.create(f"{tmp_path}/f", 1)
        lock = disk.lock(f"{tmp_path}/lock")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("f", "lock")] == [0o644, 0o644]
    assert lock is not None
    lock.release()
    del made


def test_a_file_that_cannot_have_its_length_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.ftruncate", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="space"):
        RealDisk().create(f"{tmp_path}/f", 10)
    assert not (tmp_path / "f").exists()
    RealDisk().create(f"{tmp_path}/empty", 0)
    assert (tmp_path / "empty").exists()


def test_an_error_of_a_write_names_the_file(tmp_path: Path, file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.pwrite", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="space") as raised:
        file.write_at(0, b"x")
    assert raised.value.filename == f"{tmp_path}/f"


def test_a_disk_that_takes_a_byte_at_a_time_is_written_to() -> None:
    disk = MemoryDisk()
    file = disk.create("/f", 100)
    disk.faults = [Fault("write", times=6, error=0, partial=1)]
    write_all(file, 10, TEXT)
    assert file.read_at(10, 10) == TEXT


def test_short_reads_are_gone_on_with_up_to_the_end(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pread
    sizes: list[int] = []

    def short(descriptor: int, size: int, offset: int) -> bytes:
        sizes.append(size)
        return real(descriptor, min(size, 3), offset)

    monkeypatch.setattr("os.pread", short)
    assert file.read_at(1, 8) == TEXT[1:9]
    assert sizes == [8, 5, 2]
    sizes.clear()
    assert file.read_at(4, 100) == TEXT[4:]
    assert sizes == [100, 97, 94]
    assert file.read_at(10, 5) == b""


# --- reading only what is in memory


@pytest.mark.parametrize("size", [5, 300_000])
def test_what_is_not_in_memory_is_said_to_be_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    file = RealDisk().create(f"{tmp_path}/large", 400_000)
    write_all(file, 0, b"x" * 400_000)
    monkeypatch.setattr("os.preadv", failing(errno.EAGAIN))
    assert file.read_nowait(0, size) is None
    assert not file.resident(0, size)


def test_what_lies_behind_the_end_is_not_resident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.preadv
    monkeypatch.setattr("os.preadv", lambda descriptor, into, offset, _flags: real(descriptor, into, offset))
    file = RealDisk().create(f"{tmp_path}/large", 400_000)
    write_all(file, 0, b"x" * 400_000)
    assert file.resident(0, 400_000)
    assert file.resident(100_000, 300_000)
    assert not file.resident(0, 400_001)
    assert not file.resident(100_001, 300_000)
    assert file.read_nowait(399_999, 1) == b"x"
    assert file.read_nowait(399_999, 2) is None


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_where_the_question_cannot_be_asked_everything_is_read(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Not asked again, either."""
    calls: list[Any] = []
    monkeypatch.setattr("os.preadv", failing(number, calls))
    assert file.read_nowait(2, 5) == TEXT[2:7]
    assert file.read_nowait(6, 5) is None
    assert file.resident(0, 10)
    assert len(calls) == 1


def test_where_it_cannot_be_asked_everything_counts_as_resident(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("os.preadv", failing(errno.EOPNOTSUPP, calls))
    assert file.resident(0, 10)
    assert file.resident(0, 10)
    assert len(calls) == 1


def test_an_error_of_the_disk_is_not_taken_for_one_that_cannot_be_asked(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.preadv", failing(errno.EIO))
    for ask in (file.read_nowait, file.resident):
        with pytest.raises(OSError, match="Input/output"):
            ask(0, 5)


# --- where data is


def test_data_is_told_apart_from_holes(tmp_path: Path) -> None:
    file = RealDisk().create(f"{tmp_path}/holes", 1 << 20)
    file.write_at(1 << 18, b"x")
    file.write_at(1 << 19, b"x")
    ranges = list(file.data_ranges(0))
    assert len(ranges) == 2
    assert [low <= place < high for (low, high), place in zip(ranges, (1 << 18, 1 << 19), strict=True)] == [True, True]
    assert sum(high - low for low, high in ranges) < 1 << 18
    assert list(file.data_ranges(1 << 20)) == []


@pytest.mark.parametrize("unable", ["no such call", "not on this file system"])
def test_where_holes_are_not_known_all_is_data(file: RealFile, monkeypatch: pytest.MonkeyPatch, unable: str) -> None:
    if unable == "no such call":
        monkeypatch.delattr("os.SEEK_DATA")
    else:
        monkeypatch.setattr("os.lseek", failing(errno.EINVAL))
    assert list(file.data_ranges(3)) == [(3, 10)]
    assert list(file.data_ranges(10)) == []


# --- names


def test_only_what_is_in_the_way_is_said_to_be_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = RealDisk()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ForeignFile):
            disk.open(str(path))
    with pytest.raises(FileNotFoundError):
        disk.open(f"{tmp_path}/none")
    with pytest.raises(NotADirectoryError):
        disk.sync_directory(f"{tmp_path}/file")
    monkeypatch.setattr("os.open", failing(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        disk.open(f"{tmp_path}/file")


def test_a_link_is_seen_as_one_and_never_followed(tmp_path: Path, file: RealFile) -> None:
    disk = RealDisk()
    os.utime(tmp_path / "f", ns=(0, 0))
    for name, target in (("to a file", "f"), ("to a directory", "."), ("to nothing", "none")):
        os.symlink(target, tmp_path / name)
        with pytest.raises(ForeignFile):
            disk.stamp(f"{tmp_path}/{name}")
        assert disk.modified_ms(f"{tmp_path}/{name}") > 0
    os.mkdir(tmp_path / "d")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFile):
        disk.stamp(f"{tmp_path}/pipe")
    assert disk.entries(str(tmp_path)) == [
        Entry("d", Kind.DIRECTORY, 0),
        Entry("f", Kind.FILE, len(TEXT)),
        Entry("pipe", Kind.OTHER, 0),
        Entry("to a directory", Kind.LINK, 0),
        Entry("to a file", Kind.LINK, 0),
        Entry("to nothing", Kind.LINK, 0),
    ]
    assert disk.entries(f"{tmp_path}/none") == []


def test_a_disk_without_second_names_says_so_and_other_errors_pass(
    tmp_path: Path, file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk()
    assert disk.link(file.path, f"{tmp_path}/second")
    with pytest.raises(FileExistsError):
        disk.link(file.path, f"{tmp_path}/second")
    monkeypatch.setattr("os.link", failing(errno.EPERM))
    assert not disk.link(file.path, f"{tmp_path}/third")
    monkeypatch.setattr("os.link", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        disk.link(file.path, f"{tmp_path}/third")


def test_a_directory_that_another_makes_at_the_same_time_is_as_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.mkdir

    def late(path: str) -> None:
        real(path)
        real(path)

    monkeypatch.setattr("os.mkdir", late)
    assert RealDisk().make_directories(f"{tmp_path}/d") == [str(tmp_path)]


def test_space_is_stated_as_java_does(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        f_blocks, f_bfree, f_bavail, f_frsize = 1000, 300, 250, 4096

    monkeypatch.setattr("os.statvfs", lambda _path: Found)
    usage = RealDisk().usage("/")
    assert usage == (4_096_000, 1_228_800, 1_024_000)
    assert usage.used_ratio == 0.74, "700 of 950 blocks, rounded up"
    Found.f_blocks = Found.f_bfree = Found.f_bavail = 0
    assert RealDisk().usage("/").used_ratio == 0.0


def test_a_file_knows_when_it_was_written(tmp_path: Path, file: RealFile) -> None:
    os.utime(tmp_path / "f", ns=(0, 1_234_567_891))
    assert RealDisk().modified_ms(f"{tmp_path}/f") == 1234


def test_without_a_boot_id_nothing_is_said_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rmq_store.disk.disk._BOOT_ID_FILE", f"{tmp_path}/none")
    assert RealDisk().boot_id == ""
    (tmp_path / "id").write_text(" abc\n")
    monkeypatch.setattr("rmq_store.disk.disk._BOOT_ID_FILE", f"{tmp_path}/id")
    assert RealDisk().boot_id == "abc"
