"""Messages as Parquet, split by split, by anybody anywhere, exactly once: `prepare`, `export_split` for each to do, `finish`.

A split's files get names that no other attempt has; its entry in the manifest is written when they are all in place, and only
what an entry names counts.  So it does no harm when an attempt dies at any point, is repeated, or runs twice at once.
`prepare` finds out what is done already and takes away what no entry names; `finish` does so once more.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from rmq_columns import parquet_manifest as manifest
from rmq_columns.options import Mode, Options
from rmq_columns.parquet_destination import Destination, destination
from rmq_columns.parquet_files import FileEntry, SplitFiles, counted
from rmq_columns.parquet_manifest import SUCCESS, WHOLE, CannotExport, Entry, Numbered, Plan
from rmq_columns.parquet_options import WIDE, WIDE_SPLIT_BYTES, FileOptions, Shape, shape_of
from rmq_columns.plan import Split, plan_splits
from rmq_columns.reading import read_split
from rmq_columns.schema import CORRUPT
from rmq_columns.stores import list_stores

BrokerLog = tuple[str, str, tuple[str, ...]]
"""By which a broker's log is known in all plans: name, directory, log directories."""


@dataclass(frozen=True)
class Job:
    """What each task must know.  to: path or URI.  run: of this start."""

    to: str
    run: str
    files: FileOptions
    shape: Shape


@dataclass(frozen=True)
class Prepared:
    """One start.  todo: splits without an entry that holds; done: those that others did before."""

    job: Job
    plans: tuple[Plan, ...]
    todo: tuple[Numbered, ...]
    done: int
    is_new: bool
    """whether nothing was there"""


@dataclass(frozen=True)
class Summary:
    """What is in `_SUCCESS`.  verified: rows of splits that were counted once more in the log and in their files."""

    rows: int
    corrupt_rows: int
    files: int
    bytes: int
    log_bytes: int
    """of the units that became rows"""
    splits: int
    increments: int
    verified_rows: int


def prepare(to: str, options: Options, files: FileOptions, increment: bool = False, wide: bool = True) -> Prepared:
    """What is to be done at the destination: all of it, the rest, or (increment, when all is done) what came since.

    options: of the table `messages`.  wide: whether splits may be made larger for many partitions.
    Raises `CannotExport` when something else is there, `BadOption`, `CannotRead`, `CannotWrite`.
    """
    reading, shape = shape_of(options, files)
    if wide and WIDE.intersection(files.partition_by):
        reading = replace(reading, split_bytes=max(reading.split_bytes, WIDE_SPLIT_BYTES))
    asked = manifest.asked_for(replace(options, split_bytes=reading.split_bytes), files)
    to = to if "://" in to else os.path.abspath(to)
    there = destination(to)
    plans = _plans(there, to, asked, reading)
    if not plans:
        _check_outside(to, reading)
    listed = there.listing()
    if not plans and (foreign := sorted(set(listed) - set(manifest.strays(listed, ())) - {manifest.RUN, manifest.plan_name(0)})):
        raise CannotExport(to, -1, f"is not empty and holds no export that could go on: {foreign[0]}")
    run = manifest.take_over(there)
    entries = manifest.read_entries(there, plans, listed)
    todo = _todo(plans, entries)
    is_new = not plans
    if is_new or (increment and not todo):
        plans.append(_planned(len(plans), plans, entries, asked, reading))
        manifest.write_plan(there, plans[-1])
        todo = list(plans[-1].splits)
    for one in todo:
        if one not in plans[-1].splits or not is_new:
            manifest.check_prints(to, one)
    if todo:
        there.remove([SUCCESS, WHOLE])
    there.remove(manifest.strays(listed, entries.values()))
    return Prepared(Job(to, run, files, shape), tuple(plans), tuple(todo), len(entries), is_new)


def _check_outside(to: str, options: Options) -> None:
    """A broker's directory is the broker's.  Raises `CannotExport`, `CannotRead` where there is no store."""
    for store in list_stores(options):
        for own in filter(None, (store.root, *store.logs)):
            if os.path.join(os.path.realpath(to), "").startswith(os.path.join(os.path.realpath(own), "")):
                raise CannotExport(to, -1, f"lies in the store {own}")


def _plans(there: Destination, to: str, asked: dict[str, Any], reading: Options) -> list[Plan]:
    found: list[Plan] = []
    while (plan := manifest.read_plan(there, len(found), reading)) is not None:
        manifest.compare(to, plan.asked, asked)
        found.append(plan)
    return found


def _todo(plans: Iterable[Plan], entries: dict[int, Entry]) -> list[Numbered]:
    return [one for plan in plans for one in plan.splits if one.number not in entries]


def _planned(
    increment: int, plans: list[Plan], entries: dict[int, Entry], asked: dict[str, Any], reading: Options
) -> Plan:
    """All there is, or what stands behind the last message of each broker that was exported."""
    ends = _ends(plans, entries)
    first = min(ends.values(), default=reading.starting_offset)
    number = sum(len(plan.splits) for plan in plans)
    identity = uuid.uuid4().hex
    splits = []
    for split in plan_splits(replace(reading, starting_offset=first)):
        start = ends.get(_log(split), reading.starting_offset)
        if start is not None and not split.store.lone and all(part.file_start + part.end <= start for part in split.parts):
            continue
        own = replace(split, options=replace(split.options, starting_offset=start))
        splits.append(Numbered(identity, number, own, manifest.prints_of(own.store.tree(own.options), own)))
        number += 1
    return Plan(identity, increment, asked, tuple(splits))


def _log(split: Split) -> BrokerLog:
    return split.store.broker_name, split.store.root, split.store.logs


def _ends(plans: list[Plan], entries: dict[int, Entry]) -> dict[BrokerLog, int]:
    """Of each broker's log that was exported: where the next increment begins."""
    found: dict[BrokerLog, int] = {}
    for plan in plans:
        for one in plan.splits:
            last = entries[one.number].lastPhysicalOffset
            if last is not None:
                found[_log(one.split)] = max(found.get(_log(one.split), 0), last + 1)
    for plan in plans[:1]:
        for one in plan.splits:  # a log without any row is looked at from its beginning
            if one.split.options.starting_offset is not None or _log(one.split) not in found:
                found.setdefault(_log(one.split), one.split.options.starting_offset or 0)
    return found


def export_split(job: Job, one: Numbered) -> Entry:
    """Writes one split, unless that is done already, and its entry.

    Raises what `read_split` raises, `CannotWrite`, and `CannotExport` when another start has taken over or counts differ.
    """
    there = destination(job.to)
    before = manifest.read_entry(there, one.number)
    if before is not None and manifest.holds(before, one, _sizes(there, before.files)):
        return before
    tally = _Tally()
    with SplitFiles(there, job.files, job.shape, one.number, uuid.uuid4().hex[:8]) as made:
        for batch in read_split(one.split):
            tally.add(batch)
            made.add(batch)
        entries = made.finish()
        if job.files.verify:
            _verify(job, there, one.split, tally, entries)
        if not manifest.is_current(there, job.run):
            raise CannotExport(job.to, -1, "another start of this export has taken over")
        entry = _entry(job, one, tally, entries)
        manifest.write_entry(there, entry)
    return entry


def _sizes(there: Destination, files: list[FileEntry]) -> dict[str, int]:
    """Of the files that are there."""
    found = {}
    for one in files:
        filesystem, path = there.where(one.name)
        size = filesystem.get_file_info(path).size
        if size is not None:
            found[one.name] = size
    return found


class _Tally:
    """Rows by their places: how many, from where to where, the sum of the places (another row would change it), bytes of log."""

    def __init__(self) -> None:
        self.rows = 0
        self.total = 0
        self.size = 0
        self.first: int | None = None
        self.last: int | None = None

    def add(self, batch: Any, limit: int | None = None) -> None:
        """limit: places behind it do not count."""
        places = batch["physicalOffset"].to_numpy()
        if limit is None:
            self.size += int(batch["storeSize"].to_numpy().sum(dtype=np.int64))
        if limit is not None:
            places = places[places <= limit]
        if not len(places):
            return
        low, high = int(places.min()), int(places.max())
        self.rows += len(places)
        self.total = (self.total + int(np.sum(places, dtype=np.uint64))) % (1 << 64)
        self.first = low if self.first is None else min(self.first, low)
        self.last = high if self.last is None else max(self.last, high)


def _verify(job: Job, there: Destination, split: Split, tally: _Tally, files: list[FileEntry]) -> None:
    """Count the messages in the log once more, and the rows that the files say they have.

    Messages that a running broker has appended since are not counted.
    """
    options = split.options
    columns = ["physicalOffset"]
    if options.mode is not Mode.FAILFAST and options.decompress and "body" in job.shape.read.names:
        columns.append("body")  # one that cannot be unpacked may be no row
    if options.mode is Mode.PERMISSIVE:
        columns.append(CORRUPT)
    again = _Tally()
    limit = -1 if tally.last is None else tally.last
    for batch in read_split(replace(split, options=replace(options, columns=tuple(columns)))):
        again.add(batch, limit)
    if (again.rows, again.total) != (tally.rows, tally.total):
        why = f"{tally.rows} rows were written of {again.rows} in the log: it has changed meanwhile"
        raise CannotExport(split.parts[0].path, split.parts[0].start, why)
    for one in files:
        filesystem, path = there.where(one.name)
        rows = pq.read_metadata(path, filesystem=filesystem).num_rows
        if rows != one.rows:
            raise CannotExport(one.name, -1, f"has {rows} rows, {one.rows} were written")
    if sum(counted(files)) != tally.rows:
        raise CannotExport(job.to, -1, f"{sum(counted(files))} rows were written of {tally.rows} that were read")


def _entry(job: Job, one: Numbered, tally: _Tally, files: list[FileEntry]) -> Entry:
    rows, corrupt = counted(files)
    parts = one.split.parts
    return Entry(
        one.number, one.plan, job.run, one.split.store.broker_name, one.split.store.root or one.split.store.logs[0],
        parts[0].file_start + parts[0].start, parts[-1].file_start + parts[-1].end,
        rows, corrupt, tally.size, tally.first, tally.last, job.files.verify, files,
    )  # fmt: skip


@dataclass(frozen=True)
class Finished:
    """A complete export.  entries: by split."""

    summary: Summary
    entries: tuple[Entry, ...]


def finish(prepared: Prepared) -> Finished:
    """All splits are done: take away what no entry names, and say so.  Raises `CannotExport` when one is not."""
    job = prepared.job
    there = destination(job.to)
    listed = there.listing()
    entries = manifest.read_entries(there, prepared.plans, listed)
    if missing := _todo(prepared.plans, entries):
        raise CannotExport(job.to, -1, f"split {missing[0].number} is not done ({len(missing)} in all): start the export again")
    if not manifest.is_current(there, job.run):
        raise CannotExport(job.to, -1, "another start of this export has taken over")
    there.remove(manifest.strays(listed, entries.values()))
    in_order = [entries[number] for number in sorted(entries)]
    summary = summary_of(in_order, len(prepared.plans))
    there.put(WHOLE, "".join(json.dumps(one.as_json(), ensure_ascii=False) + "\n" for one in in_order).encode())
    there.put(SUCCESS, (json.dumps(summary.__dict__, indent=1) + "\n").encode())
    return Finished(summary, tuple(in_order))


def summary_of(entries: Iterable[Entry], increments: int) -> Summary:
    """The sums."""
    listed = list(entries)
    files = [file for one in listed for file in one.files]
    return Summary(
        sum(one.rows for one in listed), sum(one.corruptRows for one in listed), len(files), sum(one.bytes for one in files),
        sum(one.storeBytes for one in listed), len(listed), increments,
        sum(one.rows + one.corruptRows for one in listed if one.verified),
    )  # fmt: skip


def export_store(
    to: str, options: Options, files: FileOptions | None = None, *, increment: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """The whole export in this process, without Spark; started again with the same arguments it goes on.

    progress: told splits done and in all.  Raises what the three steps raise.
    """
    prepared = prepare(to, options, files or FileOptions(), increment)
    for number, one in enumerate(prepared.todo):
        if progress is not None:
            progress(number, len(prepared.todo))
        export_split(prepared.job, one)
    return finish(prepared).summary
