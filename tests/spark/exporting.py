"""Tasks of an export that die where they are asked to; workers import this module by its name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmq_columns.export.destination import LocalDestination
from rmq_spark.jobs.export import work_on

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_columns.export.parquet import Job
    from rmq_columns.export.plan import Numbered

STEPS = ("create", "put")


def dies(step: str, split: int, mark: str, kill: str, job: Job, one: Numbered) -> Iterator[pa.RecordBatch]:
    """As `work_on`; before the step of that split, once for each file `mark` that is not there yet: kill or raise.

    step: `create` (a data file), `put` (the entry), `done` (behind it).  kill: `worker`, `raise`, or the pid of the driver.
    """

    def stop() -> None:
        if one.number != split or os.path.exists(mark):
            return
        Path(mark).touch()
        if kill == "raise":
            raise OSError("planted")
        os.kill(os.getpid() if kill == "worker" else int(kill), signal.SIGKILL)
        if kill != "worker":
            signal.pause()

    kept = {name: getattr(LocalDestination, name) for name in STEPS}
    try:
        for name in STEPS:
            setattr(LocalDestination, name, _stopping(kept[name], stop) if name == step else kept[name])
        yield from work_on(job, one)
        if step == "done":
            stop()
    finally:
        for name in STEPS:
            setattr(LocalDestination, name, kept[name])


def _stopping(call: Callable[..., Any], stop: Callable[[], None]) -> Callable[..., Any]:
    def called(self: LocalDestination, *arguments: Any) -> Any:
        stop()
        return call(self, *arguments)

    return called


def dying(step: str, split: int, mark: str, kill: str) -> Callable[..., Any]:
    """To be given to `write`."""
    return partial(dies, step, split, mark, kill)
