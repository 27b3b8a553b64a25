"""Everything that a job found, as files: a directory for each of its frames, Parquet or lines of JSON, written by Spark's tasks.

A place is looked at before the job runs: hours of work must not end with a directory that is taken.  Nothing is ever written into
a store: the Java broker does not start on one with unknown files.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from rmq_columns import BadOption
from rmq_columns.errors import CannotRead
from rmq_columns.files.filesystem import absolute, lies_in, local_path, translated_writing
from rmq_columns.read.stores import store_around
from rmq_spark import reasons
from rmq_spark.session import Progress, watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rmq_spark.outcome import Outcome

FORMATS: Final = ("parquet", "json")
PART: Final = "part-"
"""Begins the names of Spark's files; of any frame there is at least one."""
SHARED: Final = "name a directory that the driver and all executors share, or a URI"
EACH: Final = 1000
"""Rows that are spread over all cores, twice: each executor gets some, and looks whether it sees what the driver sees."""
NOT_EMPTY: Final = "is not empty; name another, or say --overwrite"
NO_DIRECTORY: Final = "is no directory"
NOT_THERE: Final = "PATH_NOT_FOUND"
"""Spark's word for it."""
BEGUN: Final = "_begun"
"""In a directory that is a URI: when the job began.  Readers pass over names with _."""


def is_local(path: str) -> bool:
    """Not a URI of some other file system.  Raises `CannotRead` for a `file:` URI of another machine."""
    return local_path(path) is not None


def check_outside(target: str, stores: Iterable[str]) -> None:
    """Raises `BadOption` when a file or directory that is to be written lies in a store.  stores: paths of them and of logs."""
    own = local_path(target)
    around = own is not None and store_around(own) is not None
    if around or any(lies_in(target, _directory_of(one)) for one in stores):
        raise BadOption(f"{target}: lies in a store, into which nothing is written; name a place elsewhere")


def _directory_of(store: str) -> str:
    """One file of a log stands for its directory."""
    own = local_path(store)
    return os.path.dirname(own) if own is not None and os.path.isfile(own) else store


def check_free(directory: str, *, overwrite: bool, stores: Iterable[str] = ()) -> None:
    """Raises `BadOption` when something is there already, when it holds a store, or when nobody may write there.

    URIs of other file systems are looked at by `check_uri`, for which Spark is needed.
    """
    if (place := local_path(directory)) is None:
        return
    if os.path.isdir(place) and os.listdir(place):
        if not overwrite:
            raise BadOption(f"{directory}: {NOT_EMPTY}")
        if held := [one for one in stores if lies_in(one, directory)]:
            raise BadOption(f"{directory}: holds the store {held[0]}; name a directory for this alone")
    there = os.path.abspath(place)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise BadOption(f"{there}: {NO_DIRECTORY}")
    _check_may_write(directory, there)


def check_file(path: str) -> None:
    """Raises `BadOption` for a file of this machine that cannot be written in the end; what is there may be replaced."""
    above = os.path.dirname(path) or os.curdir
    if local_path(path) is None or not os.path.isdir(above):
        raise BadOption(f"{path}: no directory {above}")
    if os.path.isdir(path):
        raise BadOption(f"{path}: is a directory")
    _check_may_write(path, path if os.path.lexists(path) else above)


def _check_may_write(asked: str, there: str) -> None:
    if not os.access(there, os.W_OK | os.X_OK if os.path.isdir(there) else os.W_OK):
        raise BadOption(f"{asked}: nothing may be written in {there}")


def check_uri(spark: SparkSession, directory: str, *, overwrite: bool) -> None:
    """The same of a URI, with the file system that Spark will write to: it is there, free, and its tasks can write in it.

    What they write stays, under a name that nobody reads: nothing of Spark's own removes a file.  Raises `BadOption`.
    """
    if is_local(directory):
        return
    try:
        problem = _problem_at(spark, directory, overwrite=overwrite)
    except Exception as error:
        if not reasons.is_of_spark(error):
            raise
        raise BadOption(f"{directory}: cannot be written: {reasons.reason_of(error)}") from error
    if problem:
        raise BadOption(f"{directory}: {problem}")


def check_shared(spark: SparkSession, directory: str) -> None:
    """Of executors on other machines: whether they see what the driver writes there.  Raises `CannotRead`, or what Spark makes
    of it.
    """
    if not is_local(directory) or spark.conf.get("spark.master").startswith("local["):
        return
    from pyspark.sql import functions as F

    place = absolute(directory)
    probe = os.path.join(place, f".rmq-{uuid.uuid4().hex}")
    with translated_writing(place):
        is_new = not os.path.lexists(place)
        os.makedirs(place, exist_ok=True)
        with open(probe, "xb"):
            pass
    try:
        is_there = F.udf(partial(is_seen, probe), "boolean")
        tasks = spark.range(EACH).union(spark.range(EACH))
        if tasks.where(~is_there("id")).head(1):
            raise CannotRead(place, -1, f"an executor does not see what the driver wrote there: {SHARED}")
    finally:
        with suppress(OSError):
            os.unlink(probe)
            if is_new:
                os.rmdir(place)


def is_seen(path: str, _row: int) -> bool:
    """In a task: whether there is such a file."""
    return os.path.isfile(path)


def _problem_at(spark: SparkSession, directory: str, *, overwrite: bool) -> str:
    """What hinders, or nothing: then `BEGUN` lies there, written as the frames will be."""
    from pyspark.errors import AnalysisException

    there = []
    try:
        files = spark.read.format("binaryFile").option("recursiveFileLookup", value=True).load(directory)
        there = files.inputFiles()
    except AnalysisException as error:
        if error.getCondition() != NOT_THERE:
            raise
    if there and unquote(there[0]).rstrip("/") == unquote(directory).rstrip("/"):
        return NO_DIRECTORY
    if there and not overwrite:
        return NOT_EMPTY
    spark.sql("select current_timestamp() as begun").write.mode("overwrite").json(f"{directory.rstrip('/')}/{BEGUN}")
    return ""


def write_frames(
    spark: SparkSession,
    outcome: Outcome,
    directory: str,
    kind: str,
    progress: Progress,
    *,
    overwrite: bool,
    stores: Sequence[str] = (),
) -> Iterator[str]:
    """Write each frame to a directory of its name; gives the names.  kind: of `FORMATS`.

    Raises `BadOption` for one whose directory holds a store, `CannotRead` when not all arrived there, and what Spark raises.
    """
    place = absolute(directory).rstrip("/")
    root = f"file://{place}" if is_local(directory) else place  # Hadoop's paths are URIs whose % means itself
    for name, frame in outcome.frames.items():
        _check_apart(f"{place}/{name}", stores)
        with watched(spark, f"writing {name}", progress):
            frame.write.format(kind).mode("overwrite" if overwrite else "errorifexists").save(f"{root}/{name}")
        if is_local(directory):
            _check_arrived(f"{place}/{name}")
        yield name


def _check_arrived(directory: str) -> None:
    """What an executor wrote to a disk of its own, Spark commits without a word."""
    with translated_writing(directory):
        if not any(name.startswith(PART) for name in os.listdir(directory)):
            raise CannotRead(directory, -1, f"nothing arrived: {SHARED}")


def _check_apart(target: str, stores: Iterable[str]) -> None:
    for one in stores:
        if lies_in(one, target):
            raise BadOption(f"{target}: holds the store {one}, which would be overwritten; name another directory")
