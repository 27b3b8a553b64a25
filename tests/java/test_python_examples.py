"""The scenarios of `examples/` on the real RocketMQ 5.5.0 (tests/client/test_examples.py has them on our broker)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import example_runs
from tests.support.example_runs import EXAMPLES
from tests.support.java import java
from tests.support.subject import Subject, start_broker, start_subject

pytestmark = pytest.mark.java


SHORT_LEVELS = "1s " * 17 + "1s"
"""Java has none below a second."""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    java()
    properties = {"enablePropertyFilter": "true", "messageDelayLevel": SHORT_LEVELS}
    running = start_subject("java", tmp_path_factory.mktemp("real"), properties=properties)
    yield running
    running.end()


@pytest.mark.parametrize("name", EXAMPLES)
def test_scenario(real: Subject, name: str, tmp_path: Path) -> None:
    example_runs.play(name, real, tmp_path)


def test_the_broker_beside_the_real_one_dies(real: Subject, tmp_path: Path) -> None:
    other = start_broker("ours", tmp_path / "broker-b", real.namesrv, name="broker-b")
    try:
        printed = example_runs.run("broker_dies", real.namesrv, tmp_path, [str(other.pid)])
    finally:
        other.end()
    assert f"one is killed: {{'{real.broker_name}': 8}}\n" in printed
