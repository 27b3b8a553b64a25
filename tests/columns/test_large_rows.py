"""Rows of many bytes: they wait for no others, and none is lost where Arrow cannot make one batch of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from rmq_columns.export import split
from rmq_columns.export.manifest import CannotExport
from rmq_columns.export.options import FileOptions
from rmq_columns.export.parquet import export_store
from rmq_columns.export.plan import Numbered
from rmq_columns.read import messages
from rmq_columns.read.options import parse_options
from rmq_columns.read.plan import plan_splits
from rmq_columns.read.reading import read_split
from rmq_wire import sys_flag
from tests.support.logs import FILE_BYTES, unit, write_log

ROWS = 40


@pytest.mark.parametrize("decompress", [False, True])
def test_rows_of_many_bytes_wait_for_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, decompress: bool) -> None:
    body, flags = (zlib.compress(bytes(10_000)), sys_flag.COMPRESSED) if decompress else (b"x" * 10_000, 0)
    log, places = bytearray(), []
    for number in range(ROWS):
        places.append(len(log))
        log += unit(len(log), body, number=number, flags=flags)
    path = tmp_path / "broker-a" / "commitlog" / f"{0:020}"
    path.parent.mkdir(parents=True)
    path.write_bytes(log.ljust(1 << 20, b"\0"))
    options = parse_options({"path": str(tmp_path / "broker-a"), "decompress": decompress, "blockBytes": 1 << 16})
    monkeypatch.setattr(messages, "HELD_BYTES_MAX", 25_000)
    batches = [batch for one in plan_splits(options) for batch in read_split(one)]
    assert [place for batch in batches for place in batch["physicalOffset"].to_pylist()] == places
    assert sum(len(body) for batch in batches for body in batch["body"].to_pylist()) == 10_000 * ROWS
    assert len(batches) >= (1 if decompress else 5)


def test_what_cannot_be_one_batch_is_several(monkeypatch: pytest.MonkeyPatch) -> None:
    """A binary column has 2 GiB at most."""
    held = [pa.record_batch({"body": [b"a"]}), pa.record_batch({"body": [b"b"]})]

    def as_they_are(batches: list[pa.RecordBatch]) -> SimpleNamespace:
        return SimpleNamespace(combine_chunks=lambda: pa.table({"body": pa.chunked_array([one["body"] for one in batches])}))

    fake = SimpleNamespace(Table=SimpleNamespace(from_batches=as_they_are))
    monkeypatch.setattr(messages, "pa", fake)
    assert [one.to_pylist() for one in messages._joined(held)] == [[{"body": b"a"}], [{"body": b"b"}]]


@pytest.mark.parametrize("of_file", [0, 3, -1])
def test_a_row_that_is_lost_on_its_way_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_file: int) -> None:
    """The last one of a file that is full, too; of the newest file nobody knows what has come meanwhile."""
    log = write_log(tmp_path / "broker-a", [b"x" * 200] * ROWS)
    assert len(log.files) > 2
    gone = [place for place in log.places if place < FILE_BYTES][of_file]
    rows_of = split.rows_of

    def losing(one: Numbered, columns: tuple[str, ...] | None = None) -> Iterator[pa.RecordBatch]:
        for batch in rows_of(one, columns):
            is_kept = [columns is not None or place != gone for place in batch["physicalOffset"].to_pylist()]
            yield batch.filter(pa.array(is_kept))

    monkeypatch.setattr(split, "rows_of", losing)
    with pytest.raises(CannotExport, match="rows were written of"):
        export_store(str(tmp_path / "out"), parse_options({"path": str(log.root), "splitBytes": FILE_BYTES}), FileOptions())
