"""The three calls by which everybody reads a store: plan, read one split, or both at once.

A split is what a task of Spark will be: plain, sent anywhere, read there on its own.  Read one after another the splits give the
whole table, so `read_store` is nothing else; it cuts no file, since it reads everything in order anyway.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rmq_columns.read.messages import read_messages
from rmq_columns.read.options import Options, Pruning, Strategy, Table, parse_options
from rmq_columns.read.plan import Split, plan_splits
from rmq_columns.read.schema import schema_of
from rmq_columns.read.tables import read_table

WHOLE_FILES: int = 1 << 62
"""Above the size of any file: none is cut."""


def read_split(split: Split, *, batch_bytes: int | None = None, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one split, each batch with the schema of `schema_of`.

    batch_bytes: of messages with their bodies, about so many in each batch; by default there are `batchRows` rows in it.
    schema: of messages, the same columns for a reader who is given which of them, and which values of a map, are never null.

    Raises `Malformed` in mode FAILFAST, `SeamMismatch` when the split does not end where the next one begins, `CannotRead`;
    ValueError for a null where the schema says that there is none.
    """
    own = schema_of(split.options)
    if split.options.table is Table.MESSAGES:
        return read_messages(split, own if schema is None else schema, batch_bytes)
    return read_table(split, own)


def read_store(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, filesystem: Any = None, **options: Any
) -> pa.RecordBatchReader:
    """A table of one or more stores, read while it is asked for; `read_all()` makes a Table of it.

    options: those of the docs, by their names (`table="consumequeue"`, `topics=["Orders"]`).  filesystem: of pyarrow or fsspec.
    Raises `BadOption`, `CannotRead`; while it is read what `read_split` raises.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    chosen = parse_options({"pruning": Pruning.AUTO, **options, "paths": [os.fspath(one) for one in paths]}, filesystem)
    return reader_of(chosen)


def reader_of(options: Options) -> pa.RecordBatchReader:
    """As `read_store`, of options that were parsed."""
    if options.split_strategy is Strategy.AUTO:
        options = replace(options, split_bytes=WHOLE_FILES)
    splits = plan_splits(options)
    return pa.RecordBatchReader.from_batches(schema_of(options), (batch for split in splits for batch in read_split(split)))
