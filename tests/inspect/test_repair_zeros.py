"""Zeros that a repair must tell apart: a crash's and a sender's in a message, those of a file's end that a copy left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rmq_inspect.decode.directory import Kind, StoreFile, list_store
from rmq_inspect.decode.log import BLANK_BYTES, Unit
from rmq_inspect.repair.log import FILE_BYTES, file_bytes_of
from rmq_inspect.repair.repair import repair
from rmq_inspect.repair.report import Report
from rmq_store.disk.disk import RealDisk
from tests.support.store_rig import Rig, draft, small
from tests.support.stores import spoil, units_of

LOG_FILE_BYTES = 65536
SECTOR_BYTES = 512


def made(root: Path, properties: dict[int, bytes], **settings: object) -> list[Unit]:
    """A sound store of six messages.  properties: more of some."""
    kept = small(store_path_root_dir=str(root), **{"mapped_file_size_commit_log": LOG_FILE_BYTES, **settings})
    rig = Rig(RealDisk(), kept)
    for number in range(6):
        one = draft(number)
        one.properties += properties.get(number, b"")
        rig.put(one)
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    return units_of(root)


def repaired(tmp_path: Path) -> Report:
    return repair(list_store(tmp_path / "old"), tmp_path / "new")


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("value", [b"a\0b", b"\0", bytes(SECTOR_BYTES - 1), b"last\0\0"])
@pytest.mark.parametrize("number", [3, 5])
def test_a_property_with_zeros_is_the_senders(tmp_path: Path, value: bytes, number: int, sealed: bool) -> None:
    units = made(tmp_path / "old", {number: b"blob\x01" + value + b"\x02"}, enabled_append_prop_crc=sealed)
    report = repaired(tmp_path)
    assert (report.messages, report.lost, report.is_whole) == (6, [], True)
    assert [unit.raw for unit in units_of(tmp_path / "new")] == [unit.raw for unit in units]


def test_a_check_sum_vouches_for_zeros_that_look_like_a_crashs(tmp_path: Path) -> None:
    made(tmp_path / "old", {3: b"blob\x01" + bytes(3 * SECTOR_BYTES) + b"\x02"}, enabled_append_prop_crc=True)
    assert repaired(tmp_path).messages == 6


def test_a_sector_of_zeros_is_a_crashs(tmp_path: Path) -> None:
    unit = made(tmp_path / "old", {3: b"long\x01" + b"u" * 3 * SECTOR_BYTES + b"\x02"})[3]
    edge = -(-unit.at // SECTOR_BYTES) * SECTOR_BYTES + SECTOR_BYTES
    assert unit.end - len(unit.message.properties) < edge < edge + SECTOR_BYTES < unit.end
    spoil(unit.file.path, edge, bytes(SECTOR_BYTES))
    report = repaired(tmp_path)
    assert (report.messages, [lost["byte"] for lost in report.lost]) == (5, [unit.at])
    assert "a sector of zeros in its topic or properties" in report.lost[0]["why"]


@pytest.mark.parametrize("number", [2, 5])
def test_zeros_at_the_end_of_a_message_are_a_crashs_when_nothing_good_follows(tmp_path: Path, number: int) -> None:
    """The last one of all, and one whose successor is damage."""
    units = made(tmp_path / "old", {})
    unit = units[number]
    spoil(unit.file.path, unit.end - 9, bytes(9))
    for after in units[number + 1 : number + 2]:
        spoil(after.file.path, after.at, b"\xff" * 40)
    assert unit.end % SECTOR_BYTES > 9, "it is no sector's end"
    report = repaired(tmp_path)
    assert report.lost[0]["byte"] == unit.at
    assert report.messages == number + max(len(units) - number - 2, 0)
    assert "ends with zeros" in report.lost[0]["why"]


def test_zeros_at_the_end_of_a_message_that_is_followed_are_no_loss(tmp_path: Path) -> None:
    """As a start of the store sees it: an older client's last property has no mark behind it."""
    made(tmp_path / "old", {2: b"blob\x01a\0"})
    assert repaired(tmp_path).is_whole


def test_a_topic_has_no_zeros(tmp_path: Path) -> None:
    unit = made(tmp_path / "old", {})[2]
    spoil(unit.file.path, unit.at + unit.raw.index(b"TopicA") + 2, b"\0")
    report = repaired(tmp_path)
    assert (report.messages, [lost["byte"] for lost in report.lost]) == (5, [unit.at])


def test_a_log_of_one_file_without_the_zeros_at_its_end(tmp_path: Path) -> None:
    """Its last message is as whole as the others; the new file takes no more room."""
    units = made(tmp_path / "old", {})
    os.truncate(units[-1].file.path, units[-1].end)
    report = repaired(tmp_path)
    assert (report.messages, report.is_whole) == (6, True)
    assert any(f"the size taken for one is {FILE_BYTES}" in note for note in report.notes)
    [file] = list_store(tmp_path / "new").commit_log
    assert file.size == FILE_BYTES
    assert file.path.stat().st_blocks * 512 <= 1 << 20
    assert [unit.raw for unit in units_of(tmp_path / "new")] == [unit.raw for unit in units]


@pytest.mark.parametrize("shortened", [False, True])
def test_a_log_of_which_retention_left_one_file(tmp_path: Path, shortened: bool) -> None:
    units = made(tmp_path / "old", {}, mapped_file_size_commit_log=1024)
    last = units[-1].file
    kept = [unit for unit in units if unit.file.start == last.start]
    for file in list_store(tmp_path / "old").commit_log:
        if file.start != last.start:
            file.path.unlink()
    if shortened:
        os.truncate(last.path, units[-1].end)
    report = repaired(tmp_path)
    assert (report.messages, report.lost) == (len(kept), [])
    [file] = list_store(tmp_path / "new").commit_log
    assert (file.start, file.size) == (last.start, last.start if shortened else 1024)


@pytest.mark.parametrize(
    ("start", "size", "expected"),
    [
        (0, 0, FILE_BYTES),
        (5 * FILE_BYTES, 1000, FILE_BYTES),
        (2500 * 100_000_000, 1001, 1_000_000_000),
        (7 * 4096, 4096, 4096),
        (7 * 4096, 3000, 7 * 4096),
        (7 * 4096, 7 * 4096 - BLANK_BYTES + 1, 7 * 4096),
        (1009, 4096, 4096),
        ((1 << 61) - 1, 4096, 4096),
    ],
)
def test_the_size_of_the_only_file(tmp_path: Path, start: int, size: int, expected: int) -> None:
    """Where none fits the name, some size: then the file is refused."""
    name = f"{start:020}"
    path = tmp_path / name
    path.touch()
    os.truncate(path, size)
    assert file_bytes_of([StoreFile(str(tmp_path), (name,), name, Kind.COMMIT_LOG, size, start)]) == expected


def test_the_blank_of_a_full_file_names_its_size(tmp_path: Path) -> None:
    """Though the length that is left of it would do as one."""
    store = tmp_path / "old"
    rig = Rig(RealDisk(), small(store_path_root_dir=str(store), mapped_file_size_commit_log=1 << 14))
    for number in range(80):
        rig.put(draft(number, body_bytes=300 + number))
    rig.sync()
    assert rig.store.close(rig.wall_ms)
    first, *others = list_store(store).commit_log
    for file in others:
        file.path.unlink()
    data = first.path.read_bytes().rstrip(b"\0")
    first.path.write_bytes(data)
    assert len(data) < 1 << 14
    assert file_bytes_of(list_store(store).commit_log) == 1 << 14
