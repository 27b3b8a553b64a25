"""What an export writes and how: one frozen value that is kept with the plan, so that a later start can be held against it.

Rows are chosen by the options of the table `messages`; here is what is said of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from rmq_columns.errors import BadOption
from rmq_columns.read.options import MIB, Mode, Options, Table, size_of
from rmq_columns.read.schema import CORRUPT, schema_of

PARTITIONS: Final = {"brokerName": "brokerName", "topic": "topic", "date": "storeTimestamp", "queueId": "queueId"}
"""What a directory may be named for -> the column that says it."""
DATE: Final = "date"
"""Of the store time, in UTC: YYYY-MM-DD.  The one partition column that is no column of the table."""
QUEUE_ORDER: Final = ("topic", "queueId", "queueOffset")
WIDE: Final = frozenset({"topic", "queueId"})
"""Partitions of which one stretch of log holds many."""
WIDE_SPLIT_BYTES: Final = 1024 * MIB
"""Of log, for one task, when directories are named for topics or queues: a larger one makes fewer files."""
COMPRESSIONS: Final = {"zstd": (1, 22), "gzip": (1, 9), "brotli": (1, 11), "snappy": None, "lz4": None, "none": None}
"""Codec -> its levels."""
DEFAULT_LEVELS: Final = {"zstd": 1, "gzip": 6, "brotli": 4}


class Order(StrEnum):
    """How the rows of a file lie."""

    PHYSICAL = "physicalOffset"
    QUEUE = "queue"
    """topic, queueId, queueOffset"""


@dataclass(frozen=True)
class FileOptions:
    """Of an export's files.  Bytes of rows are those in memory, bytes of files those on disk."""

    partition_by: tuple[str, ...] = ("brokerName", DATE)
    order: Order = Order.PHYSICAL
    compression: str = "zstd"
    level: int | None = 1
    row_group_bytes: int = 32 * MIB
    file_bytes: int = 256 * MIB
    """a file ends with the row group that reaches it"""
    buffer_bytes: int = 128 * MIB
    """rows that a task holds at once, of all partitions"""
    partitions_max: int = 2048
    """that one task may meet"""
    verify: bool = True

    def as_json(self) -> dict[str, Any]:
        """For the plan."""
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"partition_by": list(self.partition_by)}


def parse_file_options(given: Mapping[str, Any]) -> FileOptions:
    """given: by the fields' names; None is what was not given; values may be texts.  Raises `BadOption`."""
    made = FileOptions()
    for name, value in given.items():
        if value is None:
            continue
        try:
            made = replace(made, **_read(name, value))
        except (ValueError, TypeError) as reason:
            raise BadOption(f"{name}: {value!r}: {reason}") from reason
    return made


def _read(name: str, value: Any) -> dict[str, Any]:
    match name:
        case "partition_by":
            return {name: _partitions(value)}
        case "order":
            return {name: next((one for one in Order if one.lower() == str(value).lower()), None) or Order(value)}
        case "compression":
            return _compression(str(value))
        case "row_group_bytes" | "file_bytes" | "buffer_bytes":
            return {name: size_of(value)}
        case "partitions_max":
            if int(value) < 1:
                raise ValueError("below 1")
            return {name: int(value)}
        case "verify":
            if str(value).lower() not in ("true", "false"):
                raise ValueError("neither true nor false")
            return {name: str(value).lower() == "true"}
    raise BadOption(f"no option {name} of an export")


def _partitions(value: str | Iterable[str]) -> tuple[str, ...]:
    names = [text for one in (value.split(",") if isinstance(value, str) else value) for text in str(one).split(",") if text]
    if [one.lower() for one in names] == ["none"]:
        return ()
    by_lower = {one.lower(): one for one in PARTITIONS}
    if strange := [one for one in names if one.lower() not in by_lower]:
        raise ValueError(f"no {', '.join(strange)}; there are {', '.join(PARTITIONS)} and none")
    if len({one.lower() for one in names}) < len(names):
        raise ValueError("one is there twice")
    return tuple(by_lower[one.lower()] for one in names)


def _compression(value: str) -> dict[str, Any]:
    codec, _, level = value.lower().partition(":")
    if codec not in COMPRESSIONS:
        raise ValueError(f"not one of {', '.join(COMPRESSIONS)}")
    levels = COMPRESSIONS[codec]
    if level and (levels is None or not levels[0] <= int(level) <= levels[1]):
        raise ValueError(f"levels of {codec}: {f'{levels[0]} to {levels[1]}' if levels else 'none'}")
    return {"compression": codec, "level": int(level) if level else DEFAULT_LEVELS.get(codec)}


@dataclass(frozen=True)
class Shape:
    """Columns.  read: what is asked of the store; file: of a data file; corrupt: of a file of what is no sound message."""

    read: pa.Schema
    file: pa.Schema
    corrupt: pa.Schema


def shape_of(options: Options, files: FileOptions) -> tuple[Options, Shape]:
    """The options with which the store is read for it, and the columns.  Raises `BadOption` for what does not fit."""
    if options.table is not Table.MESSAGES:
        raise BadOption(f"table: only messages are exported, not {options.table}")
    wanted = [name for name in schema_of(options).names if name != CORRUPT]
    if not wanted:
        raise BadOption("columns: at least one")
    needed = [PARTITIONS[one] for one in files.partition_by]
    if files.order is Order.QUEUE:
        if missing := [one for one in QUEUE_ORDER if one not in (*wanted, *files.partition_by)]:
            raise BadOption(f"sort: by queue needs the columns {', '.join(missing)}")
        needed += QUEUE_ORDER
    needed += ["brokerName", "physicalOffset", "storeSize"]
    names = [*wanted, *(one for one in dict.fromkeys(needed) if one not in wanted)]
    if options.mode is Mode.PERMISSIVE:
        names.append(CORRUPT)
    reading = replace(options, columns=tuple(names))
    whole = schema_of(reading)
    kept = [name for name in wanted if name not in files.partition_by]
    if not kept:
        raise BadOption("columns: none is left beside those that name the directories")
    return reading, Shape(whole, pa.schema([whole.field(name) for name in kept]), whole)


__all__ = ["DATE", "PARTITIONS", "FileOptions", "Order", "Shape", "parse_file_options", "shape_of"]
