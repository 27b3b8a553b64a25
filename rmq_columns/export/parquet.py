"""Messages as Parquet, split by split, by anybody anywhere, exactly once: `prepare`, `export_split` for each to do, `finish`.

A split's files get their names when all are whole, the same names from every attempt that read the same; its entry is written
when they are all in place, and only what an entry names counts.  So it does no harm when an attempt dies at any point, is
repeated, runs twice at once, or ends when nobody waits for it any more.  Nothing that was exported is removed before `finish`
knows, for every split, an entry that holds.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from heapq import nlargest
from typing import Any, Final

from rmq_columns.errors import SeamMismatch
from rmq_columns.export import manifest
from rmq_columns.export.destination import Destination, destination
from rmq_columns.export.files import counted
from rmq_columns.export.manifest import SUCCESS, WHOLE, CannotExport, Done, Entry, Survey
from rmq_columns.export.options import WIDE, WIDE_SPLIT_BYTES, FileOptions, shape_of
from rmq_columns.export.plan import (
    Behind,
    Had,
    Numbered,
    Plan,
    asked_for,
    by_number,
    check_prints,
    check_there,
    choose,
    compare,
    log_key,
    mended,
    next_number,
    read_plan,
    write_plan,
)
from rmq_columns.export.progress import check_kept, new_plan, reached
from rmq_columns.export.reading import recorded, restored
from rmq_columns.export.split import Job, export_split
from rmq_columns.files.filesystem import SCHEME, absolute, lies_in
from rmq_columns.read.options import Options
from rmq_columns.read.stores import list_stores

STARTS_MAX: Final = 8
"""Other starts that may make a plan while this one does."""
WORST: Final = 50
"""Stretches of log in `Finished`: those with the most that is no sound message."""


@dataclass(frozen=True)
class Prepared:
    """One start.  todo: splits without an entry that holds; done: how many have one."""

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


@dataclass(frozen=True)
class Stretch:
    """Of log, with what is no sound message.  Offsets are physical."""

    broker_name: str
    start: int
    end: int
    corrupt_rows: int


@dataclass(frozen=True)
class Finished:
    """A complete export.  entries: names, by split.  worst: of `damaged` stretches.  directories: rows, files, bytes of each."""

    summary: Summary
    entries: tuple[str, ...]
    worst: tuple[Stretch, ...]
    damaged: int
    directories: Mapping[str, tuple[int, int, int]]
    strays: int = 0
    """files that lost attempts had left, and that are gone now"""


def prepare(
    to: str, options: Options, files: FileOptions, increment: bool = False, wide: bool = True, pruned: bool = False
) -> Prepared:
    """What is to be done at the destination: all of it, the rest, or (increment, when all is done) what came since.

    options: of the table `messages`.  wide: whether splits may be made larger for many partitions.  pruned: whether directories
    that were removed from the export stay away; else their files are made again.
    Raises `CannotExport` when something else is there, `BadOption`, `CannotRead`, `CannotWrite`.
    """
    reading, shape = shape_of(options, files)
    if wide and WIDE.intersection(files.partition_by):
        reading = replace(reading, split_bytes=max(reading.split_bytes, WIDE_SPLIT_BYTES))
    job = Job(absolute(to), uuid.uuid4().hex, files, shape)
    for _ in range(STARTS_MAX):
        prepared = _prepared(job, reading, asked_for(options, files), increment, pruned)
        if prepared is not None:
            return prepared
    raise CannotExport(job.to, -1, "others begin this export at the same time, again and again: start it when they are through")


def _prepared(job: Job, reading: Options, asked: dict[str, Any], increment: bool, pruned: bool) -> Prepared | None:
    """None when another start has made a plan meanwhile: all is to be looked at again.

    The one write of `run.json` makes this start the one at work and its plans those that count.  Whoever planned before it,
    unseen by us, is seen behind it; whoever plans later sees ours.
    """
    there = destination(job.to)
    seen = manifest.survey(there)
    entries = sorted([*manifest.read_done(there, seen), *restored(there, seen)], key=lambda one: one.name)
    found = [plan for name in seen.plans if (plan := read_plan(there, name, reading)) is not None]
    plans = choose(job.to, found, entries, manifest.current(there)[1])
    for plan in plans:
        compare(job.to, plan.asked, asked)
    is_new = not plans
    if is_new:
        _check_new(job.to, seen, reading)
    if pruned:
        counted = {one.name for one in recorded(there)}
        entries = [_without_pruned(there, one) if not counted or one.name in counted else one for one in entries]
    done = holding(entries, plans)
    made = _mended(plans, found, seen, done)
    if made is not None:
        done = holding(entries, plans)
    todo = _todo(plans, entries, done)
    if is_new or (increment and not todo):
        made = new_plan(uuid.uuid4().hex, plans, done, asked, reading)
        plans.append(made)
        todo = list(made.splits)
    else:
        _check_log(job.to, there, plans, entries, done, todo)
    if made is not None:
        write_plan(there, made)
    manifest.take_over(there, job.run, [plan.identity for plan in plans])
    if manifest.plans_there(there) != {*seen.plans, *([made.name] if made is not None else ())}:
        return None
    if todo:
        there.remove([SUCCESS, WHOLE])
    return Prepared(job, tuple(plans), tuple(todo), len(done), is_new)


def _check_new(to: str, seen: Survey, options: Options) -> None:
    """Raises `CannotExport` where something else is, or would be harmed; `CannotRead` where there is no store."""
    for store in list_stores(options):
        scheme, is_uri, _ = store.uri.partition(SCHEME)
        for own in filter(None, (store.root, *store.logs)):
            if lies_in(to, f"{scheme}{is_uri}{own.lstrip('/')}" if is_uri else own):  # a broker's directory is the broker's
                raise CannotExport(to, -1, f"lies in the store {own}")
    foreign = seen.foreign or next(iter(seen.entries), None)
    if foreign is None and seen.data:
        number, attempt = min(seen.data)
        foreign = f"part-{number:05}-{attempt}-….parquet"
    if foreign is not None:
        raise CannotExport(to, -1, f"is not empty and holds no export that could go on: {foreign}")


def _without_pruned(there: Destination, one: Done) -> Done:
    """An entry that holds again, without the files whose whole directories are gone; as it is where others are missing, too."""
    entry = None if one.holds else manifest.read_entry(there, one.name)
    if entry is None:
        return one
    gone = {file.name for file in entry.files if there.size(file.name) != file.bytes}
    directories = {name.rpartition("/")[0] for name in gone}
    if not gone or any(not name or next(iter(there.walk(name)), None) is not None for name in directories):
        return one
    kept = [file for file in entry.files if file.name not in gone]
    rows, corrupt = counted(kept)
    made = replace(entry, files=kept, rows=rows, corruptRows=corrupt, pruned=sorted({*entry.pruned, *directories}))
    manifest.write_entry(there, made)
    return manifest.done_of(made, holds=True)


def _mended(plans: list[Plan], found: Iterable[Plan], seen: Survey, done: Collection[int]) -> Plan | None:
    """Cuts the files of splits that did not end where the next one began anew, in `plans` too.  done: splits that stay."""
    noted = ((int(matched[1]), name.rpartition("-")[2][:8]) for name in seen.seams if (matched := manifest.SEAM.fullmatch(name)))
    seams = {(number, plan) for number, plan in noted if number not in done}
    if not seams or not plans:
        return None
    seams -= {(one.number, one.plan[:8]) for one in plans[-1].splits if _gone(one) is not None}  # what was read of it stays
    made = mended(plans[-1], seams, uuid.uuid4().hex, next_number(found))
    plans[-1] = made or plans[-1]
    return made


def holding(entries: Iterable[Done], plans: Iterable[Plan]) -> dict[int, Done]:
    """Split -> the entry that counts: of those that hold the one behind which an increment goes on, the one with most rows (of a
    log that loses its beginning another attempt may have read less), or the first by name.
    """
    listed = list(plans)
    behind = _behind(listed)
    return {
        number: held
        for number, several in by_number(entries, listed).items()
        if (held := next((one for one in _ending(several, behind.get(number)) if one.holds), None)) is not None
    }


def _behind(plans: Iterable[Plan]) -> dict[int, Behind]:
    return {number: one for plan in plans for number, one in plan.behind.items()}


def _ending(entries: Iterable[Done], behind: Behind | None) -> list[Done]:
    """The best first; none brings back what was removed for good of another.  Where an increment goes on behind the split, those
    that end there and have as much as was there then.
    """
    if behind is None:
        return sorted(entries, key=lambda one: (-len(one.pruned), -one.rows))
    several = [one for one in entries if one.next == behind.next and (one.rows >= behind.rows or one.pruned)]
    return sorted(several, key=lambda one: (-len(one.pruned), one.data[1] != behind.label, -one.rows))


def _todo(plans: list[Plan], entries: Iterable[Done], done: Mapping[int, Done]) -> list[Numbered]:
    """Splits without an entry that counts; those that had one are to be made again as they were."""
    before, behind = by_number(entries, plans), _behind(plans)
    found = []
    for one in (one for plan in plans for one in plan.splits if one.number not in done):
        end = behind.get(one.number)
        had = next(iter(_ending(before.get(one.number, ()), end)), end)  # its entry may be gone, too
        if had is not None:
            one = one._replace(had=Had(had.rows, had.next or 0, frozenset(had.trailing), frozenset(had.pruned)))
        found.append(one)
    return found


def _check_log(
    to: str, there: Destination, plans: list[Plan], entries: list[Done], done: Mapping[int, Done], todo: list[Numbered]
) -> None:
    """The log is the one of which the rest is to be exported, and still has what must be made again.  Raises `CannotExport`."""
    before = by_number(entries, plans)
    for one in todo:
        if one.had is None:
            check_there(to, one)
        check_prints(to, one)
        if one.had is not None and (gone := _gone(one)) is not None:
            known = before.get(one.number)
            lost = manifest.missing_file(there, known[0].name) if known else manifest.entries_of(one.number)
            raise CannotExport(
                to,
                -1,
                f"{lost} is gone or was changed, and so is the log from which it was made: {gone}.  Nothing was removed: "
                f"put the file back, or say `pruned` if its whole directory was meant to go",
            )
    states = reached(plans, done)
    stores = {log_key(one.split.store): one.split for one in todo}
    for key, split in stores.items():
        if (state := states.get(key)) is not None:
            check_kept(split.store, split.options, replace(state, top=None))


def _gone(one: Numbered) -> str | None:
    """A file of the log that is not there any more."""
    tree = one.split.store.tree(one.split.options)
    return next((part.path for part in one.split.parts if tree.file_size(part.path) is None), None)


def finish(prepared: Prepared) -> Finished:
    """All splits are done: take away what does not count, and say so.  Raises `CannotExport` when one is not."""
    there = destination(prepared.job.to)
    with manifest.at_work(partial(manifest.check_current, there, prepared.job.to, prepared.job.run)):
        return _finished(there, prepared)


def _finished(there: Destination, prepared: Prepared) -> Finished:
    job = prepared.job
    seen = manifest.survey(there)
    done = holding(manifest.read_done(there, seen), prepared.plans)
    missing = [one for plan in prepared.plans for one in plan.splits if one.number not in done]
    manifest.check_current(there, job.to, job.run)
    if missing:
        raise CannotExport(job.to, -1, f"split {missing[0].number} is not done ({len(missing)} in all): start the export again")
    manifest.close_run(there, job.run)
    names = {plan.name for plan in prepared.plans}
    if gone := names - set(seen.plans):
        raise CannotExport(job.to, -1, f"{min(gone)} is gone: {manifest.DIRECTORY} must stay whole")
    in_order = [done[one.number] for plan in prepared.plans for one in plan.splits]
    kept = names | {one.name for one in in_order} | {manifest.closed_name(job.run)}
    strays = manifest.remove_strays(there, job.to, job.run, kept, {one.data for one in in_order})
    summary = _summary(in_order, len(prepared.plans))
    worst, damaged, directories = _write_manifest(there, in_order)
    manifest.check_current(there, job.to, job.run)
    check = partial(manifest.check_current, there, job.to, job.run)
    there.put(SUCCESS, (json.dumps(asdict(summary), indent=1) + "\n").encode(), check)
    return Finished(summary, tuple(one.name for one in in_order), tuple(worst), damaged, directories, strays)


def _write_manifest(there: Destination, in_order: list[Done]) -> tuple[list[Stretch], int, dict[str, tuple[int, int, int]]]:
    """One entry after another, few in memory; what they say together."""
    directories: dict[str, tuple[int, int, int]] = {}
    worst: list[Stretch] = []
    damaged = 0
    sink = there.create(WHOLE)
    try:
        for entry in manifest.entries_at(there, (one.name for one in in_order)):
            sink.write((json.dumps(entry.as_json(), ensure_ascii=False) + "\n").encode())
            _add_files(directories, entry)
            if entry.corruptRows:
                damaged += 1
                shown = Stretch(entry.brokerName, entry.startPhysicalOffset, entry.endPhysicalOffset, entry.corruptRows)
                worst = nlargest(WORST, [*worst, shown], key=lambda one: one.corrupt_rows)
        sink.commit()
    except BaseException:
        sink.abort()
        raise
    return worst, damaged, directories


def _add_files(directories: dict[str, tuple[int, int, int]], entry: Entry) -> None:
    for file in entry.files:
        name = file.name.rpartition("/")[0] or "."
        rows, files, size = directories.get(name, (0, 0, 0))
        directories[name] = (rows + file.rows, files + 1, size + file.bytes)


def _summary(done: Iterable[Done], increments: int) -> Summary:
    listed = list(done)
    return Summary(
        sum(one.rows for one in listed),
        sum(one.corrupt_rows for one in listed),
        sum(one.files for one in listed),
        sum(one.bytes for one in listed),
        sum(one.store_bytes for one in listed),
        len(listed),
        increments,
        sum(one.rows + one.corrupt_rows for one in listed if one.verified),
    )


def is_torn(prepared: Prepared) -> bool:
    """Whether a split of this start did not end where the next one begins: another `prepare` cuts its file anew."""
    there = destination(prepared.job.to)
    own = {manifest.seam_name(one.number, one.plan) for one in prepared.todo}
    return any(name in own for name, _ in there.walk(manifest.DIRECTORY))


def is_cut_anew(before: Prepared, now: Prepared) -> bool:
    """Whether a start has made other splits of what was torn; else no cut was forged: the log is being changed."""
    return not {one.plan for one in before.todo} >= {one.plan for one in now.todo}


def export_store(
    to: str,
    options: Options,
    files: FileOptions | None = None,
    *,
    increment: bool = False,
    pruned: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Summary:
    """The whole export in this process, without Spark; started again with the same arguments it goes on.

    progress: called with splits done and in all.  Raises what the three steps raise.
    """
    prepared = prepare(to, options, files or FileOptions(), increment, pruned=pruned)
    while True:
        try:
            for number, one in enumerate(prepared.todo):
                if progress is not None:
                    progress(number, len(prepared.todo))
                export_split(prepared.job, one)
            return finish(prepared).summary
        except SeamMismatch:
            before, prepared = prepared, prepare(to, options, files or FileOptions())
            if not is_cut_anew(before, prepared):
                raise


__all__ = [
    "CannotExport",
    "Finished",
    "Job",
    "Prepared",
    "Summary",
    "export_split",
    "export_store",
    "finish",
    "is_cut_anew",
    "is_torn",
    "prepare",
]
