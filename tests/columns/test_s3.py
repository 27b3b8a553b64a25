"""The same tables from an object store: a server in this process that speaks S3 (skips without `moto`)."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from rmq_columns import CannotRead, parse_options, plan_splits, read_split, read_store
from tests.support.logs import write_log
from tests.support.object_store import file_system, object_store
from tests.support.stores import golden_store

pytestmark = pytest.mark.s3
TABLES = ("messages", "consumequeue", "index", "files", "topics", "consumerOffsets")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with object_store() as address:
        yield address


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> Any:
    return file_system(endpoint)


def uploaded(bucket: Any, root: Path, name: str) -> str:
    fs.copy_files(str(root), f"bucket/{name}", destination_filesystem=bucket)
    return f"bucket/{name}"


def test_every_table(bucket: Any, tmp_path: Path) -> None:
    root = golden_store(tmp_path / "broker-a")
    path = uploaded(bucket, root, "stores/broker-a")
    for table in TABLES:
        read = read_store(path, table=table, filesystem=bucket).read_all()
        wanted = read_store(root, table=table).read_all()
        names = [name for name in ("path", "file") if name in read.schema.names]
        assert read.drop_columns(names).to_pylist() == wanted.drop_columns(names).to_pylist()
        assert read.num_rows
    assert read_store("bucket/stores", filesystem=bucket, columns="brokerName").read_all()["brokerName"][0].as_py() == "broker-a"


@pytest.mark.parametrize("scheme", ["s3a", "S3N"])
def test_hadoops_schemes(bucket: Any, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    """As every user of Spark writes it."""
    uploaded(bucket, write_log(tmp_path / "broker-h", [b"x"] * 3).root, scheme)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    uri = f"{scheme}://bucket/{scheme}?endpoint_override={endpoint}&scheme=http&region=us-east-1"
    assert read_store(uri).read_all().num_rows == 3


def test_splits_of_one_object(bucket: Any, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write_log(tmp_path / "one", [bytes([number % 251]) * 900 for number in range(400)], file_bytes=1 << 19)
    uploaded(bucket, log.root, "one")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    uri = f"s3://bucket/one?endpoint_override={endpoint}&scheme=http&region=us-east-1"
    splits = plan_splits(parse_options({"path": uri, "splitBytes": 100_000, "blockBytes": 70_000, "includeBody": "false"}))
    assert len(splits) > 3
    sent = pickle.loads(pickle.dumps(splits))
    rows = [row["physicalOffset"] for split in sent for batch in read_split(split) for row in batch.to_pylist()]
    assert rows == log.places
    with pytest.raises(CannotRead):
        read_store(f"s3://bucket/nothing?endpoint_override={endpoint}&scheme=http&region=us-east-1")
