"""Consume queues of whole stores from their logs: what a task does with its split; and all of it in turn, without Spark.

First each split writes its units where their own offsets say and reports the runs it met.  That is all for a queue whose runs
follow one another.  A queue that began anew in the log, and every batch queue (whose units have no place of their own), is made
in a second round: its pieces then are known, each split writes those that begin in it.  Of a batch queue that goes back into its
midst, which only a wrong offset brings about, runs do not say where: it is looked at more closely between the two.  Memory is
bounded by `GATHERED_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from rmq_columns.decode.dtypes import BATCH_UNIT, QUEUE_UNIT
from rmq_columns.decode.scan import Batch
from rmq_columns.errors import Malformed
from rmq_columns.read.messages import Damage, scanned
from rmq_columns.read.options import Mode, Options
from rmq_columns.rebuild.entries import Entries, Key, Kind, Maker
from rmq_columns.rebuild.files import EXTENSION, EXTENSION_BYTES, SECOND, complete, extension_addresses
from rmq_columns.rebuild.notes import noted, noting, print_of_tasks
from rmq_columns.rebuild.place import finish, is_broken_off, making
from rmq_columns.rebuild.plan import Plan, Task, plan_build
from rmq_columns.rebuild.runs import DAMAGE, IN_NO_QUEUE, RUNS, Run, Settled, extend, found_runs, goes_back, places, settle

GATHERED_MAX: Final = 1 << 19
"""Units kept before they are written: some 30 MB."""
ROWS_MAX: Final = 1 << 14
"""Runs reported at once."""
NOT_COMPACTED: Final = -1


@dataclass
class Made:
    """Of one store."""

    plan: Plan
    queues: dict[Key, Settled] = field(default_factory=dict)
    bytes: dict[Key, int] = field(default_factory=dict)
    damaged_bytes: int = 0
    in_no_queue: int = 0


# --- one split


def build_split(task: Task) -> Iterator[pa.RecordBatch]:
    """Write the units of a split; the runs that were met, with the schema `RUNS` (none in the second round).

    Done again it writes the same to the same places; what an earlier start has written and noted is not done again.  Raises
    `Malformed` in mode FAILFAST, `SeamMismatch`, `CannotRead`.
    """
    if task.pieces is not None or task.broken_at is not None or not task.plan.target.work:
        yield from _Builder(task).run()
        return
    task.plan.target.check()
    there = noted(task)
    yield from noting(task, _Builder(task).run()) if there is None else there


class _Builder:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.target = task.plan.target if task.pieces is None else task.plan.target.of(SECOND)
        self.maker = Maker(task.plan.rules)
        self.gathered: list[Entries] = []
        self.count = 0
        self.runs: dict[int, list[Run]] = {}
        self.done: dict[Key, list[int]] = {}
        self.damaged = self.damages = 0

    def run(self) -> Iterator[pa.RecordBatch]:
        self.target.check()
        split = self.task.split
        tree = split.store.tree(split.options)
        for part in split.parts:
            for item in scanned(tree, part, split.options):
                if isinstance(item, Batch):
                    self._take(item, part.file_start + part.displaced_by, part.path)
                elif item.kind != "unwritten":
                    self._damage(item)
        self._write()
        if self.task.pieces is None:
            yield from self._rows()

    def _take(self, item: Batch, own_start: int, path: str) -> None:
        units = item.units
        wrong = units["physical_offset"] != units.at + (item.base + own_start)
        if wrong.any():
            first = int(np.argmax(wrong))
            if self.task.split.options.mode is Mode.FAILFAST:
                raise Malformed(path, item.base + int(units.at[first]), "its own offset is not where it stands")
            self.damages += int(wrong.sum())
            self.damaged += int(units["total_size"][wrong].sum())
            units = units.take(~wrong)
        made = self.maker.take(item.buffer, units)
        self.gathered.append(made)
        self.count += len(made.queue)
        if self.count > GATHERED_MAX:
            self._write()

    def _damage(self, item: Damage) -> None:
        if self.task.split.options.mode is Mode.FAILFAST:
            raise Malformed(item.path, item.start, f"{item.end - item.start} bytes are no message ({item.kind})")
        self.damages += 1
        self.damaged += item.end - item.start

    def _write(self) -> None:
        """What was gathered, queue by queue."""
        if not self.count:
            return
        entries = Entries.joined(self.gathered)
        self.gathered, self.count = [], 0
        entries = entries.take(np.argsort(entries.queue, kind="stable"))
        edges = [0, *(np.flatnonzero(np.diff(entries.queue)) + 1).tolist(), len(entries.queue)]
        plain = _plain_units(entries)
        for start, end in pairwise(edges):
            number = int(entries.queue[start])
            key, own = self.maker.queues[number], entries.take(slice(start, end))
            if self.task.pieces is not None:
                self._write_pieces(key, own)
                continue
            if self.task.broken_at is not None:
                if key in self.task.broken_at:
                    self.runs.setdefault(number, []).extend(found_runs(own, self.task.broken_at[key]))
                continue
            runs = found_runs(own)
            if key.kind in (Kind.PLAIN, Kind.LIGHT):
                at = start
                for run in runs:
                    self.target.write(key, run.first, plain[at : at + run.units].view(np.uint8).data)
                    at += run.units
            extend(self.runs.setdefault(number, []), runs)

    def _write_pieces(self, key: Key, own: Entries) -> None:
        pieces = list((self.task.pieces or {}).get(key, ()))
        done = self.done.setdefault(key, [0] * len(pieces))
        for rows, place, number in places(pieces, done, own.physical):
            chosen = own.take(rows)
            if key.kind is Kind.EXTENDED:
                self.target.write_extensions(key, number, _extensions(chosen).view(np.uint8).data)
                numbers = np.arange(number, number + len(chosen.queue))
                chosen = chosen._replace(code=extension_addresses(numbers, self.target.extension_file_bytes))
            units = _batch_units(chosen) if key.kind is Kind.BATCH else _plain_units(chosen)
            self.target.write(key, place, units.view(np.uint8).data)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        plan, number = self.task.plan, self.task.number
        rows: list[tuple[Any, ...]] = []
        for queue, runs in self.runs.items():
            key = self.maker.queues[queue]
            for run in runs:
                rows.append(
                    (
                        plan.store.broker_name,
                        key.topic,
                        key.queue_id,
                        key.kind.value,
                        plan.number,
                        number,
                        run.first,
                        run.end,
                        run.units,
                        run.first_physical,
                        run.last_physical,
                        run.first_size,
                        run.bytes,
                    )
                )
                if len(rows) >= ROWS_MAX:
                    yield _batch(rows)
                    rows = []
        for kind, count, size in ((DAMAGE, self.damages, self.damaged), (IN_NO_QUEUE, self.maker.in_no_queue, 0)):
            if count and self.task.broken_at is None:
                rows.append((plan.store.broker_name, None, None, kind, plan.number, number, 0, 0, count, 0, 0, 0, size))
        if rows:
            yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, one.type) for column, one in zip(zip(*rows, strict=True), RUNS, strict=True)]
    return pa.record_batch(columns, schema=RUNS)


def _plain_units(entries: Entries) -> np.ndarray[Any, np.dtype[np.void]]:
    units = np.empty(len(entries.queue), QUEUE_UNIT)
    units["physical_offset"], units["size"], units["tags_code"] = entries.physical, entries.size, entries.code
    return units


def _extensions(entries: Entries) -> np.ndarray[Any, np.dtype[np.void]]:
    made = np.zeros(len(entries.queue), EXTENSION)
    made["size"], made["tags_code"], made["store_timestamp"] = EXTENSION_BYTES, entries.code, entries.stored
    return made


def _batch_units(entries: Entries) -> np.ndarray[Any, np.dtype[np.void]]:
    units = np.zeros(len(entries.queue), BATCH_UNIT)
    units["physical_offset"], units["size"], units["tags_code"] = entries.physical, entries.size, entries.code
    units["store_timestamp"], units["base_offset"], units["batch_size"] = entries.stored, entries.offset, entries.span
    units["compacted_offset"] = NOT_COMPACTED
    return units


# --- all of it


def closer_look(tasks: Sequence[Task], every: Sequence[Mapping[Key, list[Run]]]) -> list[Task]:
    """Tasks that say again the runs of batch queues that go back into their midst, broken there.

    every: the runs of each store, which are put in order here.  Those to be said again are taken out.
    """
    broken: list[dict[Key, tuple[int, ...]]] = [{} for _ in every]
    where: set[tuple[int, int]] = set()
    for number, runs in enumerate(every):
        for rows in runs.values():
            rows.sort(key=lambda run: run.first_physical)
        broken[number] = {key: at for key, rows in runs.items() if key.kind is Kind.BATCH and (at := goes_back(rows))}
        for key in broken[number]:
            where |= {(number, run.split) for run in runs[key]}
            runs[key].clear()
    return [replace(task, broken_at=broken[task.plan.number]) for task in tasks if (task.plan.number, task.number) in where]


def put_together(made: Made, runs: Mapping[Key, Sequence[Run]]) -> None:
    """Take the runs of queues."""
    for key, rows in runs.items():
        made.queues[key] = settle(key.kind, sorted(rows, key=lambda run: run.first_physical))
        made.bytes[key] = sum(run.bytes for run in rows)


def to_write_again(made: Made) -> dict[Key, Settled]:
    """Queues of which the first round's units do not stand."""
    return {key: queue for key, queue in made.queues.items() if not queue.as_said}


def second_round(tasks: Sequence[Task], broken: Mapping[int, Mapping[Key, Settled]]) -> list[Task]:
    """Tasks that write the queues (by number of their store) of which the first round's units do not stand."""
    found = []
    for task in tasks:
        pieces = {
            key: own
            for key, queue in broken.get(task.plan.number, {}).items()
            if (own := tuple(piece for piece in queue.pieces if piece.split == task.number))
        }
        if pieces:
            found.append(replace(task, pieces=pieces))
    return found


def rebuild(
    options: Options, to: str, run: Callable[[Sequence[Task]], Iterator[pa.RecordBatch]] | None = None, **how: Any
) -> list[Made]:
    """Make the queues of these stores in a new directory, one split after another.

    run: how tasks are done, each by `build_split`.  how: see `plan_build`.  Raises what `plan_build` and `build_split` raise.
    """
    plans, tasks = plan_build(options, to, **how)
    made = [Made(plan) for plan in plans]
    in_turn = run or (lambda asked: (batch for task in asked for batch in build_split(task)))

    def rows_of(asked: Sequence[Task]) -> Iterator[dict[str, Any]]:
        for batch in in_turn(asked):
            yield from batch.to_pylist()

    with making_all(plans, tasks):
        again = take_rows(made, rows_of(tasks), tasks, rows_of)
        for _ in in_turn(again):
            pass
        finish_all(made)
    return made


def take_rows(
    made: Sequence[Made],
    rows: Iterable[Mapping[str, Any]],
    tasks: Sequence[Task],
    rows_of: Callable[[Sequence[Task]], Iterable[Mapping[str, Any]]],
) -> list[Task]:
    """Put queues together of what the first round met; the tasks of the second.  rows_of: does tasks and has their rows."""
    every: list[dict[Key, list[Run]]] = [{} for _ in made]
    for row in rows:
        take_row(made[row["store"]], every[row["store"]], row)
    if closer := closer_look(tasks, every):
        for row in rows_of(closer):
            take_row(made[row["store"]], every[row["store"]], row)
    for one, runs in zip(made, every, strict=True):
        put_together(one, runs)
    return second_round(tasks, {one.plan.number: to_write_again(one) for one in made})


def making_all(
    plans: Sequence[Plan], tasks: Sequence[Task], is_to_go_on: Callable[[BaseException], bool] = is_broken_off
) -> AbstractContextManager[None]:
    """Around both rounds and `finish_all`: what these write is gone unless it was finished, or may be gone on with.

    is_to_go_on: as for `making`.  Raises `CannotRead`.
    """
    return making(plans[0].to, plans[0].run, [plan.target for plan in plans], print_of_tasks(plans, tasks), is_to_go_on)


def finish_all(made: Sequence[Made]) -> None:
    """When all units of messages are written: what lies between them, and the names by which the queues are found.

    Raises `CannotRead`.
    """
    for one in made:
        for key, queue in one.queues.items():
            complete(one.plan.target, key, queue)
    plan = made[0].plan
    finish(plan.to, plan.run, [one.plan.target for one in made])


def take_row(made: Made, runs: dict[Key, list[Run]], row: Mapping[str, Any]) -> None:
    """One row of `RUNS`."""
    if row["kind"] == DAMAGE:
        made.damaged_bytes += row["bytes"]
    elif row["kind"] == IN_NO_QUEUE:
        made.in_no_queue += row["units"]
    else:
        runs.setdefault(Key(row["topic"], row["queueId"], Kind(row["kind"])), []).append(run_of(row))


def run_of(row: Mapping[str, Any]) -> Run:
    """A row of `RUNS` that is a run."""
    return Run(
        row["firstOffset"],
        row["endOffset"],
        row["units"],
        row["firstPhysicalOffset"],
        row["lastPhysicalOffset"],
        row["firstSize"],
        row["bytes"],
        row["split"],
    )


__all__ = ["Made", "Plan", "Task", "build_split", "plan_build", "rebuild"]
