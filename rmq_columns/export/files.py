"""One split as Parquet files: rows go to their partition's buffer, a full buffer becomes a row group, a full file ends.

What is held at once is bounded: bytes of rows over all partitions (the largest is written out first), and files that are open
(the one that was written to least lately is ended).  A batch whose rows all belong to one partition, as with dates nearly all
do, is not copied.  Rows that are no sound message go to a file of their own beneath `_corrupt`, with the reason.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rmq_columns.errors import BadOption
from rmq_columns.export.destination import Destination
from rmq_columns.export.options import DATE, PARTITIONS, QUEUE_ORDER, FileOptions, Order, Shape
from rmq_columns.export.sinks import Sink
from rmq_columns.read.schema import CORRUPT

OPEN_MAX: Final = 16
"""Files that one task writes to at the same time."""
STAGE_BYTES: Final = 32 << 20
"""Of rows that are dealt out to many partitions together: each deal costs a copy of every column for every partition."""
UNNAMED: Final = "0" * 8
"""In place of a label that is not known yet."""
CORRUPT_DIRECTORY: Final = "_corrupt"
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
NAME: Final = re.compile(
    r"part-\d{5,}-[0-9a-f]{8}-\d{3,}\.parquet|\.([0-9a-f]{8}\.json|part-|plan-|seam-|closed-|run|manifest|_SUCCESS)[^/]*\.[0-9a-f]{8}\.part"
)
"""Of our files, without their directories: data, and what was being written when somebody was killed."""
DICTIONARIES: Final = ("brokerName", "topic", "tags", "bornHost", "storeHost", "properties.key_value.key")
"""Columns of few values."""
DELTAS: Final = ("queueOffset", "bornTimestamp", "storeTimestamp", "physicalOffset")
"""Numbers that grow by little."""
PLAIN_TEXTS: Final = {"body", "properties.key_value.value", "uniqKey", "keys", "offsetMsgId"}
"""No dictionary helps them, nor do a least and a largest value."""
DAY_US: Final = 86_400_000_000
Codes = npt.NDArray[np.int64] | None
Key = tuple[Any, ...] | None
"""A value for each partition column; None for what is no sound message."""


@dataclass
class FileEntry:
    """One file in the manifest.  crc32: of its bytes.  partition: column -> value."""

    name: str
    rows: int
    bytes: int
    crc32: int
    rowGroups: int
    firstPhysicalOffset: int
    lastPhysicalOffset: int
    partition: dict[str, Any]
    corrupt: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Partition:
    values: dict[str, Any]
    directory: str
    schema: pa.Schema
    is_corrupt: bool = False
    held: list[pa.RecordBatch] = field(default_factory=list)
    held_bytes: int = 0


class _Open:
    """A file that is written to."""

    def __init__(self, sink: Sink, writer: pq.ParquetWriter, entry: FileEntry) -> None:
        self.sink, self.writer, self.entry = sink, writer, entry


class SplitFiles:
    """Files of one split; a context manager: nothing remains of them but what `appear` gave its name.

    Of two attempts that give files the same names one set remains.
    """

    def __init__(self, destination: Destination, files: FileOptions, shape: Shape, number: int) -> None:
        """number: of the split."""
        self._destination, self._files, self._shape, self._number = destination, files, shape, number
        self._partitions: dict[Key, _Partition] = {}
        self._open: OrderedDict[Key, _Open] = OrderedDict()
        self._staged: list[pa.RecordBatch] = []
        self._staged_bytes = self._held_bytes = 0
        self._made = 0
        self._is_wide = any(PARTITIONS[one] in QUEUE_ORDER for one in files.partition_by)
        self._complete: list[tuple[Sink, FileEntry]] = []
        """Whole, and not seen by anybody yet."""

    def __enter__(self) -> SplitFiles:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        for one in self._open.values():
            one.sink.abort()
            one.writer.close()
        for sink, _ in self._complete:
            sink.abort()

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows in the order of the log, with the columns of `Shape.read`.  Raises `CannotWrite`, `BadOption`."""
        if CORRUPT in batch.schema.names and batch[CORRUPT].null_count < len(batch):
            wrong = pc.is_valid(batch[CORRUPT])
            self._keep(None, batch.filter(wrong), {})
            batch = batch.filter(pc.invert(wrong))
        if not len(batch):
            return
        if not self._is_wide:
            self._deal(batch)
            return
        self._staged.append(batch)
        self._staged_bytes += batch.nbytes
        if self._staged_bytes >= STAGE_BYTES:
            self._deal_staged()

    def finish(self, label: str) -> list[FileEntry]:
        """Everything is written, and nobody sees it yet.  label: 8 hex digits for the names.  Raises `CannotWrite`."""
        self._deal_staged()
        for key in list(self._partitions):
            self._write(key)
        for key in list(self._open):
            self._end(key)
        for _, entry in self._complete:
            directory, slash, name = entry.name.rpartition("/")
            entry.name = f"{directory}{slash}{name.replace(UNNAMED, label)}"
        return [entry for _, entry in self._complete]

    def rows_again(self) -> Iterator[tuple[FileEntry, int]]:
        """Each file, and the rows that it says itself."""
        for sink, entry in self._complete:
            filesystem, path = sink.where()
            yield entry, pq.read_metadata(path, filesystem=filesystem).num_rows

    def leave_out(self, directories: Container[str]) -> list[FileEntry]:
        """Those in these directories are not wanted; the others."""
        kept = []
        for sink, entry in self._complete:
            if entry.name.rpartition("/")[0] in directories:
                sink.abort()
            else:
                kept.append((sink, entry))
        self._complete = kept
        return [entry for _, entry in kept]

    def appear(self) -> None:
        """Each gets its name, in place of what was there.  Raises `CannotWrite`."""
        while self._complete:
            sink, entry = self._complete[0]
            sink.appear(entry.name.rpartition("/")[2])
            del self._complete[0]

    def _deal_staged(self) -> None:
        if self._staged:
            whole = pa.Table.from_batches(self._staged).combine_chunks().to_batches()
            self._staged, self._staged_bytes = [], 0
            for batch in whole:
                self._deal(batch)

    def _deal(self, batch: pa.RecordBatch) -> None:
        """To the partitions."""
        codes, decoded = _codes(batch, self._files.partition_by)
        if codes is None:
            values = decoded(0)
            self._keep(values, batch, dict(zip(self._files.partition_by, values, strict=True)))
            return
        order = np.argsort(codes, kind="stable")
        begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for begin, end in zip(begins.tolist(), [*begins.tolist()[1:], len(order)], strict=True):
            rows = order[begin:end]
            values = decoded(int(rows[0]))
            # `take`, not a slice: a few rows of a rare partition would keep the whole batch in memory
            self._keep(values, batch.take(pa.array(rows)), dict(zip(self._files.partition_by, values, strict=True)))

    def _keep(self, key: Key, batch: pa.RecordBatch, values: dict[str, Any]) -> None:
        part = self._partitions.get(key)
        if part is None:
            part = self._partition(key, values)
        part.held.append(batch)
        size = batch.nbytes
        part.held_bytes += size
        self._held_bytes += size
        if part.held_bytes >= self._files.row_group_bytes and (self._files.order is Order.PHYSICAL or part.is_corrupt):
            self._write(key)
        while self._held_bytes > self._files.buffer_bytes:
            self._write(max(self._partitions, key=lambda one: self._partitions[one].held_bytes))

    def _partition(self, key: Key, values: dict[str, Any]) -> _Partition:
        is_corrupt = key is None
        if not is_corrupt and len(self._partitions) - (None in self._partitions) >= self._files.partitions_max:
            raise BadOption(
                f"partition_by: one split of log has more than {self._files.partitions_max} of {', '.join(values)}, which would "
                f"be as many small files: name fewer columns, or raise the limit (max_partitions)"
            )
        directory = "/".join(f"{name}={_directory_name(value)}" for name, value in values.items())
        schema = self._shape.corrupt if is_corrupt else self._shape.file
        part = _Partition(values, CORRUPT_DIRECTORY if is_corrupt else directory, schema, is_corrupt)
        self._partitions[key] = part
        return part

    def _write(self, key: Key) -> None:
        """What is held for a partition, as a row group (sorted by queue: as a file)."""
        part = self._partitions[key]
        if not part.held:
            return
        table = pa.Table.from_batches(part.held)
        self._held_bytes -= part.held_bytes
        part.held, size, part.held_bytes = [], part.held_bytes, 0
        by_queue = self._files.order is Order.QUEUE and not part.is_corrupt
        if by_queue:
            table = table.combine_chunks().sort_by([(name, "ascending") for name in QUEUE_ORDER])
        file = self._file(key, part)
        wanted = max(-(-size // self._files.row_group_bytes), 1) if by_queue else 1
        group_rows = -(-len(table) // wanted)
        offsets = pc.min_max(table["physicalOffset"])
        first, last = offsets["min"].as_py(), offsets["max"].as_py()
        entry = file.entry
        entry.firstPhysicalOffset = first if not entry.rows else min(first, entry.firstPhysicalOffset)
        entry.lastPhysicalOffset = max(last, entry.lastPhysicalOffset)
        entry.rows += len(table)
        entry.rowGroups += -(-len(table) // group_rows)
        file.writer.write_table(table.select(part.schema.names), row_group_size=group_rows)
        if by_queue or file.sink.size >= self._files.file_bytes:
            self._end(key)

    def _file(self, key: Key, part: _Partition) -> _Open:
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        while len(self._open) >= OPEN_MAX:
            self._end(next(iter(self._open)))
        base = f"part-{self._number:05}-{UNNAMED}-{self._made:03}.parquet"
        self._made += 1
        name = f"{part.directory}/{base}" if part.directory else base
        sink = self._destination.create(name)
        writer = _writer(sink, part.schema, self._files, is_sorted=self._files.order is Order.PHYSICAL)
        self._open[key] = _Open(sink, writer, FileEntry(name, 0, 0, 0, 0, 0, 0, part.values, part.is_corrupt))
        return self._open[key]

    def _end(self, key: Key) -> None:
        file = self._open[key]
        file.writer.close()
        file.sink.complete()
        del self._open[key]
        entry = file.entry
        entry.bytes, entry.crc32 = file.sink.size, file.sink.crc32
        self._complete.append((file.sink, entry))


def _writer(sink: Sink, schema: pa.Schema, files: FileOptions, is_sorted: bool) -> pq.ParquetWriter:
    names = [name for name in schema.names if schema.field(name).type != pa.map_(pa.string(), pa.string())]
    leaves = [*names, *(["properties.key_value.key", "properties.key_value.value"] if len(names) < len(schema) else [])]
    deltas = {name: "DELTA_BINARY_PACKED" for name in DELTAS if name in names}
    sorting = None
    if is_sorted and "physicalOffset" in names:
        sorting = [pq.SortingColumn(schema.get_field_index("physicalOffset"))]
    return pq.ParquetWriter(
        sink,
        schema,
        compression=files.compression,
        compression_level=files.level,
        use_dictionary=[name for name in leaves if name in DICTIONARIES],
        column_encoding=deltas,
        write_statistics=[name for name in leaves if name not in PLAIN_TEXTS and "properties" not in name],
        sorting_columns=sorting,
    )


def _directory_name(value: Any) -> str:
    """As Hive, Spark, DuckDB and pyarrow read it back."""
    text = "" if value is None else str(value)
    return quote(text, safe=" -_.,@+()[]") if text else NO_VALUE


def _codes(batch: pa.RecordBatch, names: tuple[str, ...]) -> tuple[Codes, Callable[[int], tuple[Any, ...]]]:
    """A number for each row that says which partition is its own (None: all have the same), and a row's partition."""
    parts = [_values(batch, name) for name in names]
    several = [codes for codes, _ in parts if codes is not None]

    def decoded(row: int) -> tuple[Any, ...]:
        return tuple(value(row) for _, value in parts)

    if not several:
        return None, decoded
    combined = several[0]
    for codes in several[1:]:
        _, combined = np.unique(combined, return_inverse=True)
        _, codes = np.unique(codes, return_inverse=True)
        combined = combined * (int(codes.max()) + 1) + codes
    return combined.astype(np.int64), decoded


def _values(batch: pa.RecordBatch, name: str) -> tuple[Codes, Callable[[int], Any]]:
    column = batch[PARTITIONS[name]]
    if name == DATE:
        days = np.floor_divide(column.cast(pa.int64()).to_numpy(), DAY_US)
        same = days.min() == days.max()
        return None if same else days - days.min(), lambda row: str(np.datetime64(int(days[row]), "D"))
    if name == "queueId":
        numbers = column.to_numpy().astype(np.int64)
        same = numbers.min() == numbers.max()
        return None if same else numbers - numbers.min(), lambda row: int(numbers[row])
    encoded = column.dictionary_encode()
    same = len(encoded.dictionary) == 1
    return None if same else encoded.indices.to_numpy().astype(np.int64), lambda row: column[row].as_py()


def counted(entries: Iterable[FileEntry]) -> tuple[int, int]:
    """Rows that are sound, and that are not."""
    sound = wrong = 0
    for one in entries:
        sound, wrong = (sound, wrong + one.rows) if one.corrupt else (sound + one.rows, wrong)
    return sound, wrong
