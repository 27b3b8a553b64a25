"""A cluster of one machine: a real master and workers as processes of their own, and a driver that is submitted to them.

Nothing of the checkout is in their environment: what executors import is what the driver sends them, or what is installed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from conformance.subjects.base import SubjectFailed
from conformance.subjects.java import java_command
from conformance.subjects.sharing import archive_flags
from rmq_columns import read_store
from tests.support.process import ServerProcess
from tests.support.stores import golden_of

ROOT: Final = Path(__file__).parents[2]
QUICK: Final = "-XX:TieredStopAtLevel=1"
"""The first compiler alone, for a JVM that runs nothing often."""
BY_DAY: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}
"""Spark writes Java for each part of each plan and compiles it, plans each query anew behind each of its stages, follows through
a plan what holds of each column, and writes plans down for its pages.  Over a few thousand rows that costs more than it saves:
more than half of a run's CPU.  So most tests go without by day; by night, and with RMQ_AS_USERS, they have Spark's defaults, all
but those whose executors die.  What starts a command or says what jobs move has them always: each job is there.
"""
DRIVER_S_MAX: Final = 900
"""Of one driver with all its jobs: half a minute on an idle machine.  Only a hang takes as long."""
STOP_SECONDS_MAX: Final = 300
"""Of a JVM that has been told to end; one that writes down its classes takes ten seconds on an idle machine."""
LOADS: Final = """
import sys
from rmq_spark.jobs.audit import audit
from rmq_spark.jobs.duplicates import duplicates
from rmq_spark.session import make_session
from tests.spark.cluster import end_session
spark = make_session("local[2]", {})
for job in (audit, duplicates):
    job(spark, sys.argv[1]).collect()
end_session(spark)
"""
"""A driver with jobs of two kinds."""


def needs_spark() -> Path:
    """Where PySpark is.  Skips without it, or without Java."""
    pyspark = pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("needs a JDK, 17 or later")
    return Path(pyspark.__file__).parent


@functools.cache
def shared_classes() -> str:
    """Flags of a JVM of PySpark: its classes are read and verified once, not at each start, of which that is half the CPU."""
    return " ".join(archive_flags(needs_spark() / "jars", java_command(), _make_archive))


def _make_archive(archive: Path, scratch: Path) -> None:
    """Of what a driver loads, which is also most of what an executor does."""
    command = [sys.executable, "-c", LOADS, str(golden_of("mix", scratch / "broker"))]
    environment = {**_own_environment(), "SPARK_SUBMIT_OPTS": f"{QUICK} -XX:ArchiveClassesAtExit={archive}"}
    subprocess.run(command, env=environment, timeout=DRIVER_S_MAX, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def end_session(session: Any) -> None:
    """And its JVM, for which it waits."""
    gateway = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(STOP_SECONDS_MAX)


def brief() -> str:
    """Flags of a JVM that lives some seconds."""
    return f"{QUICK} -XX:+UseSerialGC {shared_classes()}"


def briefly() -> dict[str, str]:
    """In the environment of what starts a driver: for its JVM, whose collector `rmq spark` chooses, and the launcher."""
    return {"SPARK_SUBMIT_OPTS": f"{QUICK} {shared_classes()}", "SPARK_LAUNCHER_OPTS": f"{QUICK} -XX:+UseSerialGC"}


def clean_environment(**more: str) -> dict[str, str]:
    """Only what a shell has after login: no PYTHONPATH, nothing of Spark's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "JAVA_HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **briefly(), **more}


def own_environment() -> dict[str, str]:
    """This process's, with the checkout to import from."""
    return {**_own_environment(), **briefly()}


def _own_environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}


class SparkServer(ServerProcess):
    """A master or a worker.  Ports are of the system's choosing: what it listens on is read from what it prints."""

    def __init__(self, name: str, directory: Path, said: str, main: str, *arguments: str) -> None:
        super().__init__(name, directory)
        self._said, self._main, self._arguments = re.compile(said), main, arguments

    def command(self) -> Sequence[str]:
        """Spark's own script, which becomes the JVM: the pid stays.  Its settings are those of a machine that has none."""
        options = f"{brief()} -Dspark.master.rest.enabled=false"
        own = clean_environment(SPARK_DAEMON_MEMORY="256m", SPARK_DAEMON_JAVA_OPTS=options)
        variables = [f"{name}={value}" for name, value in own.items()]
        ports = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        return ["env", "-i", *variables, str(needs_spark() / "bin" / "spark-class"), self._main, *ports, *self._arguments]

    def found(self) -> str:
        """What it said of itself; empty as long as it did not."""
        match = self._said.search(self.log.read_text(errors="replace"))
        return match[1] if match else ""

    def ready(self) -> bool:
        """Whether it said so."""
        return bool(self.found())


def start_master(directory: Path) -> SparkServer:
    """Its `found()` is the URL."""
    said = r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"
    return SparkServer("master", directory, said, "org.apache.spark.deploy.master.Master").start()


def worker_of(directory: Path, number: int, url: str) -> SparkServer:
    """One core, one executor; it works beneath `directory`/worker-`number`.  Not started yet."""
    place = directory / f"worker-{number}"
    arguments = ("--cores", "1", "--memory", "1g", "--work-dir", str(place), url)
    said = r"Successfully registered with master (spark://\S+)"
    return SparkServer(f"worker-{number}", directory, said, "org.apache.spark.deploy.worker.Worker", *arguments)


def run_driver(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], outcome: Path, seconds: float = DRIVER_S_MAX
) -> dict[str, Any]:
    """Run a driver to its end; gives what it wrote to `outcome`.  Raises AssertionError with what it printed."""
    directory.mkdir(parents=True, exist_ok=True)
    ran = subprocess.run(
        command,
        cwd=directory,
        env=dict(environment),
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert ran.returncode == 0, f"{ran.stdout[:8000]}\n…\n{ran.stdout[-8000:]}"
    found = json.loads(outcome.read_text())
    assert isinstance(found, dict)
    return found


COLUMNS = "topic,queueId,queueOffset,physicalOffset,bodyCrc"


def wanted_rows(store: Path) -> list[list[Any]]:
    """What reading without Spark gives."""
    rows = read_store(store, columns=COLUMNS, includeSystemTopics=True).read_all().to_pylist()
    return sorted([list(row.values()) for row in rows], key=repr)


if __name__ == "__main__":  # `make setup-spark`: so that no test has to wait for it
    with contextlib.suppress(pytest.skip.Exception, SubjectFailed):
        shared_classes()
