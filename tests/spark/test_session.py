"""What a session of ours is started with.  No Spark."""

from __future__ import annotations

import threading
from typing import Any
from unittest.mock import MagicMock

import pytest

from rmq_spark.session import (
    COLLECTOR,
    JVM_VARIABLES,
    LOCAL_SETTINGS,
    SETTINGS,
    _collector,
    defaults_of,
    silent,
    watched,
)

WAIT_S_MAX = 90.0


def test_a_collector_is_named_where_nobody_else_did(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JVM_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert _collector({}).split() == [COLLECTOR]
    assert _collector({"spark.driver.defaultJavaOptions": "-Xss4m"}).split() == [COLLECTOR]


@pytest.mark.parametrize("name", JVM_VARIABLES)
def test_no_second_collector_beside_that_of_the_environment(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "-Xmx2g -XX:+UseG1GC")
    assert _collector({}) == ""


def test_no_second_collector_beside_that_of_the_settings() -> None:
    assert _collector({"spark.driver.defaultJavaOptions": "-XX:+UseZGC"}) == ""


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]"])
def test_a_session_of_one_command_has_no_page_and_few_partitions(master: str) -> None:
    assert defaults_of(master, {}).items() >= {**SETTINGS, **LOCAL_SETTINGS}.items()


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host:6443", "local-cluster[2,1,1024]"])
def test_a_cluster_keeps_its_partitions_and_its_page(master: str) -> None:
    """Eight partitions of a terabyte, and nothing to look at: they were set for every master."""
    assert not defaults_of(master, {}).keys() & LOCAL_SETTINGS.keys()


def test_who_looks_at_no_progress_asks_for_none() -> None:
    """Each look is some hundred questions to the JVM, in which the job's own stand in line."""
    spark = MagicMock()
    with watched(spark, "reading", silent):
        pass
    with pytest.raises(KeyError), watched(spark, "reading", silent):
        raise KeyError
    context = spark.sparkContext
    assert context.setJobGroup.call_count == 2
    assert context.cancelJobGroup.call_count == 1
    context.statusTracker.assert_not_called()
    with watched(spark, "reading", lambda *_: None):
        pass
    context.statusTracker.assert_called_once()


def test_who_looks_while_the_jvm_goes_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for the tasks hears of it, and says so; a traceback of a thread beside that would be noise."""
    spark, asked = MagicMock(), threading.Event()
    said: list[Any] = []

    def gone(_group: str) -> list[int]:
        asked.set()
        raise ConnectionRefusedError(111, "Connection refused")

    spark.sparkContext.statusTracker.return_value.getJobIdsForGroup.side_effect = gone
    monkeypatch.setattr(threading, "excepthook", said.append)
    with watched(spark, "scan", lambda *_: None):
        assert asked.wait(WAIT_S_MAX)
    assert said == []
