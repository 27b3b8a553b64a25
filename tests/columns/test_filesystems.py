"""The same tables from every kind of file system, by ranges; and what others make of them."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from rmq_columns import CannotRead, parse_options, plan_splits, read_split, read_store
from rmq_columns.decode.scan import Batch, scan
from rmq_columns.files.remote import RangedFile
from rmq_columns.files.resolve import resolve
from tests.support.logs import write_log
from tests.support.stores import golden_store

TABLES = ("messages", "consumequeue", "index", "files", "topics", "consumerOffsets", "gaps")
BODIES = [bytes([number]) * 700 for number in range(200)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_store(tmp_path_factory.mktemp("store") / "broker-a")


def compared(path: Any, root: Path, **more: Any) -> None:
    for table in TABLES:
        read = read_store(path, table=table, brokerName="b", **more).read_all()
        wanted = read_store(root, table=table, brokerName="b").read_all()
        paths = [name for name in ("path", "file") if name in read.schema.names]
        assert read.drop_columns(paths).to_pylist() == wanted.drop_columns(paths).to_pylist()
        assert table == "gaps" or read.num_rows


def test_pyarrow_file_systems(root: Path) -> None:
    compared("broker-a", root, filesystem=fs.SubTreeFileSystem(str(root.parent), fs.LocalFileSystem()))
    compared(f"file://{root}", root)


def test_fsspec(root: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    try:
        memory.put(str(root), "/stores/broker-a", recursive=True)
        compared("memory://stores/broker-a", root)
        compared("/stores/broker-a", root, filesystem=memory)
        above = read_store("memory://stores", includeSystemTopics=True).read_all()
        assert set(above["brokerName"].to_pylist()) == {"broker-a"}
        [split] = plan_splits(parse_options({"path": "memory://stores/broker-a"}))
        assert [*read_split(pickle.loads(pickle.dumps(split)))]
        with pytest.raises(CannotRead):
            read_store("memory://stores/nothing")
    finally:
        memory.rm("/stores", recursive=True)


def test_uris_that_nobody_knows() -> None:
    with pytest.raises(CannotRead):
        read_store("nothing-of-that-kind://bucket/store")
    with pytest.raises(CannotRead, match="no file system"):
        read_store("/store", filesystem=object())


class Ranges:
    """A file in memory that counts what is asked for, from any thread."""

    def __init__(self, data: bytes) -> None:
        self.data, self.asked, self.lock = data, [(0, 0)][:0], threading.Lock()

    def fetch(self, at: int, count: int) -> bytes:
        with self.lock:
            self.asked.append((at, count))
        return self.data[at : at + count]


@pytest.fixture
def one_file(tmp_path: Path) -> bytes:
    log = write_log(tmp_path, BODIES, file_bytes=1 << 18, queue=False)
    return log.files[0].read_bytes()


@pytest.mark.parametrize("block", [1 << 16, 70_000, 1 << 20])
def test_ranges_are_read_once_and_ahead(one_file: bytes, block: int) -> None:
    ranges = Ranges(one_file)
    with RangedFile("x", len(one_file), ranges.fetch, lambda: None) as file:
        count = sum(len(item.units) for item in scan(file, 0, block_bytes=block) if isinstance(item, Batch))
    assert count == len(BODIES)
    large = sum(size for _, size in ranges.asked if size > 1000)
    assert large <= len(one_file)
    assert len(ranges.asked) < 3 * len(one_file) / block + 12
    for at, size in ((5, 10), (len(one_file) - 3, 10), (len(one_file) + 1, 4)):
        assert file.read(at, size) == one_file[at : at + size]


def test_a_limit_is_kept(one_file: bytes) -> None:
    ranges = Ranges(one_file)
    with RangedFile("x", len(one_file), ranges.fetch, lambda: None) as file:
        file.limit(1 << 17)
        buffer = memoryview(bytearray(1 << 16))
        assert file.read_into(0, buffer) == 1 << 16
        assert file.read_into(1 << 16, buffer) == 1 << 16
        assert bytes(buffer) == one_file[1 << 16 : 1 << 17]
    assert max(at + size for at, size in ranges.asked) == 1 << 17


def test_a_range_that_fails_is_our_error() -> None:
    def fail(at: int, count: int) -> bytes:
        raise OSError("connection lost")

    with RangedFile("s3/x", 10, fail, lambda: None) as file, pytest.raises(CannotRead, match="connection lost"):
        file.read(3, 4)


def test_links_are_not_followed(tmp_path: Path) -> None:
    log = write_log(tmp_path / "store", BODIES[:3])
    secret = tmp_path / "secret"
    secret.write_bytes(log.files[0].read_bytes())
    log.files[0].unlink()
    log.files[0].symlink_to(secret)
    assert read_store(tmp_path / "store").read_all().num_rows == 0


def test_duckdb_takes_it(root: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("stored", read_store(root, includeSystemTopics=True))
        counted = connection.sql("select topic, count(*) from stored group by topic").fetchall()
    wanted = read_store(root, includeSystemTopics=True).read_all().group_by("topic").aggregate([([], "count_all")])
    assert {row[0]: row[1] for row in counted} == {row["topic"]: row["count_all"] for row in wanted.to_pylist()}


def test_pandas_takes_it(root: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = read_store(root).read_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["topic"]) == read_store(root).read_all()["topic"].to_pylist()


def test_it_is_a_reader(root: Path) -> None:
    assert isinstance(read_store(root), pa.RecordBatchReader)


def test_an_open_file_gives_nothing_at_places_where_there_is_none_and_is_closed_more_than_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    for filesystem in (None, fs.LocalFileSystem()):
        tree, path = resolve(str(tmp_path / "f"), filesystem)
        with tree.open(path) as file:
            assert [file.read(at, 2) for at in (0, 2, 3, -1, 1 << 63)] == [b"ab", b"c", b"", b"", b""]
            assert list(file.chunks(0, None, 2)) == [(0, b"ab"), (2, b"c")]
            file.close()
