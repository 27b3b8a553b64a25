"""Tasks of an export that die where they are asked to; workers import this module by its name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from rmq_columns.export.destination import LocalDestination
from rmq_spark import reading, work
from rmq_spark.jobs.export import EXPORTED
from rmq_spark.work import Given, Work, of_text

if TYPE_CHECKING:
    import pyarrow as pa

    from rmq_columns.export.plan import Numbered

STEPS = ("create", "put")


def dies(given: Given, one: Numbered) -> Iterator[pa.RecordBatch]:
    """As `EXPORTED`; before the step of that split, once for each file `mark` that is not there yet: kill or raise.

    step: `create` (a data file), `put` (the entry), `done` (behind it).  kill: `worker`, `raise`, or the pid of the driver.
    """

    step, split, mark, kill = given["dies"]

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
        yield from EXPORTED.read(given, one)
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


DYING = Work(EXPORTED.schema, dies, parameters={**EXPORTED.parameters, "dies": of_text})


@contextmanager
def dying(step: str, split: int, mark: str, kill: str) -> Iterator[None]:
    """While the block runs, exports die so."""
    plain, how = reading.worked, work.as_text((step, split, mark, kill))

    def worked(spark: Any, table: str, *options: Any, **given: Any) -> Any:
        return (
            plain(spark, f"{__name__}:DYING", *options, dies=how, **given)
            if table == "exported"
            else plain(spark, table, *options, **given)
        )

    with mock.patch.object(reading, "worked", worked):
        yield
