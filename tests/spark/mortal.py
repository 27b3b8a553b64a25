"""Jobs whose executor or driver is killed in the middle of their work, once; executors import this module by its name.

`mortal_tasks` puts itself around everything that a job spreads over tasks.  Where a task is about to call a certain function, and
some tasks have ended, so that the executor has results of its own to lose, the JVM beneath it gets a SIGKILL, or the driver does.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from tests.spark.cluster_probe import WAIT_S_MAX, executor_of

if TYPE_CHECKING:
    import pyarrow as pa

ENDED: Final = 2
"""Tasks that have ended before somebody dies."""
KILLED: Final = "killed"
END: Final = "end"
"""In place of a function: all is done, and nobody has heard of it yet."""


@contextmanager
def mortal_tasks(marks: Path, step: str, victim: int = 0) -> Iterator[None]:
    """step: `module:function` or `module:class.method`, or `end`.  victim: pid, 0 for the executor of that task.

    The pid that was killed is in `marks`/killed.
    """
    from rmq_spark import tasks

    marks.mkdir(parents=True)

    def wrapped(way: Callable[..., Any]) -> Callable[..., Any]:
        def called(spark: Any, work: Callable[[Any], Iterator[pa.RecordBatch]], items: Sequence[Any], *schema: pa.Schema) -> Any:
            return way(spark, partial(mortal, str(marks), step, victim, work), items, *schema)

        return called

    with mock.patch.multiple(tasks, spread=wrapped(tasks.spread), gathered=wrapped(tasks.gathered)):
        yield


def mortal(
    marks: str, step: str, victim: int, work: Callable[[Any], Iterator[pa.RecordBatch]], item: Any
) -> Iterator[pa.RecordBatch]:
    """As `work`, but for one executor."""
    now = partial(kill, Path(marks), victim)
    if step == END:
        yield from list(_then(work(item), now))
    else:
        with _before(step, now):
            yield from work(item)
    Path(marks, f"ended-{os.getpid()}-{time.monotonic_ns()}").touch()


def _then(batches: Iterator[pa.RecordBatch], call: Callable[[], None]) -> Iterator[pa.RecordBatch]:
    yield from batches
    call()


@contextmanager
def _before(step: str, call: Callable[[], None]) -> Iterator[None]:
    """Calls it before each call of a function."""
    module, _, names = step.partition(":")
    owner = importlib.import_module(module)
    *classes, name = names.split(".")
    for one in classes:
        owner = getattr(owner, one)
    function = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        call()
        return function(*arguments, **named)

    with mock.patch.object(owner, name, wrapped):
        yield


def kill(marks: Path, victim: int) -> None:
    """Kills the victim, unless somebody did."""
    if len(list(marks.glob("ended-*"))) < ENDED:
        return
    try:
        mark = os.open(marks / KILLED, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return
    victim = victim or executor_of(os.getppid())
    os.write(mark, str(victim).encode())
    os.close(mark)
    os.kill(victim, signal.SIGKILL)
    time.sleep(WAIT_S_MAX)  # whoever outlives this must not go on: its executor is gone
