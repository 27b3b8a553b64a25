"""What a session of ours is started with.  No Spark."""

from __future__ import annotations

import pytest

from rmq_spark.session import COLLECTOR, JVM_VARIABLES, _collector


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
