"""Saving and loading configuration files: crashes at every step, broken files, and never defaults in place of what was there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_impl.env import Env
from broker_impl.state.persisted import PersistedTable, Persister
from rmq_store.disk.disk import RealDisk
from rmq_store.errors import StoreDamaged
from tests.broker.state_kit import tables

STEPS = ("open", "create", "make_directories", "rename", "link", "unlink", "sync_directory")
FILE_STEPS = ("write_at", "set_length", "sync")


class Crash(BaseException):
    """The process is gone."""


class CrashingFile:
    """A file whose every changing call counts."""

    def __init__(self, file: Any, disk: CrashingDisk) -> None:
        self._file = file
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._file, name)
        if name == "write_at":
            return self._write_at
        return self._disk.counted(call) if name in FILE_STEPS else call

    def _write_at(self, offset: int, data: bytes) -> int:
        self._disk.count(lambda: self._file.write_at(offset, data[: len(data) // 2]))
        return int(self._file.write_at(offset, data))


class CrashingDisk:
    """The real disk; the `crash_at`-th changing call does not happen (a write happens by half), nor does anything after it."""

    def __init__(self, crash_at: int | None = None, error: Callable[[], BaseException] = Crash) -> None:
        self._real = RealDisk()
        self.calls = 0
        self.crash_at = crash_at
        self.error = error

    def count(self, half: Callable[[], object] = lambda: None) -> None:
        self.calls += 1
        if self.calls == self.crash_at:
            half()
            raise self.error()

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any) -> Any:
            self.count()
            return call(*arguments)

        return counting

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name in ("open", "create"):
            return lambda *arguments: CrashingFile(self.counted(call)(*arguments), self)
        return self.counted(call) if name in STEPS else call


def persister(root: Path, found: tuple[PersistedTable, ...], disk: Any = None) -> Persister:
    made = Persister(disk or RealDisk(), f"{root}/config", found, Env().log)
    made.load()
    return made


def topics_in(root: Path) -> set[str]:
    found = tables()
    persister(root, found)
    return {name for name in found[0].table if name in ("Old", "New")}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    found = tables()
    saving = persister(tmp_path, found)
    found[0].create_in_send("Old", "TBW102", 4, "x")
    found[1].find("G")
    found[2].commit("G", "Old", 0, 3)
    saving.save_all()
    assert not any(table.dirty for table in found)
    again = tables()
    persister(tmp_path, again)
    assert "Old" in again[0]
    assert "G" in again[1]
    assert again[2].query("G", "Old", 0) == 3


def test_a_crash_at_any_step_leaves_the_old_table_or_the_new_one(tmp_path: Path) -> None:
    step, outcomes = 0, []
    while True:
        step += 1
        root = tmp_path / str(step)
        first = tables()
        saving = persister(root, first)
        first[0].create_in_send("Old", "TBW102", 4, "x")
        saving.save_all()
        disk = CrashingDisk()
        second = tables()
        crashing = persister(root, second, disk)
        disk.calls, disk.crash_at = 0, step
        try:
            second[0].create_in_send("New", "TBW102", 4, "x")
            crashing.save_all()
        except Crash:
            outcomes.append(topics_in(root))
            continue
        assert topics_in(root) == {"Old", "New"}
        break
    assert {"Old"} in [set(found) for found in outcomes]
    assert {"Old", "New"} in [set(found) for found in outcomes]
    assert all(found in ({"Old"}, {"Old", "New"}) for found in outcomes)
    assert len(outcomes) >= 6, "every step of the save was cut once"


def test_two_crashes_in_a_row_still_leave_a_table(tmp_path: Path) -> None:
    """The second save begins where the first was cut: the good copy is the backup, and must not be replaced by a torn file."""
    for first_cut in range(1, 10):
        for second_cut in range(1, 10):
            root = tmp_path / f"{first_cut}-{second_cut}"
            found = tables()
            saving = persister(root, found)
            found[0].create_in_send("Old", "TBW102", 4, "x")
            saving.save_all()
            for cut in (first_cut, second_cut):
                disk = CrashingDisk()
                again = tables()
                crashing = persister(root, again, disk)
                assert "Old" in again[0]
                disk.calls, disk.crash_at = 0, cut
                try:
                    again[0].create_in_send("New", "TBW102", 4, "x")
                    again[0].changed(at_once=False)
                    crashing.save_all()
                except Crash:
                    pass
            assert "Old" in topics_in(root)


FOREIGN = b'{"dataVersion":{},"forbiddenTable":{},"subscriptionGroupTable":{"G":{}}}'
"""Groups, in place of topics: they were taken for no topics, and all messages were out of reach without a word."""


@pytest.mark.parametrize("damage", [b"", b"{", b"\x00" * 50, b'{"topicConfigTable":[]}', FOREIGN])
def test_a_broken_file_is_replaced_by_its_backup(tmp_path: Path, damage: bytes) -> None:
    found = tables()
    saving = persister(tmp_path, found)
    for name in ("Old", "New"):
        found[0].create_in_send(name, "TBW102", 4, "x")
        saving.save_all()
    (tmp_path / "config/topics.json").write_bytes(damage)
    assert topics_in(tmp_path) == {"Old"}


@pytest.mark.parametrize("damage", [b"{", b"\x00" * 50, b'{"topicConfigTable":[]}', FOREIGN])
def test_no_readable_copy_refuses_to_start_and_touches_nothing(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "config").mkdir()
    for name in ("topics.json", "topics.json.bak"):
        (tmp_path / "config" / name).write_bytes(damage)
    found = tables()
    refused = Persister(RealDisk(), f"{tmp_path}/config", found, Env().log)
    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        refused.load()
    found[0].create_in_send("T", "TBW102", 4, "x")
    with pytest.raises(RuntimeError, match="before everything was loaded"):
        refused.save_all()
    with pytest.raises(RuntimeError):
        next(refused.slices(found[0]))
    assert (tmp_path / "config/topics.json.bak").read_bytes() == damage


def test_a_failing_disk_leaves_the_change_to_be_saved_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = tables()
    disk = CrashingDisk(error=lambda: OSError(28, "No space left on device"))
    saving = persister(tmp_path, found, disk)
    disk.calls, disk.crash_at = 0, 2
    found[0].create_in_send("New", "TBW102", 4, "x")
    assert not saving.save_all()
    assert found[0].dirty
    assert "topics.json could not be written" in caplog.text
    disk.crash_at = None
    assert saving.save_all()
    assert topics_in(tmp_path) == {"New"}


def test_long_saves_come_in_slices(tmp_path: Path) -> None:
    found = tables()
    saving = persister(tmp_path, found)
    for number in range(1000):
        found[2].commit("G", f"T{number}", 0, number)
    work = saving.slices(found[2])
    steps = 0
    try:
        while True:
            next(work)
            steps += 1
    except StopIteration as end:
        saving.write(found[2], end.value)
        found[2].written()
    assert steps > 30
    again = tables()
    persister(tmp_path, again)
    assert again[2].query("G", "T999", 0) == 999
