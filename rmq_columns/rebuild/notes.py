"""What tasks of the first round have done, noted beside what they wrote: a start after one that was killed need not do it again.

A note has the runs that its task met, and is there only when all units of the split are written.  It counts for another start
than its own alone, and for the same splits of the same log (`print_of_tasks`).  Units that were written and not yet on the disk
when its power failed are lost, though the note may be there: so a note of this machine counts only until it is started again.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Final
from uuid import uuid4

import pyarrow as pa

from rmq_columns.files.filesystem import translated_writing
from rmq_columns.rebuild.place import NOTES
from rmq_columns.rebuild.plan import Plan, Task
from rmq_columns.rebuild.runs import RUNS

BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_NEW: Final = ".new"


def print_of_tasks(plans: Iterable[Plan], tasks: Iterable[Task]) -> str:
    """Equal where the same units come of them."""
    made = hashlib.sha256()
    for plan in plans:
        rules = [sorted(one) if isinstance(one, frozenset) else one for one in vars(plan.rules).values()]
        target = plan.target
        sizes = (target.file_bytes, target.batch_file_bytes, target.extension_file_bytes)
        made.update(repr((plan.number, plan.store.uri, plan.store.broker_name, rules, sizes)).encode())
    for task in tasks:
        how = task.split.options
        made.update(repr((task.plan.number, how.mode, how.tail, how.verify_crc)).encode())
        for part in task.split.parts:
            made.update(repr((part, _changed(part.path))).encode())
    return made.hexdigest()


def _changed(path: str) -> int:
    """When a file of this machine was last written to, ns; 0 of others."""
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0


def noted(task: Task) -> Iterator[pa.RecordBatch] | None:
    """The runs of a task that an earlier start has done; None without any that counts."""
    try:
        with pa.memory_map(_place(task)) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid):
        return None
    said = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
    is_of_now = said.get("machine") != socket.gethostname() or said.get("boot") == _boot()
    if said.get("run") in (None, task.plan.run) or not is_of_now:
        return None
    return iter(table.replace_schema_metadata(None).cast(RUNS).to_batches())


def noting(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same runs; when there were all of them, a note of them.  Raises `CannotRead`."""
    place = _place(task)
    new = f"{place}.{uuid4().hex}{_NEW}"
    said = {"run": task.plan.run, "machine": socket.gethostname(), "boot": _boot()}
    held = []
    for batch in batches:
        held.append(batch)
        yield batch
    with translated_writing(place):
        with pa.OSFile(new, "wb") as sink, pa.ipc.new_file(sink, RUNS.with_metadata(said)) as writer:
            for batch in held:
                writer.write_batch(batch)
        os.replace(new, place)


def _place(task: Task) -> str:
    return os.path.join(task.plan.target.work, NOTES, str(task.number))


@cache
def _boot() -> str:
    """Of this machine since it was started; another one each time where nothing says."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return uuid4().hex
