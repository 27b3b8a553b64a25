"""Files of one directory and how many of them are open."""

from __future__ import annotations

import errno

import pytest

from rmq_store.disk.disk import File
from rmq_store.disk.segments import OpenFiles, Segments
from tests.support.memory_disk import Fault, MemoryDisk

FILE = 4096


def opened(disk: MemoryDisk, names: str) -> tuple[OpenFiles, list[str]]:
    """Four may be open; and the paths that the disk is asked to open, in order."""
    asked: list[str] = []

    def note(operation: str, path: str) -> None:
        if operation == "open":
            asked.append(path)

    for name in names:
        disk.create(f"/{name}", FILE)
    disk.before = note
    return OpenFiles(disk, 4), asked


def test_the_file_that_was_opened_longest_ago_is_let_go_when_one_more_is_wanted() -> None:
    files, asked = opened(MemoryDisk(), "abcde")
    for name in "abcdabcd":
        files.get(f"/{name}")
    assert asked == ["/a", "/b", "/c", "/d"]
    for name in "ebcda":
        files.get(f"/{name}")
    assert asked[4:] == ["/e", "/a"]


def test_half_of_the_open_files_go_when_the_system_has_no_descriptor_left() -> None:
    disk = MemoryDisk()
    files, asked = opened(disk, "abcdef")
    files = OpenFiles(disk, 9)
    for name in "abcd":
        files.get(f"/{name}")
    disk.faults = [Fault("open", error=errno.EMFILE)]
    files.get("/e")
    asked.clear()
    for name in "cdeab":
        files.get(f"/{name}")
    assert asked == ["/a", "/b"]


def test_without_any_open_file_to_let_go_the_error_stays() -> None:
    disk = MemoryDisk()
    files, _ = opened(disk, "a")
    disk.faults = [Fault("open", error=errno.EMFILE)]
    with pytest.raises(OSError, match="Too many open files"):
        files.get("/a")


def test_files_are_in_order_however_they_were_made() -> None:
    segments = Segments(OpenFiles(MemoryDisk(), 8), "/q", FILE, {})
    made: list[File] = [segments.create(number * FILE) for number in (3, 1, 2)]
    assert [file.path for file in made] == [segments.path(number * FILE) for number in (3, 1, 2)]
    assert segments.starts == [FILE, 2 * FILE, 3 * FILE]
    assert [segments.start_of(at) for at in (FILE, 3 * FILE - 1, 4 * FILE - 1)] == [FILE, 2 * FILE, 3 * FILE]
    assert (segments.start_of(FILE - 1), segments.start_of(4 * FILE), segments.end) == (None, None, 4 * FILE)
