"""What an export or a build of queues says is there could not be taken by a power cut: contents, names, and in their order."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from rmq_columns import parse_options
from rmq_columns.export.parquet import export_store
from rmq_columns.files.syncs import make_directories, sync_directory, sync_tree, sync_up
from rmq_columns.rebuild.place import MARK
from rmq_columns.rebuild.work import rebuild
from tests.support.exports import data_files, exported, log_of_days, options_of
from tests.support.power import Power
from tests.support.stores import golden_store


@pytest.fixture
def power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Power:
    return Power(tmp_path, monkeypatch)


def test_names_are_safe_up_to_what_was_there(tmp_path: Path, power: Power) -> None:
    make_directories(f"{tmp_path}/a/b/c")
    assert power.lost() == []
    make_directories(f"{tmp_path}/a/b/c")
    (tmp_path / "a" / "file").touch()
    with pytest.raises(FileExistsError):
        make_directories(f"{tmp_path}/a/file")
    os.makedirs(tmp_path / "a" / "d" / "e")
    (tmp_path / "a" / "d" / "e" / "f").write_bytes(b"x")
    sync_up(f"{tmp_path}/a/d/gone", f"{tmp_path}/a")
    assert power.lost() == ["a/d/e/f", "a/file"], "they have their names"
    sync_tree(f"{tmp_path}/a")
    assert power.lost() == []


def test_only_a_file_system_that_cannot_is_let_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(number: int) -> None:
        def fsync(_descriptor: int) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("os.fsync", fsync)

    fails(errno.EINVAL)
    sync_directory(str(tmp_path))
    fails(errno.EIO)
    for sync in (sync_directory, sync_tree):
        with pytest.raises(OSError, match="Input/output error"):
            sync(str(tmp_path))


def test_an_export_names_nothing_that_could_be_lost(tmp_path: Path, power: Power) -> None:
    """An entry of the manifest counts from its rename on: by then what it names is safe."""
    log_of_days(tmp_path / "store")
    to = tmp_path / "new" / "export"
    seen: list[str] = []

    def at_its_name(call: str, path: str) -> None:
        if call != "rename" or not path.startswith(f"{to}/"):
            return
        lost = [name for name in power.lost("new") if not name.endswith(".part")]
        assert lost == [], f"before {path} has its name"
        seen.append(path)

    power.before_naming = at_its_name
    export_store(str(to), options_of(tmp_path / "store"))
    assert power.lost("new") == []
    names = data_files(to)
    assert len(names) > 3
    assert len(seen) > len(names), "the manifest's too"
    assert len(exported(to)) == 90


def test_queues_that_were_built_are_safe_before_they_take_their_place(tmp_path: Path, power: Power) -> None:
    golden_store(tmp_path / "store")
    to = tmp_path / "new" / "to"
    for run in range(2):
        moved: list[str] = []

        def at_its_place(call: str, path: str, moved: list[str] = moved) -> None:
            """The new queues before they move; their names before the mark says that all are there."""
            if call == "rename" and path.endswith("/whole/consumequeue"):
                assert power.lost_in(path) == []
                moved.append(path)
            elif call == "replace" and moved and json.loads(Path(path).read_bytes())["complete"]:
                lost = [name for name in power.lost("new") if not name.startswith("new/to/unfinished")]
                assert lost == [f"new/to/{MARK}.new"], "a name that it loses right now"
                moved.append(path)

        power.before_naming = at_its_place
        rebuild(parse_options({"path": str(tmp_path / "store")}), str(to))
        assert len(moved) == 2, f"run {run}: {moved}"
        assert power.lost("new") == ["new/to/unfinished"], "which went, and may come back"
        assert json.loads((to / MARK).read_bytes())["complete"]
