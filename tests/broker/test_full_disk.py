"""A disk that runs full, life after life: nothing that was acknowledged is lost, and every start with room succeeds."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker_impl.state import persisted
from rmq_store.disk.disk import Disk, write_all
from rmq_store.errors import StoreDamaged
from tests.broker.full_disk import Budget, FileSystem, Lives, WaitingLives, mounted
from tests.support.planting import FAILURES, find

LIVES = 10
"""In a row, on one store."""
SEEDS = 2
ROUNDS_BY_NIGHT = 200


KINDS = pytest.mark.parametrize("lived", [Lives, WaitingLives])


@KINDS
def test_a_disk_handed_in_that_runs_full(tmp_path: Path, lived: type[Lives]) -> None:
    refused = 0
    for seed in range(SEEDS):
        lives = lived(Budget(tmp_path / str(seed)), seed)
        for number in range(LIVES):
            try:
                lives.life()
            except AssertionError as wrong:
                wrong.add_note(f"seed {seed}, life {number}")
                raise
        refused += lives.refused
    assert refused > 50, "the disk was full"


def renamed_away_first(patch: pytest.MonkeyPatch) -> None:
    """As Java writes a table: the good file becomes the backup before the new one is written."""

    def planted(disk: Disk, path: str, chunks: Iterable[bytes]) -> None:
        disk.make_directories(path.rpartition("/")[0])
        if any(path.endswith(f"/{entry.name}") for entry in disk.entries(path.rpartition("/")[0])):
            disk.rename(path, path + ".bak")
        write_all(disk.create(path, 0), 0, b"".join(chunks))

    patch.setattr(persisted, "persist_config", planted)


def test_a_planted_write_is_found(tmp_path: Path) -> None:
    find(renamed_away_first, test_a_disk_handed_in_that_runs_full, tmp_path, Lives, by=(StoreDamaged, *FAILURES))


@pytest.mark.nightly
@KINDS
@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_small_file_system_that_runs_full(tmp_path: Path, kind: str, lived: type[Lives]) -> None:
    """Two hundred lives on a real one; the first of each ten begins on an empty store."""
    try:
        with mounted(kind, tmp_path) as at:
            refused = 0
            for seed in range(ROUNDS_BY_NIGHT // LIVES):
                lives = lived(FileSystem(at), seed)
                for _ in range(LIVES):
                    lives.life()
                refused += lives.refused
                lives.end()
                shutil.rmtree(lives.place.root)
            assert refused > 500
    except PermissionError as no:
        pytest.skip(f"no {kind} can be mounted here: {no}")
