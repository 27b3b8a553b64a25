"""A commit log over several directories: where files go, what is refused, and that nothing depends on where they lie."""

from __future__ import annotations

import pytest

from rmq_store.disk.multi_path_segments import MultiPathSegments, log_segments
from rmq_store.disk.segments import OpenFiles
from rmq_store.errors import ForeignFile
from rmq_store.settings import StoreSettings
from tests.support.memory_disk import MemoryDisk
from tests.support.store_rig import ROOT, Rig, draft, small

A, B, C = "/disk1/log", "/disk2/log", "/disk3/log"
FILE = 4096


def spread(**changes: object) -> StoreSettings:
    return small(store_path_commit_log=f"{B}, {A}", mapped_file_size_commit_log=FILE, **changes)


def segments(disk: MemoryDisk, *writable: str, read_only: tuple[str, ...] = ()) -> MultiPathSegments:
    for path in (*writable, *read_only):
        disk.make_directories(path)
    return MultiPathSegments(OpenFiles(disk, 8), writable, read_only, FILE, {})


def names(disk: MemoryDisk, path: str) -> list[int]:
    return [int(entry.name) // FILE for entry in disk.entries(path)]


def test_a_files_number_picks_among_the_sorted_directories() -> None:
    disk = MemoryDisk()
    files = segments(disk, C, A, B)
    for number in range(5, 12):
        files.create(number * FILE)
    assert (names(disk, A), names(disk, B), names(disk, C)) == ([6, 9], [7, 10], [5, 8, 11])


def test_full_directories_get_nothing_unless_all_are_full() -> None:
    disk = MemoryDisk()
    files = segments(disk, A, B, C)
    files.full = frozenset({B})
    for number in range(4):
        files.create(number * FILE)
    files.full = frozenset({A, B, C})
    for number in range(4, 7):
        files.create(number * FILE)
    assert (names(disk, A), names(disk, B), names(disk, C)) == ([0, 2, 6], [4], [1, 3, 5])


def test_read_only_directories_are_read_and_get_nothing() -> None:
    disk = MemoryDisk()
    segments(disk, A).create(0)
    files = segments(disk, B, read_only=(A,))
    assert files.load(clean=True) == []
    for number in range(1, 4):
        files.create(number * FILE)
    assert (names(disk, A), names(disk, B)) == ([0], [1, 2, 3])
    assert files.path(0) == f"{A}/{0:020d}"
    assert files.file(0).length() == FILE


def test_a_file_that_was_removed_may_come_back_elsewhere() -> None:
    disk = MemoryDisk()
    files = segments(disk, A, B)
    files.create(0)
    assert files.path(0) == f"{A}/{0:020d}"
    files.remove(0)
    files.full = frozenset({A})
    assert files.path(0) == f"{B}/{0:020d}", "where it would be made now"
    files.full = frozenset({B})
    files.create(0)
    assert files.path(0) == f"{A}/{0:020d}", "where it was made"
    files.full = frozenset({A})
    assert files.file(0).length() == FILE


def test_the_same_piece_in_two_directories_is_refused() -> None:
    disk = MemoryDisk()
    segments(disk, A).create(0)
    segments(disk, B).create(0)
    with pytest.raises(ForeignFile, match=f"{A} and in {B}"):
        segments(disk, A, B).load(clean=True)


def test_only_the_last_file_of_all_directories_may_be_empty() -> None:
    disk = MemoryDisk()
    files = segments(disk, A, B)
    files.create(0)
    disk.create(f"{B}/{FILE:020d}", 0)
    assert segments(disk, A, B).load(clean=True) == [f"{B}/{FILE:020d}"]
    disk.create(f"{A}/{2 * FILE:020d}", FILE)
    with pytest.raises(ForeignFile, match="0 bytes"):
        segments(disk, A, B).load(clean=True)


def test_one_directory_is_a_plain_row_of_files() -> None:
    disk = MemoryDisk()
    assert not isinstance(log_segments(small(), OpenFiles(disk, 8), {}), MultiPathSegments)
    assert small(store_path_commit_log=" /a ,, /b,/a").commit_log_directories == ("/a", "/b")
    with_old = small(store_path_commit_log="/a,/b", read_only_commit_log_store_paths="/b,/c")
    assert with_old.commit_log_directories == ("/a",)
    assert with_old.read_only_commit_log_directories == ("/b", "/c")
    assert isinstance(log_segments(with_old, OpenFiles(disk, 8), {}), MultiPathSegments)


def test_a_store_over_two_directories_survives_restart_and_crash() -> None:
    rig = Rig(settings=spread())
    assert isinstance(rig.disk, MemoryDisk)
    for number in range(40):
        rig.put(draft(number, body_bytes=300))
    assert rig.numbers() == list(range(40))
    at = rig.store.written_offset // FILE
    assert names(rig.disk, A) == list(range(0, at + 2, 2))
    assert names(rig.disk, B) == list(range(1, at + 2, 2))
    assert rig.store.close(rig.wall_ms)
    assert sorted(names(rig.disk, A) + names(rig.disk, B)) == list(range(at + 1)), "the file made ahead is gone"
    rig.open()
    assert rig.numbers() == list(range(40))
    rig.put(draft(40, body_bytes=300))
    crashed = Rig(disk=rig.disk.crash("all"), settings=spread())
    assert not crashed.store.report.clean
    assert crashed.numbers() == list(range(41))
    assert crashed.store.close(crashed.wall_ms)
    moved = Rig(
        disk=crashed.disk,
        settings=small(store_path_commit_log=f"{C},{A}", mapped_file_size_commit_log=FILE, read_only_commit_log_store_paths=B),
    )
    assert moved.numbers() == list(range(41)), "a directory that became read-only is still the log"
    assert moved.store.close(moved.wall_ms)
    assert not moved.disk.is_directory(f"{ROOT}/commitlog")
