"""The conformance suite itself: whole, against our broker and Apache RocketMQ, each with the outcomes that are expected.

`rmq conform --expected` is what anybody runs; its exit status is the test.  The page, the JUnit file and the raw outcome stay in
build/conform when that directory is there (CI keeps it).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.conform import conform
from tests.support.java import OLD_SERVER, REFERENCE, java

MIDDLE = "5.3.3"


def test_ours(tmp_path: Path) -> None:
    outcomes = conform(tmp_path, "--ours")
    assert outcomes["passed"] >= 0.6 * outcomes.total()


@pytest.mark.java
@pytest.mark.parametrize("version", [REFERENCE, *(pytest.param(old, marks=pytest.mark.nightly) for old in (MIDDLE, OLD_SERVER))])
def test_the_real_one(tmp_path: Path, version: str) -> None:
    outcomes = conform(tmp_path, "--jars", version, "--java", java())
    assert not outcomes["failed"]
    assert not outcomes["error"]
