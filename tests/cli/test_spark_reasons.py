"""What went wrong in Spark, in a line: whose fault it is, why no JVM started, what a child printed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rmq_cli import spark_run
from rmq_spark import reasons
from rmq_spark.quiet import quietly

TASK = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/rmq_spark/store.py", line 74, in read
    yield from read_split(partition.value)
  File "/x/rmq_columns/read/reading.py", line 30, in read_split
    raise error
{error}
 SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("text", "said", "defect"),
    [
        (TASK.format(error="rmq_columns.errors.Malformed: /s/0, byte 12: size 7"), "/s/0, byte 12: size 7", False),
        (TASK.format(error="rmq_columns.errors.FileGone: /s/0: is gone"), "/s/0: is gone", False),
        (TASK.format(error="OSError: [Errno 28] No space"), "a task failed: OSError: [Errno 28] No space", False),
        (TASK.format(error="KeyError: 'x'"), "a task failed: KeyError: 'x'", True),
        ("[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03", "Spark: Path does not exist: file:/nope.", False),
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Could not parse Master URL: 'foo'\n\tat x",
            "Spark: SparkException: Could not parse Master URL: 'foo'",
            False,
        ),
        (
            ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 6.0 failed 1 times, most "
            "recent failure: Lost task 0.0 in stage 6.0 (TID 4) (executor driver): java.io.IOException: No space\n\tat x",
            "a task failed: IOException: No space",
            False,
        ),
    ],
)
def test_the_line_that_matters(text: str, said: str, defect: bool) -> None:
    assert reasons.reason_of(Exception(text)) == said
    assert reasons.is_defect(Exception(text)) is defect


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            ["Invalid maximum heap size: -Xmx1x", "Error: Could not create the Java Virtual Machine."],
            "Spark did not start: Invalid maximum heap size: -Xmx1x",
        ),
        (["Error occurred during initialization of VM", "Too small maximum heap"], "Spark did not start: Too small maximum heap"),
        (
            ['Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn', "\tat x"],
            "Spark did not start: Master must either be yarn",
        ),
        (
            [
                "Error: LinkageError occurred",
                "java.lang.UnsupportedClassVersionError: x has been compiled by a more recent version",
            ],
            "Spark needs a JDK, 17 or later: set JAVA_HOME",
        ),
        ([], "Spark did not start: no reason given"),
    ],
)
def test_why_a_jvm_did_not_start(said: list[str], why: str) -> None:
    assert reasons.why_not_started(said) == why


def test_what_is_of_spark_and_what_is_a_defect_of_ours() -> None:
    of_spark = type("Py4JError", (Exception,), {"__module__": "py4j.protocol"})
    assert reasons.is_of_spark(of_spark("x"))
    assert reasons.is_of_spark(type("Ours", (of_spark,), {"__module__": "x"})("x"))
    assert reasons.is_of_spark(ConnectionRefusedError())
    assert not reasons.is_of_spark(KeyError("x"))


def test_whether_the_jvm_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """py4j says of a dead JVM only that there is no answer: then the process is asked."""
    monkeypatch.setattr(spark_run, "JVM_END_S_MAX", 0.01)
    silent = type(reasons.NO_ANSWER, (Exception,), {})("An error occurred while calling o27.sc")
    for words, is_gone in ((["true"], True), (["sleep", "60"], False)):
        with subprocess.Popen(words) as process:
            if is_gone:
                process.wait()
            spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=process)))
            assert spark_run._is_jvm_gone(silent, spark) is is_gone
            assert not spark_run._is_jvm_gone(KeyError("x"), spark)
            process.kill()
    assert spark_run._is_jvm_gone(ConnectionRefusedError(), None)


def test_a_jvm_is_asked_for_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from rmq_cli.complaint import Complaint

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Complaint, match="needs a JDK, 17 or later: none is in JAVA_HOME="):
        spark_run.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Complaint, match="set JAVA_HOME"):
        spark_run.check_java()


def test_what_a_child_prints_is_kept_from_both_streams(capfd: pytest.CaptureFixture[str]) -> None:
    with quietly() as said:
        child = subprocess.Popen(["sh", "-c", "read line; echo one; echo two >&2"], stdin=subprocess.PIPE)
    print("ours", flush=True)
    child.communicate(b"go\n")
    assert said.lines() == ["one", "two"]
    assert capfd.readouterr() == ("ours\n", "")
