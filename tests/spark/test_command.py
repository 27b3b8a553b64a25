"""`rmq spark` on a real Spark: what it prints, writes and says; spark-submit; Ctrl-C; a JVM that dies; damaged stores."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmq_spark.outcome import Outcome
from tests.spark import command_driver
from tests.spark.cluster import DRIVER_S_MAX, own_environment

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "spark" / "command_driver.py"
DUPLICATES = 3


@pytest.fixture(autouse=True)
def _installed() -> None:
    pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("needs a JDK, 17 or later")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("numpy", reason="needs numpy: the extra [spark]")
    from tests.spark.kit import made

    return made(tmp_path_factory.mktemp("made") / "g", 1 << 20, duplicate=DUPLICATES) / "store"


def run(*words: object, program: tuple[str, ...] = (sys.executable, "-m", "rmq_cli.spark")) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*program, *map(str, words)], capture_output=True, text=True, timeout=DRIVER_S_MAX, env=own_environment(), check=False
    )


def test_a_job_from_the_shell(store: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    page, found = tmp_path / "report.html", tmp_path / "found"
    done = run("duplicates", store, "--master", "local[2]", "--json", "--html", page, "--out", found)
    assert done.returncode == 1, done.stderr
    by = "FileOutputCommitter, algorithm 1"
    assert done.stderr.splitlines() == [f"rmq: written to {found}: duplicates; by {by}", f"rmq: written to {page}"]
    [line] = done.stdout.splitlines()
    reported = json.loads(line)
    assert (reported["job"], reported["clean"]) == ("duplicates", False)
    assert len({row["key"] for row in pq.read_table(found / "duplicates").to_pylist()}) == DUPLICATES
    assert "<svg" in page.read_text()


def test_spark_submit_keeps_its_master_and_settings(store: Path) -> None:
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    reported = ("--master", "local[3]", "--conf", "spark.sql.shuffle.partitions=5")
    done = run("skew", store, "--json", program=(str(submit), *reported, str(DRIVER)))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"] == {
        "master": "local[3]",
        "spark.sql.shuffle.partitions": "5",
        "spark.sql.session.timeZone": "UTC",
    }


def test_interrupted(store: Path) -> None:
    command = [sys.executable, str(DRIVER), "skew", str(store), "--master", "local[2]", "--do", "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own_environment()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DRIVER_S_MAX)
    assert (process.returncode, out, err) == (130, "", "rmq: interrupted\n")


def test_a_jvm_that_dies(store: Path) -> None:
    done = run("skew", store, "--master", "local[2]", "--do", "die", program=(sys.executable, str(DRIVER)))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "rmq: Spark's JVM is gone"
    assert "Traceback" not in done.stderr


def test_a_spark_that_does_not_start(store: Path) -> None:
    done = run("skew", store, "--master", "nowhere", program=(sys.executable, str(DRIVER)))
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("rmq: Spark did not start: Master must ")


# In a session that is there


@pytest.fixture
def asked(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`rmq spark skew …` with the driver's job in the session of the tests: (status, output, errors)."""
    from click.testing import CliRunner

    from rmq_cli.spark import command

    monkeypatch.setitem(sys.modules, "rmq_spark.jobs.skew", command_driver.module())
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def ask(*words: object) -> tuple[int, str, str]:
        done = CliRunner().invoke(command, ["skew", *map(str, words)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code, done.stdout, done.stderr

    yield ask
    assert spark.range(1).count() == 1, "a session that was there goes on"


def test_damage_is_reported_with_file_and_byte(asked: Any, store: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(store, damaged)
    log = min((damaged / "commitlog").iterdir())
    content = bytearray(log.read_bytes())
    content[4:8] = b"\0\0\0\1"
    log.write_bytes(content)
    status, out, err = asked(damaged, "--do", "read")
    assert (status, out) == (2, "")
    [line] = err.splitlines()
    assert line.startswith(f"rmq: {log}, byte 0: ")
    assert asked(damaged, "--do", "read", "--option", "mode=PERMISSIVE")[0] == 0


@pytest.mark.parametrize(
    ("do", "last", "has_traceback"),
    [
        ("full", "rmq: a task failed: OSError: [Errno 28] No space left on device", False),
        ("defect", "rmq: a task failed: KeyError: 'planted'", True),
    ],
)
def test_what_fails_in_a_task(asked: Any, store: Path, do: str, last: str, has_traceback: bool) -> None:
    status, _, err = asked(store, "--do", do)
    assert status == 2
    assert err.splitlines()[-1] == last
    assert ("Traceback" in err) is has_traceback


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_frames_are_written_once(asked: Any, spark: Any, store: Path, tmp_path: Path, kind: str) -> None:
    words = (store, "--do", "frames", "--out", tmp_path / "out", "--format", kind)
    assert asked(*words)[0] == 0
    status, _, err = asked(*words)
    assert (status, err) == (2, f"rmq: {tmp_path / 'out'}: is not empty; name another, or say --overwrite\n")
    assert asked(*words, "--overwrite")[0] == 0
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["few", "times"]
    assert spark.read.format(kind).load(str(tmp_path / "out" / "few")).count() == 3
    [row] = (
        spark.read.format(kind).load(str(tmp_path / "out" / "times")).selectExpr("s", "unix_millis(timestamp(t)) as t").collect()
    )
    assert (row.s, row.t) == ("ä", 1_700_000_000_123)


def test_a_frame_never_takes_the_place_of_a_store(spark: Any, tmp_path: Path) -> None:
    from rmq_columns import BadOption
    from rmq_spark.writing import write_frames

    (tmp_path / "few" / "store" / "commitlog").mkdir(parents=True)
    outcome = Outcome("skew", "clean", True, frames={"few": spark.range(3)})
    reported: list[str] = []
    with pytest.raises(BadOption, match="holds the store"):
        reported += write_frames(
            spark, outcome, str(tmp_path), "json", lambda *_: None, overwrite=True, stores=[str(tmp_path / "few" / "store")]
        )
    assert (tmp_path / "few" / "store" / "commitlog").is_dir()
