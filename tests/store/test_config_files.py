"""Config files: whole or the one before, whatever happens in between (delta550 4.2)."""

from __future__ import annotations

import errno
import json
import random
from collections.abc import Iterable

import pytest

from rmq_store.disk import config_files
from rmq_store.disk.config_files import load_config
from rmq_store.disk.disk import Disk, write_all
from rmq_store.errors import StoreDamaged
from rmq_wire import fastjson
from tests.support.memory_disk import Fault, MemoryDisk, MemoryFile, Stopped
from tests.support.planting import FAILURES as FAILURES_OF_TESTS
from tests.support.planting import Plant, find

PATH = "/store/config/topics.json"


def load(disk: MemoryDisk, reported: list[str] | None = None) -> object:
    return load_config(disk, PATH, json.loads, (reported if reported is not None else []).append)


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


def test_what_comes_in_many_pieces_is_written_in_few() -> None:
    disk = MemoryDisk()
    pieces = [b'["', *(bytes([65 + number]) * (400 << 10) for number in range(7)), b'"]']
    config_files.persist_config(disk, PATH, pieces)
    writes = [size for operation, path, _, size in disk.log if operation == "write" and path.startswith(PATH)]
    assert len(writes) == 3, "once a megabyte has come together, and what is left"
    assert disk.contents()[PATH] == b"".join(pieces)


def test_a_file_that_the_disk_cannot_read_is_named_by_the_error() -> None:
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])

    def unreadable(operation: str, _path: str) -> None:
        if operation == "read":
            raise OSError(errno.EIO, "as a descriptor's error comes, without a name")

    disk.before = unreadable
    with pytest.raises(OSError, match="without a name") as raised:
        load(disk)
    assert (raised.value.errno, raised.value.filename) == (errno.EIO, PATH)


@pytest.mark.parametrize("torn", [b"", b"{", b"[1", b"\xff\xfe"])
def test_a_torn_file_gives_way_to_its_backup_and_never_becomes_one(torn: bytes) -> None:
    disk = MemoryDisk()
    config_files.persist_config(disk, PATH, [b"[1]"])
    config_files.persist_config(disk, PATH, [b"[2]"])
    disk.unlink(PATH)
    disk.create(PATH, 0).write_at(0, torn)
    reported: list[str] = []
    assert load(disk, reported) == [1]
    assert PATH not in disk.contents()
    assert disk.contents().get(PATH + ".broken") == (torn or None), "what can be mended is kept"
    assert disk.crash("synced").contents().keys() == disk.contents().keys()
    [line] = reported
    assert line.startswith(PATH)
    assert "its backup is used" in line
    assert load(disk, reported) == [1]
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
        disk.stop_after(steps)
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


CHANGING = ("mkdir", "open", "create", "write", "sync", "link", "rename", "unlink", "sync_directory")
FAILURES = 3
"""Writes that fail in a row, at most."""


class Trial:
    """A file that was written twice, then by a disk that fails; `acknowledged`: what the last write that succeeded put there."""

    def __init__(self, *, links: bool, disk: MemoryDisk | None = None) -> None:
        self.disk = MemoryDisk() if disk is None else disk
        self.disk.links = links
        self.tried = self.acknowledged = 0
        self.write()
        self.write()

    def write(self) -> bool:
        self.tried += 1
        try:
            config_files.persist_config(self.disk, PATH, [b"[", b"%d" % self.tried, b"]"])
        except OSError:
            return False
        self.acknowledged = self.tried
        return True

    def fail(self, operation: str, first: int, times: int, partial: int) -> None:
        self.disk.faults = [Fault(operation, first=first, times=times, partial=partial)]
        self.disk._calls.clear()

    def look(self, chance: random.Random) -> None:
        """The file is what was acknowledged, or what was tried after it: now, and for whoever starts after a kill or a cut."""
        torn = 4 if self.disk.links else 0  # without links a rename that is torn in two may lose its name
        for after in (self.disk.crash("all"), self.disk.crash("synced"), *(self.disk.crash(chance) for _ in range(torn))):
            after.faults = []
            loaded = load(after)
            assert loaded is not None, "the file is gone"
            [found] = loaded
            assert self.acknowledged <= found <= self.tried


@pytest.mark.parametrize("links", [True, False])
def test_a_disk_that_fails_at_any_call_leaves_what_was_acknowledged(links: bool) -> None:
    """Once, twice and three times in a row, and for ever (ENOSPC); with half of a write written, and with nothing."""
    chance = random.Random(15)
    trials = 0
    for operation in CHANGING:
        for first in range(1, 6):
            for times in (1, 2, 1 << 30):
                for partial in (0, 1):
                    trial = Trial(links=links)
                    trial.fail(operation, first, times, partial)
                    failed = sum(not trial.write() for _ in range(FAILURES))
                    trials += bool(failed)
                    trial.look(chance)
                    trial.disk.faults = []
                    assert trial.write(), "there is room again"
                    trial.look(chance)
                    assert not failed or not [name for name in trial.disk.contents() if name.endswith(".tmp")]
    assert trials > 60


@pytest.mark.parametrize("links", [True, False])
def test_two_writes_that_fail_anywhere_leave_what_was_acknowledged(links: bool) -> None:
    """Each at a call of its own: the second begins where the first was given up."""
    chance = random.Random(16)
    calls = [(operation, first) for operation in CHANGING for first in (1, 2, 3)]
    for one in calls:
        for other in calls:
            trial = Trial(links=links)
            for operation, first in (one, other):
                trial.fail(operation, first, 1, 1)
                trial.write()
            trial.look(chance)


def test_a_full_disk_gets_its_room_back() -> None:
    """What could not be written whole does not stay."""
    trial = Trial(links=True)
    trial.fail("write", 1, 1 << 30, 1)
    assert not trial.write()
    assert sorted(trial.disk.contents()) == [PATH, PATH + ".bak"]


def renamed_away_first(patch: pytest.MonkeyPatch) -> None:
    """As it was: the good file becomes the backup before the new one is written."""

    def planted(disk: Disk, path: str, chunks: Iterable[bytes]) -> None:
        if path in [f"/store/config/{entry.name}" for entry in disk.entries("/store/config")]:
            disk.rename(path, path + ".bak")
        disk.make_directories("/store/config")
        file = disk.create(path, 0)
        write_all(file, 0, b"".join(chunks))
        file.sync()
        disk.sync_directory("/store/config")

    patch.setattr(config_files, "persist_config", planted)


def not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryFile, "sync", lambda self: None)


def directory_not_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryDisk, "sync_directory", lambda self, path: None)


@pytest.mark.parametrize("plant", [renamed_away_first, not_synced, directory_not_synced])
def test_planted_writes_are_found(plant: Plant) -> None:
    find(
        plant,
        test_two_writes_that_fail_anywhere_leave_what_was_acknowledged,
        True,
        by=(*FAILURES_OF_TESTS, StoreDamaged),
    )
