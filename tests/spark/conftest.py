"""One Spark for all tests of this part: two threads of one JVM, which ends with the tests.  Skips without PySpark or Java."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import BY_DAY, brief, end_session
from tests.support.object_store import object_store

ROOT = Path(__file__).parents[2]
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.buffer.pageSize": "1m",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Shanghai",
    "spark.driver.memory": "2g",
    "spark.sql.ui.retainedExecutions": "2",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
}
"""The zone is another than UTC: a time that lost its zone would be hours off.  One JVM goes through some thousand queries: what
it keeps of each must not fill it, nor the pages of 32 MB that each of them would ask for."""
ROOM = "-XX:ReservedCodeCacheSize=256m -Xmn512m"
"""For its code: the 48 MB that a JVM has with its first compiler alone are full after a hundred tests, and from then on code is
thrown away and compiled again.  And for what each query leaves behind."""


@pytest.fixture(autouse=True)
def nothing_is_kept(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a job has persisted is for its own session; this one is everybody's."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").catalog.clearCache()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A session that finds the format by itself, as it does where the package is installed."""
    pytest.importorskip("pyspark", reason="needs PySpark: the extra [spark]")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("needs a JDK, 17 or later")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2]").config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        by_night = request.config.getoption("--nightly") or request.config.getoption("--only-nightly")
        as_users = by_night or "RMQ_AS_USERS" in os.environ
        jvm = {"spark.driver.extraJavaOptions": f"{brief()} {ROOM}"}
        for name, value in {**CONFIGURATION, **jvm, **({} if as_users else BY_DAY)}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        end_session(session)


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[str]:
    """Keys in the address, since the workers' environment is older than the server."""
    with object_store() as address:
        yield f"s3://a:b@bucket/{{}}?endpoint_override={address}&scheme=http&region=us-east-1"
