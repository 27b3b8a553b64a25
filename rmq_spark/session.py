"""A Spark for one job: what this format needs of it, quiet, and how far its tasks are.

Whoever has a session of their own needs nothing of this but, for speed, `SETTINGS`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from rmq_spark.needs import need
from rmq_spark.zone import DEFAULT, SESSION_ZONE, SUBMITTED

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator, AccumulatorParam
    from pyspark.sql import SparkSession

T = TypeVar("T")
Progress = Callable[[str, int, int], None]
"""(what is being done, tasks done, of so many)"""


def silent(what: str, done: int, of: int) -> None:
    """The `Progress` of whoever looks at none: `watched` does not ask for any then."""


SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    SESSION_ZONE: DEFAULT,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "8192",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""The socket's kind saves 20 to 40 ms in each task.  So that an error can say in which line of Python a column was made, PySpark
asks the JVM several questions more for each column of a plan: 5,000 of the 18,000 of one run of `loss`."""
LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.codegen.cache.maxEntries": "1000",
}
"""Of a session that is made here, on this machine's cores, for one command: nobody looks at a page, and few tasks are enough.  A
cluster has its own, by its size and for those who run it.

One run of `loss` has Spark compile 178 classes; of the 100 that it keeps by itself the next run finds none, for it asks for them
in the same order."""
ARROW: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""For a JVM that takes rows from Python.  Arrow's own second look at bounds and null costs a tenth of its time: every batch comes
from a writer of Arrow, and Spark asks for null itself."""
COLLECTOR: Final = "-XX:+UseParallelGC"
"""Of a JVM with a small heap and two tasks, in which rows die young."""
JVM_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""From which every JVM takes options."""
LOCAL: Final = "local[*]"
LOOK_S: Final = 0.3
"""Between two looks at what is done."""


def make_session(master: str | None, settings: Mapping[str, str], name: str = "rmq") -> SparkSession:
    """A session, with our settings where the user has none.  master: None leaves it to `spark-submit` or is local[*].

    A master that is a cluster keeps its own number of partitions and its own choice of a UI, as what `spark-submit` started does.

    On this machine it talks to the loopback address alone and prints errors only.  Raises `MissingPackage`.
    """
    need()
    from pyspark.sql import SparkSession

    is_submitted = SUBMITTED in os.environ
    wanted = master or settings.get("spark.master", LOCAL)
    if not is_submitted and wanted.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = str(Path(__file__).resolve().parents[1])
    if home not in os.environ.get("PYTHONPATH", "").split(os.pathsep):  # an editable install is nothing that a worker finds
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH", "")]))
    builder = SparkSession.builder.appName(name)
    if master is not None or ("spark.master" not in settings and not is_submitted):
        builder = builder.master(master or LOCAL)
    defaults = _without_submitted(SETTINGS) if is_submitted else defaults_of(wanted, settings)
    for key, value in {**defaults, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def defaults_of(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What a session that is made here gets where the user's settings say nothing.  (`local-cluster` is a cluster.)"""
    quiet = Path(__file__).with_name("log4j2.properties")
    return {
        **SETTINGS,
        **(LOCAL_SETTINGS if master == "local" or master.startswith("local[") else {}),
        "spark.driver.extraJavaOptions": f"{_collector(settings)}{ARROW} -Dlog4j2.configurationFile={quiet.as_uri()}",
        "spark.executor.extraJavaOptions": ARROW,
    }


def _collector(settings: Mapping[str, str]) -> str:
    """Nothing where somebody else has chosen one: a JVM that is given two does not start."""
    elsewhere = [os.environ.get(name, "") for name in JVM_VARIABLES]
    return (
        "" if any("GC" in one for one in (*elsewhere, settings.get("spark.driver.defaultJavaOptions", ""))) else f"{COLLECTOR} "
    )


def _without_submitted(settings: Mapping[str, str]) -> dict[str, str]:
    """Those which `spark-submit` was not given: what a session is built with would outweigh its words."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to the JVM, from which SparkConf takes what was submitted
    submitted = SparkConf()
    return {key: value for key, value in settings.items() if not submitted.contains(key)}


def jvm_of(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The process of its JVM, where Python has started it."""
    found: subprocess.Popen[bytes] | None = spark.sparkContext._gateway.proc
    return found


def accumulator(spark: SparkSession, zero: T, param: AccumulatorParam[T]) -> Accumulator[T]:
    """What tasks add comes into `zero`."""
    return spark.sparkContext.accumulator(zero, param)


def cores(spark: SparkSession) -> int:
    """How many tasks Spark does at once, as far as it knows by now."""
    return int(spark.sparkContext.defaultParallelism)


@contextlib.contextmanager
def watched(spark: SparkSession, what: str, progress: Progress) -> Iterator[None]:
    """While the block runs Spark, say how many of its tasks are done; interrupted (Ctrl-C), end them."""
    context = spark.sparkContext
    group = f"rmq-{uuid.uuid4()}"
    context.setJobGroup(group, what, True)
    try:
        with _looking(spark, group, what, progress) if progress is not silent else contextlib.nullcontext():
            yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


@contextlib.contextmanager
def _looking(spark: SparkSession, group: str, what: str, progress: Progress) -> Iterator[None]:
    """Each look is a question to the JVM for each job and each stage of the group."""
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def look() -> None:
        while not over.wait(LOOK_S):
            stages = [
                stage
                for job in tracker.getJobIdsForGroup(group)
                if (info := tracker.getJobInfo(job)) is not None
                for one in info.stageIds
                if (stage := tracker.getStageInfo(one)) is not None
            ]
            if of := sum(stage.numTasks for stage in stages):
                progress(what, sum(stage.numCompletedTasks for stage in stages), of)

    def look_while_it_goes() -> None:
        with contextlib.suppress(Exception):  # the JVM may be gone: who waits for the tasks says so
            look()

    looker = threading.Thread(target=look_while_it_goes, name="progress", daemon=True)
    looker.start()
    try:
        yield
    finally:
        over.set()
        looker.join()
