"""Rows of a store as lists of dictionaries: of the whole, of a batch, of all splits."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa

from rmq_columns import parse_options, plan_splits, read_split, read_store
from rmq_columns.read.plan import Split


def rows(path: Path | str, **options: Any) -> list[dict[str, Any]]:
    return [row for batch in read_store(path, **options) for row in listed(batch)]


def listed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Times as numbers: damaged ones are no date."""
    columns = {
        name: column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    return list(pa.RecordBatch.from_pydict(columns).to_pylist())


def split_rows(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Each split is sent somewhere, as Spark would."""
    splits = plan_splits(parse_options({"path": path, **options}))
    sent: list[Split] = pickle.loads(pickle.dumps(splits))
    assert sent == splits
    return [row for split in sent for batch in read_split(split) for row in listed(batch)]
