"""Each job as a command on a store that was copied in half: an answer, or one line that says where; nothing is left half.

What is read of such a store is in `tests/columns/test_bad_places.py`, what ends in a task in `test_command`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rmq_spark
from rmq_spark.jobs import JOBS
from tests.spark.kit import made
from tests.support.logs import FILE_BYTES, SOME, write_log
from tests.support.spark_words import needed

MORE = {"diff": ["--other", "whole/store"], "order": ["--sequence", "property:sequence"]}


def cut_in_a_message(store: Path) -> None:
    last = max((store / "commitlog").iterdir())
    os.truncate(last, last.stat().st_size // 3 + 7)


def without_a_file(store: Path) -> None:
    sorted((store / "commitlog").iterdir())[1].unlink()


def half_of_the_queues(store: Path) -> None:
    for number, queue in enumerate(sorted((store / "consumequeue").glob("*/*"))):
        if number % 2:
            shutil.rmtree(queue)
    for file in sorted((store / "consumequeue").glob("*/*/0*"))[::3]:
        os.truncate(file, file.stat().st_size // 2 + 3)


def only_half_of_the_configuration(store: Path) -> None:
    for file in (store / "config").glob("*.json"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: tuple[Callable[[Path], None], ...] = (
    cut_in_a_message,
    without_a_file,
    half_of_the_queues,
    only_half_of_the_configuration,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("whole"), 5 << 20)


@pytest.mark.nightly
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("job", JOBS)
def test_a_half_copied_store(
    spark: Any, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, damage: Callable[[Path], None]
) -> None:
    from rmq_cli.spark import command

    shutil.copytree(whole / "store", tmp_path / "broker" / "store")
    damage(tmp_path / "broker" / "store")
    (tmp_path / "whole").symlink_to(whole)
    (tmp_path / "sent").symlink_to(whole / "sent")
    monkeypatch.chdir(tmp_path)
    words = [*needed(JOBS[job], to="out", ledger="sent"), *MORE.get(job, [])]
    done = CliRunner().invoke(command, [job, "broker/store", *words, "--out", "found", "--json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.stderr
    assert done.exit_code in (0, 1, 2)
    assert bool(done.stdout.strip()) == (done.exit_code != 2)
    if done.exit_code == 2:
        assert len(done.stderr.splitlines()) == 1
        assert str(tmp_path / "broker" / "store") in done.stderr
        assert not (tmp_path / "found").exists()
    if job == "export":
        assert (tmp_path / "out" / "_SUCCESS").exists() == (done.exit_code != 2)
    assert spark.range(1).count() == 1


@pytest.mark.s3
def test_503_now_and_then_and_slowly(spark: Any, tmp_path: Path) -> None:
    """It is asked again: the same rows, each once."""
    from tests.support.troubled_s3 import troubled

    log = write_log(tmp_path / "broker-a", SOME)
    with troubled(log.root) as server:
        address = f"127.0.0.1:{server.server_address[1]}"
        place = f"s3://a:b@bucket/store?endpoint_override={address}&scheme=http&region=us-east-1"
        server.refusals = 2
        read = rmq_spark.read(spark, place, "physicalOffset", blockBytes="1k", splitBytes=str(FILE_BYTES))
        assert sorted(row[0] for row in read.collect()) == log.places
        assert (server.refused, server.refusals) == (2, 0)
        server.refusals = 3
        assert read.count() == len(log.places)
        assert (server.refused, server.refusals) == (5, 0)
