"""One split of an export: its rows are read, written, counted once more, and then its entry is written.

What is in the entry is of the messages, not of what is no message: where the last one ends, and a print by which it is known
again, so that the next increment begins just there.  A split that is made again, since a file of it went away, gets the rows that
it had: what has come behind them belongs to a later increment.
"""

from __future__ import annotations

import contextlib
import json
import uuid
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmq_columns.errors import SeamMismatch, StoreError
from rmq_columns.export import manifest
from rmq_columns.export.destination import Destination, destination
from rmq_columns.export.files import FileEntry, SplitFiles, counted
from rmq_columns.export.manifest import CannotExport, Entry
from rmq_columns.export.options import FileOptions, Shape
from rmq_columns.export.plan import Numbered, check_there, is_misplaced, print_at
from rmq_columns.read.options import Mode
from rmq_columns.read.reading import read_split
from rmq_columns.read.schema import CORRUPT
from rmq_wire import sys_flag as flags

DIGITS: Final = 8
"""Hex, in names."""
TRAILING_MAX: Final = 10_000
"""Places in an entry; with more of them than this some may be shown again by the next increment."""


@dataclass(frozen=True)
class Job:
    """What each task must know.  to: path or URI.  run: of this start."""

    to: str
    run: str
    files: FileOptions
    shape: Shape


def export_split(job: Job, one: Numbered) -> Entry:
    """Writes one split, unless that is done already, and its entry.

    Raises what `read_split` raises (`SeamMismatch` is noted at the destination: the next start cuts the file anew),
    `CannotWrite`, and `CannotExport` when another start has taken over or counts differ.
    """
    there = destination(job.to)
    with manifest.at_work(partial(manifest.check_open, there, job.to, job.run)):
        return _before(there, one) or _written(there, job, one)


def _written(there: Destination, job: Job, one: Numbered) -> Entry:
    """All attempts at a split that read the same give their files the same names: whoever is late changes nothing."""
    tally = Tally()
    with SplitFiles(there, job.files, job.shape, one.number) as made:
        try:
            for batch in rows_of(one):
                tally.add(batch)
                made.add(batch)
        except SeamMismatch as reason:
            note = {"split": one.number, "plan": one.plan, "why": str(reason)}
            check = partial(manifest.check_open, there, job.to, job.run)
            there.put(manifest.seam_name(one.number, one.plan), json.dumps(note, ensure_ascii=False).encode(), check)
            raise
        if tally.corrupt:
            check_there(job.to, one)
        _check_had(one, tally)
        label = _label(one, tally)
        files = made.finish(label)
        if job.files.verify:
            _verify(job, made, one, tally, files)
        entry = _without_pruned(made, one, _entry(job, one, label, tally, files))
        manifest.check_open(there, job.to, job.run)
        made.appear()
        manifest.check_open(there, job.to, job.run)
        manifest.write_entry(there, entry)
    return entry


def _label(one: Numbered, tally: Tally) -> str:
    """Of what was read: an active log may have grown, or recovered, since another attempt.  And of where that was cut, by which
    the files are others."""
    pruned = sorted(one.had.pruned) if one.had is not None else []
    read = (tally.rows, tally.total, tally.next, tally.between, tally.behind_count, tally.behind)
    cut = (one.split.options.batch_rows, one.split.options.block_bytes, pa.__version__)
    return f"{zlib.crc32(repr((one.plan, read, pruned, cut)).encode()):08x}"


def _before(there: Destination, one: Numbered) -> Entry | None:
    """Another attempt's entry that holds."""
    for name, _ in sorted(there.walk(manifest.entries_of(one.number))):
        entry = manifest.read_entry(there, name) if manifest.ENTRY.fullmatch(name) else None
        if entry is None or entry.plan != one.plan or (one.had is not None and (entry.nextPhysicalOffset or 0) != one.had.next):
            continue
        if all(there.size(file.name) == file.bytes for file in entry.files):
            return entry
    return None


def rows_of(one: Numbered, columns: tuple[str, ...] | None = None) -> Iterator[pa.RecordBatch]:
    """What is exported of a split: not what an earlier increment has said is no message, nor more than it had."""
    split = one.split if columns is None else replace(one.split, options=replace(one.split.options, columns=columns))
    for batch in read_split(split):
        kept = _kept(one, batch)
        yield batch if kept is None else batch.filter(pa.array(kept))


def _kept(one: Numbered, batch: pa.RecordBatch) -> npt.NDArray[np.bool_] | None:
    """None: all."""
    if not one.reported and one.had is None:
        return None
    wrong = _wrong(batch)
    places = batch["physicalOffset"].to_numpy()
    kept = np.ones(len(batch), np.bool_)
    if one.reported:
        kept &= ~(wrong & np.isin(places, list(one.reported)))
    if one.had is not None and not is_misplaced(one.split):
        kept &= (places < one.had.next) | (wrong & np.isin(places, list(one.had.trailing)))
    return None if kept.all() else kept


def _wrong(batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """Rows that are no sound message."""
    if CORRUPT not in batch.schema.names:
        return np.zeros(len(batch), np.bool_)
    found: npt.NDArray[np.bool_] = pc.is_valid(batch[CORRUPT]).to_numpy(zero_copy_only=False)
    return found


def _has_packed(batch: pa.RecordBatch) -> bool:
    if "sysFlag" not in batch.schema.names or batch["sysFlag"].null_count:
        return True  # it is not known
    return bool((batch["sysFlag"].to_numpy() & flags.COMPRESSED).any())


class Tally:
    """Messages by their places: how many, from where to where, the sum of the places (another row would change it).

    What is no message is counted apart: what stands between messages, and what stands behind the last one.
    """

    def __init__(self) -> None:
        self.rows = self.total = self.size = 0
        self.first: int | None = None
        self.last: int | None = None
        self.next: int | None = None
        """where the last one ends"""
        self.has_packed = False
        """whether a body may have been unpacked"""
        self.between = 0
        self.behind: list[int] = []
        """places, of which no more than `TRAILING_MAX` are kept"""
        self.behind_count = 0

    @property
    def corrupt(self) -> int:
        return self.between + self.behind_count

    def add(self, batch: pa.RecordBatch, limit: int | None = None) -> None:
        """limit: messages behind this place do not count."""
        places = batch["physicalOffset"].to_numpy()
        wrong = _wrong(batch)
        self.has_packed = self.has_packed or _has_packed(batch)
        sound = ~wrong if limit is None else ~wrong & (places <= limit)
        order = np.flatnonzero(sound)
        behind = wrong
        if len(order):
            self.between += self.behind_count + int(wrong[: order[-1]].sum())
            self.behind, self.behind_count = [], 0
            behind = wrong.copy()
            behind[: order[-1]] = False
            self._add_sound(batch, places[order], order)
        count = int(behind.sum())
        if count:
            self.behind_count += count
            self.behind += places[behind][: TRAILING_MAX - len(self.behind)].tolist()

    def _add_sound(self, batch: pa.RecordBatch, places: npt.NDArray[np.int64], order: npt.NDArray[np.int64]) -> None:
        low, high = int(places.min()), int(places.max())
        self.rows += len(places)
        self.total = (self.total + int(np.sum(places, dtype=np.uint64))) % (1 << 64)
        self.first = low if self.first is None else min(self.first, low)
        if "storeSize" in batch.schema.names:
            sizes = batch["storeSize"].to_numpy()[order]
            self.size += int(sizes.sum(dtype=np.int64))
            if self.last is None or high > self.last:
                self.next = high + int(sizes[int(places.argmax())])
        self.last = high if self.last is None else max(self.last, high)


def _check_had(one: Numbered, tally: Tally) -> None:
    """Raises `CannotExport` where the log cannot give any more what was exported of it already."""
    if one.had is not None and tally.rows < one.had.rows:
        part = one.split.parts[0]
        raise CannotExport(
            part.path,
            part.start,
            f"{tally.rows} messages are left of {one.had.rows} that were exported from here, "
            f"and a file of the export is gone: what is left of it stays",
        )


def _verify(job: Job, made: SplitFiles, one: Numbered, tally: Tally, files: list[FileEntry]) -> None:
    """Count the messages in the log once more, and the rows that the files say they have.

    What a running broker has appended since is not counted.
    """
    options = one.split.options
    columns = ["physicalOffset"]
    if options.mode is not Mode.FAILFAST:
        if options.decompress and tally.has_packed:  # a body that cannot be unpacked may be no row
            columns += [name for name in ("body", "value") if name in job.shape.read.names]
        columns += [name for name in ("crcOk",) if name in job.shape.read.names]  # nor one with another CRC
    if options.mode is Mode.PERMISSIVE:
        columns.append(CORRUPT)
    again = Tally()
    limit = None
    if one.split.parts[-1].is_active:  # it may have grown
        limit = -1 if tally.last is None else tally.last
    for batch in rows_of(one, tuple(columns)):
        again.add(batch, limit)
    if (again.rows, again.total, again.between) != (tally.rows, tally.total, tally.between):
        why = f"{tally.rows} rows were written of {again.rows} in the log: it has changed meanwhile"
        raise CannotExport(one.split.parts[0].path, one.split.parts[0].start, why)
    for file, rows in made.rows_again():
        if rows != file.rows:
            raise CannotExport(file.name, -1, f"has {rows} rows, {file.rows} were written")
    if counted(files) != (tally.rows, tally.corrupt):
        raise CannotExport(job.to, -1, f"{sum(counted(files))} rows were written of {tally.rows + tally.corrupt} that were read")


def _entry(job: Job, one: Numbered, label: str, tally: Tally, files: list[FileEntry]) -> Entry:
    parts, store = one.split.parts, one.split.store
    following = None if is_misplaced(one.split) else tally.next
    return Entry(
        one.number,
        uuid.uuid4().hex[:DIGITS],
        one.plan,
        job.run,
        store.broker_name,
        store.root or store.logs[0],
        parts[0].file_start + parts[0].start,
        parts[-1].file_start + parts[-1].end,
        tally.rows,
        tally.corrupt,
        tally.size,
        tally.first,
        tally.last,
        following,
        _last_print(one, tally.last),
        sorted(tally.behind),
        job.files.verify,
        files,
        label=label,
    )


def _without_pruned(made: SplitFiles, one: Numbered, entry: Entry) -> Entry:
    """What was removed for good of the split is not made again with the rest of it."""
    if one.had is None or not one.had.pruned:
        return entry
    kept = made.leave_out(one.had.pruned)
    rows, corrupt = counted(kept)
    return replace(entry, files=kept, rows=rows, corruptRows=corrupt, pruned=sorted(one.had.pruned))


def _last_print(one: Numbered, place: int | None) -> int | None:
    """Of the last message, by which it is known again; None where it is unknown: the file is gone, or misplaced."""
    for part in one.split.parts:
        at = 0 if place is None else place - part.file_start
        if place is not None and part.start <= at < part.end and not part.displaced_by:
            with contextlib.suppress(StoreError):
                return print_at(one.split.store.tree(one.split.options), part, at)
    return None
