"""Everything that a job found, as files: a directory for each of its frames, Parquet or lines of JSON, written by Spark's tasks.

A place is looked at before the job runs: hours of work must not end with a directory that is taken.  Nothing is ever written into
a store: the Java broker does not start on one with strange files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rmq_columns import BadOption
from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmq_spark.outcome import Outcome

FORMATS: Final = ("parquet", "json")
_STORE_PARTS: Final = ("commitlog", "consumequeue")
"""A directory that has one of these is a store."""


def is_local(path: str) -> bool:
    """Not a URI of some other file system."""
    return "://" not in path


def check_outside(target: str, stores: Iterable[str]) -> None:
    """Raises `BadOption` when a file or directory that is to be written lies in a store, or would hold one."""
    if not is_local(target):
        return
    there = os.path.realpath(target)
    known = [os.path.realpath(one) for one in stores if is_local(one)]
    within = [str(one) for one in (Path(there), *Path(there).parents) if any((one / part).is_dir() for part in _STORE_PARTS)]
    if within or any(os.path.commonpath([one, there]) == one for one in known):
        raise BadOption(f"{target}: lies in a store, into which nothing is written; name a place elsewhere")


def check_free(directory: str, *, overwrite: bool) -> None:
    """Raises `BadOption` when something is there already."""
    if not is_local(directory) or not os.path.lexists(directory):
        return
    if not os.path.isdir(directory):
        raise BadOption(f"{directory}: is no directory")
    if os.listdir(directory) and not overwrite:
        raise BadOption(f"{directory}: is not empty; name another, or say --overwrite")


def write_frames(
    spark: SparkSession,
    outcome: Outcome,
    directory: str,
    kind: str,
    tell: Progress,
    *,
    overwrite: bool,
    stores: Sequence[str] = (),
) -> Iterator[str]:
    """Write each frame to a directory of its name; gives the names.  kind: of `FORMATS`.

    Raises `BadOption` for one whose directory holds a store, and what Spark raises.
    """
    root = Path(os.path.abspath(directory)).as_uri() if is_local(directory) else directory.rstrip("/")
    for name, frame in outcome.frames.items():
        if is_local(directory):
            _check_apart(os.path.join(directory, name), stores)
        with watched(spark, f"writing {name}", tell):
            frame.write.format(kind).mode("overwrite" if overwrite else "errorifexists").save(f"{root}/{name}")
        yield name


def _check_apart(target: str, stores: Iterable[str]) -> None:
    there = os.path.realpath(target)
    for one in filter(is_local, stores):
        if os.path.commonpath([os.path.realpath(one), there]) == there:
            raise BadOption(f"{target}: holds the store {one}, which would be overwritten; name another directory")
