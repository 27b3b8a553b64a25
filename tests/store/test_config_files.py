"""Config files: whole or the one before, whatever happens in between (delta550 4.2)."""

from __future__ import annotations

import json

import pytest

from rmq_store import config_files
from rmq_store.config_files import load_config
from rmq_store.errors import StoreDamaged
from rmq_wire import fastjson
from tests.support.memory_disk import Fault, MemoryDisk

PATH = "/store/config/topics.json"


class Stopped(BaseException):
    pass


def load(disk: MemoryDisk, told: list[str] | None = None) -> object:
    return load_config(disk, PATH, json.loads, (told if told is not None else []).append)


def test_what_is_written_is_read() -> None:
    disk = MemoryDisk()
    assert load(disk) is None
    config_files.persist_config(disk, PATH, [b"[1,", b"2]"])
    assert load(disk) == [1, 2]
    assert PATH + ".bak" not in disk.contents()
    config_files.persist_config(disk, PATH, [b"[3]"])
    assert load(disk) == [3]
    assert disk.contents()[PATH + ".bak"] == b"[1,2]"
    assert disk.crash("synced").contents() == disk.contents()


@pytest.mark.parametrize("torn", [b"", b"{", b"[1", b"\xff\xfe"])
def test_a_torn_file_gives_way_to_its_backup_and_never_becomes_one(torn: bytes) -> None:
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])
    config_files.persist_config(disk, PATH, [b"[2]"])
    disk.unlink(PATH)
    disk.create(PATH, 0).write_at(0, torn)
    told: list[str] = []
    assert load(disk, told) == [1]
    assert PATH not in disk.contents()
    assert disk.contents().get(PATH + ".broken") == (torn or None), "what can be mended is kept"
    assert disk.crash("synced").contents().keys() == disk.contents().keys()
    [line] = told
    assert line.startswith(PATH)
    assert "its backup is used" in line
    assert load(disk, told) == [1]
    config_files.persist_config(disk, PATH, [b"[3]"])
    assert (load(disk), disk.contents()[PATH + ".bak"]) == ([3], b"[1]")


def test_a_bug_of_the_reader_is_not_taken_for_a_bad_file() -> None:
    """The good file would be moved away for it."""
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])
    config_files.persist_config(disk, PATH, [b"[2]"])
    before = disk.contents()

    def buggy(text: bytes) -> object:
        return {}[text]  # type: ignore[var-annotated]

    with pytest.raises(KeyError):
        load_config(disk, PATH, buggy, print)
    assert disk.contents() == before


def test_what_the_wire_package_refuses_is_a_bad_file() -> None:
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])
    config_files.persist_config(disk, PATH, [b"[1"])
    assert load_config(disk, PATH, fastjson.loads, print) == [1]


def test_an_empty_file_is_not_kept_as_the_backup() -> None:
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])
    config_files.persist_config(disk, PATH, [b"[2]"])
    disk.unlink(PATH)
    disk.create(PATH, 0)
    config_files.persist_config(disk, PATH, [b"[3]"])
    assert (load(disk), disk.contents()[PATH + ".bak"]) == ([3], b"[1]")


def test_two_bad_copies_are_refused_and_kept() -> None:
    disk = MemoryDisk()
    disk.make_directories("/store/config")
    disk.create(PATH, 0).write_at(0, b"{")
    disk.create(PATH + ".bak", 0).write_at(0, b"}")
    before = disk.contents()
    with pytest.raises(StoreDamaged, match=r"topics\.json: .*topics\.json\.bak"):
        load(disk)
    assert disk.contents() == before


def test_a_bad_file_without_a_backup_is_not_taken_for_none() -> None:
    disk = MemoryDisk()
    disk.make_directories("/store/config")
    disk.create(PATH, 0).write_at(0, b"{")
    with pytest.raises(StoreDamaged):
        load(disk)


@pytest.mark.parametrize("keep", ["all", "synced"])
def test_a_stop_at_any_step_leaves_the_old_or_the_new(keep: str) -> None:
    steps = 0
    while True:
        disk = MemoryDisk()
        config_files.persist_config(disk, PATH, [b"[1]"])
        config_files.persist_config(disk, PATH, [b"[2]"])
        left = steps

        def before(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Stopped

        disk.before = before
        try:
            config_files.persist_config(disk, PATH, [b"[3]"])
        except Stopped:
            after = disk.crash(keep)
            assert load(after) in ([2], [3])
            config_files.persist_config(after, PATH, [b"[4]"])
            assert load(after.crash("synced")) == [4]
            steps += 1
            continue
        assert load(disk.crash(keep)) == [3]
        break
    assert steps > 5


@pytest.mark.parametrize("operation", ["rename", "create", "write", "sync", "sync_directory"])
def test_a_failing_step_leaves_the_old(operation: str) -> None:
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])
    config_files.persist_config(disk, PATH, [b"[2]"])
    disk.faults = [Fault(operation, partial=1)]
    with pytest.raises(OSError, match="space"):
        config_files.persist_config(disk, PATH, [b"[3]"])
    assert load(disk.crash("synced")) in ([2], [3])
