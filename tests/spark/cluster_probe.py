"""What tasks of the cluster tests do besides reading: they say where they are and what they import, and some of them die.

Sent to executors beside the zip, so it imports nothing of the tests.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rmq_spark.reading import worked
from rmq_spark.work import Work, as_text, of_text

SEEN = pa.schema([("number", pa.int32()), ("place", pa.string()), ("imported", pa.string()), ("paths", pa.string())])
WAIT_S_MAX = 120


def called(spark: Any, function: Callable[[Any], Iterator[pa.RecordBatch]], items: Sequence[Any], schema: pa.Schema) -> Any:
    """A DataFrame of what a function of a module (or a `partial` of one) gives for each item, each in a task of its own."""
    return worked(spark, f"{__name__}:CALLED", splits=items, call=as_text((function, schema)))


CALLED = Work(lambda given: given["call"][1], lambda given, item: given["call"][0](item), parameters={"call": of_text})


def look(directory: str, number: int) -> Iterator[pa.RecordBatch]:
    """Where this task is, and where our packages were imported from.  Waits until another executor has such a task, too."""
    import rmq_columns
    import rmq_spark
    import rmq_wire

    (Path(directory) / os.path.basename(os.getcwd())).touch()
    ends = time.monotonic() + WAIT_S_MAX
    while len(os.listdir(directory)) < 2:
        if time.monotonic() > ends:
            raise TimeoutError("no other executor")
        time.sleep(0.05)
    files = [os.path.abspath(str(one.__file__)) for one in (rmq_columns, rmq_spark, rmq_wire)]
    row: list[list[Any]] = [[number], [os.getcwd()], ["\n".join(files)], ["\n".join(sys.path)]]
    yield pa.record_batch([pa.array(value, field.type) for value, field in zip(row, SEEN, strict=True)], schema=SEEN)


def read_and_die(marker: str, whom: str, split: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a split.  Whoever is first kills, after its first batch, its Python or the executor beneath it."""
    from rmq_columns import read_split

    for batch in read_split(split):
        yield batch
        try:
            descriptor = os.open(f"{marker}-{whom}", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            continue
        victim = os.getpid() if whom == "python" else executor_of(os.getppid())
        os.write(descriptor, str(victim).encode())
        os.close(descriptor)
        os.kill(victim, signal.SIGKILL)
        time.sleep(WAIT_S_MAX)  # whoever outlives this kill must not go on: its executor is gone


def executor_of(daemon: int) -> int:
    """The JVM that started a worker's daemon (Linux)."""
    pid = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    assert b"ExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return pid
