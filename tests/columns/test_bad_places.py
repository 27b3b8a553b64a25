"""Half-copied stores, a file that can never be read, an object store that answers 503 and slowly: one clear line each, nothing
doubled, nothing half."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from rmq_columns import CannotRead, FileGone, Malformed, StoreError, parse_options, plan_splits, read_split, read_store
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import export_store
from rmq_columns.files.filesystem import LocalTree
from tests.support.exports import exported, log_of_days, options_of, stored
from tests.support.logs import FILE_BYTES, SOME, Log, write_log
from tests.support.object_store import KEYS
from tests.support.troubled_s3 import Trouble, troubled

FILES = FileOptions()


def places(root: Path, **options: Any) -> list[int]:
    rows = read_store(root, columns="physicalOffset", topics=["T"], **options).read_all()
    return list(rows["physicalOffset"].to_pylist())


# --- half-copied


def cut_in_a_unit(log: Log) -> list[int]:
    last = [place for place in log.places if place >= int(log.files[-1].name)]
    keep = last[1] + 30 - int(log.files[-1].name)
    log.files[-1].write_bytes(log.files[-1].read_bytes()[:keep])
    return [place for place in log.places if place < last[1]]


def without_a_file(log: Log) -> list[int]:
    log.files[1].unlink()
    return [place for place in log.places if place // FILE_BYTES != 1]


def half_a_file(log: Log) -> list[int]:
    log.files[1].write_bytes(log.files[1].read_bytes()[: FILE_BYTES // 2])
    left = [place for place in log.places if not FILE_BYTES * 1.5 - 400 <= place < FILE_BYTES * 2]
    whole = [at for at, place in enumerate(log.places) if FILE_BYTES <= place < FILE_BYTES * 2]
    ends = {log.places[at]: log.places[at + 1] for at in whole[:-1]}
    return sorted({*left, *(place for place, end in ends.items() if end <= FILE_BYTES * 1.5)})


@pytest.mark.parametrize("damage", [cut_in_a_unit, without_a_file, half_a_file])
def test_a_half_copied_log(tmp_path: Path, damage: Callable[[Log], list[int]]) -> None:
    """FAILFAST says what and where; else exactly the messages that are there whole."""
    log = write_log(tmp_path / "broker-a", SOME)
    left = damage(log)
    with pytest.raises(Malformed) as raised:
        places(log.root)
    assert str(raised.value).startswith(f"{log.root}/commitlog/")
    assert "bytes are no message" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert places(log.root, mode="DROPMALFORMED") == left
    assert len(left) < len(log.places)


def test_a_store_of_which_only_the_queues_were_copied(tmp_path: Path) -> None:
    log = write_log(tmp_path / "broker-a", SOME)
    shutil.rmtree(log.root / "commitlog")
    (log.root / "config").mkdir()
    with pytest.raises(CannotRead, match="no such directory; where a store's log lies is said by storePathCommitLog"):
        places(log.root)


# --- a file that can never be read


def test_a_split_that_fails_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The export ends with one line and no `_SUCCESS`; when the disk is well again it goes on, and nothing is there twice."""
    log = log_of_days(tmp_path / "broker-a")
    bad, to = log.files[1], tmp_path / "out"
    whole = LocalTree.open

    def failing(tree: LocalTree, path: str) -> Any:
        if path == str(bad):
            raise CannotRead(path, 4096, "Input/output error")
        return whole(tree, path)

    prepared = options_of(log.root)
    plan_splits(prepared)
    with monkeypatch.context() as patch:
        patch.setattr(LocalTree, "open", failing)
        for _ in range(2):
            with pytest.raises(StoreError) as raised:
                export_store(str(to), prepared, FILES)
            assert str(raised.value) == f"{bad}, byte 4096: Input/output error"
            assert not (to / "_SUCCESS").exists()
    export_store(str(to), prepared, FILES)
    assert exported(to) == stored(log.root)


def test_a_file_that_goes_before_its_split_is_read(tmp_path: Path) -> None:
    log = log_of_days(tmp_path / "broker-a")
    splits = plan_splits(parse_options({"path": str(log.root), "splitBytes": "16k"}))
    gone = log.files[0]
    gone.unlink()
    with pytest.raises(FileGone, match=f"{gone}: deleted while it was read"):
        list(read_split(splits[0]))
    assert [batch for split in splits[1:] for batch in read_split(split)]


# --- an object store that is in trouble


@pytest.fixture
def trouble(tmp_path: Path) -> Iterator[tuple[Trouble, Any, Log]]:
    log = write_log(tmp_path / "broker-a", SOME)
    with troubled(log.root) as server:
        address = f"127.0.0.1:{server.server_address[1]}"
        few = fs.AwsStandardS3RetryStrategy(max_attempts=4)
        yield server, fs.S3FileSystem(endpoint_override=address, retry_strategy=few, **KEYS), log


@pytest.mark.s3
def test_503_now_and_then_and_slowly(trouble: tuple[Trouble, Any, Log]) -> None:
    """It is asked again: the same rows, each once."""
    server, bucket, log = trouble
    splits = plan_splits(parse_options({"path": "bucket/store", "columns": "physicalOffset", "blockBytes": "1k"}, bucket))
    found = []
    for split in splits:
        for number, batch in enumerate(read_split(split)):
            found += batch["physicalOffset"].to_pylist()
            server.refusals = 2 if number % 2 else 0
    assert found == log.places
    server.refusals = 2
    assert read_store("bucket/store", filesystem=bucket, columns="physicalOffset").read_all().num_rows == len(log.places)
    assert server.refused > 1


@pytest.mark.s3
def test_503_for_ever(trouble: tuple[Trouble, Any, Log]) -> None:
    """One line, with the object's name; nothing goes on for ever."""
    server, bucket, log = trouble
    splits = plan_splits(parse_options({"path": "bucket/store", "columns": "physicalOffset"}, bucket))
    server.refusals = 1 << 30
    for ask in (lambda: [list(read_split(split)) for split in splits], lambda: read_store("bucket/store", filesystem=bucket)):
        with pytest.raises(CannotRead) as raised:
            ask()
        assert "bucket/store" in str(raised.value)
        assert "\n" not in str(raised.value)
    server.refusals = 0
    assert len([row for split in splits for batch in read_split(split) for row in batch.to_pylist()]) == len(log.places)
