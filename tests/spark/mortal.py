"""Jobs whose executor or driver is killed in the middle of their work, once; executors import this module by its name.

`mortal_tasks` puts itself around every table of work that a job reads.  Where a task is about to call a certain function, and
some tasks have ended, so that the executor has results of its own to lose, the JVM beneath it gets a SIGKILL, or the driver does.
Or the JVM is stopped (SIGSTOP), so that Spark takes it for lost and repeats the task; the task's Python goes on when `let_go` is
called.
"""

from __future__ import annotations

import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from rmq_spark.work import Given, Work, given_of, of_text, work_of
from tests.spark.cluster_probe import WAIT_S_MAX, executor_of

if TYPE_CHECKING:
    import pyarrow as pa

ENDED: Final = 2
"""Tasks that have ended before somebody dies."""
KILLED: Final = "killed"
END: Final = "end"
GO, LATE = "go", "late"
"""A stopped executor's task may go on; it has ended."""
LOOK_S: Final = 0.05
STOPPED_S_MAX: Final = 600
"""How long the task of a stopped executor waits for everybody else to end."""
"""In place of a function: all is done, and nobody has heard of it yet."""


@contextmanager
def mortal_tasks(marks: Path, step: str, victim: int = 0, how: int = signal.SIGKILL) -> Iterator[None]:
    """step: `module:function` or `module:class.method`, or `end`.  victim: pid, 0 for the executor of that task.

    The pid that got the signal is in `marks`/killed.
    """
    from rmq_spark import reading, work

    marks.mkdir(parents=True)
    plain = reading.worked

    def worked(spark: Any, table: str, options: Mapping[str, Any] | None = None, *, splits: Sequence[Any], **given: Any) -> Any:
        how_so = work.as_text((str(marks), step, victim, how, table, work.texts_of(given)))
        return plain(spark, f"{__name__}:MORTAL", options, splits=splits, mortal=how_so)

    with mock.patch.object(reading, "worked", worked):
        yield


def _inner(given: Given) -> tuple[Work, Given]:
    """The table around which this one stands, and its parameters."""
    *_, table, texts = given["mortal"]
    inner = work_of(table)
    assert inner is not None
    return inner, given_of(inner, texts)


def _mortal_schema(given: Given) -> pa.Schema:
    inner, own = _inner(given)
    return inner.schema(own)


def _mortal(given: Given, split: Any) -> Iterator[pa.RecordBatch]:
    inner, own = _inner(given)
    marks, step, victim, how, *_ = given["mortal"]
    return mortal(marks, step, victim, how, partial(inner.read, own), split)


MORTAL: Final = Work(_mortal_schema, _mortal, parameters={"mortal": of_text})


def mortal(
    marks: str, step: str, victim: int, how: int, work: Callable[[Any], Iterator[pa.RecordBatch]], item: Any
) -> Iterator[pa.RecordBatch]:
    """As `work`, but for one executor."""
    stopped: list[int] = []

    def now() -> None:
        if kill(Path(marks), victim, how):
            stopped.append(os.getpid())

    try:
        if step == END:
            batches = list(_then(work(item), now))
        else:
            with _before(step, now):
                batches = list(work(item))
    finally:
        if stopped:
            Path(marks, LATE).touch()
    yield from batches
    Path(marks, f"ended-{os.getpid()}-{time.monotonic_ns()}").touch()


def let_go(marks: Path) -> None:
    """The task of the executor that was stopped goes on to its end; then the executor is killed, unless Spark did that."""
    (marks / GO).touch()
    try:
        wait_for(marks / LATE, WAIT_S_MAX)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int((marks / KILLED).read_text()), signal.SIGKILL)


def wait_for(mark: Path, seconds: float) -> None:
    """Raises `TimeoutError`."""
    until = time.monotonic() + seconds
    while not mark.exists():
        if time.monotonic() > until:
            raise TimeoutError(str(mark))
        time.sleep(LOOK_S)


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


def kill(marks: Path, victim: int, how: int = signal.SIGKILL) -> bool:
    """Kills the victim, unless somebody did.  True: it was stopped, and the task goes on behind everybody's back."""
    if len(list(marks.glob("ended-*"))) < ENDED:
        return False
    try:
        mark = os.open(marks / KILLED, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    victim = victim or executor_of(os.getppid())
    os.write(mark, str(victim).encode())
    os.close(mark)
    if how == signal.SIGSTOP:
        for gentle in (signal.SIGHUP, signal.SIGTERM):  # by which Spark's daemon ends those whose JVM has been killed
            signal.signal(gentle, signal.SIG_IGN)
    os.kill(victim, how)
    if how == signal.SIGSTOP:
        wait_for(marks / GO, STOPPED_S_MAX)
        return True
    time.sleep(WAIT_S_MAX)  # whoever outlives this must not go on: its executor is gone
    return False
