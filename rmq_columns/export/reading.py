"""An export read back: by its manifest, so that no file counts that no entry names, with the columns that were directories.

Whoever reads the directory itself (Spark, DuckDB) reads the same once `_SUCCESS` is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from rmq_columns.errors import CannotRead
from rmq_columns.export.destination import Destination, destination
from rmq_columns.export.manifest import (
    WHOLE,
    Done,
    Entry,
    Sizes,
    Survey,
    done_of,
    entries_at,
    entry_of,
    sizes_of,
    write_entry,
)
from rmq_columns.export.options import DATE
from rmq_columns.read.schema import MESSAGES, TEXTS

MANIFEST: Final = pa.schema(
    [
        ("brokerName", pa.string()),
        ("split", pa.int32()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("crc32", pa.int64()),
        ("rowGroups", pa.int32()),
        ("firstPhysicalOffset", pa.int64()),
        ("lastPhysicalOffset", pa.int64()),
        ("partition", TEXTS),
        ("corrupt", pa.bool_()),
    ]
)
"""A row is a file."""


def read_export(to: str, *, corrupt: bool = False) -> pa.RecordBatchReader:
    """The rows of a complete export, split by split, with the columns that name directories first.

    corrupt: those of `_corrupt` instead.  Raises `CannotRead` when it is not complete.
    """
    there = destination(to)
    files = [one for one in _files(there, to) if one["corrupt"] == corrupt]
    schema: pa.Schema | None = None
    for one in files[:1]:
        schema = _with(_opened(there, one).schema, one["partition"])
    if schema is None:
        schema = pa.schema([])

    def batches() -> Iterator[pa.RecordBatch]:
        for one in files:
            for batch in _opened(there, one).to_batches():
                yield _widened(batch, one["partition"], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def recorded(there: Destination) -> Iterator[Entry]:
    """The entries that counted when all was done last; none while something is to be done.  Raises `CannotRead`."""
    for line in (there.read(WHOLE) or b"").splitlines():
        yield entry_of(json.loads(line))


def restored(there: Destination, seen: Survey) -> list[Done]:
    """Entries that counted, and whose own files are gone, are written again.  Raises `CannotRead`, `CannotWrite`."""
    names = set(seen.entries)
    known = {int(name.split("/")[-2].removeprefix("split-")) for name in names}
    found = []
    if any(number not in known for number, _ in seen.data):
        for entry in recorded(there):
            if entry.name not in names:
                write_entry(there, entry)
                found.append(done_of(entry, sizes_of(entry) == seen.data.get(entry.data, Sizes())))
    return found


def _files(there: Destination, to: str) -> list[dict[str, Any]]:
    data = there.read(WHOLE)
    if data is None:
        raise CannotRead(to, -1, "no complete export: start it again")
    return [file for line in data.splitlines() for file in json.loads(line)["files"]]


def _opened(there: Destination, file: dict[str, Any]) -> ds.Dataset:
    filesystem, path = there.where(file["name"])
    return ds.dataset(path, filesystem=filesystem, format="parquet", partitioning=None)


def _with(schema: pa.Schema, partition: dict[str, Any]) -> pa.Schema:
    named = [pa.field(name, pa.string() if name == DATE else MESSAGES.field(name).type) for name in partition]
    return pa.schema([*named, *schema.remove_metadata()])


def _widened(batch: pa.RecordBatch, partition: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    named = [pa.repeat(pa.scalar(value, schema.field(name).type), len(batch)) for name, value in partition.items()]
    return pa.record_batch([*named, *batch.columns], schema=schema)


def manifest_rows(to: str, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Some entries, by their names, as rows of `MANIFEST`.  Raises `CannotExport` when one is gone."""
    for entry in entries_at(destination(to), names):
        if entry.files:
            rows = [
                {
                    **one.as_json(),
                    "brokerName": entry.brokerName,
                    "split": entry.split,
                    "file": one.name,
                    "partition": [(name, None if value is None else str(value)) for name, value in one.partition.items()],
                }
                for one in entry.files
            ]
            yield pa.RecordBatch.from_pylist([{name: row[name] for name in MANIFEST.names} for row in rows], schema=MANIFEST)
