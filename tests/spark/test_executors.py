"""`local-cluster[2,1,1024]`: executors are processes of their own, and some of them, or their Python, are killed in mid-job."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inspect.kit import golden_of
from tests.spark.cluster import ROOT, clean_environment, needs_spark, run_driver
from tests.spark.test_cluster import wanted_rows

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, Any]]:
    """(what was left, store, what the driver saw).  The packages come by PYTHONPATH, as where they are installed everywhere."""
    home = needs_spark()
    root = tmp_path_factory.mktemp("local-cluster")
    store = golden_of("mix", root / "broker-a")
    (root / "strange").mkdir()
    (root / "strange" / "pyspark_strange.py").write_text("raise ImportError('somebody else')")
    own_home = root / "spark"  # executors work beneath it, wherever SPARK_WORKER_DIR is
    own_home.mkdir()
    for name in ("bin", "jars", "python"):
        (own_home / name).symlink_to(home / name)
    paths = os.pathsep.join((str(ROOT), str(HERE), str(root / "strange")))
    own = {"SPARK_HOME": str(own_home), "PYTHONPATH": paths, "PYSPARK_DRIVER_PYTHON": sys.executable}
    settings = {"spark.ui.enabled": "false", "spark.python.unix.domain.socket.enabled": "true", "spark.local.dir": str(root)}
    command = [
        str(own_home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]",
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        str(HERE / "cluster_driver.py"), str(store), str(root / "work"), str(root / "outcome.json"), "die",
    ]  # fmt: skip
    return root, store, run_driver(command, root, clean_environment(**own), root / "outcome.json")


def test_a_store_is_read_by_both_ways(ran: tuple[Path, Path, dict[str, Any]]) -> None:
    root, store, found = ran
    wanted = wanted_rows(store)
    assert wanted
    assert found["format"] == wanted
    assert found["spread"] == wanted
    places = {Path(seen["place"]) for seen in found["seen"]}
    assert len(places) == 2
    assert {place.relative_to(root).parts[0] for place in places} == {"spark"}


@pytest.mark.parametrize("whom", ["python", "executor"])
def test_killed_in_mid_job(ran: tuple[Path, Path, dict[str, Any]], whom: str) -> None:
    """It was killed, and every row is there, once."""
    root, store, found = ran
    assert int((root / "work" / f"killed-{whom}").read_text()) > 1
    assert found[whom] == wanted_rows(store)


def test_a_broken_format_of_others_hides_ours(ran: tuple[Path, Path, dict[str, Any]]) -> None:
    """Spark's own behaviour; `register`, which the driver calls then, does not mind it."""
    _, _, found = ran
    assert "rocketmq_store" in found["named"]
    assert "DATA_SOURCE_NOT_FOUND" in found["named"] or "ClassNotFoundException" in found["named"]
