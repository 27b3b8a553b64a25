"""A standalone master with two workers, to which a job is submitted with its packages in a zip; everything on loopback."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmq_spark import pack
from tests.spark.cluster import (
    brief,
    clean_environment,
    needs_spark,
    run_driver,
    start_master,
    wanted_rows,
    worker_of,
)
from tests.support.stores import golden_of

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, dict[str, Any]]]:
    """(directory of the workers, store, what the driver saw)."""
    home = needs_spark()
    root = tmp_path_factory.mktemp("cluster")
    store = golden_of("mix", root / "broker-a")
    assert pack.main([str(root / "build" / "rmq.zip")]) == 0
    for name in ("cluster_driver.py", "cluster_probe.py"):
        shutil.copy(HERE / name, root / "build" / name)
    started = []
    try:
        started.append(start_master(root))
        url = started[0].found()
        for number in (1, 2):
            started.append(worker_of(root, number, url).start(wait=False))
        for worker in started[1:]:
            worker.wait_ready()
        settings = {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": brief(),
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
            "spark.python.unix.domain.socket.enabled": "true",
        }
        command = [
            str(home / "bin" / "spark-submit"),
            "--master",
            url,
            "--py-files",
            "build/rmq.zip,build/cluster_probe.py",
            *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
            "build/cluster_driver.py",
            str(store),
            str(root / "work"),
            str(root / "outcome.json"),
            "job",
        ]
        environment = clean_environment(PYSPARK_DRIVER_PYTHON=sys.executable)
        yield root, store, run_driver(command, root, environment, root / "outcome.json")
    finally:
        for server in reversed(started):
            server.end()


def test_driver_and_executors_import_the_zip(submitted: tuple[Path, Path, dict[str, Any]]) -> None:
    root, _, found = submitted
    assert "rmq.zip/rmq_columns/" in found["driver"]
    assert not found["driver"].startswith(str(HERE.parents[1]))
    for seen in found["seen"]:
        assert [path.partition("rmq.zip/")[2] for path in seen["imported"].splitlines()] == [
            f"{name}/__init__.py" for name in ("rmq_columns", "rmq_spark", "rmq_wire")
        ]
        assert all(path.startswith(seen["place"]) for path in seen["imported"].splitlines())
        assert str(HERE.parents[1]) not in seen["paths"].splitlines()
    workers = {Path(seen["place"]).relative_to(root).parts[0] for seen in found["seen"]}
    assert workers == {"worker-1", "worker-2"}


def test_a_store_is_read_by_both_ways(submitted: tuple[Path, Path, dict[str, Any]]) -> None:
    _, store, found = submitted
    wanted = wanted_rows(store)
    assert wanted
    assert found["splits"] > 2
    assert found["format"] == wanted
    assert found["worked"] == wanted


def test_a_job_runs_there(submitted: tuple[Path, Path, dict[str, Any]]) -> None:
    """The command out of the zip, in the session that `spark-submit` made."""
    root, _, found = submitted
    outcome = found["job"]["outcome"]
    assert outcome["job"] == "audit"
    assert found["job"]["status"] == (0 if outcome["clean"] else 1)
    assert (root / "work" / "found").is_dir()


def test_the_zip(tmp_path: Path) -> None:
    """The packages with their data files, the same bytes each time; nothing compiled, nothing of servers or tests."""
    first, second = tmp_path / "a.zip", tmp_path / "b" / "b.zip"
    assert pack.pack(first) == pack.pack(second)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as made:
        names = made.namelist()
        assert made.testzip() is None
    assert {name.split("/")[0] for name in names} == {"pyspark_rocketmq_store.py", *pack.PACKAGES}
    assert {"rmq_spark/log4j2.properties", "rmq_wire/py.typed", "rmq_spark/jobs/__init__.py"} <= set(names)
    assert not [name for name in names if name.endswith(".pyc")]


@pytest.mark.parametrize("words", [["--help"], ["audit", "--help"]])
def test_the_command_runs_out_of_the_zip(tmp_path: Path, words: list[str]) -> None:
    """With nothing of ours beside it."""
    pack.pack(tmp_path / "rmq.zip")
    code = (
        "import sys\nfrom rmq_cli.spark import main\n"
        "try:\n main()\nfinally:\n print({m.__file__ for n, m in sys.modules.items() if n.startswith('rmq_')})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env=clean_environment(PYTHONPATH=str(tmp_path / "rmq.zip")),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage:" in ran.stdout
    files = ast.literal_eval(ran.stdout.splitlines()[-1])
    assert len(files) > 5
    assert all(file.startswith(str(tmp_path / "rmq.zip")) for file in files)


def test_a_zip_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert pack.main([str(tmp_path / "file" / "rmq.zip")]) == 2
    assert capsys.readouterr().err.startswith("pack: ")
